//! The interpreter: one function of Lua after the other, without recursion.
//!
//! An instruction reads its registers and does the plain case at once; everything else is in [`super::meta`]. The frame's `pc` is
//! brought up to date before anything that may fail, call or suspend.

use super::call::{After, call, deliver, push_lua};
use super::code::{Code, Found, Loaded};
use super::error::run_error;
use super::host::Host;
use super::meta::{self, arithmetic_slow};
use super::state::{Fault, Frame, FrameKind, State, Then};
use crate::heap::objects::Closure;
use crate::instruction::{Arithmetic, Instruction, LIST_BATCH, Operand};
use crate::number_operations::{arithmetic, modulo};
use crate::proto::Capture;
use crate::value::{ClosureRef, LuaValue};

/// Why the interpreter returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The upmost frame is not of Lua, or of another coroutine.
    Frame,
    /// The budget is used up, or a host function asked for it.
    Suspended,
}

/// Runs the upmost frame, which is of Lua, and what it calls.
// The interpreter is one function, so that its state stays in registers of the processor.
pub(crate) fn execute(state: &mut State, code: &Code, host: &mut dyn Host) -> Result<Exit, Fault> {
    'frame: loop {
        // Field by field: a frame that was pushed just now is not read in larger pieces than it was written.
        let frame = &state.at.frames[state.at.frames.len() - 1];
        if frame.kind != FrameKind::Lua {
            return Ok(Exit::Frame);
        }
        let loaded = code.get(frame.proto);
        let instructions = &*loaded.proto.code;
        let constants = &*loaded.constants;
        let function = frame.function;
        let base = frame.base as usize;
        let mut pc = frame.pc as usize;

        macro_rules! register {
            ($register:expr) => {
                state.at.stack[base + usize::from($register)]
            };
        }
        macro_rules! operand {
            ($operand:expr) => {
                if $operand.is_constant() { constants[$operand.index()] } else { state.at.stack[base + $operand.index()] }
            };
        }
        macro_rules! save {
            () => {
                state.frame_mut().pc = pc as u32
            };
        }
        // Goes on as a call or a metamethod says.
        macro_rules! after {
            ($after:expr) => {
                match $after {
                    After::Same => pc = state.frame().pc as usize,
                    After::Changed => continue 'frame,
                    After::Suspended => return Ok(Exit::Suspended),
                }
            };
        }
        macro_rules! tick {
            () => {
                if state.budget == 0 {
                    state.frame_mut().pc = pc as u32 - 1;
                    return Ok(Exit::Suspended);
                }
                state.budget -= 1;
            };
        }
        macro_rules! arithmetic {
            ($operator:ident, $a:expr, $b:expr, $right:expr, $c:expr, $plain:expr) => {{
                let (left, right): (LuaValue, LuaValue) = (register!($b), $right);
                if let (LuaValue::Number(x), LuaValue::Number(y)) = (left, right) {
                    let plain: fn(f64, f64) -> f64 = $plain;
                    register!($a) = LuaValue::Number(plain(x, y));
                } else {
                    save!();
                    let operands = [(left, Some($b)), (right, $c)];
                    after!(arithmetic_slow(state, code, host, Arithmetic::$operator, operands, $a)?);
                }
            }};
        }
        macro_rules! order {
            ($left:expr, $right:expr, $or_equal:expr, $plain:expr, $when:expr, $to:expr) => {{
                let (left, right): (LuaValue, LuaValue) = ($left, $right);
                if let (LuaValue::Number(x), LuaValue::Number(y)) = (left, right) {
                    let plain: fn(&f64, &f64) -> bool = $plain;
                    if plain(&x, &y) == $when {
                        pc = $to as usize;
                    }
                } else {
                    save!();
                    after!(meta::order_slow(state, code, host, $or_equal, left, right)?);
                }
            }};
        }

        loop {
            let instruction = instructions[pc];
            pc += 1;
            match instruction {
                Instruction::Move { a, b } => register!(a) = register!(b),
                Instruction::LoadConstant { a, k } => register!(a) = constants[k as usize],
                Instruction::LoadBoolean { a, value, skip } => {
                    register!(a) = LuaValue::Boolean(value);
                    pc += usize::from(skip);
                }
                Instruction::LoadNil { a, b } => state.at.stack[base + usize::from(a)..=base + usize::from(b)].fill(LuaValue::Nil),
                Instruction::GetUpvalue { a, b } => {
                    let upvalue = state.heap.closure(running(state, base, function)).upvalues[usize::from(b)];
                    register!(a) = state.upvalue(upvalue);
                }
                Instruction::SetUpvalue { a, b } => {
                    let upvalue = state.heap.closure(running(state, base, function)).upvalues[usize::from(b)];
                    let value = register!(a);
                    state.set_upvalue(upvalue, value);
                }
                Instruction::GetGlobal { a, k } => {
                    let found = loaded.found[pc - 1].get();
                    if found.generation == code.generation() {
                        register!(a) = found.value;
                        pc += usize::from(found.skips);
                        continue;
                    }
                    let environment = state.heap.closure(running(state, base, function)).environment;
                    let key = constants[k as usize];
                    let value = match key {
                        LuaValue::String(name) => state.heap.table(environment).get_string(name),
                        _ => LuaValue::Nil,
                    };
                    if value.is_nil() {
                        save!();
                        after!(meta::index(state, code, host, (LuaValue::Table(environment), None), key, a)?);
                    } else {
                        register!(a) = value;
                        if code.one_environment && state.heap.is_read_only(environment) {
                            loaded.found[pc - 1].set(find(state, (loaded, pc), value, code.generation()));
                        }
                    }
                }
                Instruction::SetGlobal { a, k } => {
                    let environment = state.heap.closure(running(state, base, function)).environment;
                    let (key, value) = (constants[k as usize], register!(a));
                    if !state.heap.replace(environment, key, value) {
                        save!();
                        after!(meta::set_index(state, code, host, (LuaValue::Table(environment), None), key, value)?);
                    }
                }
                Instruction::GetTable { a, b, c } => {
                    let (object, key) = (register!(b), register!(c));
                    let value = match (object, key) {
                        (LuaValue::Table(table), LuaValue::Number(_)) => state.heap.table(table).get(key),
                        (LuaValue::Table(table), _) => state.heap.get(table, key),
                        _ => LuaValue::Nil,
                    };
                    if value.is_nil() {
                        save!();
                        after!(meta::index(state, code, host, (object, Some(b)), key, a)?);
                    } else {
                        register!(a) = value;
                    }
                }
                Instruction::GetField { a, b, k } => {
                    let (object, key) = (register!(b), constants[k as usize]);
                    let value = match (object, key) {
                        (LuaValue::Table(table), LuaValue::String(key)) => state.heap.table(table).get_string(key),
                        _ => LuaValue::Nil,
                    };
                    if value.is_nil() {
                        save!();
                        after!(meta::index(state, code, host, (object, Some(b)), key, a)?);
                    } else {
                        register!(a) = value;
                    }
                }
                Instruction::GetConstant { a, b, k } => {
                    let (object, key) = (register!(b), constants[k as usize]);
                    let value = if let LuaValue::Table(table) = object { state.heap.table(table).get(key) } else { LuaValue::Nil };
                    if value.is_nil() {
                        save!();
                        after!(meta::index(state, code, host, (object, Some(b)), key, a)?);
                    } else {
                        register!(a) = value;
                    }
                }
                Instruction::SetTable { a, key, value } => {
                    let (object, key, value) = (register!(a), register!(key), operand!(value));
                    if !matches!(object, LuaValue::Table(table) if state.heap.replace_or_append(table, key, value)) {
                        save!();
                        after!(meta::set_index(state, code, host, (object, Some(a)), key, value)?);
                    }
                }
                Instruction::SetField { a, value, k } | Instruction::SetConstant { a, value, k } => {
                    let (object, key, value) = (register!(a), constants[k as usize], operand!(value));
                    if !matches!(object, LuaValue::Table(table) if state.heap.replace(table, key, value)) {
                        save!();
                        after!(meta::set_index(state, code, host, (object, Some(a)), key, value)?);
                    }
                }
                Instruction::NewTable { a, array, hash } => {
                    let table = state.heap.new_table(usize::from(array), usize::from(hash));
                    register!(a) = LuaValue::Table(table);
                    if state.heap.memory.is_due() {
                        save!();
                        meta::settle(state, code)?;
                    }
                }
                Instruction::Method { a, b, k } => {
                    let (object, key) = (register!(b), constants[k as usize]);
                    register!(a + 1) = object;
                    save!();
                    after!(meta::index(state, code, host, (object, Some(b)), key, a)?);
                }
                Instruction::Add { a, b, c } => arithmetic!(Add, a, b, register!(c), Some(c), |x, y| x + y),
                Instruction::Sub { a, b, c } => arithmetic!(Sub, a, b, register!(c), Some(c), |x, y| x - y),
                Instruction::Mul { a, b, c } => arithmetic!(Mul, a, b, register!(c), Some(c), |x, y| x * y),
                Instruction::Div { a, b, c } => arithmetic!(Div, a, b, register!(c), Some(c), |x, y| x / y),
                Instruction::Mod { a, b, c } => arithmetic!(Mod, a, b, register!(c), Some(c), modulo),
                Instruction::Pow { a, b, c } => arithmetic!(Pow, a, b, register!(c), Some(c), f64::powf),
                Instruction::AddConstant { a, b, k } => arithmetic!(Add, a, b, constants[k as usize], None, |x, y| x + y),
                Instruction::SubConstant { a, b, k } => arithmetic!(Sub, a, b, constants[k as usize], None, |x, y| x - y),
                Instruction::MulConstant { a, b, k } => arithmetic!(Mul, a, b, constants[k as usize], None, |x, y| x * y),
                Instruction::DivConstant { a, b, k } => arithmetic!(Div, a, b, constants[k as usize], None, |x, y| x / y),
                Instruction::ModConstant { a, b, k } => arithmetic!(Mod, a, b, constants[k as usize], None, modulo),
                Instruction::Arithmetic { operator, a, left, right } => {
                    let (x, y) = (operand!(left), operand!(right));
                    if let (LuaValue::Number(x), LuaValue::Number(y)) = (x, y) {
                        register!(a) = LuaValue::Number(arithmetic(operator, x, y));
                    } else {
                        save!();
                        let operands = [(x, register_of(left)), (y, register_of(right))];
                        after!(arithmetic_slow(state, code, host, operator, operands, a)?);
                    }
                }
                Instruction::Negate { a, b } => match register!(b) {
                    LuaValue::Number(number) => register!(a) = LuaValue::Number(-number),
                    other => {
                        save!();
                        after!(meta::negate_slow(state, code, host, (other, Some(b)), a)?);
                    }
                },
                Instruction::Not { a, b } => register!(a) = LuaValue::Boolean(!register!(b).is_true()),
                Instruction::Length { a, b } => match register!(b) {
                    LuaValue::Table(table) => register!(a) = LuaValue::Number(state.heap.table(table).length() as f64),
                    LuaValue::String(string) => register!(a) = LuaValue::Number(state.heap.bytes(string).len() as f64),
                    other => {
                        save!();
                        after!(meta::length_slow(state, code, host, (other, Some(b)), a)?);
                    }
                },
                Instruction::Concat { a, b, c } => {
                    save!();
                    after!(meta::concat(state, code, host, (a, b), c)?);
                }
                Instruction::Jump { to } => pc = to as usize,
                Instruction::Loop { to } => {
                    tick!();
                    pc = to as usize;
                }
                Instruction::Tick => {
                    tick!();
                }
                Instruction::Equal { a, b, when, to } => {
                    let (left, right) = (register!(a), register!(b));
                    if let (LuaValue::Table(x), LuaValue::Table(y)) = (left, right)
                        && x != y
                    {
                        save!();
                        after!(meta::equal_slow(state, code, host, left, right)?);
                    } else if state.heap.equals(left, right) == when {
                        pc = to as usize;
                    }
                }
                Instruction::EqualConstant { a, k, to } => {
                    if state.heap.equals(register!(a), constants[k.constant()]) == k.when() {
                        pc = to as usize;
                    }
                }
                Instruction::Less { a, b, when, to } => order!(register!(a), register!(b), false, f64::lt, when, to),
                Instruction::LessEqual { a, b, when, to } => order!(register!(a), register!(b), true, f64::le, when, to),
                Instruction::LessConstant { a, k, to } => {
                    order!(register!(a), constants[k.constant()], false, f64::lt, k.when(), to);
                }
                Instruction::LessEqualConstant { a, k, to } => {
                    order!(register!(a), constants[k.constant()], true, f64::le, k.when(), to);
                }
                Instruction::GreaterConstant { a, k, to } => {
                    order!(constants[k.constant()], register!(a), false, f64::lt, k.when(), to);
                }
                Instruction::GreaterEqualConstant { a, k, to } => {
                    order!(constants[k.constant()], register!(a), true, f64::le, k.when(), to);
                }
                Instruction::Test { a, when, to } => {
                    if register!(a).is_true() == when {
                        pc = to as usize;
                    }
                }
                Instruction::TestSet { a, b, when, to } => {
                    let value = register!(b);
                    if value.is_true() == when {
                        register!(a) = value;
                        pc = to as usize;
                    }
                }
                Instruction::Call { a, b, c } => {
                    tick!();
                    let slot = base + usize::from(a);
                    let count = if b == 0 { state.at.top - slot - 1 } else { usize::from(b) - 1 };
                    save!();
                    let then = Then::Results(i16::from(c) - 1);
                    if let LuaValue::Function(closure) = state.at.stack[slot] {
                        push_lua(state, code, closure, (slot, count), then)?;
                        continue 'frame;
                    }
                    if let LuaValue::Native(native) = state.at.stack[slot]
                        && let Some(plain) = code.plain(state.heap.native(native).function)
                        && let Some(result) = plain(&mut state.heap, &state.at.stack[slot + 1..slot + 1 + count])
                    {
                        if c == 2 {
                            state.at.stack[slot] = result.unwrap_or_default();
                        } else {
                            give(state, slot, c, result);
                        }
                        if state.heap.memory.is_due() {
                            meta::settle(state, code)?;
                        }
                        continue;
                    }
                    after!(call(state, code, host, (slot, count), then)?);
                }
                Instruction::TailCall { a, b } => {
                    tick!();
                    let slot = base + usize::from(a);
                    let count = if b == 0 { state.at.top - slot - 1 } else { usize::from(b) - 1 };
                    save!();
                    if matches!(state.at.stack[slot], LuaValue::Function(_)) {
                        tail_call(state, code, slot, count)?;
                        continue 'frame;
                    }
                    // A callable object makes a frame as any call does; the next instruction returns what it does.
                    after!(call(state, code, host, (slot, count), Then::Results(-1))?);
                }
                Instruction::Return { a, b } => {
                    let first = base + usize::from(a);
                    let count = if b == 0 { state.at.top - first } else { usize::from(b) - 1 };
                    if !state.at.open.is_empty() {
                        state.close(base);
                    }
                    if let Some(Frame { then: Then::Results(1), .. }) = state.at.frames.last() {
                        state.at.stack[function as usize] = if count > 0 { state.at.stack[first] } else { LuaValue::Nil };
                        state.at.frames.pop();
                        continue 'frame;
                    }
                    let Some(frame) = state.at.frames.pop() else { return Ok(Exit::Frame) };
                    let after = deliver(state, code, host, frame, (first, count))?;
                    if after == After::Suspended {
                        return Ok(Exit::Suspended);
                    }
                    if state.at.frames.is_empty() {
                        return Ok(Exit::Frame);
                    }
                    continue 'frame;
                }
                Instruction::ForPrepare { a, to } => {
                    save!();
                    prepare_loop(state, code, base + usize::from(a))?;
                    pc = to as usize;
                }
                Instruction::ForLoop { a, to } => {
                    let at = base + usize::from(a);
                    if let [LuaValue::Number(index), LuaValue::Number(limit), LuaValue::Number(step)] = state.at.stack[at..at + 3] {
                        let next = index + step;
                        if if step > 0.0 { next <= limit } else { limit <= next } {
                            tick!();
                            state.at.stack[at] = LuaValue::Number(next);
                            state.at.stack[at + 3] = LuaValue::Number(next);
                            pc = to as usize;
                        }
                    }
                }
                Instruction::IteratorCall { a, c } => {
                    let at = base + usize::from(a);
                    tick!();
                    save!();
                    if iterate(state, at, usize::from(c)) {
                        continue;
                    }
                    state.at.stack.copy_within(at..at + 3, at + 3);
                    after!(call(state, code, host, (at + 3, 2), Then::Iterated(i16::from(c)))?);
                }
                Instruction::IteratorLoop { a, to } => {
                    let at = base + usize::from(a);
                    let control = state.at.stack[at + 3];
                    if !control.is_nil() {
                        state.at.stack[at + 2] = control;
                        pc = to as usize;
                    }
                }
                Instruction::SetList { a, count, batch } => {
                    save!();
                    set_list(state, code, base + usize::from(a), usize::from(count), batch as usize)?;
                }
                Instruction::Close { a } => state.close(base + usize::from(a)),
                Instruction::Closure { a, prototype } => {
                    save!();
                    let closure = close_over(state, code, base, function, loaded.prototypes[prototype as usize]);
                    register!(a) = LuaValue::Function(closure);
                    if state.heap.memory.is_due() {
                        meta::settle(state, code)?;
                    }
                }
                Instruction::Vararg { a, b } => {
                    let parameters = usize::from(loaded.proto.parameters);
                    let first = function as usize + 1 + parameters;
                    let given = base.saturating_sub(first);
                    let at = base + usize::from(a);
                    let wanted = if b == 0 { given } else { usize::from(b) - 1 };
                    state.need(at, wanted);
                    let copied = given.min(wanted);
                    state.at.stack.copy_within(first..first + copied, at);
                    state.at.stack[at + copied..at + wanted].fill(LuaValue::Nil);
                    if b == 0 {
                        state.at.top = at + given;
                    }
                }
            }
        }
    }
}

