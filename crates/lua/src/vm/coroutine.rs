//! Coroutines: each has a stack of values and frames of its own, and resuming one swaps it with the running one's.

use super::call::{After, call, finish_native};
use super::code::Code;
use super::error::run_error;
use super::host::Host;
use super::state::{DEPTH_MAX, Fault, FrameKind, State, Status, Then};
use crate::value::{LuaValue, ThreadRef};

/// Values whose memory is kept between switches.
const MOVED_KEPT: usize = 256;

impl State {
    /// Makes `thread` the running coroutine.
    fn switch(&mut self, thread: ThreadRef) {
        let Some(other) = self.coroutines[thread.0 as usize].take() else { return };
        let mut other = other;
        std::mem::swap(&mut *other, &mut self.at);
        self.coroutines[self.current.0 as usize] = Some(other);
        self.current = thread;
    }

    /// Moves the upmost `count` values out of the stack, into memory that [`Self::keep_values`] gets back.
    fn pop_values(&mut self, count: usize) -> Vec<LuaValue> {
        let first = self.at.top - count;
        self.at.top = first;
        let mut values = std::mem::take(&mut self.moved);
        values.extend_from_slice(&self.at.stack[first..first + count]);
        values
    }

    fn keep_values(&mut self, mut values: Vec<LuaValue>) {
        values.clear();
        if values.capacity() <= MOVED_KEPT {
            self.moved = values;
        }
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
    let values = state.pop_values(count);
    let from = state.current;
    let slot = state.at.top as u32;
    state.frame_mut().pc = slot;
    state.at.status = Status::Normal;
    state.switch(thread);
    state.at.status = Status::Running;
    state.at.resumer = Some(from);
    state.at.depth = depth;
    state.push_values(&values);
    state.keep_values(values);
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
pub(crate) fn suspend(state: &mut State, code: &Code, count: usize) -> Result<(), Fault> {
    if state.at.resumer.is_none() || state.frame().depth != state.at.depth {
        return Err(run_error(state, code, b"attempt to yield across metamethod/C-call boundary"));
    }
    let values = state.pop_values(count);
    state.at.status = Status::Suspended;
    return_to_resumer(state, true, &values);
    state.keep_values(values);
    Ok(())
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
    state.switch(resumer);
    state.at.status = Status::Running;
    state.at.top = state.frame().pc as usize;
    if state.frame().kind == FrameKind::Resumer {
        state.push(LuaValue::Boolean(succeeded));
    }
    state.push_values(values);
}
