//! The functions of the tables `redis` and `server`.

use almandine_base::Output;
use almandine_lua::{Host, HostCall, HostOutcome, LuaValue};
use almandine_resp::{ProtocolVersion, number};

use super::commands::{Commands, LogLevel};
use super::library::Function;
use super::register::Registrations;
use super::sole::{CallMemory, is_returned_as_it_is};
use super::to_lua;
use crate::program::Sha;

/// Bytes of a reply for which the memory is kept.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// What one run may reach.
pub(crate) struct Api<'a> {
    pub(crate) commands: &'a mut dyn Commands,
    pub(crate) memory: &'a mut CallMemory,
    /// The protocol in which the script gets replies.
    pub(crate) chosen: ProtocolVersion,
    /// The functions of a library that is being loaded.
    pub(crate) registered: Option<&'a mut Registrations>,
    /// Where the script's own reply goes, if a command's reply may be it as it is.
    pub(crate) reply: Option<&'a mut Output>,
    /// It has got there.
    pub(crate) has_replied: bool,
    /// The first command has run already: its reply is in the memory.
    pub(crate) is_answered: bool,
}

/// What a function of the table fails with.
pub(crate) type Failed = &'static str;

impl Host for Api<'_> {
    fn call(&mut self, function: u32, call: &mut HostCall<'_>) -> HostOutcome {
        let Some(function) = Function::ALL.get(function as usize) else { return HostOutcome::Abort };
        let done = match function {
            Function::Call => return self.command(call, true),
            Function::Pcall => return self.command(call, false),
            Function::NoGlobal => return no_global(call),
            Function::ErrorReply => {
                error_reply(call);
                Ok(())
            }
            Function::StatusReply => {
                status_reply(call);
                Ok(())
            }
            Function::Sha1Hex => sha1_hex(call),
            Function::Log => self.log(call),
            Function::SetResp => self.set_resp(call),
            Function::SetRepl => set_repl(call),
            Function::ReplicateCommands => {
                call.push(LuaValue::Boolean(true));
                Ok(())
            }
            Function::Breakpoint => {
                // There is no debugger that would stop here.
                call.push(LuaValue::Boolean(false));
                Ok(())
            }
            Function::Debug => Ok(()),
            Function::AclCheckCommand => self.acl_check_command(call),
            Function::Register => match &mut self.registered {
                Some(registered) => registered.register(call),
                None => Err("redis.register_function can only be called on FUNCTION LOAD command"),
            },
        };
        match done {
            Ok(()) => HostOutcome::Return,
            Err(text) => raise(call, text),
        }
    }
}

fn raise(call: &mut HostCall<'_>, text: &str) -> HostOutcome {
    HostOutcome::Error(to_lua::error(call, format!("ERR {text}").as_bytes(), false))
}

impl Api<'_> {
    /// `redis.call`, whose errors are raised, and `redis.pcall`, whose errors are returned.
    fn command(&mut self, call: &mut HostCall<'_>, raises: bool) -> HostOutcome {
        let failed = |call: &mut HostCall<'_>, text: &str| {
            let error = to_lua::error(call, format!("ERR {text}").as_bytes(), false);
            if raises {
                return HostOutcome::Error(error);
            }
            call.push(error);
            HostOutcome::Return
        };
        if call.arguments().is_empty() {
            return failed(call, "Please specify at least one argument for this redis lib call");
        }
        let is_answered = std::mem::take(&mut self.is_answered);
        if !is_answered && !self.gather(call) {
            return failed(call, "Lua redis lib command arguments must be strings or integers");
        }
        let Self { commands, memory, chosen, reply, has_replied, .. } = self;
        let CallMemory { args, out, .. } = &mut **memory;
        if !is_answered {
            out.clear();
        }
        match reply {
            _ if is_answered => {}
            Some(reply) if *chosen == ProtocolVersion::Resp2 && call.is_last() => {
                let (mark, at) = (reply.mark(), reply.bytes.len());
                if !commands.call(args.as_args(), *chosen, reply) {
                    return HostOutcome::Suspend;
                }
                if is_returned_as_it_is(reply.bytes.get(at)) {
                    *has_replied = true;
                    return HostOutcome::Return;
                }
                reply.move_to(mark, out);
            }
            _ if !commands.call(args.as_args(), *chosen, out) => return HostOutcome::Suspend,
            _ => {}
        }
        out.flatten();
        if !call.allows(out.bytes.len()) {
            return HostOutcome::Error(call.string(b"not enough memory"));
        }
        let is_error = out.bytes.first() == Some(&b'-');
        let value = to_lua::value(call, &mut &out.bytes[..]);
        if out.bytes.capacity() > KEPT_BYTES_MAX {
            *out = Output::new();
        }
        if raises && is_error {
            return HostOutcome::Error(value);
        }
        call.push(value);
        HostOutcome::Return
    }

    /// Takes the arguments of a command over; false when one of them is no argument.
    fn gather(&mut self, call: &HostCall<'_>) -> bool {
        let CallMemory { args, number, .. } = &mut *self.memory;
        args.clear();
        for argument in call.arguments() {
            match argument {
                LuaValue::String(text) => args.push(call.heap().bytes(*text)),
                LuaValue::Number(value) => {
                    number.clear();
                    // Zero has no sign here, as in integers.
                    number::write_double(number, *value + 0.0);
                    args.push(number);
                }
                _ => return false,
            }
        }
        true
    }

    fn set_resp(&mut self, call: &mut HostCall<'_>) -> Result<(), Failed> {
        let [version] = call.arguments() else { return Err("redis.setresp() requires one argument.") };
        self.chosen = match number_of(call, *version) {
            Some(2.0) => ProtocolVersion::Resp2,
            Some(3.0) => ProtocolVersion::Resp3,
            _ => return Err("RESP version must be 2 or 3."),
        };
        Ok(())
    }

    fn log(&mut self, call: &mut HostCall<'_>) -> Result<(), Failed> {
        let [level, words @ ..] = call.arguments() else { return Err("redis.log() requires two arguments or more.") };
        if words.is_empty() {
            return Err("redis.log() requires two arguments or more.");
        }
        let level = number_of(call, *level).ok_or("First argument must be a number (log level).")?;
        let level = LogLevel::ALL.get(level as usize).filter(|_| level >= 0.0).ok_or("Invalid log level.")?.1;
        let mut text = String::new();
        for word in words {
            if !text.is_empty() {
                text.push(' ');
            }
            match word {
                LuaValue::String(word) => text.push_str(&String::from_utf8_lossy(call.heap().bytes(*word))),
                LuaValue::Number(number) => text.push_str(&number.to_string()),
                _ => {}
            }
        }
        self.commands.log(level, text);
        Ok(())
    }

    fn acl_check_command(&mut self, call: &mut HostCall<'_>) -> Result<(), Failed> {
        if call.arguments().is_empty() {
            return Err("Please specify at least one argument for this redis lib call");
        }
        if !self.gather(call) {
            return Err("redis.acl_check_cmd() command arguments must be strings or integers");
        }
        let permitted = self.commands.permits(self.memory.args.as_args());
        call.push(LuaValue::Boolean(permitted.ok_or("Invalid command passed to redis.acl_check_cmd()")?));
        Ok(())
    }
}

