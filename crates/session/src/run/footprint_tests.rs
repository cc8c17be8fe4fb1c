//! What scripts are seen to touch, with the commands of the server.

use almandine_handler::{Table, footprint};
use almandine_script::{Footprint, Program, Scripts};

fn footprint_of(text: &str) -> Footprint {
    let families = [almandine_commands::COMMANDS, almandine_admin::COMMANDS].concat();
    let table = Table::new(&families, &[], &[]).unwrap();
    footprint::of(&Program::Script(Scripts::default().evaluate(text.as_bytes()).unwrap()), table).clone()
}

fn declared(keys: bool, constants: &[&str], writes: bool) -> Footprint {
    let constants = constants.iter().map(|key| key.as_bytes().into()).collect();
    let (reads_once, leaves, nests, endless) = (false, writes, false, false);
    Footprint::Declared { keys, constants, built: Vec::new(), writes, reads_once, leaves, nests, endless, grows: None }
}

#[test]
fn keys_that_are_declared_are_planned() {
    let lock = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
    for (text, expected) in [
        ("return 1", declared(false, &[], false)),
        ("return redis.call('PING')", declared(false, &[], false)),
        ("return redis.call('GET', KEYS[1])", declared(true, &[], false)),
        ("return redis.call('GET', 'a') .. redis.call('GET', 'b')", declared(false, &["a", "b"], false)),
        ("return redis.call('SET', KEYS[1], ARGV[1], unpack(ARGV))", declared(true, &[], true)),
        (lock, declared(true, &[], true)),
        ("return redis.call('NOSUCH', ARGV[1])", declared(false, &[], false)),
        ("return redis.call('RENAME', KEYS[1], KEYS[2])", declared(true, &[], true)),
        ("return redis.call('MGET', 'a', unpack(KEYS))", declared(true, &["a"], false)),
        ("return redis.call('DEL', unpack(KEYS))", declared(true, &[], true)),
        ("for i, key in ipairs(KEYS) do redis.call('SET', key, ARGV[i]) end", declared(true, &[], true)),
        ("local function set(k) return redis.call('SET', k, 1) end return set(KEYS[1])", declared(true, &[], true)),
        ("return redis.call('GET', unpack(KEYS)) .. redis.call('GET', 'a')", declared(true, &["a"], false)),
    ] {
        let mut found = footprint_of(text);
        if let Footprint::Declared { reads_once, nests, .. } = &mut found {
            assert_eq!(std::mem::take(reads_once), text == "return redis.call('GET', KEYS[1])", "{text}");
            assert_eq!(std::mem::take(nests), text.contains("function"), "{text}");
        }
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn what_may_have_no_end_is_planned_if_it_leaves_nothing_behind() {
    for (text, planned) in [
        ("while redis.call('GET', KEYS[1]) do end", true),
        ("while true do end", true),
        ("while redis.call('GET', KEYS[1]) do redis.log(redis.LOG_WARNING, 'x') end", true),
        ("while redis.call('INCR', KEYS[1]) do end", false),
        ("while true do redis.call('PUBLISH', 'a', 'b') end", false),
    ] {
        let is_planned = matches!(footprint_of(text), Footprint::Declared { endless: true, .. });
        assert_eq!(is_planned, planned, "{text}: {:?}", footprint_of(text));
    }
}

#[test]
fn the_line_is_told_that_makes_a_script_run_alone() {
    let Footprint::Any(unseen) = footprint_of("local a = 1\nreturn redis.call(tostring(a))") else { panic!("it is planned") };
    assert_eq!(unseen.line, 2);
    let Footprint::Declared { grows: Some(unseen), .. } = footprint_of("local a = 1\nreturn redis.call('INCR', tostring(a))")
    else {
        panic!("all of its keys are known")
    };
    assert_eq!(unseen.line, 2);
}

#[test]
fn keys_that_are_built_of_what_is_given_are_planned() {
    let given = |words: &[&str]| {
        let mut given = almandine_resp::ArgsBuf::new();
        words.iter().for_each(|word| given.push(word.as_bytes()));
        given
    };
    let (keys, args) = (given(&["k", "l"]), given(&["x", "y", "z"]));
    for (text, expected) in [
        ("return redis.call('SET', KEYS[1] .. ':' .. ARGV[2], 1)", &["k:y"][..]),
        ("return redis.call('SET', ARGV[3], 1)", &["z"]),
        ("return redis.call('SET', ARGV[3] .. ARGV[4], 1)", &[]),
        ("for _, id in ipairs(ARGV) do redis.call('DEL', KEYS[2] .. id, id) end", &["lx", "ly", "lz", "x", "y", "z"]),
        ("for i = 1, #KEYS do redis.call('DEL', 'a' .. KEYS[i]) end", &["ak", "al"]),
    ] {
        let found = footprint_of(text);
        assert!(matches!(found, Footprint::Declared { writes: true, grows: None, .. }), "{text}: {found:?}");
        let built = found.built_keys(keys.as_args(), args.as_args());
        let built: Vec<&[u8]> = built.iter().map(|key| &**key).collect();
        assert_eq!(built, expected.iter().map(|key| key.as_bytes()).collect::<Vec<_>>(), "{text}");
    }
}

#[test]
fn scripts_that_only_read_have_plans_that_grow() {
    for text in [
        "return redis.call('GET', string.lower(ARGV[1]))",
        "for i = 1, 3 do redis.call('GET', KEYS[1] .. i) end",
        "return redis.call('MGET', unpack(ARGV))",
        "return redis.call('GET', redis.call('GET', KEYS[1]))",
        "while redis.call('GET', tostring(1)) do end",
        "redis.log(redis.LOG_NOTICE, 'x') return redis.call('GET', string.lower(ARGV[1]))",
    ] {
        assert!(matches!(footprint_of(text), Footprint::Declared { grows: Some(_), leaves: false, .. }), "{text}");
    }
}

#[test]
fn scripts_that_leave_something_behind_have_plans_that_grow_out_of_order() {
    for text in [
        "return redis.call('SET', redis.call('GET', KEYS[1]), 1)",
        "redis.call('INCR', KEYS[1]) return redis.call('GET', string.lower(ARGV[1]))",
        "redis.call('PUBLISH', 'a', 'b') return redis.call('GET', string.lower(ARGV[1]))",
        "return redis.call('MSET', KEYS[1], 1, unpack(ARGV))",
    ] {
        assert!(matches!(footprint_of(text), Footprint::Declared { grows: Some(_), leaves: true, .. }), "{text}");
    }
}

#[test]
fn others_may_touch_anything() {
    for text in [
        "return redis.call(ARGV[1], KEYS[1])",
        "return redis.call('KEYS', '*')",
        "redis.call('SELECT', 1) return redis.call('GET', KEYS[1])",
        "return redis.call('COPY', KEYS[1], KEYS[2], 'DB', 1)",
        "return redis.call('FLUSHALL')",
        "return redis.call('SORT', KEYS[1], 'BY', 'w_*')",
        "return redis.call('RANDOMKEY')",
        "return redis.call('OBJECT', 'ENCODING', ARGV[1])",
    ] {
        assert!(matches!(footprint_of(text), Footprint::Any(_)), "{text}");
    }
}