fn register_of(operand: Operand) -> Option<u8> {
    (!operand.is_constant()).then(|| operand.index() as u8)
}

/// What the instruction before `pc`, which asks for a global variable, has found in read-only globals. Where that is a read-only
/// table, and the next instruction asks for a field of it, the field stays as it is, too.
#[cold]
#[inline(never)]
fn find(state: &State, (loaded, pc): (&Loaded, usize), value: LuaValue, generation: u32) -> Found {
    if let Some([Instruction::GetGlobal { a, .. }, Instruction::GetField { a: to, b, k }]) = loaded.proto.code.get(pc - 1..=pc)
        && [to, b] == [a, a]
        && let (LuaValue::Table(table), LuaValue::String(name)) = (value, loaded.constants[*k as usize])
        && state.heap.is_read_only(table)
        && let field = state.heap.table(table).get_string(name)
        && !field.is_nil()
    {
        return Found { value: field, generation, skips: true };
    }
    Found { value, generation, skips: false }
}

/// Gives the result of a plain call, if there is one, to a caller that wants `c - 1` values, or all.
#[inline(never)]
fn give(state: &mut State, slot: usize, c: u8, result: Option<LuaValue>) {
    let given = usize::from(result.is_some());
    if let Some(value) = result.filter(|_| c != 1) {
        state.at.stack[slot] = value;
    }
    match usize::from(c) {
        0 => state.at.top = slot + given,
        wanted => state.at.stack[slot + given.min(wanted - 1)..slot + wanted - 1].fill(LuaValue::Nil),
    }
}

