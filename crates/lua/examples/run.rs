//! Runs a file of Lua: `cargo run -p almandine-lua --example run FILE`. `print` and `os.clock` are the host's.

use std::io::Write;
use std::sync::OnceLock;
use std::time::Instant;

use almandine_lua::{Host, HostCall, HostOutcome, LuaValue, Machine, MachineOptions, NoHost, RunEnd, compile};

/// Prints its arguments, which have been made strings.
struct Terminal;

impl Host for Terminal {
    fn call(&mut self, _function: u32, call: &mut HostCall<'_>) -> HostOutcome {
        let mut line = Vec::new();
        for (index, value) in call.arguments().iter().enumerate() {
            if index > 0 {
                line.push(b'\t');
            }
            if let LuaValue::String(string) = value {
                line.extend_from_slice(call.heap().bytes(*string));
            }
        }
        line.push(b'\n');
        let written = std::io::stdout().write_all(&line);
        if written.is_ok() { HostOutcome::Return } else { HostOutcome::Abort }
    }
}

/// `print` by a function that writes strings.
const PRINT: &str = "local write, tostring, select, unpack = ...
return function(...)
  local texts = {}
  for i = 1, select('#', ...) do texts[i] = tostring((select(i, ...))) end
  write(unpack(texts, 1, select('#', ...)))
end";

fn main() {
    let Some(file) = std::env::args().nth(1) else {
        eprintln!("usage: run FILE");
        std::process::exit(2);
    };
    let text = std::fs::read(&file).unwrap_or_else(|error| fail(&format!("{file}: {error}")));
    let proto =
        compile(&text, format!("@{file}").as_bytes()).unwrap_or_else(|error| fail(&String::from_utf8_lossy(&error.message)));
    let mut machine = Machine::new(&MachineOptions { deprecated: true, memory_limit: 1 << 30, ..MachineOptions::default() });
    add_print(&mut machine);
    let function = machine.load(&proto).unwrap_or_else(|| fail("no room for the code"));
    machine.start(function, &[]);
    machine.set_clock(seconds);
    loop {
        match machine.run(&mut Terminal, 1 << 16) {
            RunEnd::Suspended => {}
            RunEnd::Done => return,
            RunEnd::Aborted => fail("aborted"),
            RunEnd::Failed => {
                let message = match machine.results()[0] {
                    LuaValue::String(string) => String::from_utf8_lossy(machine.heap().bytes(string)).into_owned(),
                    other => format!("(error object is a {} value)", other.type_name()),
                };
                fail(&message)
            }
        }
    }
}

/// Seconds since the first call.
fn seconds() -> f64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    BEGAN.get_or_init(Instant::now).elapsed().as_secs_f64()
}

fn add_print(machine: &mut Machine) {
    let proto = compile(PRINT.as_bytes(), b"=print").unwrap_or_else(|error| fail(&String::from_utf8_lossy(&error.message)));
    let function = machine.load(&proto).unwrap_or_else(|| fail("no room for the code"));
    let write = machine.host_function(0);
    let [tostring, select, unpack] = ["tostring", "select", "unpack"].map(|name| {
        let name = machine.string(name.as_bytes());
        let globals = machine.globals();
        machine.raw_get(globals, name)
    });
    machine.start(function, &[write, tostring, select, unpack]);
    if machine.run(&mut NoHost, u64::MAX) == RunEnd::Done {
        let print = machine.results()[0];
        machine.set_global("print", print);
    }
}

fn fail(message: &str) -> ! {
    eprintln!("{message}");
    std::process::exit(1)
}
