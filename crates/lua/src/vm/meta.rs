//! What an instruction does when its operands are not of the plain kind: conversions, metamethods, errors, collections.

use super::call::{After, call, decide};
use super::code::Code;
use super::error::{compare_error, operand_error, refusal, run_error};
use super::host::Host;
use super::state::{Event, FIXED_STRINGS, Fault, STACK_START, State, Then};
use crate::heap::Refused;
use crate::heap::collect::Marker;
use crate::heap::gathered::Full;
use crate::instruction::Arithmetic;
use crate::number;
use crate::number_operations::arithmetic;
use crate::value::LuaValue;

/// Metatables that a look-up may go through.
const CHAIN_MAX: usize = 100;
/// Longest string.
const STRING_MAX: usize = 1 << 30;

/// Outcome of a look-up.
pub(crate) enum Found {
    Value(LuaValue),
    /// This function is to be called with this object.
    Call(LuaValue, LuaValue),
    /// This value has no fields; true when it is the one that was asked, not one of its metatables.
    NotIndexable(LuaValue, bool),
    Loop,
}

impl State {
    /// `object[key]` with metamethods.
    pub(crate) fn look_up(&mut self, object: LuaValue, key: LuaValue) -> Found {
        let mut object = object;
        for step in 0..CHAIN_MAX {
            let handler = if let LuaValue::Table(table) = object {
                let value = self.heap.get(table, key);
                if !value.is_nil() {
                    return Found::Value(value);
                }
                let handler = self.metamethod(object, Event::Index);
                if handler.is_nil() {
                    return Found::Value(LuaValue::Nil);
                }
                handler
            } else {
                let handler = self.metamethod(object, Event::Index);
                if handler.is_nil() {
                    return Found::NotIndexable(object, step == 0);
                }
                handler
            };
            if handler.is_function() {
                return Found::Call(handler, object);
            }
            object = handler;
        }
        Found::Loop
    }
}

/// Calls a metamethod from the running function of Lua.
fn call_method(
    state: &mut State,
    code: &Code,
    host: &mut dyn Host,
    method: LuaValue,
    arguments: &[LuaValue],
    then: Then,
) -> Result<After, Fault> {
    let frame = state.frame();
    let slot = frame.base as usize + usize::from(code.get(frame.proto).proto.registers);
    state.need(slot, arguments.len() + 1);
    state.at.stack[slot] = method;
    state.at.stack[slot + 1..=slot + arguments.len()].copy_from_slice(arguments);
    state.at.top = slot + 1 + arguments.len();
    call(state, code, host, (slot, arguments.len()), then)
}

/// Loads `object[key]` into the register `a`; the object is from the register `b`, if from one.
pub(crate) fn index(
    state: &mut State,
    code: &Code,
    host: &mut dyn Host,
    (object, from): (LuaValue, Option<u8>),
    key: LuaValue,
    a: u8,
) -> Result<After, Fault> {
    match state.look_up(object, key) {
        Found::Value(value) => {
            let base = state.frame().base as usize;
            state.at.stack[base + usize::from(a)] = value;
            Ok(After::Same)
        }
        Found::Call(method, object) => call_method(state, code, host, method, &[object, key], Then::Register(a)),
        Found::NotIndexable(value, first) => Err(operand_error(state, code, "index", value, from.filter(|_| first))),
        Found::Loop => Err(run_error(state, code, b"loop in gettable")),
    }
}

/// `object[key] = value`
pub(crate) fn set_index(
    state: &mut State,
    code: &Code,
    host: &mut dyn Host,
    (object, from): (LuaValue, Option<u8>),
    key: LuaValue,
    value: LuaValue,
) -> Result<After, Fault> {
    let mut object = object;
    for step in 0..CHAIN_MAX {
        let handler = if let LuaValue::Table(table) = object {
            let has_metatable = state.heap.table(table).metatable().is_some();
            // A table takes the key before its metamethod is asked for: what is no key fails here.
            if has_metatable && let Some(refused) = Refused::of_key(key) {
                return Err(refused_error(state, code, &refused));
            }
            let handler = if has_metatable && state.heap.get(table, key).is_nil() {
                state.metamethod(object, Event::NewIndex)
            } else {
                LuaValue::Nil
            };
            if handler.is_nil() {
                return match state.heap.set(table, key, value) {
                    Ok(()) if state.heap.memory.is_due() => settle(state, code).map(|()| After::Same),
                    Ok(()) => Ok(After::Same),
                    Err(refused) => Err(refused_error(state, code, &refused)),
                };
            }
            handler
        } else {
            let handler = state.metamethod(object, Event::NewIndex);
            if handler.is_nil() {
                return Err(operand_error(state, code, "index", object, from.filter(|_| step == 0)));
            }
            handler
        };
        if handler.is_function() {
            return call_method(state, code, host, handler, &[object, key, value], Then::Discard);
        }
        object = handler;
    }
    Err(run_error(state, code, b"loop in settable"))
}

