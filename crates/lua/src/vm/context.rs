//! Native functions: what they are given, and what they ask of the machine.
//!
//! A native function that calls functions of Lua returns to the interpreter, and is resumed with the results.

use super::code::Code;
use super::error::{argument_error, error, type_error};
use super::state::{Fault, FrameKind, State};
use crate::heap::gathered::Full;
use crate::number;
use crate::value::{LuaValue, TableRef, ThreadRef};

/// Numbers of the native functions that others make: an iterator of `string.gmatch`, a function of `coroutine.wrap`, the iterator
/// of `ipairs`.
pub(crate) const GMATCH: u32 = 0;
pub(crate) const WRAP: u32 = 1;
pub(crate) const IPAIRS: u32 = 2;

/// What the machine does after a step of a native function.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// The upmost values are the results.
    Return(usize),
    /// Calls the function below its upmost arguments; the frame says what happens then.
    Call(usize),
    /// Resumes a coroutine with the upmost values.
    Resume(ThreadRef, usize),
    /// Suspends the coroutine, with the upmost values.
    Yield(usize),
    /// Suspends the run; the function is called again.
    Again,
    /// The continuation that was kept goes on, at once or when the run does: see [`Context::go_on_later`].
    Later,
}

pub(crate) type Stepped = Result<Action, Fault>;

/// The rest of a native function.
pub(crate) trait Continuation: Send + std::fmt::Debug {
    /// Goes on. The values from `first` on are the results of the call.
    fn resume(self: Box<Self>, context: &mut Context<'_>, first: usize) -> Stepped;

    /// Whether an error of what it has called is its result, behind nil.
    fn catches(&self) -> bool {
        false
    }

    /// Shows the values that it keeps alive beside those in its arguments.
    fn mark(&self, mark: &mut dyn FnMut(LuaValue));
}

/// A call of a native function.
pub(crate) struct Context<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) code: &'a Code,
    /// The slot of the first argument.
    pub(crate) base: usize,
    /// The number of arguments.
    pub(crate) count: usize,
}

