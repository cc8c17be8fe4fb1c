//! `coroutine`

use crate::heap::objects::NativeFunction;
use crate::value::{LuaValue, ThreadRef};
use crate::vm::code::Native;
use crate::vm::context::{Action, Context, Stepped, WRAP};
use crate::vm::state::{Coroutine, Fault, FrameKind, Status};

pub(super) const FUNCTIONS: &[(&str, Native)] =
    &[("create", create), ("resume", resume), ("running", running), ("status", status), ("wrap", wrap), ("yield", yield_)];

/// Slots of a new coroutine.
const STACK: usize = 32;

fn new_coroutine(context: &mut Context<'_>) -> Result<ThreadRef, Fault> {
    let function = context.get(0);
    if !matches!(function, LuaValue::Function(_)) {
        return Err(context.argument_error(0, "Lua function expected"));
    }
    let mut coroutine = Coroutine::new(STACK);
    coroutine.stack[0] = function;
    coroutine.top = 1;
    let state = &mut *context.state;
    state.heap.memory.take(STACK * size_of::<LuaValue>());
    let thread = state.heap.new_thread();
    if state.coroutines.len() <= thread.0 as usize {
        state.coroutines.resize_with(thread.0 as usize + 1, || None);
    }
    state.coroutines[thread.0 as usize] = Some(Box::new(coroutine));
    Ok(thread)
}

fn create(context: &mut Context<'_>) -> Stepped {
    let thread = new_coroutine(context)?;
    context.return_one(LuaValue::Thread(thread))
}

fn wrap(context: &mut Context<'_>) -> Stepped {
    let thread = new_coroutine(context)?;
    let native = context.state.heap.new_native(NativeFunction { function: WRAP, values: Box::new([LuaValue::Thread(thread)]) });
    context.return_one(LuaValue::Native(native))
}

fn thread(context: &mut Context<'_>) -> Result<ThreadRef, Fault> {
    match context.get(0) {
        LuaValue::Thread(thread) => Ok(thread),
        _ => Err(context.argument_error(0, "coroutine expected")),
    }
}

fn status_name(status: Status) -> &'static str {
    match status {
        Status::Suspended => "suspended",
        Status::Running => "running",
        Status::Normal => "normal",
        Status::Dead => "dead",
    }
}

fn resume(context: &mut Context<'_>) -> Stepped {
    let thread = thread(context)?;
    let status = context.state.status(thread);
    if status != Status::Suspended {
        let message = context.new_string(format!("cannot resume {} coroutine", status_name(status)).as_bytes());
        context.state.push(LuaValue::Boolean(false));
        context.state.push(message);
        return Ok(Action::Return(2));
    }
    context.state.frame_mut().kind = FrameKind::Resumer;
    Ok(Action::Resume(thread, context.count - 1))
}

/// A function that `coroutine.wrap` made.
pub(super) fn call_wrapped(context: &mut Context<'_>) -> Stepped {
    let LuaValue::Thread(thread) = context.value_of_function(0) else { return Err(context.error("no coroutine")) };
    let status = context.state.status(thread);
    if status != Status::Suspended {
        return Err(context.error(&format!("cannot resume {} coroutine", status_name(status))));
    }
    context.state.frame_mut().kind = FrameKind::Wrapper;
    Ok(Action::Resume(thread, context.count))
}

fn running(context: &mut Context<'_>) -> Stepped {
    let value = if context.state.at.resumer.is_some() { LuaValue::Thread(context.state.current) } else { LuaValue::Nil };
    context.return_one(value)
}

fn status(context: &mut Context<'_>) -> Stepped {
    let thread = thread(context)?;
    let name = status_name(context.state.status(thread));
    context.return_bytes(name.as_bytes())
}

fn yield_(context: &mut Context<'_>) -> Stepped {
    Ok(Action::Yield(context.count))
}
