//! The libraries that read bytes of others: any input has a value or an error, within the limit of memory, and what cmsgpack, cjson
//! and struct write of it they read again.
//!
//! The first byte chooses the function, the second the length of a format.

#![no_main]

use almandine_lua::{LuaValue, Machine, MachineOptions, NoHost, RunEnd, compile};
use libfuzzer_sys::fuzz_target;

const PROGRAMS: [&str; 10] = [
    "local t = cjson.decode(DATA) local s = cjson.encode(t) local again = cjson.encode(cjson.decode(s)) if again ~= s then fault(s, again) end",
    "local t = cmsgpack.unpack_one(DATA) local s = cmsgpack.pack(t) cmsgpack.unpack(s)",
    "cmsgpack.unpack_limit(DATA, 3, #FORMAT)",
    "struct.unpack(FORMAT, DATA)",
    "struct.pack(FORMAT, DATA, DATA, 1, 2.5, -3)",
    "struct.size(FORMAT)",
    "local ok = pcall(string.find, DATA, FORMAT) string.gsub(DATA, FORMAT, '<%0>') string.match(DATA, FORMAT)",
    "string.format(FORMAT, DATA, 1, 2.5, DATA)",
    "for n in string.gmatch(DATA, '%-?%d+') do n = tonumber(n) bit.tohex(bit.band(n, bit.lshift(n, #FORMAT)), #FORMAT - 8) end",
    "cmsgpack.unpack(DATA, #FORMAT)",
];

fuzz_target!(|data: &[u8]| {
    let [choice, length, rest @ ..] = data else { return };
    let (format, data) = rest.split_at(usize::from(*length).min(rest.len()));
    let program = PROGRAMS[usize::from(*choice) % PROGRAMS.len()];
    let proto = compile(program.as_bytes(), b"@user_script").expect("the program compiles");
    let mut machine = Machine::new(&MachineOptions { memory_limit: 8 << 20, ..MachineOptions::default() });
    for (name, bytes) in [("DATA", data), ("FORMAT", format)] {
        let bytes = machine.string(bytes);
        machine.set_global(name, bytes);
    }
    let function = machine.load(&proto).expect("room");
    machine.start(function, &[]);
    let mut slices = 0;
    let end = loop {
        match machine.run(&mut NoHost, 50_000) {
            RunEnd::Suspended if slices < 20 => slices += 1,
            end => break end,
        }
    };
    if end == RunEnd::Failed
        && let Some(LuaValue::String(message)) = machine.results().first()
    {
        let message = machine.heap().bytes(*message);
        assert!(!message.windows(7).any(|found| found == b"'fault'"), "{}", message.escape_ascii());
    }
});
