//! Scripts against a server that only counts.

use almandine_base::Output;
use almandine_resp::{Args, ArgsBuf, ProtocolVersion, Reply};

use super::commands::{Commands, LogLevel, Verdict};
use super::{Engine, EngineOptions, Invocation, RunEnd};
use crate::{Program, Scripts};

/// Answers ECHO, GET and FAIL.
#[derive(Default)]
struct Server {
    called: Vec<String>,
    errors: Vec<String>,
    verdict: Option<Verdict>,
    /// The next call does not run.
    is_due: bool,
}

impl Commands for Server {
    fn call(&mut self, args: Args<'_>, version: ProtocolVersion, out: &mut Output) -> bool {
        if std::mem::take(&mut self.is_due) {
            return false;
        }
        self.called.push(args.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" "));
        let mut reply = Reply::new(out, version);
        match args.at(0) {
            b"ECHO" => reply.bulk(args.at(1)),
            b"MAP" => {
                reply.map(1);
                reply.bulk(b"field");
                reply.double(1.5);
            }
            b"LIST" => {
                reply.array(3);
                reply.bulk(b"a");
                reply.null();
                reply.integer(7);
            }
            b"NONE" => reply.null_array(),
            b"OK" => reply.simple("OK"),
            b"LARGE" => reply.bulk_shared(vec![b'x'; 100_000].into()),
            b"FAIL" => reply.error("BAD thing"),
            _ => reply.null(),
        }
        true
    }

    fn permits(&mut self, args: Args<'_>) -> Option<bool> {
        (args.at(0) != b"NOSUCH").then_some(args.at(0) == b"ECHO")
    }

    fn replied_error(&mut self, text: &[u8]) {
        self.errors.push(String::from_utf8_lossy(text).into_owned());
    }

    fn log(&mut self, level: LogLevel, line: String) {
        self.called.push(format!("{level:?} {line}"));
    }

    fn verdict(&mut self) -> Verdict {
        self.verdict.unwrap_or(Verdict::GoOn)
    }
}

const OPTIONS: EngineOptions = EngineOptions { seed: 7, memory_limit: 8 << 20, deprecated: false };

struct Bench {
    scripts: Scripts,
    engine: Engine,
    server: Server,
}

impl Bench {
    fn new() -> Self {
        Self { scripts: Scripts::default(), engine: Engine::new(OPTIONS), server: Server::default() }
    }

    fn run(&mut self, text: &str, args: &[&str]) -> String {
        self.run_for(ProtocolVersion::Resp2, text, args)
    }

    fn run_for(&mut self, version: ProtocolVersion, text: &str, args: &[&str]) -> String {
        let script = self.scripts.evaluate(text.as_bytes()).unwrap();
        let mut given = ArgsBuf::new();
        args.iter().for_each(|arg| given.push(arg.as_bytes()));
        let (keys, args) = (given.as_args().first(1), given.as_args().slice_from(1));
        let program = Program::Script(script);
        self.engine.start(&self.scripts.machines, &Invocation { program: &program, keys, args });
        let mut out = Output::new();
        let end = self.engine.go_on(&program, &mut self.server, version, &mut out);
        assert_ne!(end, RunEnd::Suspended);
        self.engine.note_memory(&self.scripts.machines);
        out.flatten();
        String::from_utf8(out.bytes).unwrap().replace("\r\n", " ")
    }
}

#[test]
fn commands_are_called_and_their_replies_returned() {
    let mut bench = Bench::new();
    assert_eq!(bench.run("return redis.call('ECHO', KEYS[1] .. ARGV[1])", &["a", "b"]), "$2 ab ");
    assert_eq!(
        bench.run("return {redis.call('ECHO', 3), redis.call('ECHO', 0.5), server.call('GET')}", &[]),
        "*3 $1 3 $3 0.5 $-1 "
    );
    assert_eq!(bench.run("return #redis.call('LARGE')", &[]), ":100000 ");
    assert_eq!(bench.run("redis.setresp(3) return redis.call('MAP').map.field.double * 2", &[]), ":3 ");
    assert_eq!(bench.run("return {redis.acl_check_cmd('ECHO'), redis.acl_check_cmd('GET')}", &[]), "*2 :1 $-1 ");
    assert_eq!(bench.server.called, ["ECHO ab", "ECHO 3", "ECHO 0.5", "GET", "LARGE", "MAP"]);
    assert!(bench.server.errors.is_empty());
}

#[test]
fn an_error_of_a_command_counts_once() {
    let mut bench = Bench::new();
    let reply = bench.run("return redis.call('FAIL')", &[]);
    assert!(reply.starts_with("-BAD thing script: ") && reply.ends_with(", on @user_script:1. "), "{reply}");
    assert_eq!(bench.run("return redis.pcall('FAIL')", &[]), "-BAD thing ");
    assert!(bench.server.errors.is_empty(), "the command has counted it");
    bench.run("error('mine')", &[]);
    bench.run("return redis.error_reply('MY own')", &[]);
    assert_eq!(bench.server.errors.len(), 2);
    assert_eq!(bench.server.errors[1], "MY own");
}

