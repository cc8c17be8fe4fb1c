//! Libraries that are replaced, removed or refused leave nothing behind, and what functions keep no more does not either.

use std::sync::Arc;

use almandine_base::Output;
use almandine_resp::{Args, ArgsBuf, ProtocolVersion};
use almandine_script::{Commands, Function, Invocation, Libraries, LogLevel, Machines, Program, RestorePolicy, RunEnd, Verdict};

const LIMIT: usize = 64 << 20;
/// What the machine of libraries may take beside what they use.
const LITTER: usize = (1 << 20) + (256 << 10);

/// A server without commands.
struct Nothing;

impl Commands for Nothing {
    fn call(&mut self, _args: Args<'_>, _version: ProtocolVersion, _out: &mut Output) -> bool {
        true
    }

    fn permits(&mut self, _args: Args<'_>) -> Option<bool> {
        None
    }

    fn replied_error(&mut self, _text: &[u8]) {}

    fn log(&mut self, _level: LogLevel, _line: String) {}

    fn verdict(&mut self) -> Verdict {
        Verdict::GoOn
    }
}

fn call(libraries: &Libraries, name: &str, argument: &str) -> String {
    let function: Arc<Function> = libraries.find(name.as_bytes()).expect("it is there");
    assert!(libraries.has(&function) && !function.keeps_nothing);
    let mut engine = libraries.take_engine().expect("nobody has it");
    let (keys, mut args) = (ArgsBuf::new(), ArgsBuf::new());
    args.push(argument.as_bytes());
    let (program, machines, mut out) = (Program::Function(function), Machines::default(), Output::new());
    engine.start(&machines, &Invocation { program: &program, keys: keys.as_args(), args: args.as_args() });
    assert_eq!(engine.go_on(&program, &mut Nothing, ProtocolVersion::Resp2, &mut out), RunEnd::Returned, "{out:?}");
    libraries.give_engine(engine);
    String::from_utf8_lossy(&out.bytes).into_owned()
}

/// A library that keeps something, with other words each time.
fn library(name: &str, function: &str, number: usize) -> Vec<u8> {
    let words: String =
        (0..40).map(|word| format!("words['of number {number} {word}'] = {{{word}, 'a text {number}'}}\n")).collect();
    format!(
        "#!lua name={name}\nlocal words, calls = {{}}, 0\n{words}
         redis.register_function('{function}', function(keys, args)
             calls = calls + 1
             return words['of number {number} ' .. args[1]][2] .. ' ' .. calls
         end)"
    )
    .into_bytes()
}

/// Bytes of the process that are in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux counts memory");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number of pages") * 4096
}

/// The most that the machine takes, and what the process has at the end, over the first `n` times and the `n` behind them.
fn twice(n: usize, libraries: &Libraries, mut change: impl FnMut(usize)) -> [(usize, usize); 2] {
    [0, n].map(|first| {
        let most = (first..first + n).map(|number| {
            change(number);
            libraries.machine_bytes()
        });
        (most.max().expect("n is not zero"), resident())
    })
}

#[track_caller]
fn does_not_grow(one: usize, counted: [(usize, usize); 2]) {
    let [first, second] = counted;
    assert!(second.0 <= first.0 + first.0 / 20, "{} bytes, then {}", first.0, second.0);
    assert!(second.0 < 3 * one + LITTER, "{} bytes, for one it is {one}", second.0);
    let grown = second.1.saturating_sub(first.1);
    assert!(grown < 4 << 20, "the process has {grown} bytes more");
}

/// One test: the memory is the process'.
#[test]
fn nothing_is_left_behind() {
    libraries_that_are_replaced_or_refused_leave_nothing_behind();
    what_functions_keep_no_more_leaves_nothing_behind();
}

fn libraries_that_are_replaced_or_refused_leave_nothing_behind() {
    let libraries = Libraries::default();
    libraries.load(&library("stays", "stays", 3), false, LIMIT).expect("it is one");
    libraries.load(&library("one", "f", 0), false, LIMIT).expect("it is one");
    let (one, n) = (libraries.machine_bytes(), 600);
    let mut calls = 0;
    let mut stays = || {
        calls += 1;
        let reply = call(&libraries, "stays", "7");
        assert_eq!(reply.lines().nth(1), Some(&*format!("a text 3 {calls}")), "what it keeps stays");
    };
    let replaced = twice(n, &libraries, |number| {
        libraries.load(&library("one", "f", number), true, LIMIT).expect("it replaces the other");
        assert!(call(&libraries, "f", "1").contains(&format!("a text {number} 1")));
        stays();
    });
    does_not_grow(one, replaced);
    let removed = twice(n, &libraries, |number| {
        assert!(libraries.delete(b"one").is_some());
        libraries.load(&library("one", "f", number), false, LIMIT).expect("there is none");
    });
    does_not_grow(one, removed);
    let refused = twice(n, &libraries, |number| {
        assert!(libraries.load(&library("two", "f", number), true, LIMIT).is_err(), "the function is another library's");
        let both = [library("three", "g", number), library("four", "g", number)];
        assert!(libraries.restore(&both, RestorePolicy::Append, LIMIT).is_err());
        let fails = [&library("five", "h", number)[..], b"\nerror('it fails')"].concat();
        assert!(libraries.load(&fails, true, LIMIT).is_err());
    });
    does_not_grow(one, refused);
    stays();
    let flushed = twice(n, &libraries, |number| {
        if number % 2 == 0 {
            libraries.flush().expect("no function runs");
            libraries.load(&library("one", "f", number), false, LIMIT).expect("there is none");
        } else {
            libraries.restore(&[library("one", "f", number)], RestorePolicy::Flush, LIMIT).expect("there is none");
        }
    });
    does_not_grow(one, flushed);
}

fn what_functions_keep_no_more_leaves_nothing_behind() {
    let libraries = Libraries::default();
    let code = b"#!lua name=one
        local last, n, seen = nil, 0, setmetatable({}, {__mode = 'v'})
        redis.register_function('f', function(keys, args)
            n = n + 1
            last = {args[1], {n, before = 'the text ' .. n}}
            seen[n] = last
            return last[2].before
        end)";
    libraries.load(code, false, LIMIT).expect("it is one");
    let one = libraries.machine_bytes();
    let kept = twice(6_000, &libraries, |number| {
        assert_eq!(call(&libraries, "f", "x").lines().nth(1), Some(&*format!("the text {}", number + 1)));
    });
    does_not_grow(one, kept);
}

#[test]
fn a_function_whose_library_has_gone_is_known() {
    let libraries = Libraries::default();
    libraries.load(&library("one", "f", 1), false, LIMIT).expect("it is one");
    let before = libraries.find(b"f").expect("it is there");
    libraries.load(&library("one", "f", 2), true, LIMIT).expect("it replaces the other");
    let behind = libraries.find(b"f").expect("it is there");
    assert!(!libraries.has(&before) && libraries.has(&behind));
    assert!(libraries.delete(b"one").is_some() && !libraries.has(&behind));
}
