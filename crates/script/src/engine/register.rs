//! Loading a library: its code runs once, and registers functions.

use std::sync::Arc;

use almandine_base::Output;
use almandine_io::clock;
use almandine_lua::{HostCall, LuaValue, Proto, RunEnd as MachineEnd, TableRef, Values, compile};
use almandine_resp::{Args, ProtocolVersion};

use super::api::{Api, Failed};
use super::commands::{Commands, LogLevel, Verdict};
use super::{Engine, SLICE, library, machine, shown};
use crate::ScriptError;
use crate::flags::ScriptFlags;
use crate::program::Function;
use crate::shebang::is_name;

/// What the code of a library may take.
const LOADING_NS_MAX: u64 = 500_000_000;
/// What libraries may leave in a machine, and as much again as they use, before they get a new one.
pub(crate) const LITTER_BYTES: usize = 1 << 20;

/// A function that a library has registered.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) name: Vec<u8>,
    pub(crate) callback: LuaValue,
    pub(crate) flags: ScriptFlags,
    pub(crate) description: Option<Vec<u8>>,
}

/// The functions of a library that is being loaded.
#[derive(Debug)]
pub(crate) struct Registrations {
    pub(crate) functions: Vec<Registered>,
    /// Keeps their code alive meanwhile.
    kept: TableRef,
}

/// No library calls commands while it is loaded.
struct NoCommands {
    end_ns: u64,
}

impl Commands for NoCommands {
    fn call(&mut self, _args: Args<'_>, _version: ProtocolVersion, out: &mut Output) -> bool {
        out.bytes.extend_from_slice(b"-ERR no command is called while a library is loaded\r\n");
        true
    }

    fn permits(&mut self, _args: Args<'_>) -> Option<bool> {
        None
    }

    fn replied_error(&mut self, _text: &[u8]) {}

    fn log(&mut self, level: LogLevel, line: String) {
        level.write(&line);
    }

    fn verdict(&mut self) -> Verdict {
        if clock::monotonic_ns() < self.end_ns { Verdict::GoOn } else { Verdict::End }
    }
}

/// The code of a library.
///
/// # Errors
/// When it is no Lua.
pub(crate) fn compile_library(code: &[u8]) -> Result<Arc<Proto>, ScriptError> {
    compile(code, b"@user_function").map_err(|error| ScriptError::quoting("ERR Error compiling function: ", &error.message, ""))
}

impl Engine {
    /// Makes a function of a library that keeps nothing ready to run here; false when its library cannot be loaded.
    pub fn bring(&mut self, function: &Function) -> bool {
        let number = function.library.number;
        if self.libraries.contains_key(&number) {
            return true;
        }
        let Ok(registered) = self.load_library(&function.library.proto) else { return false };
        self.adopt(number, &registered);
        true
    }

    /// What a library has registered is run by its number from now on.
    pub(crate) fn adopt(&mut self, number: u64, registered: &[Registered]) {
        self.libraries.insert(number, registered.iter().map(|registered| registered.callback).collect());
    }

    /// Forgets all libraries but these.
    pub(crate) fn retain(&mut self, is_there: impl Fn(u64) -> bool) {
        self.libraries.retain(|number, _| is_there(*number));
    }

    /// Whether most of what the machine takes is likely to be of no use any more.
    pub(crate) fn is_littered(&self) -> bool {
        self.machine.memory_used() > 2 * self.settled + LITTER_BYTES
    }

    /// Goes on with a machine that has what the functions of the libraries reach, and nothing else.
    pub(crate) fn tidy_up(&mut self) {
        let mut machine = machine(&self.options);
        let values: Vec<LuaValue> = self.libraries.values().flatten().copied().collect();
        let Some(taken) = Values::of(&mut machine).take_over(&self.machine, &values) else { return };
        self.libraries.values_mut().flatten().zip(taken).for_each(|(function, taken)| *function = taken);
        self.settled = machine.memory_used();
        self.machine = machine;
    }

    /// A run may use as much memory as is allowed beside what libraries keep now.
    pub(crate) fn limit_memory(&mut self) {
        Values::of(&mut self.machine).limit_memory(self.options.memory_limit);
    }

    /// Whether a function finds the same in each call.
    pub(crate) fn keeps_nothing(&mut self, function: LuaValue) -> bool {
        Values::of(&mut self.machine).keeps_nothing(function)
    }

