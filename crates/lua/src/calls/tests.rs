//! What is seen of the calls of scripts, and what hides them.

use super::*;
use crate::compile;

fn found(text: &str) -> Result<Calls, Unseen> {
    compile(text.as_bytes(), b"@t").unwrap().calls()
}

fn shown_part(part: &Part) -> String {
    match part {
        Part::Constant(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Part::Key(Some(number)) => format!("<k{number}>"),
        Part::Argument(Some(number)) => format!("<a{number}>"),
        Part::Key(None) => "<k>".to_owned(),
        Part::Argument(None) => "<a>".to_owned(),
    }
}

fn calls(text: &str) -> Option<Vec<String>> {
    let shown = |argument: &CallArgument| match argument {
        CallArgument::Constant(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        CallArgument::Key => "<key>".to_owned(),
        CallArgument::Built(parts) if matches!(**parts, [Part::Argument(_)]) => "?".to_owned(),
        CallArgument::Built(parts) => parts.iter().map(shown_part).collect(),
        CallArgument::Unknown => "?".to_owned(),
    };
    let site = |site: &CallSite| {
        let words: Vec<String> = site.arguments.iter().map(shown).collect();
        let rest = match site.rest {
            Rest::Nothing => "",
            Rest::Keys => " <keys>",
            Rest::Anything => " …",
        };
        format!("{}{rest}", words.join(" "))
    };
    Some(found(text).ok()?.sites.iter().map(site).collect())
}

fn check(all: &[(&str, &[&str])]) {
    for (text, expected) in all {
        let expected = expected.iter().map(|site| (*site).to_owned()).collect::<Vec<_>>();
        assert_eq!(calls(text), Some(expected), "{text}: {:?}", found(text));
    }
}

#[test]
fn calls_of_scripts_as_they_are_written() {
    check(&[
        ("return 1", &[]),
        ("return redis.call('GET', KEYS[1])", &["GET <key>"]),
        ("local call = redis.call local k = KEYS[1] call('SET', k, ARGV[1]) return call('GET', k)", &["SET <key> ?", "GET <key>"]),
        (
            "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
            &["get <key>", "del <key>"],
        ),
        (
            "local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end return n",
            &["INCR <key>", "EXPIRE <key> ?"],
        ),
        ("local k if ARGV[1] then k = KEYS[1] else k = KEYS[2] end return redis.call('GET', k)", &["GET <key>"]),
        ("local k = ARGV[1] or KEYS[1] return redis.call('GET', k)", &["GET ?"]),
        ("return redis.call('GET', KEYS[1] .. ':x')", &["GET <k1>:x"]),
        ("return redis.call('GET', 'fixed')", &["GET fixed"]),
        ("return redis.call('DEL', KEYS[1], unpack(ARGV))", &["DEL <key> …"]),
        ("return redis.call('DEL', unpack(KEYS))", &["DEL <keys>"]),
        ("local a, b = unpack(KEYS) return redis.call('RENAME', a, b)", &["RENAME <key> <key>"]),
        ("return server.pcall('ZADD', KEYS[#KEYS], tonumber(ARGV[1]) + 1, cjson.encode({a = 1}))", &["ZADD <key> …"]),
    ]);
}

#[test]
fn loops_and_functions_are_followed() {
    check(&[
        ("for i = 1, #KEYS do redis.call('GET', KEYS[i]) end", &["GET <key>"]),
        ("for i, key in ipairs(KEYS) do redis.call('SET', key, ARGV[i]) end", &["SET <key> ?"]),
        ("for i, v in ipairs(ARGV) do redis.call('RPUSH', KEYS[1], v) end", &["RPUSH <key> ?"]),
        ("local n = 0 while redis.call('LLEN', KEYS[1]) > n do n = n + 1 end return n", &["LLEN <key>"]),
        ("local k = KEYS[1] for i = 1, 3 do redis.call('GET', k) k = KEYS[i] end", &["GET <key>"]),
        ("local k = KEYS[1] for i = 1, 3 do redis.call('GET', k) k = ARGV[i] end", &["GET ?"]),
        ("local function get(k) return redis.call('GET', k) end return get(KEYS[1])", &["GET <key>"]),
        ("local function get(k) return redis.call('GET', k) end get(ARGV[1]) return get(KEYS[1])", &["GET ?"]),
        ("local call = redis.call local function get() return call('GET', KEYS[1]) end return get()", &["GET <key>"]),
        ("local k = KEYS[1] local function f() k = ARGV[1] end f() return redis.call('GET', k)", &["GET ?"]),
        ("local k = KEYS[1] local function f() return redis.call('GET', k) end k = ARGV[1] return f()", &["GET ?"]),
        ("local f = function() return redis.call('GET', 'x') end local t = {} t.f = f return t.f()", &["GET x"]),
        ("local function f(k) redis.call('GET', k) end local g = ARGV[1] and f or tostring g(ARGV[1])", &["GET ?"]),
        ("local function f(k) return redis.call('GET', k) end return pcall(f, KEYS[1])", &["GET <key>"]),
        ("return pcall(redis.call, 'GET', KEYS[1])", &["GET <key>"]),
        ("table.sort(ARGV, function(a, b) return redis.call('GET', a) < b end)", &["GET ?"]),
        ("local f = function() end return 1", &[]),
    ]);
}

#[test]
fn what_could_call_unseen_is_not_looked_through() {
    let hidden = [
        "return xpcall(redis.call, print)",
        "local t = {redis.call} return t[1]('GET', 'x')",
        "local t = {} t.f = redis.call return t.f('GET', 'x')",
        "return redis['ca' .. 'll']('GET', 'x')",
        "return loadstring(ARGV[1])()",
        "return _G['redis'].call('GET', 'x')",
        "KEYS[1] = ARGV[1] return redis.call('GET', KEYS[1])",
        "table.insert(KEYS, 1, ARGV[1]) return redis.call('GET', KEYS[1])",
        "local k = KEYS k[1] = 'x' return redis.call('GET', KEYS[1])",
        "local k = ARGV[1] and KEYS or {} k[1] = 'x' return redis.call('GET', KEYS[1])",
        "local k = select(1, KEYS) k[1] = 'x' return redis.call('GET', KEYS[1])",
        "local _, k = ipairs(KEYS) k[1] = 'x' return redis.call('GET', KEYS[1])",
        "local k = assert(KEYS) k[1] = 'x' return redis.call('GET', KEYS[1])",
        "local f = ARGV[1] and redis.call or tostring return f('GET', 'x')",
        "return select(2, 1, redis.call)('GET', 'x')",
        "local r = setmetatable({}, {__index = redis}) return r.call('GET', 'x')",
        "return redis.call(redis.call)",
        "local function f() return redis.call end return f()('GET', 'x')",
        "local function f(k) k[1] = 'x' end f(KEYS) return redis.call('GET', KEYS[1])",
        "local k = {} local function f() k = KEYS end f() k[1] = 'x' return redis.call('GET', KEYS[1])",
        "local f = tostring local function g() f = redis.call end g() return f('GET', 'x')",
        "local p = ARGV[1] and pcall or tostring return p(redis.call, 'GET', 'x')",
        "local function f(...) return ... end return f(redis.call)('GET', 'x')",
        "for k, call in pairs(redis) do call('GET', 'x') end",
        "return coroutine.wrap(redis.call)('GET', 'x')",
    ];
    for text in hidden {
        assert!(found(text).is_err(), "{text}");
    }
    let unseen = found("local a = 1\nlocal b = 2\nKEYS[a] = b").unwrap_err();
    assert_eq!(unseen.line, 3);
}

#[test]
fn loops_that_may_have_no_end_are_told() {
    for (text, line) in [
        ("for i = 1, #KEYS do redis.call('GET', KEYS[i]) end", None),
        ("for i = 1, #ARGV - 1, 2 do redis.call('GET', KEYS[1]) end", None),
        ("for i = 1, 100 do redis.call('GET', KEYS[1]) end", None),
        ("for _, v in ipairs(ARGV) do redis.call('GET', KEYS[1]) end", None),
        ("local function f() return 1 end return f() + f()", None),
        ("\nfor i = 1, tonumber(ARGV[1]) do redis.call('GET', KEYS[1]) end", Some(2)),
        ("for i = 1, 1e9 do redis.call('GET', KEYS[1]) end", Some(1)),
        ("for i = 1, 2, 1e-9 do redis.call('GET', KEYS[1]) end", Some(1)),
        ("\n\nwhile true do redis.call('GET', KEYS[1]) end", Some(3)),
        ("repeat until redis.call('GET', KEYS[1])", Some(1)),
        ("\nlocal function f() f() end f()", Some(2)),
        ("local f f = function() f() end f()", Some(1)),
        ("local function f() select(1, f)() end f()", Some(1)),
        ("for x in function() return 1 end do redis.call('GET', KEYS[1]) end", Some(1)),
        ("local t = {} t.f = function() t.f() end t.f()", Some(1)),
    ] {
        assert_eq!(found(text).unwrap().endless, line, "{text}");
    }
}

#[test]
fn loops_within_loops_and_functions_are_told() {
    for (text, nests) in [
        ("return redis.call('GET', KEYS[1])", false),
        ("for i = 1, #KEYS do if ARGV[i] then redis.call('GET', KEYS[i]) end end", false),
        ("for i = 1, 9 do local a = i > 3 and 1 or 2 end for _, v in ipairs(ARGV) do redis.call('GET', v) end", false),
        ("for k, v in pairs(ARGV) do if v == 'x' then redis.call('GET', KEYS[1]) end end", false),
        ("local function f() return 1 end return redis.call('GET', KEYS[1])", false),
        ("for i = 1, 9 do for j = 1, 9 do redis.call('GET', KEYS[1]) end end", true),
        ("for i = 1, 9 do for _, key in ipairs(KEYS) do redis.call('GET', key) end local a = 1 end", true),
        ("for _, v in ipairs(ARGV) do local a = 0 while a < 9 do a = a + 1 end end", true),
        ("local function f() return redis.call('GET', KEYS[1]) end return f()", true),
        ("return string.gsub(ARGV[1], '.', function(c) return redis.call('GET', KEYS[1]) end)", true),
    ] {
        assert_eq!(found(text).unwrap().nests, nests, "{text}");
    }
}

#[test]
fn the_search_ends_whatever_it_is_given() {
    let chain: String = (1..180).map(|n| format!("local v{n} = v{} ", n - 1)).collect();
    let rotate: String = (0..179).map(|n| format!("v{n} = v{} ", n + 1)).collect();
    let text = format!("local v0 = KEYS[1] {chain} while true do {rotate} v179 = ARGV[1] redis.call('GET', v0) end");
    assert!(found(&text).map_or_else(|unseen| unseen.what == search::TOO_MUCH, |calls| calls.sites.len() == 1));
}

#[test]
fn functions_of_libraries_have_their_keys_as_an_argument() {
    let of = |text: &str, name: &str| {
        let calls = compile(text.as_bytes(), b"@t").unwrap().calls_of(name.as_bytes())?;
        Ok::<_, Unseen>(calls.sites.iter().map(|site| site.arguments.last().cloned()).collect::<Vec<_>>())
    };
    let library = "local function get(k) return redis.call('GET', k) end
        redis.register_function('f', function(keys, args) return get(keys[1]) end)
        redis.register_function('g', function(keys, args) return redis.call('GET', args[1]) end)";
    assert_eq!(of(library, "f"), Ok(vec![Some(CallArgument::Key)]));
    assert_eq!(of(library, "g"), Ok(vec![Some(CallArgument::Built([Part::Argument(Some(1))].into()))]));
    let repeats = |text: &str| compile(text.as_bytes(), b"@t").unwrap().calls_of(b"f").map(|calls| calls.repeats);
    assert_eq!(repeats("redis.register_function('f', function(keys) return redis.call('GET', keys[1]) end)"), Ok(false));
    assert_eq!(repeats(library), Ok(true));
    let by_table = "redis.register_function{function_name = 'h', callback = function(keys) return redis.call('GET', keys[1]) end}";
    assert!(of(by_table, "h").is_err(), "what a table keeps is not followed");
    assert!(of("redis.register_function('f', function(keys) keys[1] = 'x' end)", "f").is_err());
    assert!(of("local r = {redis.register_function} r[1]('f', function() end)", "f").is_err());
}

#[test]
fn scripts_that_are_one_call_are_seen() {
    let sole = |text: &str| compile(text.as_bytes(), b"@t").unwrap().sole_call();
    let (key, argument) = (SoleArgument::Key, SoleArgument::Argument);
    let text = |text: &str| SoleArgument::Text(text.as_bytes().into());
    for (script, expected) in [
        ("return redis.call('GET', KEYS[1])", vec![text("GET"), key(0)]),
        (
            "local call, k = server.pcall, KEYS[2] local v = ARGV[3] return call('SET', k, v, 'PX', 1.5)",
            vec![text("SET"), key(1), argument(2), text("PX"), SoleArgument::Number(1.5)],
        ),
        ("return redis.call(ARGV[1])", vec![argument(0)]),
    ] {
        assert_eq!(sole(script).as_deref(), Some(&expected[..]), "{script}");
    }
    for script in [
        "return 1",
        "return redis.call()",
        "return (redis.call('GET', KEYS[1]))",
        "local v = redis.call('GET', KEYS[1]) return v",
        "return redis.call('GET', KEYS[1]), 1",
        "redis.call('GET', KEYS[1])",
        "return redis.call('GET', KEYS[0])",
        "return redis.call('GET', KEYS[1.5])",
        "return redis.call('GET', KEYS[#KEYS])",
        "return redis.call('GET', KEYS[ARGV[1]])",
        "return redis.call('GET', KEYS[1] .. 'x')",
        "return redis.call('GET', KEYS)",
        "return redis.call('GET', nil)",
        "return redis.call(unpack(ARGV))",
        "return redis.call('GET', ...)",
        "return redis.sha1hex('GET')",
        "return tostring(redis.call('GET', KEYS[1]))",
        "if KEYS[1] then return redis.call('GET', KEYS[1]) end",
        "local redis = {call = tostring} return redis.call('GET', KEYS[1])",
        "local function f() return redis.call('GET', KEYS[1]) end return f()",
        "KEYS[1] = 'x' return redis.call('GET', KEYS[1])",
        "redis.setresp(3) return redis.call('GET', KEYS[1])",
        "string = 1 return redis.call('GET', KEYS[1])",
    ] {
        assert_eq!(sole(script), None, "{script}");
    }
    let of = |library: &str| compile(library.as_bytes(), b"@t").unwrap().sole_call_of(b"f");
    let get = Some(vec![text("GET"), key(0), argument(1)]);
    for library in [
        "redis.register_function('f', function(keys, args) return redis.call('GET', keys[1], args[2]) end)",
        "local function g(k, a) return redis.call('GET', k[1], a[2]) end redis.register_function('g', g)
         redis.register_function('f', g)",
    ] {
        assert_eq!(of(library).map(Vec::from), get, "{library}");
    }
    for library in [
        "redis.register_function('g', function(keys) return redis.call('GET', keys[1]) end)",
        "redis.register_function('f', function(keys) return redis.call('GET', KEYS[1]) end)",
        "redis.register_function{function_name = 'f', callback = function(keys) return redis.call('GET', keys[1]) end}",
        "local redis2 = redis redis2.register_function('f', function(keys) return redis2.call('GET', keys[1]) end)",
        "local f = function(keys, args, x) return redis.call('GET', x[1]) end redis.register_function('f', f)",
    ] {
        assert_eq!(of(library), None, "{library}");
    }
}

#[test]
fn texts_that_are_built_of_what_is_given_are_known() {
    check(&[
        ("return redis.call('GET', KEYS[1] .. ':' .. ARGV[2])", &["GET <k1>:<a2>"]),
        ("local p = ARGV[1] .. ':' local k = p .. 'x' .. KEYS[2] redis.call('DEL', k, p)", &["DEL <a1>:x<k2> <a1>:"]),
        ("local function key(id) return id end for i = 1, #ARGV do redis.call('DEL', 'a' .. ARGV[i]) end", &["DEL a<a>"]),
        ("for _, id in ipairs(ARGV) do redis.call('DEL', KEYS[1] .. id) end", &["DEL <k1><a>"]),
        ("local function add(id) redis.call('DEL', KEYS[1] .. id) end add('x') add(ARGV[1])", &["DEL ?"]),
        ("local function add(id) redis.call('DEL', KEYS[1] .. id) end add(ARGV[2]) add(ARGV[1])", &["DEL <k1><a>"]),
        ("for _, k in ipairs(KEYS) do for _, id in ipairs(ARGV) do redis.call('DEL', k .. id) end end", &["DEL ?"]),
        ("return redis.call('GET', KEYS[1] .. 1)", &["GET ?"]),
        ("local k = 'a' for i = 1, 3 do k = k .. ARGV[1] redis.call('GET', k) end", &["GET ?"]),
        // Where the arguments may be others, the keys still are not.
        ("ARGV[1] = 'x' return redis.call('GET', 'a' .. ARGV[1]) .. redis.call('GET', KEYS[1] .. 'a')", &["GET ?", "GET <k1>a"]),
        ("table.insert(ARGV, 1, 'x') return redis.call('GET', 'a' .. ARGV[1])", &["GET ?"]),
        ("local t = ARGV[1] and ARGV or {} t[1] = 'x' return redis.call('GET', 'a' .. ARGV[1])", &["GET ?"]),
        ("local t = {} if ARGV[1] then t = ARGV end t[1] = 'x' return redis.call('GET', 'a' .. ARGV[1])", &["GET ?"]),
        ("local t = {ARGV} t[1][1] = 'x' return redis.call('GET', 'a' .. ARGV[1])", &["GET ?"]),
        ("local function set(t) t[1] = 'x' end set(ARGV) return redis.call('GET', 'a' .. ARGV[1])", &["GET ?"]),
        ("local function own() return ARGV end own()[1] = 'x' return redis.call('GET', 'a' .. ARGV[1])", &["GET ?"]),
        ("local t local function set() t = ARGV end set() t[1] = 'x' return redis.call('GET', 'a' .. ARGV[1])", &["GET ?"]),
        ("local a = unpack(ARGV) return redis.call('GET', 'a' .. ARGV[#ARGV])", &["GET a<a>"]),
    ]);
}

#[test]
fn a_function_that_one_of_several_paths_makes_is_followed() {
    let text = "local f = ARGV[1] if ARGV[2] then f = function() return redis.call('SET', 'x', 1) end end return f()";
    assert_eq!(calls(text), Some(vec!["SET x ?".to_owned()]));
}