fn refused_error(state: &mut State, code: &Code, refused: &Refused) -> Fault {
    run_error(state, code, refusal(refused).as_bytes())
}

impl State {
    pub(crate) fn to_number(&self, value: LuaValue) -> Option<f64> {
        match value {
            LuaValue::Number(number) => Some(number),
            LuaValue::String(string) => number::parse(self.heap.bytes(string)),
            _ => None,
        }
    }
}

/// Arithmetic on operands that are not both numbers; each comes with its register, if it is in one.
pub(crate) fn arithmetic_slow(
    state: &mut State,
    code: &Code,
    host: &mut dyn Host,
    operator: Arithmetic,
    [left, right]: [(LuaValue, Option<u8>); 2],
    a: u8,
) -> Result<After, Fault> {
    if let (Some(x), Some(y)) = (state.to_number(left.0), state.to_number(right.0)) {
        let base = state.frame().base as usize;
        state.at.stack[base + usize::from(a)] = LuaValue::Number(arithmetic(operator, x, y));
        return Ok(After::Same);
    }
    let event = match operator {
        Arithmetic::Add => Event::Add,
        Arithmetic::Sub => Event::Sub,
        Arithmetic::Mul => Event::Mul,
        Arithmetic::Div => Event::Div,
        Arithmetic::Mod => Event::Mod,
        Arithmetic::Pow => Event::Pow,
    };
    binary_method(state, code, host, event, [left, right], a)
}

fn binary_method(
    state: &mut State,
    code: &Code,
    host: &mut dyn Host,
    event: Event,
    [left, right]: [(LuaValue, Option<u8>); 2],
    a: u8,
) -> Result<After, Fault> {
    let mut method = state.metamethod(left.0, event);
    if method.is_nil() {
        method = state.metamethod(right.0, event);
    }
    if method.is_nil() {
        let culprit = if state.to_number(left.0).is_some() { right } else { left };
        return Err(operand_error(state, code, "perform arithmetic on", culprit.0, culprit.1));
    }
    call_method(state, code, host, method, &[left.0, right.0], Then::Register(a))
}

pub(crate) fn negate_slow(
    state: &mut State,
    code: &Code,
    host: &mut dyn Host,
    operand: (LuaValue, Option<u8>),
    a: u8,
) -> Result<After, Fault> {
    if let Some(number) = state.to_number(operand.0) {
        let base = state.frame().base as usize;
        state.at.stack[base + usize::from(a)] = LuaValue::Number(-number);
        return Ok(After::Same);
    }
    binary_method(state, code, host, Event::Negate, [operand, operand], a)
}

pub(crate) fn length_slow(
    state: &mut State,
    code: &Code,
    host: &mut dyn Host,
    operand: (LuaValue, Option<u8>),
    a: u8,
) -> Result<After, Fault> {
    let method = state.metamethod(operand.0, Event::Length);
    if method.is_nil() {
        return Err(operand_error(state, code, "get length of", operand.0, operand.1));
    }
    call_method(state, code, host, method, &[operand.0, LuaValue::Nil], Then::Register(a))
}

/// The metamethod for equality and order: both operands must have the same.
fn common_method(state: &mut State, left: LuaValue, right: LuaValue, event: Event) -> Option<LuaValue> {
    let first = state.metamethod(left, event);
    if first.is_nil() {
        return None;
    }
    let second = state.metamethod(right, event);
    state.heap.equals(first, second).then_some(first)
}

/// Equality of two tables that are not the same: the metamethod, or a decision.
pub(crate) fn equal_slow(
    state: &mut State,
    code: &Code,
    host: &mut dyn Host,
    left: LuaValue,
    right: LuaValue,
) -> Result<After, Fault> {
    let method = match (left, right) {
        (LuaValue::Table(_), LuaValue::Table(_)) => common_method(state, left, right, Event::Equal),
        _ => None,
    };
    match method {
        Some(method) => call_method(state, code, host, method, &[left, right], Then::Compare { negate: false }),
        None => {
            decide(state, code, false);
            Ok(After::Same)
        }
    }
}