/// The only argument, if it is a string.
fn text<'c>(call: &'c HostCall<'_>) -> Option<&'c [u8]> {
    match call.arguments() {
        [LuaValue::String(text)] => Some(call.heap().bytes(*text)),
        _ => None,
    }
}

fn number_of(call: &HostCall<'_>, value: LuaValue) -> Option<f64> {
    match value {
        LuaValue::Number(number) => Some(number),
        LuaValue::String(text) => std::str::from_utf8(call.heap().bytes(text)).ok()?.trim().parse().ok(),
        _ => None,
    }
}

/// A table that is replied as an error: a code and a text. A word alone has the code ERR.
fn error_reply(call: &mut HostCall<'_>) {
    let line = match text(call) {
        None => b"ERR wrong number or type of arguments".to_vec(),
        Some(text) => {
            let text = text.strip_prefix(b"-").unwrap_or(text);
            let (code, rest) = match text.iter().position(|byte| *byte == b' ') {
                Some(at) => (&text[..at], &text[at + 1..]),
                None => (&b"ERR"[..], text),
            };
            let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
            let from = rest.iter().take_while(|byte| is_end(byte)).count();
            let to = rest.len() - rest[from..].iter().rev().take_while(|byte| is_end(byte)).count();
            [code, b" ", &rest[from..to]].concat()
        }
    };
    let error = to_lua::error(call, &line, false);
    call.push(error);
}

fn status_reply(call: &mut HostCall<'_>) {
    let table = match text(call).map(<[u8]>::to_vec) {
        None => to_lua::error(call, b"ERR wrong number or type of arguments", false),
        Some(status) => {
            let table = call.table(0, 1);
            let (key, status) = (call.string(b"ok"), call.string(&status));
            call.raw_set(table, key, status);
            LuaValue::Table(table)
        }
    };
    call.push(table);
}

fn sha1_hex(call: &mut HostCall<'_>) -> Result<(), Failed> {
    let hex = match call.arguments() {
        [LuaValue::String(text)] => Sha::of(call.heap().bytes(*text)).hex(),
        [LuaValue::Number(value)] => {
            let mut text = Vec::new();
            number::write_double(&mut text, *value);
            Sha::of(&text).hex()
        }
        [_] => Sha::of(b"").hex(),
        _ => return Err("wrong number of arguments"),
    };
    let hex = call.string(&hex);
    call.push(hex);
    Ok(())
}

/// Where the effects go. There is no log yet that could be left out.
fn set_repl(call: &mut HostCall<'_>) -> Result<(), Failed> {
    let [destinations] = call.arguments() else { return Err("redis.set_repl() requires one argument.") };
    match number_of(call, *destinations) {
        Some(flags) if (0.0..=3.0).contains(&flags) => Ok(()),
        _ => Err("Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE."),
    }
}

/// A script has asked for a global variable that there is not.
fn no_global(call: &mut HostCall<'_>) -> HostOutcome {
    let name = match call.arguments() {
        [_, LuaValue::String(name), ..] => call.heap().bytes(*name).to_vec(),
        [_, LuaValue::Number(number), ..] => number.to_string().into_bytes(),
        _ => b"?".to_vec(),
    };
    let text = [&call.place()[..], b"Script attempted to access nonexistent global variable '", &name, b"'"].concat();
    HostOutcome::Error(call.string(&text))
}