impl Context<'_> {
    /// An argument, from 0; nil beyond the last.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> LuaValue {
        if index < self.count { self.state.at.stack[self.base + index] } else { LuaValue::Nil }
    }

    /// Replaces an argument, or adds one.
    pub(crate) fn set(&mut self, index: usize, value: LuaValue) {
        while self.count <= index {
            debug_assert!(self.state.at.top == self.base + self.count, "nothing is above the arguments");
            self.state.push(LuaValue::Nil);
            self.count += 1;
        }
        self.state.at.stack[self.base + index] = value;
    }

    pub(crate) fn value_of_function(&self, index: usize) -> LuaValue {
        match self.state.at.stack[self.base - 1] {
            LuaValue::Native(native) => self.state.heap.native(native).values.get(index).copied().unwrap_or_default(),
            _ => LuaValue::Nil,
        }
    }

    pub(crate) fn return_one(&mut self, value: LuaValue) -> Stepped {
        self.state.push(value);
        Ok(Action::Return(1))
    }

    pub(crate) fn return_none(&self) -> Stepped {
        Ok(Action::Return(0))
    }

    pub(crate) fn return_bytes(&mut self, bytes: &[u8]) -> Stepped {
        let string = LuaValue::String(self.state.heap.string(bytes));
        self.return_one(string)
    }

    pub(crate) fn return_owned(&mut self, bytes: Vec<u8>) -> Stepped {
        let string = LuaValue::String(self.state.heap.string_owned(bytes));
        self.return_one(string)
    }

    /// Calls the function that lies below the upmost `count` values; the continuation goes on.
    pub(crate) fn call_then(&mut self, count: usize, continuation: Box<dyn Continuation>) -> Stepped {
        self.state.frame_mut().kind = FrameKind::Continued;
        self.state.at.continuations.push(continuation);
        Ok(Action::Call(count))
    }

    /// Counts the work of a native function as that many calls; false when the budget of the run is used up.
    #[inline]
    pub(crate) fn charge(&mut self, work: usize) -> bool {
        self.state.budget = self.state.budget.saturating_sub(work as u64);
        self.state.budget > 0
    }

    /// Lets the machine collect what is due, or suspend the run; the continuation goes on behind it.
    pub(crate) fn go_on_later(&mut self, continuation: Box<dyn Continuation>) -> Stepped {
        self.state.frame_mut().kind = FrameKind::Continued;
        self.state.at.continuations.push(continuation);
        Ok(Action::Later)
    }

    /// True when a native function that works for long has to go on later.
    #[inline]
    pub(crate) fn has_to_pause(&self) -> bool {
        self.state.budget == 0 || self.state.heap.memory.is_due()
    }

    /// The first result of a call, which lies in the slot `first` if there is one; the stack is cut back to there.
    pub(crate) fn take_result(&mut self, first: usize) -> LuaValue {
        let value = if self.state.at.top > first { self.state.at.stack[first] } else { LuaValue::Nil };
        self.state.at.top = first;
        value
    }

    /// Fails unless `bytes` more are within the limit of memory.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), Fault> {
        if self.state.heap.memory.allows(bytes) { Ok(()) } else { Err(Full.into()) }
    }

    // Arguments by type, with the messages of Lua's auxiliary library.

    pub(crate) fn any(&mut self, index: usize) -> Result<LuaValue, Fault> {
        if index < self.count { Ok(self.get(index)) } else { Err(argument_error(self, index, b"value expected")) }
    }

    pub(crate) fn table(&mut self, index: usize) -> Result<TableRef, Fault> {
        match self.get(index) {
            LuaValue::Table(table) => Ok(table),
            _ => Err(type_error(self, index, "table")),
        }
    }

    pub(crate) fn function(&mut self, index: usize) -> Result<LuaValue, Fault> {
        let value = self.get(index);
        if value.is_function() { Ok(value) } else { Err(type_error(self, index, "function")) }
    }

    #[inline]
    pub(crate) fn number(&mut self, index: usize) -> Result<f64, Fault> {
        match self.get(index) {
            LuaValue::Number(number) => Ok(number),
            value => match self.to_number(value) {
                Some(number) => Ok(number),
                None => Err(type_error(self, index, "number")),
            },
        }
    }

    /// A number as a C integer.
    pub(crate) fn integer(&mut self, index: usize) -> Result<i64, Fault> {
        self.number(index).map(to_integer)
    }

    pub(crate) fn optional_integer(&mut self, index: usize, default: i64) -> Result<i64, Fault> {
        if self.get(index).is_nil() { Ok(default) } else { self.integer(index) }
    }

    /// A number as an `int` of C: its low 32 bits.
    pub(crate) fn short_integer(&mut self, index: usize) -> Result<i64, Fault> {
        self.integer(index).map(|integer| i64::from(integer as i32))
    }

    pub(crate) fn optional_short_integer(&mut self, index: usize, default: i64) -> Result<i64, Fault> {
        if self.get(index).is_nil() { Ok(default) } else { self.short_integer(index) }
    }

    pub(crate) fn to_number(&self, value: LuaValue) -> Option<f64> {
        match value {
            LuaValue::Number(number) => Some(number),
            LuaValue::String(string) => number::parse(self.state.heap.bytes(string)),
            _ => None,
        }
    }

    /// Turns an argument that is a number into a string; its bytes are had by [`Self::bytes`].
    pub(crate) fn string(&mut self, index: usize) -> Result<(), Fault> {
        match self.get(index) {
            LuaValue::String(_) => Ok(()),
            LuaValue::Number(number) => {
                let mut text = Vec::new();
                number::write(&mut text, number);
                let string = LuaValue::String(self.state.heap.string(&text));
                self.set(index, string);
                Ok(())
            }
            _ => Err(type_error(self, index, "string")),
        }
    }

    /// The bytes of an argument that is a string.
    pub(crate) fn bytes(&self, index: usize) -> &[u8] {
        match self.get(index) {
            LuaValue::String(string) => self.state.heap.bytes(string),
            _ => &[],
        }
    }

    pub(crate) fn error(&mut self, message: &str) -> Fault {
        error(self, message.as_bytes())
    }

    pub(crate) fn argument_error(&mut self, index: usize, message: &str) -> Fault {
        argument_error(self, index, message.as_bytes())
    }

    pub(crate) fn argument_error_bytes(&mut self, index: usize, message: &[u8]) -> Fault {
        argument_error(self, index, message)
    }

    /// A new string.
    pub(crate) fn new_string(&mut self, bytes: &[u8]) -> LuaValue {
        LuaValue::String(self.state.heap.string(bytes))
    }

    /// Sets a field without metamethods.
    pub(crate) fn raw_set(&mut self, table: TableRef, key: LuaValue, value: LuaValue) -> Result<(), Fault> {
        self.state.heap.set(table, key, value).map_err(|refused| super::error::refused(self, &refused))
    }
}

/// What a cast to an unsigned C integer of 64 bits makes of a number.
pub(crate) fn to_unsigned(number: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if number >= HALF { to_integer(number - HALF) as u64 ^ 1 << 63 } else { to_integer(number) as u64 }
}

/// What a cast to a C integer of 64 bits makes of a number.
pub(crate) fn to_integer(number: f64) -> i64 {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    if fits { number as i64 } else { i64::MIN }
}
