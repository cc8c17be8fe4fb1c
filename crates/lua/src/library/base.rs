//! Functions that are globals themselves.

use crate::number;
use crate::proto::c_string;
use crate::value::LuaValue;
use crate::vm::code::Native;
use crate::vm::context::{Action, Context, Continuation, Stepped};
use crate::vm::error::{Level, at_level, place_at};
use crate::vm::state::{Event, Fault, FrameKind};

pub(super) const FUNCTIONS: &[(&str, Native)] = &[
    ("assert", assert),
    ("collectgarbage", collectgarbage),
    ("error", error),
    ("gcinfo", gcinfo),
    ("getmetatable", getmetatable),
    ("ipairs", ipairs),
    ("next", next),
    ("pairs", pairs),
    ("pcall", pcall),
    ("rawequal", rawequal),
    ("rawget", rawget),
    ("rawset", rawset),
    ("select", select),
    ("setmetatable", setmetatable),
    ("tonumber", tonumber),
    ("tostring", tostring),
    ("type", type_),
    ("unpack", unpack),
    ("xpcall", xpcall),
];

pub(super) const DEPRECATED: &[(&str, Native)] = &[("getfenv", getfenv), ("setfenv", setfenv)];

/// Values that `unpack` returns at most.
const UNPACK_MAX: i64 = 8000;

fn assert(context: &mut Context<'_>) -> Stepped {
    if context.any(0)?.is_true() {
        return Ok(Action::Return(context.count));
    }
    if context.get(1).is_nil() {
        return Err(context.error("assertion failed!"));
    }
    context.string(1)?;
    let message = c_string(context.bytes(1)).to_vec();
    Err(crate::vm::error::error(context, &message))
}

fn collectgarbage(context: &mut Context<'_>) -> Stepped {
    const OPTIONS: [&[u8]; 7] = [b"stop", b"restart", b"collect", b"count", b"step", b"setpause", b"setstepmul"];
    let option = if context.get(0).is_nil() {
        b"collect".to_vec()
    } else {
        context.string(0)?;
        context.bytes(0).to_vec()
    };
    if !OPTIONS.contains(&&*option) {
        return Err(context.argument_error_bytes(0, &[b"invalid option '", c_string(&option), b"'"].concat()));
    }
    context.optional_short_integer(1, 0)?;
    let memory = &mut context.state.heap.memory;
    let result = match &*option {
        b"stop" => {
            memory.stop();
            LuaValue::Number(0.0)
        }
        b"restart" => {
            memory.restart();
            LuaValue::Number(0.0)
        }
        b"count" => LuaValue::Number(memory.used() as f64 / 1024.0),
        b"step" => LuaValue::Boolean(false),
        _ => LuaValue::Number(0.0),
    };
    if matches!(&*option, b"collect" | b"step") {
        // It happens when this function has returned.
        context.state.heap.memory.ask();
    }
    context.return_one(result)
}

fn gcinfo(context: &mut Context<'_>) -> Stepped {
    let kibibytes = context.state.heap.memory.used() / 1024;
    context.return_one(LuaValue::Number(kibibytes as f64))
}

fn error(context: &mut Context<'_>) -> Stepped {
    let level = context.optional_short_integer(1, 1)?;
    if level > 0 && matches!(context.get(0), LuaValue::String(_) | LuaValue::Number(_)) {
        context.string(0)?;
        let mut text = place_at(context.state, context.code, level as usize);
        text.extend_from_slice(context.bytes(0));
        return Err(Fault::Error(LuaValue::String(context.state.heap.string_owned(text))));
    }
    Err(Fault::Error(context.get(0)))
}

fn getmetatable(context: &mut Context<'_>) -> Stepped {
    let value = context.any(0)?;
    let Some(metatable) = context.state.metatable(value) else { return context.return_one(LuaValue::Nil) };
    let protected = context.state.method_of(metatable, Event::Metatable);
    context.return_one(if protected.is_nil() { LuaValue::Table(metatable) } else { protected })
}

fn setmetatable(context: &mut Context<'_>) -> Stepped {
    let table = context.table(0)?;
    let metatable = match context.get(1) {
        LuaValue::Nil if context.count > 1 => None,
        LuaValue::Table(metatable) => Some(metatable),
        _ => return Err(context.argument_error(1, "nil or table expected")),
    };
    if !context.state.metamethod(LuaValue::Table(table), Event::Metatable).is_nil() {
        return Err(context.error("cannot change a protected metatable"));
    }
    if context.state.heap.is_read_only(table) {
        return Err(crate::vm::error::run_error(context.state, context.code, b"Attempt to modify a readonly table"));
    }
    context.state.heap.table_mut(table).set_metatable(metatable);
    context.return_one(LuaValue::Table(table))
}

