//! What a script may reach outside of the machine.

use crate::heap::Heap;
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
}

impl HostCall<'_> {
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

    /// Adds a result.
    pub fn push(&mut self, value: LuaValue) {
        self.results.push(value);
    }

    /// A new string.
    pub fn string(&mut self, bytes: &[u8]) -> LuaValue {
        LuaValue::String(self.heap.string(bytes))
    }

    /// A new table.
    pub fn table(&mut self, array: usize, entries: usize) -> TableRef {
        self.heap.new_table(array, entries)
    }

    /// A field of a table, without metamethods.
    pub fn raw_get(&mut self, table: TableRef, key: LuaValue) -> LuaValue {
        self.heap.get(table, key)
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