/// A step of `pairs` or `ipairs` over a table, without a call; false when it is not one, or fails.
#[inline]
fn iterate(state: &mut State, at: usize, wanted: usize) -> bool {
    let [LuaValue::Native(function), LuaValue::Table(table), control] = state.at.stack[at..at + 3] else { return false };
    let found = if state.ipairs_iterator.same(LuaValue::Native(function)) {
        let LuaValue::Number(index) = control else { return false };
        if !(0.0..f64::from(i32::MAX)).contains(&index) {
            return false;
        }
        let index = LuaValue::Number(index.trunc() + 1.0);
        let value = state.heap.table(table).get(index);
        (!value.is_nil()).then_some((index, value))
    } else if state.next_function.same(LuaValue::Native(function)) {
        let key = state.heap.key(control);
        let Some(next) = state.heap.table(table).next(key) else { return false };
        next
    } else {
        return false;
    };
    let (key, value) = found.unwrap_or_default();
    state.at.stack[at + 3] = key;
    if wanted > 1 {
        state.at.stack[at + 4] = value;
        state.at.stack[at + 5..at + 3 + wanted].fill(LuaValue::Nil);
    }
    true
}

/// The function of Lua whose frame is the upmost one.
#[inline]
fn running(state: &State, base: usize, slot: u32) -> ClosureRef {
    match state.at.stack[slot as usize] {
        LuaValue::Function(closure) => closure,
        _ => unreachable!("the slot {slot} below {base} has a function of Lua while it runs"),
    }
}

