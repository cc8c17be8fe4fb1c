//! What is made of an error that `pcall` or `load` catches.
//!
//! Where Redis' own scripts run (`Errors::tables`), an error may be a table with its text in the field `err`, and what nothing
//! handles gets such a table where it is raised.

use super::call::call;
use super::code::Code;
use super::context::{Action, Context, Continuation, Stepped};
use super::error::{operand_error, run_error};
use super::host::Host;
use super::meta::Found;
use super::run::{fail, unwind};
use super::state::{Fault, Frame, FrameKind, State, Then};
use crate::library::show;
use crate::value::{LuaValue, ThreadRef};

/// `pcall` gives the text of an error that is a table with one. Metamethods are asked for it, outside of its protection.
#[cold]
pub(super) fn fail_with_text(
    state: &mut State,
    code: &Code,
    host: &mut dyn Host,
    base: usize,
    error: LuaValue,
) -> Result<bool, Fault> {
    let name = LuaValue::String(state.heap.string(b"err"));
    let failed = match state.look_up(error, name) {
        Found::Value(text) => {
            let (results, count) = with_text(error, text);
            return fail(state, code, host, base, &results[..count]);
        }
        Found::Call(method, object) => {
            state.need(base, 4);
            state.at.stack[base..base + 4].copy_from_slice(&[error, method, object, name]);
            state.at.top = base + 4;
            let frame = state.frame_mut();
            (frame.kind, frame.pc, frame.proto) = (FrameKind::Continued, base as u32 + 1, 1);
            state.at.continuations.push(Box::new(ErrorText));
            match call(state, code, host, (base + 1, 2), Then::Native) {
                Ok(_) => return Ok(true),
                Err(fault) => fault,
            }
        }
        Found::NotIndexable(value, _) => {
            state.frame_mut().kind = FrameKind::Native;
            operand_error(state, code, "index", value, None)
        }
        Found::Loop => {
            state.frame_mut().kind = FrameKind::Native;
            run_error(state, code, b"loop in gettable")
        }
    };
    match failed {
        Fault::Error(error) => unwind(state, code, host, error),
        Fault::Abort => Err(Fault::Abort),
    }
}

/// What `pcall` returns of an error whose text is that, and how much of it: Redis leaves behind the error what is no text.
fn with_text(error: LuaValue, text: LuaValue) -> ([LuaValue; 3], usize) {
    match text {
        LuaValue::String(_) | LuaValue::Number(_) => ([LuaValue::Boolean(false), text, LuaValue::Nil], 2),
        other => ([LuaValue::Boolean(false), error, other], 3),
    }
}

/// `pcall` goes on with what a metamethod has given for the text of its error, which is its first argument now.
#[derive(Debug)]
struct ErrorText;

impl Continuation for ErrorText {
    fn resume(self: Box<Self>, context: &mut Context<'_>, first: usize) -> Stepped {
        let text = context.take_result(first);
        let (results, count) = with_text(context.get(0), text);
        results[..count].iter().for_each(|value| context.state.push(*value));
        Ok(Action::Return(count))
    }

    fn mark(&self, _mark: &mut dyn FnMut(LuaValue)) {}
}

/// `load`, whose frame is the upmost one, returns nil and the error of its reader, as the handler gives it that has the errors of
/// this place.
#[cold]
pub(super) fn fail_to_read(
    state: &mut State,
    code: &Code,
    host: &mut dyn Host,
    frame: Frame,
    error: LuaValue,
) -> Result<bool, Fault> {
    let below = &state.at.frames[..state.at.frames.len() - 1];
    let is_catching = |frame: &&Frame| matches!(frame.kind, FrameKind::Protected | FrameKind::Handled | FrameKind::Handling(_));
    let shown = match below.iter().rev().find(is_catching) {
        Some(Frame { kind: FrameKind::Handled, base, .. }) => {
            let handler = state.at.stack[*base as usize + 1];
            let slot = (frame.base + frame.proto) as usize;
            state.need(slot, 2);
            state.at.stack[slot..slot + 2].copy_from_slice(&[handler, error]);
            state.at.top = slot + 2;
            let frame = state.frame_mut();
            (frame.kind, frame.pc) = (FrameKind::Continued, slot as u32);
            state.at.continuations.push(Box::new(Unread));
            return match call(state, code, host, (slot, 1), Then::Native) {
                Ok(_) => Ok(true),
                Err(Fault::Error(error)) => unwind(state, code, host, error),
                Err(fault) => Err(fault),
            };
        }
        None if state.errors.tables && state.current == ThreadRef(0) => told(state, code, error),
        _ => error,
    };
    fail(state, code, host, frame.base as usize, &[LuaValue::Nil, shown])
}

/// An error that nothing handles: a table with its text and its place.
fn told(state: &mut State, code: &Code, error: LuaValue) -> LuaValue {
    let table = match error {
        LuaValue::Table(table) => table,
        other => {
            let text = match other {
                LuaValue::String(text) => [b"ERR ", state.heap.bytes(text)].concat(),
                other => [&b"ERR "[..], &show(other)].concat(),
            };
            let (table, text) = (state.heap.new_table(0, 4), LuaValue::String(state.heap.string_owned(text)));
            state.heap.set_field(table, "err", text);
            table
        }
    };
    if let Some((proto, line)) = state.errors.place
        && !state.heap.is_read_only(table)
    {
        let source = LuaValue::String(state.heap.string(&code.get(proto).proto.source));
        state.heap.set_field(table, "source", source);
        state.heap.set_field(table, "line", LuaValue::Number(f64::from(line)));
    }
    LuaValue::Table(table)
}

/// `load` goes on with what a handler has made of an error of its reader.
#[derive(Debug)]
struct Unread;

impl Continuation for Unread {
    fn resume(self: Box<Self>, context: &mut Context<'_>, first: usize) -> Stepped {
        let error = context.take_result(first);
        context.state.push(LuaValue::Nil);
        context.state.push(error);
        Ok(Action::Return(2))
    }

    fn catches(&self) -> bool {
        true
    }

    fn mark(&self, _mark: &mut dyn FnMut(LuaValue)) {}
}
