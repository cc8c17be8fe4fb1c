//! Scripts beside redis-server: one program that evaluates its arguments, run there by EVAL and here by a machine.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use almandine_lua::{LuaValue, Machine, MachineOptions, NoHost, Proto, RunEnd, Values, compile};
use almandine_testkit::{Redis, Value, client};

/// What Redis does with globals that there are not.
const GLOBALS: &str = "local error, tostring = error, tostring
setmetatable(_G, {__index = function(_, name)
  error(\"Script attempted to access nonexistent global variable '\" .. tostring(name) .. \"'\", 2)
end})";

/// Shows what each of its arguments, which are texts of functions, returns or raises; entries of tables in the order of their
/// texts.
///
/// Redis' scripts have no `print` and no new globals, so everything is local.
const PROGRAM: &str = "
local show
local function text(s)
  return \"'\" .. string.gsub(s, '[^%w%p ]', function(c) return string.format('\\\\%03d', string.byte(c)) end) .. \"'\"
end
function show(v, depth)
  local kind = type(v)
  if kind == 'string' then return text(v) end
  if kind == 'number' then return v ~= v and 'nan' or string.format('%.17g', v) end
  if kind == 'table' then
    if depth > 20 then return '...' end
    local entries = {}
    for k, w in pairs(v) do entries[#entries + 1] = show(k, depth + 1) .. '=' .. show(w, depth + 1) end
    table.sort(entries)
    return '{' .. table.concat(entries, ',') .. '}'
  end
  if kind == 'function' or kind == 'thread' then return kind end
  return tostring(v)
end
local function line(...)
  local texts = {}
  for i = 1, select('#', ...) do texts[i] = show((select(i, ...)), 0) end
  return table.concat(texts, ' ')
end
local out = {}
for i, source in ipairs(ARGV) do
  local f, message = loadstring(source, '=p')
  out[i] = f and line(pcall(f)) or 'syntax: ' .. message
end
return out";

/// redis-server and a machine with the same program.
pub(crate) struct Oracle {
    _server: Redis,
    connection: UnixStream,
    machine: Machine,
    /// The list of the program's arguments.
    given: LuaValue,
    program: std::sync::Arc<Proto>,
    /// Jumps and calls after which a run is suspended.
    pub(crate) slice: u64,
}

impl Oracle {
    pub(crate) fn start() -> Self {
        let server = Redis::start(&["--save", "", "--lua-time-limit", "0", "--logfile", "/dev/null"]);
        // The socket is there a moment before it takes connections.
        let socket = server.directory().join("redis.sock");
        let connection = loop {
            match UnixStream::connect(&socket) {
                Ok(connection) => break connection,
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let mut machine = Machine::new(&MachineOptions { error_tables: true, ..MachineOptions::default() });
        let globals = compile(GLOBALS.as_bytes(), b"=globals").expect("it compiles");
        let globals = machine.load(&globals).expect("room");
        machine.start(globals, &[]);
        assert_eq!(machine.run(&mut NoHost, u64::MAX), RunEnd::Done);
        machine.stop();
        machine.freeze();
        let given = Values::of(&mut machine).list_for_runs("ARGV");
        let program = compile(PROGRAM.as_bytes(), b"@user_script").expect("the program compiles");
        Self { _server: server, connection, machine, given, program, slice: u64::MAX }
    }

    /// What redis-server shows for each text.
    pub(crate) fn expected(&mut self, sources: &[String]) -> Vec<String> {
        let count = "0".to_owned();
        let mut command = vec!["EVAL".as_bytes(), PROGRAM.as_bytes(), count.as_bytes()];
        command.extend(sources.iter().map(String::as_bytes));
        let mut bytes = Vec::new();
        client::encode(&command, &mut bytes);
        self.connection.write_all(&bytes).expect("redis-server reads");
        let mut input = Vec::new();
        let reply = loop {
            let mut chunk = [0; 1 << 16];
            let length = self.connection.read(&mut chunk).expect("redis-server answers");
            assert!(length > 0, "redis-server ended");
            input.extend_from_slice(&chunk[..length]);
            if let Some((value, _)) = client::decode(&input).expect("a reply") {
                break value;
            }
        };
        let Value::Array(lines) = reply else { panic!("{reply:?}") };
        let text =
            |line| if let Value::Bulk(text) = line { String::from_utf8_lossy(&text).into_owned() } else { panic!("{line:?}") };
        lines.into_iter().map(text).collect()
    }

    /// What the machine shows.
    pub(crate) fn actual(&mut self, sources: &[String]) -> Vec<String> {
        let machine = &mut self.machine;
        let arguments: Vec<_> = sources.iter().map(|source| machine.string(source.as_bytes())).collect();
        machine.fill(self.given, &arguments);
        let function = machine.load(&self.program).expect("room for the program");
        machine.start(function, &[]);
        let end = loop {
            match machine.run(&mut NoHost, self.slice) {
                RunEnd::Suspended => {}
                end => break end,
            }
        };
        let result = machine.results()[0];
        if end != RunEnd::Done {
            let almandine_lua::LuaValue::String(message) = result else { panic!("{end:?} {result:?}") };
            panic!("{end:?} {}", String::from_utf8_lossy(machine.heap().bytes(message)));
        }
        let mut lines = Vec::new();
        for index in 1..=sources.len() {
            match machine.raw_get(result, almandine_lua::LuaValue::Number(index as f64)) {
                almandine_lua::LuaValue::String(line) => {
                    lines.push(String::from_utf8_lossy(machine.heap().bytes(line)).into_owned());
                }
                other => panic!("{other:?}"),
            }
        }
        machine.reset();
        lines
    }
}