/// Replaces the running function by the one in `slot`.
fn tail_call(state: &mut State, code: &Code, slot: usize, count: usize) -> Result<(), Fault> {
    let frame = state.frame();
    state.close(frame.base as usize);
    let function = frame.function as usize;
    state.at.stack.copy_within(slot..=slot + count, function);
    state.at.frames.pop();
    if let LuaValue::Function(closure) = state.at.stack[function] {
        push_lua(state, code, closure, (function, count), frame.then)?;
    }
    let new = state.frame_mut();
    new.tail_calls = frame.tail_calls + 1;
    new.depth = frame.depth;
    Ok(())
}

fn prepare_loop(state: &mut State, code: &Code, at: usize) -> Result<(), Fault> {
    for (offset, what) in ["initial", "limit", "step"].into_iter().enumerate() {
        let Some(number) = state.to_number(state.at.stack[at + offset]) else {
            let text = if what == "initial" {
                "'for' initial value must be a number".to_owned()
            } else {
                format!("'for' {what} must be a number")
            };
            return Err(run_error(state, code, text.as_bytes()));
        };
        state.at.stack[at + offset] = LuaValue::Number(number);
    }
    if let (LuaValue::Number(index), LuaValue::Number(step)) = (state.at.stack[at], state.at.stack[at + 2]) {
        state.at.stack[at] = LuaValue::Number(index - step);
    }
    Ok(())
}

fn set_list(state: &mut State, code: &Code, at: usize, count: usize, batch: usize) -> Result<(), Fault> {
    let LuaValue::Table(table) = state.at.stack[at] else { return Ok(()) };
    let count = if count == 0 { state.at.top - at - 1 } else { count };
    let before = (batch - 1) * LIST_BATCH;
    let values = &state.at.stack[at + 1..=at + count];
    if state.heap.set_list(table, before, values).is_err() {
        return Err(run_error(state, code, b"table overflow"));
    }
    if state.heap.memory.is_due() { meta::settle(state, code) } else { Ok(()) }
}

fn close_over(state: &mut State, code: &Code, base: usize, slot: u32, proto: u32) -> ClosureRef {
    let outer = running(state, base, slot);
    let environment = state.heap.closure(outer).environment;
    let captures = &code.get(proto).proto.captures;
    let mut upvalues = Vec::with_capacity(captures.len());
    for capture in captures {
        upvalues.push(match capture {
            Capture::Register(register) => state.capture((base + usize::from(*register)) as u32),
            Capture::Upvalue(index) => state.heap.closure(outer).upvalues[usize::from(*index)],
        });
    }
    state.heap.new_closure(Closure { proto, upvalues: upvalues.into(), environment })
}
