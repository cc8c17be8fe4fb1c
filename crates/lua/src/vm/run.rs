//! Runs a call to its end: functions of Lua by the interpreter, native ones that wait by their continuations; errors unwind here.

use super::call::{After, act, call, finish_native, run_native};
use super::catch::{fail_to_read, fail_with_text};
use super::code::Code;
use super::context::Context;
use super::coroutine;
use super::error::{note_place, place_at};
use super::execute::{Exit, execute};
use super::host::Host;
use super::meta;
use super::state::{Fault, FrameKind, State, Then};
use crate::value::LuaValue;

/// How often a handler of `xpcall` may fail in a row.
const HANDLER_FAILURES_MAX: u8 = 10;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The results are the values of the stack.
    Done,
    /// With the error that is at the bottom of the stack.
    Failed,
    Suspended,
    Aborted,
}

/// Goes on until the run ends or is suspended.
pub(crate) fn run(state: &mut State, code: &Code, host: &mut dyn Host) -> Ended {
    loop {
        match step(state, code, host) {
            Ok(None) => {}
            Ok(Some(ended)) => return ended,
            Err(Fault::Abort) => return Ended::Aborted,
            Err(Fault::Error(error)) => {
                note_place(state, code);
                match unwind(state, code, host, error) {
                    Ok(true) => {}
                    Ok(false) => return Ended::Failed,
                    Err(_) => return Ended::Aborted,
                }
            }
        }
    }
}

fn step(state: &mut State, code: &Code, host: &mut dyn Host) -> Result<Option<Ended>, Fault> {
    let Some(frame) = state.at.frames.last().copied() else {
        if state.at.resumer.is_none() {
            return Ok(Some(Ended::Done));
        }
        let values = state.at.stack[..state.at.top].to_vec();
        return Ok((!coroutine::finish(state, true, &values)).then_some(Ended::Done));
    };
    let first = frame.pc as usize;
    let after = match frame.kind {
        FrameKind::Lua => match execute(state, code, host)? {
            Exit::Frame => After::Changed,
            Exit::Suspended => After::Suspended,
        },
        FrameKind::Protected => {
            // The function's own slot lies right below its results.
            state.at.stack[first - 1] = LuaValue::Boolean(true);
            finish_native(state, code, host, first - 1)?
        }
        FrameKind::Handled => {
            state.at.stack[first - 1] = LuaValue::Boolean(true);
            finish_native(state, code, host, first - 1)?
        }
        FrameKind::Handling(_) => {
            // A handler has one result.
            if state.at.top == first {
                state.push(LuaValue::Nil);
            }
            state.at.top = first + 1;
            state.at.stack[first - 1] = LuaValue::Boolean(false);
            finish_native(state, code, host, first - 1)?
        }
        FrameKind::Resumer | FrameKind::Wrapper | FrameKind::Native => finish_native(state, code, host, first)?,
        FrameKind::Continued => {
            let Some(continuation) = state.at.continuations.pop() else { return Err(Fault::Abort) };
            state.frame_mut().kind = FrameKind::Native;
            let base = frame.base as usize;
            let count = frame.proto as usize;
            let action = continuation.resume(&mut Context { state, code, base, count }, first)?;
            let after = act(state, code, host, action)?;
            if state.heap.memory.is_due() {
                meta::settle(state, code)?;
            }
            after
        }
        FrameKind::Host => {
            state.frame_mut().kind = FrameKind::Native;
            let base = frame.base as usize;
            let count = state.at.top - base;
            let LuaValue::Native(native) = state.at.stack[base - 1] else { return Err(Fault::Abort) };
            run_native(state, code, host, native, (base, count))?
        }
    };
    Ok((after == After::Suspended).then_some(Ended::Suspended))
}

