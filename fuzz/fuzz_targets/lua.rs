//! Any text is refused by the compiler, or is a program that ends: with results, with an error of its own, or at its limits of time
//! and memory. Suspended at each jump and call it does the same.

#![no_main]

use almandine_lua::{LuaValue, Machine, MachineOptions, NoHost, RunEnd, compile};
use libfuzzer_sys::fuzz_target;

/// Jumps and calls of a program.
const BUDGET: u64 = 20_000;

/// How the program ends, and its first result or error.
fn run(text: &[u8], slice: u64) -> Option<(RunEnd, String)> {
    let proto = compile(text, b"@user_script").ok()?;
    // What calls and keys the code says is asked for before it runs.
    let _ = proto.calls();
    let mut machine = Machine::new(&MachineOptions { memory_limit: 4 << 20, error_tables: true, ..MachineOptions::default() });
    machine.freeze();
    let function = machine.load(&proto)?;
    machine.start(function, &[]);
    let mut spent = 0;
    let end = loop {
        match machine.run(&mut NoHost, slice) {
            RunEnd::Suspended if spent < BUDGET => spent += slice,
            end => break end,
        }
    };
    let first = machine.results().first().copied().unwrap_or_default();
    let shown = match first {
        LuaValue::String(string) => machine.heap().bytes(string).escape_ascii().to_string(),
        LuaValue::Number(number) => number.to_bits().to_string(),
        other => other.type_name().to_owned(),
    };
    machine.reset();
    Some((end, shown))
}

fuzz_target!(|text: &[u8]| {
    let whole = run(text, BUDGET);
    let timed: [&[u8]; 6] = [b"clock", b"random", b"collect", b"gcinfo", b"tostring", b"memory"];
    let is_own = timed.iter().any(|word| text.windows(word.len()).any(|found| found == *word));
    if text.len() > 400 || is_own {
        return;
    }
    let sliced = run(text, 1);
    // Natives are charged for long work at once, so both may stop at other places.
    if let (Some((RunEnd::Done, a)), Some((RunEnd::Done, b))) = (&whole, &sliced) {
        assert_eq!(a, b);
    }
});
