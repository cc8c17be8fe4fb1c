//! A machine with a function `out` that collects what a program shows.
#![allow(dead_code, reason = "each test file uses its part")]

use almandine_lua::{Host, HostCall, HostOutcome, LuaValue, Machine, MachineOptions, NoHost, RunEnd, compile};

/// Collects lines.
#[derive(Debug, Default)]
pub(crate) struct Lines(pub(crate) Vec<u8>);

impl Host for Lines {
    fn call(&mut self, _function: u32, call: &mut HostCall<'_>) -> HostOutcome {
        for value in call.arguments() {
            if let LuaValue::String(string) = value {
                self.0.extend_from_slice(call.heap().bytes(*string));
            }
        }
        self.0.push(b'\n');
        HostOutcome::Return
    }
}

/// `out` shows values by their types and texts, objects by their types only.
pub(crate) const OUT: &str = "local write, type, tostring, select, concat = ...
local function show(v)
  local kind = type(v)
  if kind == 'table' or kind == 'function' or kind == 'thread' then return kind end
  return tostring(v)
end
return function(...)
  local texts = {}
  for i = 1, select('#', ...) do texts[i] = show((select(i, ...))) end
  write(concat(texts, ' '))
end";

/// A machine whose host function 0 is behind the global `out`.
pub(crate) fn machine(options: &MachineOptions) -> Machine {
    let mut machine = Machine::new(options);
    let prelude = machine.load(&compile(OUT.as_bytes(), b"=out").expect("the prelude compiles")).expect("room");
    let write = machine.host_function(0);
    let globals = machine.globals();
    let mut arguments = vec![write];
    for name in ["type", "tostring", "select"] {
        let name = machine.string(name.as_bytes());
        arguments.push(machine.raw_get(globals, name));
    }
    let (table, concat) = (machine.string(b"table"), machine.string(b"concat"));
    let table = machine.raw_get(globals, table);
    arguments.push(machine.raw_get(table, concat));
    machine.start(prelude, &arguments);
    assert_eq!(machine.run(&mut NoHost, u64::MAX), RunEnd::Done);
    let out = machine.results()[0];
    machine.set_global("out", out);
    machine.stop();
    machine.keep();
    machine
}

/// What a program shows, with `error: …` as its last line if it fails; suspended every `slice` jumps and calls.
pub(crate) fn show(machine: &mut Machine, program: &str, slice: u64) -> String {
    let mut lines = Lines::default();
    match compile(program.as_bytes(), b"=p") {
        Err(error) => lines.0.extend([b"syntax: ", &error.message[..], b"\n"].concat()),
        Ok(proto) => {
            let function = machine.load(&proto).expect("room");
            machine.start(function, &[]);
            let mut slices = 0;
            let end = loop {
                match machine.run(&mut lines, slice) {
                    RunEnd::Suspended if slices < 1_000_000 => slices += 1,
                    end => break end,
                }
            };
            match end {
                RunEnd::Done => {}
                RunEnd::Failed => {
                    let text = match machine.results()[0] {
                        LuaValue::String(string) => machine.heap().bytes(string).to_vec(),
                        other => other.type_name().as_bytes().to_vec(),
                    };
                    lines.0.extend([b"error: ", &text[..], b"\n"].concat());
                }
                other => lines.0.extend(format!("{other:?}\n").bytes()),
            }
        }
    }
    machine.reset();
    String::from_utf8_lossy(&lines.0).into_owned()
}