    /// Runs the code of a library, and returns what it has registered.
    ///
    /// # Errors
    /// When it fails, takes too long or registers nothing.
    pub(crate) fn load_library(&mut self, proto: &Arc<Proto>) -> Result<Vec<Registered>, ScriptError> {
        let no_memory = || ScriptError::new("ERR Error registering functions: not enough memory");
        let function = self.machine.load(proto).ok_or_else(no_memory)?;
        let kept = Values::of(&mut self.machine).record(&[]);
        let LuaValue::Table(table) = kept else { return Err(no_memory()) };
        Values::of(&mut self.machine).root(kept);
        let mut registrations = Registrations { functions: Vec::new(), kept: table };
        let loading = library::of_loading(&mut self.machine);
        let globals = self.machine.globals();
        let usual = Values::of(&mut self.machine).field(globals, "redis");
        ["redis", "server"].iter().for_each(|name| Values::of(&mut self.machine).force_global(name, loading));
        self.machine.start(function, &[]);
        let mut commands = NoCommands { end_ns: clock::monotonic_ns() + LOADING_NS_MAX };
        let mut api = Api {
            commands: &mut commands,
            memory: &mut self.memory,
            chosen: ProtocolVersion::Resp2,
            registered: Some(&mut registrations),
            reply: None,
            has_replied: false,
            is_answered: false,
        };
        let ended = loop {
            match self.machine.run(&mut api, SLICE) {
                MachineEnd::Suspended if api.commands.verdict() == Verdict::GoOn => {}
                ended => break ended,
            }
        };
        ["redis", "server"].iter().for_each(|name| Values::of(&mut self.machine).force_global(name, usual));
        let failure = match ended {
            MachineEnd::Done if registrations.functions.is_empty() => Some(ScriptError::new("ERR No functions registered")),
            MachineEnd::Done => None,
            MachineEnd::Failed => Some(self.loading_error()),
            MachineEnd::Suspended | MachineEnd::Aborted => Some(ScriptError::new("ERR FUNCTION LOAD timeout")),
        };
        match failure {
            Some(error) => {
                self.machine.reset();
                Err(error)
            }
            None => {
                self.machine.stop();
                self.machine.keep();
                self.limit_memory();
                Ok(registrations.functions)
            }
        }
    }

    fn loading_error(&mut self) -> ScriptError {
        let error = self.machine.results().first().copied().unwrap_or_default();
        let text = match error {
            LuaValue::Table(_) => {
                let message = Values::of(&mut self.machine).field(error, "err");
                Values::of(&mut self.machine).text(message).unwrap_or_else(|| b"ERR unknown error".to_vec())
            }
            other => {
                let message = Values::of(&mut self.machine).text(other).unwrap_or_else(|| shown(other).into());
                [b"ERR ", &message[..]].concat()
            }
        };
        ScriptError::quoting("ERR Error registering functions: ", &text, "")
    }
}

impl Registrations {
    /// `redis.register_function`, with a name and a function, or with a table of named arguments.
    pub(crate) fn register(&mut self, call: &mut HostCall<'_>) -> Result<(), Failed> {
        let registered = match *call.arguments() {
            [LuaValue::Table(table)] => named(call, table)?,
            [_] => {
                return Err("calling redis.register_function with a single argument is only applicable to Lua table \
                            (representing named arguments).");
            }
            [name, callback] => {
                let name = text(call, name).ok_or("first argument to redis.register_function must be a string")?;
                if !matches!(callback, LuaValue::Function(_)) {
                    return Err("second argument to redis.register_function must be a function");
                }
                Registered { name, callback, flags: ScriptFlags::default(), description: None }
            }
            _ => return Err("wrong number of arguments to redis.register_function"),
        };
        if !is_name(&registered.name) {
            return Err(
                "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
            );
        }
        if self.functions.iter().any(|other| other.name.eq_ignore_ascii_case(&registered.name)) {
            return Err("Function already exists in the library");
        }
        let key = call.string(&registered.name);
        call.raw_set(self.kept, key, registered.callback);
        self.functions.push(registered);
        Ok(())
    }
}

fn named(call: &mut HostCall<'_>, table: TableRef) -> Result<Registered, Failed> {
    let (mut name, mut description, mut callback, mut flags) = (None, None, None, ScriptFlags::default());
    let mut key = LuaValue::Nil;
    while let Some((next, value)) = call.next(table, key) {
        key = next;
        let argument = match next {
            LuaValue::String(_) => text(call, next).unwrap_or_default().to_ascii_lowercase(),
            _ => return Err("named argument key given to redis.register_function is not a string"),
        };
        match &argument[..] {
            b"function_name" => {
                name = Some(text(call, value).ok_or("function_name argument given to redis.register_function must be a string")?);
            }
            b"description" => {
                let text = text(call, value).ok_or("description argument given to redis.register_function must be a string")?;
                description = Some(text);
            }
            b"callback" if matches!(value, LuaValue::Function(_)) => callback = Some(value),
            b"callback" => return Err("callback argument given to redis.register_function must be a function"),
            b"flags" => {
                let LuaValue::Table(list) = value else {
                    return Err("flags argument to redis.register_function must be a table representing function flags");
                };
                flags = flags_of(call, list)?;
            }
            _ => return Err("unknown argument given to redis.register_function"),
        }
    }
    let name = name.ok_or("redis.register_function must get a function name argument")?;
    let callback = callback.ok_or("redis.register_function must get a callback argument")?;
    Ok(Registered { name, callback, flags, description })
}

fn flags_of(call: &mut HostCall<'_>, list: TableRef) -> Result<ScriptFlags, Failed> {
    let mut flags = ScriptFlags::default();
    for index in 1.. {
        match call.raw_get(list, LuaValue::Number(f64::from(index))) {
            LuaValue::Nil => break,
            value => {
                let name = text(call, value).ok_or("unknown flag given")?;
                flags = flags.with(ScriptFlags::named(&name).ok_or("unknown flag given")?);
            }
        }
    }
    Ok(flags)
}

/// A string, or a number as one.
fn text(call: &HostCall<'_>, value: LuaValue) -> Option<Vec<u8>> {
    match value {
        LuaValue::String(text) => Some(call.heap().bytes(text).to_vec()),
        LuaValue::Number(number) => {
            let mut text = Vec::new();
            almandine_resp::number::write_double(&mut text, number);
            Some(text)
        }
        _ => None,
    }
}
