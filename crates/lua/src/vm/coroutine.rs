//! Coroutines: each has a stack of values and frames of its own, and resuming one swaps it with the running one's.

use super::call::{After, call, finish_native};
use super::code::Code;
use super::error::run_error;
use super::host::Host;
use super::state::{DEPTH_MAX, Fault, FrameKind, State, Status, Then};
use crate::value::{LuaValue, ThreadRef};

impl State {
    /// Makes `thread` the running coroutine, and gives it the upmost `count` values. What it gets of one that it has resumed
    /// lies where its frame expects it, behind whether that has `succeeded`.
    fn switch(&mut self, thread: ThreadRef, count: usize, succeeded: Option<bool>) {
        let Some(mut other) = self.coroutines[thread.0 as usize].take() else { return };
        std::mem::swap(&mut *other, &mut self.at);
        if let Some(succeeded) = succeeded {
            let frame = self.frame();
            self.at.top = frame.pc as usize;
            if frame.kind == FrameKind::Resumer {
                self.push(LuaValue::Boolean(succeeded));
            }
        }
        let first = other.top - count;
        other.top = first;
        self.push_values(&other.stack[first..first + count]);
        self.coroutines[self.current.0 as usize] = Some(other);
        self.current = thread;
    }

    fn push_values(&mut self, values: &[LuaValue]) {
        values.iter().for_each(|value| self.push(*value));
    }
}

/// Resumes a suspended coroutine with the upmost values; the frame of the function that does so is the upmost one.
pub(crate) fn resume(state: &mut State, code: &Code, host: &mut dyn Host, thread: ThreadRef, count: usize) -> Result<After, Fault> {
    let depth = state.frame().depth + 1;
    if depth >= DEPTH_MAX {
        return Err(run_error(state, code, b"C stack overflow"));
    }
    let from = state.current;
    let slot = (state.at.top - count) as u32;
    state.frame_mut().pc = slot;
    state.at.status = Status::Normal;
    state.switch(thread, count, None);
    state.at.status = Status::Running;
    state.at.resumer = Some(from);
    state.at.depth = depth;
    // A coroutine that has yielded has the frame of the function that did so.
    let begun = if state.at.frames.is_empty() {
        call(state, code, host, (0, count), Then::Exit)
    } else {
        // It may only yield where all its calls are of Lua, so they share one depth.
        state.at.frames.iter_mut().for_each(|frame| frame.depth = depth);
        let first = state.at.top - count;
        finish_native(state, code, host, first)
    };
    begun.map(|after| if after == After::Suspended { after } else { After::Changed })
}

/// Suspends the running coroutine; the upmost values are what its resumer gets.
pub(crate) fn suspend(state: &mut State, code: &Code, host: &mut dyn Host, count: usize) -> Result<After, Fault> {
    if state.at.resumer.is_none() || state.frame().depth != state.at.depth {
        return Err(run_error(state, code, b"attempt to yield across metamethod/C-call boundary"));
    }
    let Some(resumer) = state.at.resumer.take() else { return Err(Fault::Abort) };
    state.at.status = Status::Suspended;
    state.switch(resumer, count, Some(true));
    state.at.status = Status::Running;
    // The function that has resumed returns what was yielded.
    let first = state.frame().pc as usize;
    finish_native(state, code, host, first).map(|after| if after == After::Suspended { after } else { After::Changed })
}

/// Ends the running coroutine with the values of its stack, or with an error; false when it is the main one.
pub(crate) fn finish(state: &mut State, succeeded: bool, values: &[LuaValue]) -> bool {
    if state.at.resumer.is_none() {
        return false;
    }
    state.close(0);
    state.at.status = Status::Dead;
    state.at.frames.clear();
    state.at.continuations.clear();
    state.heap.memory.give(state.at.stack.len() * size_of::<LuaValue>());
    state.at.stack = Vec::new();
    state.at.top = 0;
    return_to_resumer(state, succeeded, values);
    true
}

/// Switches to the resumer and puts the values where its frame expects them.
fn return_to_resumer(state: &mut State, succeeded: bool, values: &[LuaValue]) {
    let Some(resumer) = state.at.resumer.take() else { return };
    state.switch(resumer, 0, Some(succeeded));
    state.at.status = Status::Running;
    state.push_values(values);
}
