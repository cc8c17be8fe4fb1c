//! What a script may reach outside of the machine.

use super::code::Code;
use super::error::line_of;
use super::state::{Frame, FrameKind, Then};
use crate::heap::Heap;
use crate::instruction::Instruction;
use crate::value::{LuaValue, TableRef};

/// The functions of the program that embeds the machine.
pub trait Host {
    /// Runs the host's function of a number, as it was registered.
    fn call(&mut self, function: u32, call: &mut HostCall<'_>) -> HostOutcome;
}

/// How a function of the host ended.
#[derive(Clone, Copy, Debug)]
pub enum HostOutcome {
    /// With the results that it pushed.
    Return,
    /// With an error, which `pcall` catches.
    Error(LuaValue),
    /// The run is over; nothing in the script catches it.
    Abort,
    /// The run is suspended before the function: it is called again, with the same arguments, when the run goes on.
    Suspend,
}

/// Arguments and results of one call of a host function.
#[derive(Debug)]
pub struct HostCall<'a> {
    pub(crate) heap: &'a mut Heap,
    pub(crate) arguments: &'a [LuaValue],
    pub(crate) results: &'a mut Vec<LuaValue>,
    pub(crate) frames: &'a [Frame],
    pub(crate) code: &'a Code,
    /// No coroutine runs.
    pub(crate) is_main: bool,
}

impl HostCall<'_> {
    /// True when what the function returns is all that the run returns: nothing of the script comes behind it.
    #[must_use]
    pub fn is_last(&self) -> bool {
        let [caller, Frame { then: Then::Results(-1), .. }] = self.frames else { return false };
        let instruction = || self.code.get(caller.proto).proto.code.get((caller.pc as usize).wrapping_sub(1));
        self.is_main && caller.kind == FrameKind::Lua && matches!(instruction(), Some(Instruction::TailCall { .. }))
    }

    /// The arguments.
    #[must_use]
    pub fn arguments(&self) -> &[LuaValue] {
        self.arguments
    }

    /// The heap, for the bytes of strings.
    #[must_use]
    pub fn heap(&self) -> &Heap {
        self.heap
    }

    /// The chunk and the line of the function of Lua that has called, as messages begin: `chunk:line: `.
    #[must_use]
    pub fn place(&self) -> Vec<u8> {
        let caller = self.frames.len().checked_sub(2).map(|caller| &self.frames[caller]);
        match caller.filter(|caller| caller.kind == FrameKind::Lua) {
            Some(caller) => {
                let mut text = crate::proto::chunk_name(&self.code.get(caller.proto).proto.source, crate::proto::NAME_MAX);
                text.extend(format!(":{}: ", line_of(self.code, caller)).bytes());
                text
            }
            None => Vec::new(),
        }
    }

    /// True when `bytes` more are within the limit of memory.
    #[must_use]
    pub fn allows(&self, bytes: usize) -> bool {
        self.heap.memory.allows(bytes)
    }

    /// Adds a result.
    pub fn push(&mut self, value: LuaValue) {
        self.results.push(value);
    }

    /// A new string.
    pub fn string(&mut self, bytes: &[u8]) -> LuaValue {
        LuaValue::String(self.heap.string(bytes))
    }

    /// A new string that is likely to be passed on, or compared, only.
    pub fn late_string(&mut self, bytes: &[u8]) -> LuaValue {
        LuaValue::String(self.heap.late_string(bytes))
    }

    /// A new table.
    pub fn table(&mut self, array: usize, entries: usize) -> TableRef {
        self.heap.new_table(array, entries)
    }

    /// A field of a table, without metamethods.
    pub fn raw_get(&mut self, table: TableRef, key: LuaValue) -> LuaValue {
        self.heap.get(table, key)
    }

    /// The field of a table behind `key`, or the first one behind nil; `None` behind the last one.
    pub fn next(&mut self, table: TableRef, key: LuaValue) -> Option<(LuaValue, LuaValue)> {
        let key = self.heap.key(key);
        self.heap.table(table).next(key)?
    }

    /// Sets a field of a table without metamethods; false when the table does not take it.
    pub fn raw_set(&mut self, table: TableRef, key: LuaValue, value: LuaValue) -> bool {
        self.heap.set(table, key, value).is_ok()
    }
}

/// A host without functions.
#[derive(Debug, Default)]
pub struct NoHost;

impl Host for NoHost {
    fn call(&mut self, _function: u32, _call: &mut HostCall<'_>) -> HostOutcome {
        HostOutcome::Abort
    }
}
