//! Errors with their places, in the words of Lua 5.1.

use super::code::Code;
use super::context::Context;
use super::names;
use super::state::{Fault, Frame, FrameKind, State};
use crate::heap::Refused;
use crate::proto::{NAME_MAX, chunk_name};
use crate::value::LuaValue;

/// A function that is open.
pub(crate) enum Level {
    /// By its place among the frames.
    Frame(usize),
    /// It has gone by a tail call.
    Lost,
}

/// The function at a level, where 0 is the one that runs.
pub(crate) fn at_level(state: &State, level: usize) -> Option<Level> {
    let mut rest = level as i64;
    for index in (0..state.at.frames.len()).rev() {
        if rest == 0 {
            return Some(Level::Frame(index));
        }
        let frame = &state.at.frames[index];
        rest -= 1;
        if frame.kind == FrameKind::Lua {
            rest -= i64::from(frame.tail_calls);
        }
        if rest < 0 {
            return Some(Level::Lost);
        }
    }
    None
}

/// `chunk:line: ` of a frame; nothing for native ones.
fn place(code: &Code, frame: &Frame) -> Vec<u8> {
    if frame.kind != FrameKind::Lua {
        return Vec::new();
    }
    let mut text = chunk_name(&code.get(frame.proto).proto.source, NAME_MAX);
    text.extend(format!(":{}: ", line_of(code, frame)).bytes());
    text
}

/// The line at which a function of Lua is.
pub(crate) fn line_of(code: &Code, frame: &Frame) -> u32 {
    code.get(frame.proto).proto.lines[(frame.pc as usize).saturating_sub(1)]
}

/// Notes where the run is, for the program that embeds the machine.
#[cold]
pub(crate) fn note_place(state: &mut State, code: &Code) {
    let frame = state.at.frames.iter().rev().find(|frame| frame.kind == FrameKind::Lua);
    state.errors.place = frame.map(|frame| (frame.proto, line_of(code, frame)));
}

/// The place of the function at a level.
pub(crate) fn place_at(state: &State, code: &Code, level: usize) -> Vec<u8> {
    match at_level(state, level) {
        Some(Level::Frame(index)) => place(code, &state.at.frames[index]),
        _ => Vec::new(),
    }
}

/// An error of the function that runs.
pub(crate) fn run_error(state: &mut State, code: &Code, message: &[u8]) -> Fault {
    let mut text = place_at(state, code, 0);
    text.extend_from_slice(message);
    Fault::Error(LuaValue::String(state.heap.string_owned(text)))
}

/// An error of a native function, with the place of its caller.
pub(crate) fn error(context: &mut Context<'_>, message: &[u8]) -> Fault {
    let mut text = place_at(context.state, context.code, 1);
    text.extend_from_slice(message);
    Fault::Error(LuaValue::String(context.state.heap.string_owned(text)))
}

/// An error about the argument of an index, from 0.
pub(crate) fn argument_error(context: &mut Context<'_>, index: usize, message: &[u8]) -> Fault {
    numbered_argument_error(context, index + 1, message)
}

/// An error about the argument of a number, where 0 stands for none of them.
pub(crate) fn numbered_argument_error(context: &mut Context<'_>, number: usize, message: &[u8]) -> Fault {
    let frames = &context.state.at.frames;
    let caller = frames.len().checked_sub(2).map(|caller| &frames[caller]);
    let caller = caller.filter(|caller| caller.kind == FrameKind::Lua);
    let name = caller.and_then(|caller| names::of_called(&context.code.get(caller.proto).proto, caller.pc as usize));
    let mut number = number;
    let mut text = Vec::new();
    let (kind, name) = name.unwrap_or(("", b"?"));
    if kind == "method" && number > 0 {
        number -= 1;
        if number == 0 {
            text.extend_from_slice(b"calling '");
            text.extend_from_slice(name);
            text.extend_from_slice(b"' on bad self (");
            text.extend_from_slice(message);
            text.push(b')');
            return error(context, &text);
        }
    }
    text.extend(format!("bad argument #{number} to '").bytes());
    text.extend_from_slice(name);
    text.extend_from_slice(b"' (");
    text.extend_from_slice(message);
    text.push(b')');
    error(context, &text)
}

/// An error of an argument whose type the caller names.
pub(crate) fn type_error_named(context: &mut Context<'_>, index: usize, expected: &str, got: &str) -> Fault {
    argument_error(context, index, format!("{expected} expected, got {got}").as_bytes())
}

pub(crate) fn type_error(context: &mut Context<'_>, index: usize, expected: &str) -> Fault {
    let got = if index < context.count { context.get(index).type_name() } else { "no value" };
    type_error_named(context, index, expected, got)
}

/// The message of a table that did not take a value.
pub(crate) fn refusal(refused: &Refused) -> &'static str {
    match refused {
        Refused::ReadOnly => "Attempt to modify a readonly table",
        Refused::NilKey => "table index is nil",
        Refused::NanKey => "table index is NaN",
        Refused::TooLarge => "table overflow",
    }
}

/// The same for native functions.
pub(crate) fn refused(context: &mut Context<'_>, why: &Refused) -> Fault {
    // The table, not the library, refuses: the place is that of the running function, which is native and has none.
    run_error(context.state, context.code, refusal(why).as_bytes())
}

/// `attempt to … local 'x' (a nil value)`; `register` is where the running function has the value.
pub(crate) fn operand_error(state: &mut State, code: &Code, doing: &str, value: LuaValue, register: Option<u8>) -> Fault {
    let frame = state.frame();
    let mut text = format!("attempt to {doing} ").into_bytes();
    if frame.kind == FrameKind::Lua
        && let Some(register) = register
        && let Some((kind, name)) =
            names::of_register(&code.get(frame.proto).proto, register, (frame.pc as usize).saturating_sub(1))
    {
        text.extend(format!("{kind} '").bytes());
        text.extend_from_slice(name);
        text.extend(format!("' (a {} value)", value.type_name()).bytes());
    } else {
        text.extend(format!("a {} value", value.type_name()).bytes());
    }
    run_error(state, code, &text)
}

pub(crate) fn compare_error(state: &mut State, code: &Code, left: LuaValue, right: LuaValue) -> Fault {
    let (left, right) = (left.type_name(), right.type_name());
    // PUC's Lua compares the third letters of the names, so that it takes a string and a thread for the same.
    let text = if left.as_bytes()[2] == right.as_bytes()[2] {
        format!("attempt to compare two {left} values")
    } else {
        format!("attempt to compare {left} with {right}")
    };
    run_error(state, code, text.as_bytes())
}