#[test]
fn no_line_end_leaves_a_reply() {
    let mut bench = Bench::new();
    assert_eq!(bench.run("return redis.error_reply('A b\\r\\n+OK\\r\\n')", &[]), "-A b  +OK ");
    assert_eq!(bench.run("return {ok = 'a\\r\\nb'}", &[]), "+a  b ");
    assert!(bench.run("error({err = 'A\\r\\n:1'})", &[]).starts_with("-A  :1 script: "));
}

#[test]
fn a_run_leaves_nothing_behind() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        assert_eq!(bench.run("local t = {} for i = 1, 1000 do t[i] = ('x'):rep(100) .. i end return #t", &["k"]), ":1000 ");
        assert!(bench.run("return KEYS[1]", &[]).starts_with("$-1"));
        assert!(bench.run("x = 1", &[]).contains("readonly"));
        assert!(bench.run("string.format = nil", &[]).contains("readonly"));
    }
    let used = bench.scripts.machines.bytes();
    assert!(used > 0 && used < 1 << 20, "{used}");
    bench.scripts.flush();
    assert_eq!(bench.run("return 1", &[]), ":1 ");
}

#[test]
fn memory_is_limited() {
    let mut bench = Bench::new();
    let reply = bench.run("local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end", &[]);
    assert!(reply.starts_with("-ERR Error running script ") && reply.contains("not enough memory"), "{reply}");
    assert_eq!(bench.run("return 1", &[]), ":1 ");
}

#[test]
fn the_clock_goes_on_while_a_script_runs() {
    let mut bench = Bench::new();
    let work = "local start = os.clock() while os.clock() - start < 0.01 do end return 1";
    assert_eq!(bench.run(work, &[]), ":1 ");
}

#[test]
fn tables_within_themselves_end() {
    let mut bench = Bench::new();
    let reply = bench.run("local t = {} t[1] = t return t", &[]);
    assert!(reply.starts_with("*1 *1 ") && reply.ends_with("-ERR reached lua stack limit "));
    assert_eq!(bench.server.errors, ["ERR reached lua stack limit"]);
}

#[test]
fn the_reply_of_the_last_call_is_the_reply() {
    let mut bench = Bench::new();
    for (text, reply) in [
        ("return redis.call('ECHO', KEYS[1])", "$1 k "),
        ("return redis.pcall('GET')", "$-1 "),
        ("return redis.pcall('FAIL')", "-BAD thing "),
        ("return redis.call('MAP')", "*2 $5 field $3 1.5 "),
        ("return (redis.call('ECHO', KEYS[1]))", "$1 k "),
        ("local f = function() return redis.call('ECHO', 'in') end return {f(), f()}", "*2 $2 in $2 in "),
        ("local f = coroutine.wrap(function() return redis.call('ECHO', 'in') end) f() return 3", ":3 "),
        ("return pcall(redis.call, 'ECHO', 'in')", ":1 "),
    ] {
        assert_eq!(bench.run(text, &["k"]), reply, "{text}");
    }
    assert!(bench.run("return redis.call('FAIL')", &[]).starts_with("-BAD thing script: "), "an error has its place");
    assert_eq!(bench.run("return redis.call('LARGE')", &[]).len(), 100_000 + "$100000  ".len());
}