/// Gives an error to the innermost function that catches it; false when there is none: then it is at the bottom of the stack.
pub(super) fn unwind(state: &mut State, code: &Code, host: &mut dyn Host, error: LuaValue) -> Result<bool, Fault> {
    let mut error = error;
    loop {
        while let Some(frame) = state.at.frames.last().copied() {
            state.close(frame.base as usize);
            match frame.kind {
                FrameKind::Protected => {
                    if state.errors.tables && matches!(error, LuaValue::Table(_)) {
                        return fail_with_text(state, code, host, frame.base as usize, error);
                    }
                    return fail(state, code, host, frame.base as usize, &[LuaValue::Boolean(false), error]);
                }
                FrameKind::Handled => return handle(state, code, host, 0, error),
                FrameKind::Handling(failures) if failures < HANDLER_FAILURES_MAX => {
                    return handle(state, code, host, failures + 1, error);
                }
                FrameKind::Handling(_) => {
                    let text = LuaValue::String(state.heap.string(b"error in error handling"));
                    return fail(state, code, host, frame.base as usize, &[LuaValue::Boolean(false), text]);
                }
                FrameKind::Continued => {
                    let continuation = state.at.continuations.pop();
                    if continuation.is_some_and(|continuation| continuation.catches()) {
                        return fail_to_read(state, code, host, frame, error);
                    }
                }
                _ => {}
            }
            state.at.frames.pop();
        }
        if !coroutine::finish(state, false, &[error]) {
            state.close(0);
            state.at.stack[0] = error;
            state.at.top = 1;
            return Ok(false);
        }
        if state.frame().kind == FrameKind::Resumer {
            return Ok(true);
        }
        note_place(state, code);
        // A wrapped coroutine hands its error on, with the place of its caller.
        if let LuaValue::String(message) = error {
            let text = [&place_at(state, code, 1)[..], state.heap.bytes(message)].concat();
            error = LuaValue::String(state.heap.string_owned(text));
        }
    }
}

/// A native function that has caught an error returns.
pub(super) fn fail(state: &mut State, code: &Code, host: &mut dyn Host, base: usize, results: &[LuaValue]) -> Result<bool, Fault> {
    state.need(base, results.len());
    state.at.top = base;
    results.iter().for_each(|value| state.push(*value));
    match finish_native(state, code, host, base) {
        Ok(_) => Ok(true),
        Err(Fault::Error(error)) => unwind(state, code, host, error),
        Err(fault) => Err(fault),
    }
}

/// Calls the handler of `xpcall`, which is its second argument.
fn handle(state: &mut State, code: &Code, host: &mut dyn Host, failures: u8, error: LuaValue) -> Result<bool, Fault> {
    let base = state.frame().base as usize;
    let slot = base + 3;
    state.need(slot, 2);
    let handler = state.at.stack[base + 1];
    state.at.stack[slot] = handler;
    state.at.stack[slot + 1] = error;
    state.at.top = slot + 2;
    let frame = state.frame_mut();
    (frame.kind, frame.pc) = (FrameKind::Handling(failures), slot as u32);
    if !handler.is_function() {
        let text = LuaValue::String(state.heap.string(b"error in error handling"));
        return fail(state, code, host, base, &[LuaValue::Boolean(false), text]);
    }
    match call(state, code, host, (slot, 1), Then::Native) {
        Ok(_) => Ok(true),
        Err(Fault::Error(error)) => unwind(state, code, host, error),
        Err(fault) => Err(fault),
    }
}

/// Calls the function at the bottom of the stack; how the run ended, if it did at once.
pub(crate) fn begin(state: &mut State, code: &Code, host: &mut dyn Host, count: usize) -> Option<Ended> {
    match call(state, code, host, (0, count), Then::Exit) {
        Ok(After::Suspended) => Some(Ended::Suspended),
        Ok(_) => None,
        Err(Fault::Abort) => Some(Ended::Aborted),
        Err(Fault::Error(error)) => {
            note_place(state, code);
            match unwind(state, code, host, error) {
                Ok(true) => None,
                Ok(false) => Some(Ended::Failed),
                Err(_) => Some(Ended::Aborted),
            }
        }
    }
}
