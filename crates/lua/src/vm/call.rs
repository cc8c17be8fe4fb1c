//! Calls: frames are pushed here, and results find their way to where the caller wants them.

use super::code::Code;
use super::context::{Action, Context};
use super::coroutine;
use super::error::{operand_error, run_error};
use super::host::{Host, HostCall, HostOutcome};
use super::meta;
use super::state::{CALLS_MAX, DEPTH_MAX, Event, Fault, Frame, FrameKind, State, Then};
use crate::instruction::Instruction;
use crate::proto::Variadic;
use crate::value::{ClosureRef, LuaValue, NativeRef, ThreadRef};

/// Which frame is the upmost one after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The one that was: the call is over.
    Same,
    /// Another one, or another coroutine's.
    Changed,
    /// The run is to be suspended.
    Suspended,
}

/// Calls the function in `slot` with the `count` values above it.
pub(crate) fn call(
    state: &mut State,
    code: &Code,
    host: &mut dyn Host,
    (slot, count): (usize, usize),
    then: Then,
) -> Result<After, Fault> {
    match state.at.stack[slot] {
        LuaValue::Function(closure) => push_lua(state, code, closure, (slot, count), then).map(|()| After::Changed),
        LuaValue::Native(native) => {
            push_native(state, code, (slot, count), then)?;
            run_native(state, code, host, native, (slot + 1, count))
        }
        other => {
            let method = state.metamethod(other, Event::Call);
            if !method.is_function() {
                let register = (slot as u32).checked_sub(state.frame_base()).map(|register| register as u8);
                let register = register.filter(|_| matches!(then, Then::Results(_) | Then::Iterated(_)));
                return Err(operand_error(state, code, "call", other, register));
            }
            state.need(slot, count + 2);
            state.at.stack.copy_within(slot..=slot + count, slot + 1);
            state.at.stack[slot] = method;
            state.at.top = slot + count + 2;
            call(state, code, host, (slot, count + 1), then)
        }
    }
}

impl State {
    fn frame_base(&self) -> u32 {
        self.at.frames.last().map_or(0, |frame| frame.base)
    }
}

/// The depth of a new frame; an error beyond the limits.
#[inline]
fn depth(state: &mut State, code: &Code, then: Then) -> Result<u16, Fault> {
    let below = state.at.frames.last().map_or(state.at.depth, |frame| frame.depth);
    if state.at.frames.len() >= CALLS_MAX {
        return Err(run_error(state, code, b"stack overflow"));
    }
    if matches!(then, Then::Results(_) | Then::Exit) {
        return Ok(below);
    }
    if below + 1 >= DEPTH_MAX {
        return Err(run_error(state, code, b"C stack overflow"));
    }
    Ok(below + 1)
}

#[inline]
pub(crate) fn push_lua(
    state: &mut State,
    code: &Code,
    closure: ClosureRef,
    (slot, count): (usize, usize),
    then: Then,
) -> Result<(), Fault> {
    let proto = state.heap.closure(closure).proto;
    let loaded = &*code.get(proto).proto;
    let depth = depth(state, code, then)?;
    let (parameters, registers) = (usize::from(loaded.parameters), usize::from(loaded.registers));
    // Without arguments there are none behind which the registers would lie.
    let base = if loaded.variadic == Variadic::No || count == 0 && loaded.variadic != Variadic::Table {
        state.need(slot + 1, registers.max(count));
        let base = slot + 1;
        state.at.stack[base + count.min(parameters)..base + registers].fill(LuaValue::Nil);
        base
    } else {
        spread_arguments(state, loaded, slot, count)
    };
    state.at.frames.push(Frame {
        kind: FrameKind::Lua,
        then,
        function: slot as u32,
        base: base as u32,
        pc: 0,
        proto,
        tail_calls: 0,
        depth,
    });
    if state.heap.memory.is_due() { meta::settle(state, code) } else { Ok(()) }
}

