//! The tables `redis` and `server`, and what else scripts find among the globals.

use almandine_lua::{LuaValue, Machine, Values};

use super::commands::LogLevel;

/// A function of the host, by its number in the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Function {
    Call,
    Pcall,
    ErrorReply,
    StatusReply,
    Sha1Hex,
    Log,
    SetResp,
    SetRepl,
    ReplicateCommands,
    Breakpoint,
    Debug,
    AclCheckCommand,
    NoGlobal,
    Register,
}

impl Function {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Self; 14] = [
        Self::Call,
        Self::Pcall,
        Self::ErrorReply,
        Self::StatusReply,
        Self::Sha1Hex,
        Self::Log,
        Self::SetResp,
        Self::SetRepl,
        Self::ReplicateCommands,
        Self::Breakpoint,
        Self::Debug,
        Self::AclCheckCommand,
        Self::NoGlobal,
        Self::Register,
    ];
}

const OF_SCRIPTS: [(&str, Function); 12] = [
    ("call", Function::Call),
    ("pcall", Function::Pcall),
    ("error_reply", Function::ErrorReply),
    ("status_reply", Function::StatusReply),
    ("sha1hex", Function::Sha1Hex),
    ("log", Function::Log),
    ("setresp", Function::SetResp),
    ("set_repl", Function::SetRepl),
    ("replicate_commands", Function::ReplicateCommands),
    ("breakpoint", Function::Breakpoint),
    ("debug", Function::Debug),
    ("acl_check_cmd", Function::AclCheckCommand),
];

/// Where the effects of a script go, as `redis.set_repl` names it.
const DESTINATIONS: [(&str, f64); 5] =
    [("REPL_NONE", 0.0), ("REPL_AOF", 1.0), ("REPL_SLAVE", 2.0), ("REPL_REPLICA", 2.0), ("REPL_ALL", 3.0)];

/// The version of Redis whose behaviour scripts may expect, as a text and as a number.
const VERSION: (&str, f64) = ("7.4.0", 0x0007_0400 as f64);

/// The table that a library finds while it is loaded, in place of the one that calls commands.
pub(crate) fn of_loading(machine: &mut Machine) -> LuaValue {
    let mut fields = vec![
        ("register_function", machine.host_function(Function::Register as u32)),
        ("log", machine.host_function(Function::Log as u32)),
    ];
    for (number, (name, _)) in LogLevel::ALL.iter().enumerate() {
        fields.push((*name, LuaValue::Number(number as f64)));
    }
    fields.push(("REDIS_VERSION", machine.string(VERSION.0.as_bytes())));
    fields.push(("REDIS_VERSION_NUM", LuaValue::Number(VERSION.1)));
    let table = Values::of(machine).record(&fields);
    let unknown = machine.host_function(Function::NoGlobal as u32);
    let metatable = Values::of(machine).record(&[("__index", unknown)]);
    Values::of(machine).set_metatable(table, metatable);
    Values::of(machine).freeze_table(table);
    table
}

/// Puts what scripts may call into a machine, and makes all of it read-only.
pub(crate) fn install(machine: &mut Machine) {
    let mut fields: Vec<(&str, LuaValue)> = Vec::new();
    for (name, function) in OF_SCRIPTS {
        let function = machine.host_function(function as u32);
        fields.push((name, function));
    }
    for (number, (name, _)) in LogLevel::ALL.iter().enumerate() {
        fields.push((*name, LuaValue::Number(number as f64)));
    }
    fields.extend(DESTINATIONS.map(|(name, number)| (name, LuaValue::Number(number))));
    fields.push(("REDIS_VERSION", machine.string(VERSION.0.as_bytes())));
    fields.push(("REDIS_VERSION_NUM", LuaValue::Number(VERSION.1)));
    let table = Values::of(machine).record(&fields);
    machine.set_global("redis", table);
    machine.set_global("server", table);
    let unknown = machine.host_function(Function::NoGlobal as u32);
    let metatable = Values::of(machine).record(&[("__index", unknown)]);
    let globals = machine.globals();
    Values::of(machine).set_metatable(globals, metatable);
    machine.freeze();
}