#[test]
fn what_is_killed_catches_nothing_and_what_is_suspended_goes_on() {
    let mut bench = Bench::new();
    bench.server.verdict = Some(Verdict::End);
    let reply = bench.run("while true do pcall(function() while true do end end) end", &[]);
    assert!(reply.starts_with("-ERR Script killed by user with SCRIPT KILL. script: "), "{reply}");
    bench.server.is_due = true;
    assert!(bench.run("return redis.call('ECHO', KEYS[1])", &["k"]).starts_with("-ERR Script killed by user with SCRIPT KILL."));
    assert!(bench.server.called.is_empty(), "what is killed before its call does not call");
    let script = bench.scripts.evaluate(b"local n = 0 for i = 1, 100000 do n = n + 1 end return {n, KEYS[1]}").unwrap();
    let mut given = ArgsBuf::new();
    given.push(b"key");
    let program = Program::Script(script);
    let invocation = Invocation { program: &program, keys: given.as_args(), args: given.as_args().slice_from(1) };
    bench.engine.start(&bench.scripts.machines, &invocation);
    bench.server.verdict = Some(Verdict::Suspend);
    let mut out = Output::new();
    let mut suspended = 0;
    while bench.engine.go_on(&program, &mut bench.server, ProtocolVersion::Resp2, &mut out) == RunEnd::Suspended {
        suspended += 1;
        assert!(out.is_empty());
    }
    assert!(suspended > 2);
    assert_eq!(out.bytes, b"*2\r\n:100000\r\n$3\r\nkey\r\n");
    // Before a call, which has not happened then.
    let text = b"return redis.call('ECHO', KEYS[1])";
    for text in [
        &text[..],
        b"return select(2, pcall(redis.call, 'ECHO', KEYS[1]))",
        b"local f = coroutine.wrap(function(x) return redis.call('ECHO', x) end) return f(KEYS[1])",
    ] {
        let program = Program::Script(bench.scripts.evaluate(text).unwrap());
        let invocation = Invocation { program: &program, keys: given.as_args(), args: given.as_args().slice_from(1) };
        bench.engine.start(&bench.scripts.machines, &invocation);
        (bench.server.is_due, bench.server.called) = (true, Vec::new());
        let mut out = Output::new();
        let mut go_on = || bench.engine.go_on(&program, &mut bench.server, ProtocolVersion::Resp2, &mut out);
        let ends = (go_on(), go_on());
        assert_eq!(
            ends,
            (RunEnd::Suspended, RunEnd::Returned),
            "{} {}",
            String::from_utf8_lossy(text),
            String::from_utf8_lossy(&out.bytes)
        );
        assert_eq!((&out.bytes[..], &bench.server.called[..]), (&b"$3\r\nkey\r\n"[..], &["ECHO key".to_owned()][..]));
    }
}

/// An error names its script, which is another text.
fn without_digits(reply: &str) -> String {
    match reply.split_once(" script: ") {
        Some((error, place)) => format!("{error}{}", place.trim_start_matches(|c: char| c.is_ascii_hexdigit())),
        None => reply.to_owned(),
    }
}

#[test]
fn a_script_that_is_one_call_is_what_it_is_in_the_machine() {
    for version in [ProtocolVersion::Resp2, ProtocolVersion::Resp3] {
        for call in [
            "call('ECHO', KEYS[1])",
            "call('ECHO', ARGV[1], KEYS[2], 3, -0.5, 1e300)",
            "call('ECHO', KEYS[3])",
            "call('ECHO', ARGV[2])",
            "pcall('ECHO', ARGV[9])",
            "call(KEYS[1])",
            "call('GET', 'x')",
            "call('OK')",
            "call('LIST', KEYS[1])",
            "call('NONE')",
            "call('FAIL', KEYS[1], KEYS[2], ARGV[1])",
            "pcall('FAIL')",
            "call('MAP')",
            "call('LARGE')",
        ] {
            let (mut sole, mut machine) = (Bench::new(), Bench::new());
            // Its second run keeps the code.
            for _ in 0..4 {
                let direct = sole.run_for(version, &format!("return redis.{call}"), &["k", "b"]);
                let long = machine.run_for(version, &format!("local t = {{}} return redis.{call}"), &["k", "b"]);
                assert_eq!(without_digits(&direct), without_digits(&long), "{call}");
                assert_eq!(sole.run("return #KEYS", &["k"]), ":1 ");
            }
            assert_eq!(sole.server.called, machine.server.called, "{call}");
            let errors = |bench: &Bench| bench.server.errors.iter().map(|error| without_digits(error)).collect::<Vec<_>>();
            assert_eq!(errors(&sole), errors(&machine), "{call}");
        }
    }
}

/// Keys and arguments are not interned when they are made: equal ones are equal all the same, as values and as keys of tables.
#[test]
fn arguments_are_strings_like_others() {
    let mut bench = Bench::new();
    let text = "local t = {[ARGV[1]] = 1} t.abc = (t.abc or 10) + 1
        t[ARGV[2]] = t[ARGV[2]] + 1 t['a' .. ARGV[3]] = t['ab' .. 'c'] + 1
        local same = ARGV[1] == ARGV[2] and ARGV[1] == 'abc' and rawequal('abc', ARGV[2]) and 'a' .. ARGV[3] == ARGV[1]
        local other, less = ARGV[1] == ARGV[3] and 1 or 0, ARGV[1] < ARGV[3] and 1 or 0
        return {t.abc, same and 1 or 0, other, less, (next(t)), next(t, ARGV[1]) or 'end'}";
    for _ in 0..3 {
        assert_eq!(bench.run(text, &["key", "abc", "abc", "bc"]), "*6 :4 :1 :0 :1 $3 abc $3 end ");
        let last = "local t = {} for i, a in ipairs(ARGV) do t[a] = i end return t.abc";
        assert_eq!(bench.run(last, &["key", "abc", "x", "abc"]), ":3 ");
    }
}