fn ipairs(context: &mut Context<'_>) -> Stepped {
    let table = context.table(0)?;
    let iterator = context.state.ipairs_iterator;
    context.state.push(iterator);
    context.state.push(LuaValue::Table(table));
    context.state.push(LuaValue::Number(0.0));
    Ok(Action::Return(3))
}

/// The iterator of `ipairs`.
pub(super) fn ipairs_next(context: &mut Context<'_>) -> Stepped {
    let index = context.short_integer(1)?.wrapping_add(1);
    let table = context.table(0)?;
    let value = context.state.heap.get(table, LuaValue::Number(index as f64));
    if value.is_nil() {
        return context.return_one(LuaValue::Nil);
    }
    context.state.push(LuaValue::Number(index as f64));
    context.state.push(value);
    Ok(Action::Return(2))
}

fn next(context: &mut Context<'_>) -> Stepped {
    let table = context.table(0)?;
    let key = context.get(1);
    let key = context.state.heap.key(key);
    match context.state.heap.table(table).next(key) {
        Some(Some((key, value))) => {
            context.state.push(key);
            context.state.push(value);
            Ok(Action::Return(2))
        }
        Some(None) => context.return_one(LuaValue::Nil),
        None => Err(crate::vm::error::run_error(context.state, context.code, b"invalid key to 'next'")),
    }
}

fn pairs(context: &mut Context<'_>) -> Stepped {
    let table = context.table(0)?;
    let next = context.state.next_function;
    context.state.push(next);
    context.state.push(LuaValue::Table(table));
    context.state.push(LuaValue::Nil);
    Ok(Action::Return(3))
}

fn pcall(context: &mut Context<'_>) -> Stepped {
    if context.count == 0 && context.state.errors.tables {
        // Redis' own `pcall` calls the value that it was to return.
        let message = context.new_string(b"attempt to call a boolean value");
        context.state.push(LuaValue::Boolean(false));
        context.state.push(message);
        return Ok(Action::Return(2));
    }
    context.any(0)?;
    context.state.frame_mut().kind = FrameKind::Protected;
    Ok(Action::Call(context.count - 1))
}

fn xpcall(context: &mut Context<'_>) -> Stepped {
    if context.count < 2 {
        return Err(context.argument_error(1, "value expected"));
    }
    context.state.at.top = context.base + 2;
    let function = context.get(0);
    context.state.push(function);
    context.state.frame_mut().kind = FrameKind::Handled;
    Ok(Action::Call(0))
}

fn rawequal(context: &mut Context<'_>) -> Stepped {
    let (left, right) = (context.any(0)?, context.any(1)?);
    let equal = context.state.heap.equals(left, right);
    context.return_one(LuaValue::Boolean(equal))
}

fn rawget(context: &mut Context<'_>) -> Stepped {
    let table = context.table(0)?;
    let key = context.any(1)?;
    let value = context.state.heap.get(table, key);
    context.return_one(value)
}

fn rawset(context: &mut Context<'_>) -> Stepped {
    let table = context.table(0)?;
    let key = context.any(1)?;
    let value = context.any(2)?;
    context.raw_set(table, key, value)?;
    context.return_one(LuaValue::Table(table))
}

fn select(context: &mut Context<'_>) -> Stepped {
    if matches!(context.get(0), LuaValue::String(_)) && context.bytes(0).first() == Some(&b'#') {
        return context.return_one(LuaValue::Number((context.count - 1) as f64));
    }
    let index = context.short_integer(0)?;
    let count = context.count as i64;
    let first = if index < 0 { count + index } else { index.min(count) };
    if first < 1 {
        return Err(context.argument_error(0, "index out of range"));
    }
    Ok(Action::Return((count - first) as usize))
}

fn tonumber(context: &mut Context<'_>) -> Stepped {
    let base = context.optional_short_integer(1, 10)?;
    let value = if base == 10 {
        let value = context.any(0)?;
        context.to_number(value)
    } else {
        context.string(0)?;
        if !(2..=36).contains(&base) {
            return Err(context.argument_error(1, "base out of range"));
        }
        number::parse_in_base(context.bytes(0), base as u32)
    };
    context.return_one(value.map_or(LuaValue::Nil, LuaValue::Number))
}