impl State {
    /// The order of two numbers or two strings: less, or less or equal; `None` for other values.
    pub(crate) fn plain_order(&self, or_equal: bool, left: LuaValue, right: LuaValue) -> Option<bool> {
        match (left, right) {
            (LuaValue::Number(a), LuaValue::Number(b)) => Some(if or_equal { a <= b } else { a < b }),
            (LuaValue::String(a), LuaValue::String(b)) => {
                let (a, b) = (self.heap.bytes(a), self.heap.bytes(b));
                Some(if or_equal { a <= b } else { a < b })
            }
            _ => None,
        }
    }

    /// The metamethod that orders two values, whether its operands change places, and its result is turned round.
    pub(crate) fn order_method(&mut self, or_equal: bool, left: LuaValue, right: LuaValue) -> Option<(LuaValue, bool)> {
        if left.type_name() != right.type_name() {
            return None;
        }
        if !or_equal {
            return common_method(self, left, right, Event::Less).map(|method| (method, false));
        }
        if let Some(method) = common_method(self, left, right, Event::LessEqual) {
            return Some((method, false));
        }
        common_method(self, right, left, Event::Less).map(|method| (method, true))
    }
}

/// Order of what are not two numbers.
pub(crate) fn order_slow(
    state: &mut State,
    code: &Code,
    host: &mut dyn Host,
    or_equal: bool,
    left: LuaValue,
    right: LuaValue,
) -> Result<After, Fault> {
    if let Some(truth) = state.plain_order(or_equal, left, right) {
        decide(state, code, truth);
        return Ok(After::Same);
    }
    match state.order_method(or_equal, left, right) {
        None => Err(compare_error(state, code, left, right)),
        Some((method, false)) => call_method(state, code, host, method, &[left, right], Then::Compare { negate: false }),
        Some((method, true)) => call_method(state, code, host, method, &[right, left], Then::Compare { negate: true }),
    }
}

/// Concatenates the registers `b` to `last` into the register that the running instruction names.
pub(crate) fn concat(state: &mut State, code: &Code, host: &mut dyn Host, (a, b): (u8, u8), last: u8) -> Result<After, Fault> {
    let base = state.frame().base as usize;
    let (first, mut last) = (base + usize::from(b), base + usize::from(last));
    while last > first {
        let (left, right) = (state.at.stack[last - 1], state.at.stack[last]);
        if !is_text(left) || !is_text(right) {
            let mut method = state.metamethod(left, Event::Concat);
            if method.is_nil() {
                method = state.metamethod(right, Event::Concat);
            }
            if method.is_nil() {
                let (culprit, slot) = if is_text(left) { (right, last) } else { (left, last - 1) };
                return Err(operand_error(state, code, "concatenate", culprit, Some((slot - base) as u8)));
            }
            let then = Then::Concat((last - 1 - base) as u8);
            return call_method(state, code, host, method, &[left, right], then);
        }
        let mut from = last - 1;
        while from > first && is_text(state.at.stack[from - 1]) {
            from -= 1;
        }
        state.at.stack[from] = join(state, code, from, last)?;
        last = from;
    }
    state.at.stack[base + usize::from(a)] = state.at.stack[first];
    if state.heap.memory.is_due() {
        settle(state, code)?;
    }
    Ok(After::Same)
}

fn is_text(value: LuaValue) -> bool {
    matches!(value, LuaValue::String(_) | LuaValue::Number(_))
}

fn join(state: &mut State, code: &Code, from: usize, last: usize) -> Result<LuaValue, Fault> {
    let mut text = std::mem::take(&mut state.text);
    text.clear();
    for slot in from..=last {
        match state.at.stack[slot] {
            LuaValue::String(string) => {
                let bytes = state.heap.bytes(string);
                if !state.heap.memory.allows(text.len() + bytes.len()) {
                    return Err(Full.into());
                }
                if text.len() + bytes.len() > STRING_MAX {
                    return Err(run_error(state, code, b"string length overflow"));
                }
                text.extend_from_slice(bytes);
            }
            LuaValue::Number(number) => number::write(&mut text, number),
            _ => {}
        }
    }
    let string = state.heap.string(&text);
    state.text = if text.capacity() > 1 << 16 { Vec::new() } else { text };
    Ok(LuaValue::String(string))
}

