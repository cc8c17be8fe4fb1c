//! Functions and captured variables.

use crate::value::{LuaValue, TableRef, ThreadRef, UpvalueRef};

/// A function that is written in Lua: code of the machine, captured variables, globals.
#[derive(Debug)]
pub(crate) struct Closure {
    /// Index into the machine's loaded code.
    pub(crate) proto: u32,
    pub(crate) upvalues: Box<[UpvalueRef]>,
    pub(crate) environment: TableRef,
}

impl Default for Closure {
    fn default() -> Self {
        Self { proto: u32::MAX, upvalues: Box::default(), environment: TableRef(0) }
    }
}

/// A function that is written in Rust: a number that the machine knows, and values of its own.
#[derive(Debug, Default)]
pub(crate) struct NativeFunction {
    /// Index into the machine's table of native functions.
    pub(crate) function: u32,
    pub(crate) values: Box<[LuaValue]>,
}

impl Closure {
    /// Bytes of memory.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + 1 + self.upvalues.len() * size_of::<UpvalueRef>()
    }
}

impl NativeFunction {
    /// Bytes of memory.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + 1 + self.values.len() * size_of::<LuaValue>()
    }
}

/// What a captured variable costs.
pub(crate) const UPVALUE_SIZE: usize = size_of::<Upvalue>() + 1;

/// A captured variable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Upvalue {
    /// It still is a register of a function that runs.
    Open {
        /// Whose stack it is in.
        thread: ThreadRef,
        /// Where in the stack.
        slot: u32,
    },
    /// Its function has returned.
    Closed(LuaValue),
}

impl Default for Upvalue {
    fn default() -> Self {
        Self::Closed(LuaValue::Nil)
    }
}