/// Copies the parameters of a variadic function behind all of its arguments.
fn spread_arguments(state: &mut State, proto: &crate::proto::Proto, slot: usize, count: usize) -> usize {
    let (parameters, registers) = (usize::from(proto.parameters), usize::from(proto.registers));
    let base = slot + 1 + count;
    // Copying many arguments is work of its own.
    state.budget = state.budget.saturating_sub(count as u64 / 32);
    state.need(base, registers);
    let given = count.min(parameters);
    for index in 0..given {
        state.at.stack[base + index] = std::mem::take(&mut state.at.stack[slot + 1 + index]);
    }
    state.at.stack[base + given..base + registers].fill(LuaValue::Nil);
    if proto.variadic == Variadic::Table {
        let extra = count - given;
        let table = state.heap.new_table(extra, 1);
        for index in 0..extra {
            let value = state.at.stack[slot + 1 + parameters + index];
            let done = state.heap.set(table, LuaValue::Number((index + 1) as f64), value);
            debug_assert!(done.is_ok(), "a new table takes a number");
        }
        state.heap.set_field(table, "n", LuaValue::Number(extra as f64));
        state.at.stack[base + parameters] = LuaValue::Table(table);
    }
    base
}

#[inline]
fn push_native(state: &mut State, code: &Code, (slot, count): (usize, usize), then: Then) -> Result<(), Fault> {
    let depth = depth(state, code, then)?;
    state.at.top = slot + 1 + count;
    state.at.frames.push(Frame {
        kind: FrameKind::Native,
        then,
        function: slot as u32,
        base: slot as u32 + 1,
        pc: 0,
        proto: count as u32,
        tail_calls: 0,
        depth,
    });
    Ok(())
}

/// Runs the native function whose frame is the upmost one.
#[inline]
pub(crate) fn run_native(
    state: &mut State,
    code: &Code,
    host: &mut dyn Host,
    native: NativeRef,
    (base, count): (usize, usize),
) -> Result<After, Fault> {
    let function = state.heap.native(native).function;
    let after = match code.native(function) {
        Some(native) => {
            let action = native(&mut Context { state, code, base, count })?;
            act(state, code, host, action)?
        }
        None => call_host(state, code, host, function, (base, count))?,
    };
    if state.heap.memory.is_due() {
        meta::settle(state, code)?;
    }
    Ok(after)
}

fn call_host(
    state: &mut State,
    code: &Code,
    host: &mut dyn Host,
    function: u32,
    (base, count): (usize, usize),
) -> Result<After, Fault> {
    let State { heap, results, at, current, .. } = state;
    results.clear();
    let (arguments, frames, is_main) = (&at.stack[base..base + count], &*at.frames, *current == ThreadRef(0));
    let outcome = host.call(function & !HOST, &mut HostCall { heap, arguments, results, frames, code, is_main });
    let first = state.results.first().copied().unwrap_or_default();
    let number = state.results.len();
    let is_plain = matches!(state.at.frames.last(), Some(Frame { then: Then::Results(1), .. }));
    if !is_plain {
        for index in 0..number {
            state.push(state.results[index]);
        }
    }
    match outcome {
        HostOutcome::Return if is_plain => {
            state.at.frames.pop();
            state.at.stack[base - 1] = first;
            Ok(After::Same)
        }
        HostOutcome::Return => act(state, code, host, Action::Return(number)),
        HostOutcome::Error(value) => Err(Fault::Error(value)),
        HostOutcome::Abort => Err(Fault::Abort),
        HostOutcome::Suspend => {
            state.at.top = base + count;
            act(state, code, host, Action::Again)
        }
    }
}

/// The bit of the numbers of host functions.
pub(crate) const HOST: u32 = 1 << 31;