/// Goes on with a concatenation whose metamethod has returned `value` for the operands from the register `last` on.
pub(crate) fn resume_concat(
    state: &mut State,
    code: &Code,
    host: &mut dyn Host,
    value: LuaValue,
    last: u8,
) -> Result<After, Fault> {
    let frame = state.frame();
    state.at.stack[frame.base as usize + usize::from(last)] = value;
    match code.get(frame.proto).proto.code[frame.pc as usize - 1] {
        crate::instruction::Instruction::Concat { a, b, .. } => concat(state, code, host, (a, b), last),
        _ => Ok(After::Same),
    }
}

/// Collects what is due, and fails when the limit of memory is passed nevertheless.
#[cold]
pub(crate) fn settle(state: &mut State, code: &Code) -> Result<(), Fault> {
    collect(state, code);
    if state.heap.memory.allows(0) { Ok(()) } else { Err(Full.into()) }
}

/// Marks and sweeps. Slots above what is in use are cleared: they may name objects that are freed now.
pub(crate) fn collect(state: &mut State, code: &Code) {
    // A script that lives at its limit of memory must not keep the machine by collections.
    state.budget = state.budget.saturating_sub(state.heap.objects() as u64 / 16);
    let mut marker = Marker::new(Event::Mode.name());
    let heap = &mut state.heap;
    heap.mark_old(&mut marker);
    for number in 0..FIXED_STRINGS {
        heap.mark(&mut marker, LuaValue::String(crate::value::StringRef::short(number)));
    }
    code.constants().for_each(|value| heap.mark(&mut marker, value));
    heap.mark(&mut marker, LuaValue::Table(state.globals));
    state.string_metatable.into_iter().for_each(|table| heap.mark(&mut marker, LuaValue::Table(table)));
    state.roots.iter().for_each(|value| heap.mark(&mut marker, *value));
    let frame_top = |at: &super::state::Coroutine| {
        let registers = |frame: &super::state::Frame| {
            let is_lua = frame.kind == super::state::FrameKind::Lua;
            let registers = if is_lua { usize::from(code.get(frame.proto).proto.registers) } else { 0 };
            frame.base as usize + registers
        };
        at.frames.last().map_or(at.top, |frame| registers(frame).max(at.top)).min(at.stack.len())
    };
    let top = frame_top(&state.at);
    state.at.stack[top..].fill(LuaValue::Nil);
    // What a deep call has needed comes back.
    if state.at.stack.len() > 4 * (top + STACK_START) {
        heap.memory.give((state.at.stack.len() - 2 * (top + STACK_START)) * size_of::<LuaValue>());
        state.at.stack.truncate(2 * (top + STACK_START));
        state.at.stack.shrink_to_fit();
    }
    mark_coroutine(heap, &mut marker, &state.at);
    // Those that have resumed the running one.
    heap.mark(&mut marker, LuaValue::Thread(state.current));
    let mut resumer = state.at.resumer;
    while let Some(thread) = resumer {
        heap.mark(&mut marker, LuaValue::Thread(thread));
        resumer = state.coroutines[thread.0 as usize].as_ref().and_then(|other| other.resumer);
    }
    loop {
        heap.mark_all(&mut marker);
        let Some(thread) = marker.next_thread() else { break };
        if let Some(Some(other)) = state.coroutines.get_mut(thread.0 as usize) {
            let top = frame_top(other);
            other.stack[top..].fill(LuaValue::Nil);
            mark_coroutine(heap, &mut marker, other);
        }
    }
    for thread in heap.sweep(marker) {
        if let Some(dead) = state.coroutines.get_mut(thread.0 as usize).and_then(Option::take) {
            heap.memory.give(dead.stack.len() * size_of::<LuaValue>());
        }
    }
}

fn mark_coroutine(heap: &mut crate::heap::Heap, marker: &mut Marker, coroutine: &super::state::Coroutine) {
    coroutine.stack.iter().for_each(|value| heap.mark(marker, *value));
    coroutine.open.iter().for_each(|(_, upvalue)| heap.mark_upvalue(marker, *upvalue));
    for continuation in &coroutine.continuations {
        continuation.mark(&mut |value| heap.mark(marker, value));
    }
}