/// Returns the string that a metamethod made.
#[derive(Debug)]
struct Shown;

impl Continuation for Shown {
    fn resume(self: Box<Self>, context: &mut Context<'_>, first: usize) -> Stepped {
        let value = context.take_result(first);
        context.return_one(value)
    }

    fn mark(&self, _mark: &mut dyn FnMut(LuaValue)) {}
}

fn tostring(context: &mut Context<'_>) -> Stepped {
    let value = context.any(0)?;
    let method = context.state.metamethod(value, Event::ToString);
    if !method.is_nil() {
        context.state.push(method);
        context.state.push(value);
        return context.call_then(1, Box::new(Shown));
    }
    match value {
        LuaValue::String(_) => context.return_one(value),
        _ => {
            let text = show(value);
            context.return_bytes(&text)
        }
    }
}

/// A value that is no string, as `tostring` shows it.
pub(crate) fn show(value: LuaValue) -> Vec<u8> {
    // Objects have no address: their index stands for it.
    let (kind, index) = match value {
        LuaValue::Nil => return b"nil".to_vec(),
        LuaValue::Boolean(value) => return value.to_string().into_bytes(),
        LuaValue::Number(number) => {
            let mut text = Vec::new();
            number::write(&mut text, number);
            return text;
        }
        LuaValue::String(_) => return Vec::new(),
        LuaValue::Light(index) => {
            return if index == 0 { b"userdata: (nil)".to_vec() } else { format!("userdata: {index:#x}").into_bytes() };
        }
        LuaValue::Table(table) => ("table", table.0),
        LuaValue::Function(closure) => ("function", closure.0),
        LuaValue::Native(native) => ("function: builtin", native.0),
        LuaValue::Thread(thread) => ("thread", thread.0),
    };
    format!("{kind}: 0x{:012x}", 0x5500_0000_0000_u64 + u64::from(index) * 64).into_bytes()
}

fn type_(context: &mut Context<'_>) -> Stepped {
    let name = context.any(0)?.type_name();
    context.return_bytes(name.as_bytes())
}

fn unpack(context: &mut Context<'_>) -> Stepped {
    let table = context.table(0)?;
    let first = context.optional_short_integer(1, 1)?;
    let last = if context.get(2).is_nil() { context.state.heap.table(table).length() as i64 } else { context.short_integer(2)? };
    if first > last {
        return context.return_none();
    }
    let count = last.checked_sub(first).and_then(|count| count.checked_add(1)).filter(|count| *count < UNPACK_MAX);
    let Some(count) = count else { return Err(context.error("too many results to unpack")) };
    context.charge(count as usize / 32);
    for index in first..=last {
        let value = context.state.heap.get(table, LuaValue::Number(index as f64));
        context.state.push(value);
    }
    Ok(Action::Return(count as usize))
}

/// The function that `getfenv` and `setfenv` are asked about; `None` for that of the main thread.
fn target(context: &mut Context<'_>) -> Result<Option<LuaValue>, Fault> {
    let value = context.get(0);
    if value.is_function() {
        return Ok(Some(value));
    }
    let level = context.optional_short_integer(0, 1)?;
    if level < 0 {
        return Err(context.argument_error(0, "level must be non-negative"));
    }
    if level == 0 {
        return Ok(None);
    }
    match at_level(context.state, level as usize) {
        Some(Level::Frame(index)) => Ok(Some(context.state.at.stack[context.state.at.frames[index].function as usize])),
        Some(Level::Lost) => Err(context.error(&format!("no function environment for tail call at level {level}"))),
        None => Err(context.argument_error(0, "invalid level")),
    }
}

fn getfenv(context: &mut Context<'_>) -> Stepped {
    let environment = match target(context)? {
        Some(LuaValue::Function(closure)) => context.state.heap.closure(closure).environment,
        _ => context.state.globals,
    };
    context.return_one(LuaValue::Table(environment))
}

fn setfenv(context: &mut Context<'_>) -> Stepped {
    let table = context.table(1)?;
    match target(context)? {
        Some(LuaValue::Function(closure)) => {
            context.state.heap.set_closure_environment(closure, table);
            context.return_one(LuaValue::Function(closure))
        }
        _ => Err(context.error("'setfenv' cannot change environment of given object")),
    }
}