/// Does what a native function asks for.
pub(crate) fn act(state: &mut State, code: &Code, host: &mut dyn Host, action: Action) -> Result<After, Fault> {
    match action {
        Action::Return(number) => {
            let first = state.at.top - number;
            finish_native(state, code, host, first)
        }
        Action::Call(count) => {
            let slot = state.at.top - count - 1;
            state.frame_mut().pc = slot as u32;
            match call(state, code, host, (slot, count), Then::Native)? {
                After::Same => Ok(After::Changed),
                after => Ok(after),
            }
        }
        Action::Resume(thread, count) => coroutine::resume(state, code, host, thread, count),
        Action::Yield(count) => coroutine::suspend(state, code, host, count),
        Action::Again => {
            state.frame_mut().kind = FrameKind::Host;
            Ok(After::Suspended)
        }
        Action::Later => {
            let top = state.at.top as u32;
            state.frame_mut().pc = top;
            Ok(if state.budget == 0 { After::Suspended } else { After::Changed })
        }
    }
}

/// Ends the native function whose frame is the upmost one; its results lie from `first` to the top.
pub(crate) fn finish_native(state: &mut State, code: &Code, host: &mut dyn Host, first: usize) -> Result<After, Fault> {
    let Some(frame) = state.at.frames.pop() else { return Ok(After::Changed) };
    let count = state.at.top - first;
    deliver(state, code, host, frame, (first, count))
}

/// Gives the results of a function whose frame was popped to the frame below.
#[inline]
pub(crate) fn deliver(
    state: &mut State,
    code: &Code,
    host: &mut dyn Host,
    frame: Frame,
    (first, count): (usize, usize),
) -> Result<After, Fault> {
    let slot = frame.function as usize;
    if let Then::Results(wanted) | Then::Iterated(wanted) = frame.then {
        if wanted == 1 {
            state.at.stack[slot] = if count > 0 { state.at.stack[first] } else { LuaValue::Nil };
            return Ok(After::Same);
        }
        if wanted < 0 {
            state.at.stack.copy_within(first..first + count, slot);
            state.at.top = slot + count;
            return Ok(After::Same);
        }
        let (wanted, given) = (wanted as usize, count.min(wanted as usize));
        state.at.stack.copy_within(first..first + given, slot);
        state.at.stack[slot + given..slot + wanted].fill(LuaValue::Nil);
        return Ok(After::Same);
    }
    deliver_elsewhere(state, code, host, frame, (first, count))
}

fn deliver_elsewhere(
    state: &mut State,
    code: &Code,
    host: &mut dyn Host,
    frame: Frame,
    (first, count): (usize, usize),
) -> Result<After, Fault> {
    let value = if count > 0 { state.at.stack[first] } else { LuaValue::Nil };
    match frame.then {
        Then::Register(register) => {
            let base = state.frame().base as usize;
            state.at.stack[base + usize::from(register)] = value;
        }
        Then::Compare { negate } => decide(state, code, value.is_true() != negate),
        Then::Concat(last) => return meta::resume_concat(state, code, host, value, last),
        Then::Native | Then::Exit => {
            let slot = frame.function as usize;
            match count {
                1 => state.at.stack[slot] = value,
                _ => state.at.stack.copy_within(first..first + count, slot),
            }
            state.at.top = slot + count;
            return Ok(After::Changed);
        }
        Then::Discard | Then::Results(_) | Then::Iterated(_) => {}
    }
    Ok(After::Same)
}

/// Jumps, or not, as the comparison says that called a metamethod.
pub(crate) fn decide(state: &mut State, code: &Code, truth: bool) {
    let frame = state.frame();
    let instruction = code.get(frame.proto).proto.code[frame.pc as usize - 1];
    let when = match instruction {
        Instruction::Equal { when, .. } | Instruction::Less { when, .. } | Instruction::LessEqual { when, .. } => when,
        Instruction::LessConstant { k, .. }
        | Instruction::LessEqualConstant { k, .. }
        | Instruction::GreaterConstant { k, .. }
        | Instruction::GreaterEqualConstant { k, .. } => k.when(),
        _ => return,
    };
    if truth == when
        && let Some(to) = instruction.target()
    {
        state.frame_mut().pc = to as u32;
    }
}
