//! The virtual machine: what a program that embeds Lua uses.

mod call;
mod catch;
pub(crate) mod code;
pub(crate) mod context;
mod coroutine;
pub(crate) mod error;
mod execute;
pub(crate) mod host;
mod meta;
mod names;
mod run;
pub(crate) mod state;
mod transfer;
mod values;

use std::sync::Arc;

use self::code::Code;
pub use self::host::{Host, HostCall, HostOutcome, NoHost};
use self::state::{Coroutine, State};
use self::transfer::Base;
pub use self::values::Values;
use crate::heap::Heap;
use crate::heap::objects::{Closure, NativeFunction, Upvalue};
use crate::library;
use crate::proto::Proto;
use crate::value::{LuaValue, TableRef};

/// What a machine is made with.
#[derive(Clone, Copy, Debug)]
pub struct MachineOptions {
    /// Seed of the hash of strings.
    pub seed: u64,
    /// Bytes that a run may use, with what was there before it.
    pub memory_limit: usize,
    /// `getfenv` and `setfenv`, which Redis hides by default.
    pub deprecated: bool,
    /// `pcall` gives the text of an error that is a table with the field `err`.
    pub error_tables: bool,
}

impl Default for MachineOptions {
    fn default() -> Self {
        Self { seed: 0, memory_limit: 256 << 20, deprecated: false, error_tables: false }
    }
}

/// How [`Machine::run`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The function has returned: see [`Machine::results`].
    Done,
    /// It failed: the error is the first of [`Machine::results`].
    Failed,
    /// The budget is used up, or the host suspended the run: [`Machine::run`] goes on.
    Suspended,
    /// The host aborted the run.
    Aborted,
}

/// A machine that runs one function at a time.
#[derive(Debug)]
pub struct Machine {
    state: State,
    code: Code,
    /// Bytes in use when the region began.
    used: usize,
    /// What it began with.
    base: Base,
    /// Lists that are filled for each run.
    lists: Vec<TableRef>,
    /// A run has begun and was not ended.
    is_started: bool,
}

impl Default for Machine {
    fn default() -> Self {
        Self::new(&MachineOptions::default())
    }
}

impl Machine {
    /// A machine with the library.
    #[must_use]
    pub fn new(options: &MachineOptions) -> Self {
        let entries = library::entries(options.deprecated);
        let (natives, plain) = (entries.iter().map(|entry| entry.native), entries.iter().map(library::Entry::plain));
        let code = Code::new(natives.collect(), plain.collect(), !options.deprecated);
        let mut state = State::new(options.seed);
        library::install(&mut state, &entries);
        state.heap.memory.set_limit(options.memory_limit);
        state.errors.tables = options.error_tables;
        let used = state.heap.memory.used();
        let base = Base::of(&state.heap);
        Self { state, code, used, base, lists: Vec::new(), is_started: false }
    }

    /// Makes the globals, everything that can be reached from them, and the metatables of basic types read-only.
    pub fn freeze(&mut self) {
        let globals = self.state.globals;
        self.state.heap.freeze(globals);
        if let Some(table) = self.state.string_metatable {
            self.state.heap.freeze(table);
        }
        self.base = Base::of(&self.state.heap);
        self.keep();
    }

    /// Everything that there is outlives the runs to come.
    pub fn keep(&mut self) {
        self.state.heap.begin_region();
        self.code.begin_region();
        self.used = self.state.heap.memory.used();
        self.lists.iter().for_each(|list| self.state.heap.empty_list(*list));
    }

    /// The table of the globals.
    #[must_use]
    pub fn globals(&self) -> LuaValue {
        LuaValue::Table(self.state.globals)
    }

    /// Sets a global variable.
    pub fn set_global(&mut self, name: &str, value: LuaValue) {
        let globals = self.state.globals;
        self.state.heap.set_field(globals, name, value);
    }

    /// Fills a list of [`Values::list_for_runs`], which is empty, for one run.
    pub fn fill(&mut self, list: LuaValue, values: &[LuaValue]) {
        if let LuaValue::Table(list) = list {
            let done = self.state.heap.set_list(list, 0, values);
            debug_assert!(done.is_ok(), "an empty table takes a list");
        }
    }

    /// The value that calls the host's function of a number.
    pub fn host_function(&mut self, number: u32) -> LuaValue {
        LuaValue::Native(self.state.heap.new_native(NativeFunction { function: number | call::HOST, values: Box::default() }))
    }

    /// Loads compiled code as a function; `None` when the machine has no room for it.
    pub fn load(&mut self, proto: &Arc<Proto>) -> Option<LuaValue> {
        let index = self.code.load(proto, &mut self.state.heap)?;
        let closure = Closure { proto: index, upvalues: Box::default(), environment: self.state.globals };
        Some(LuaValue::Function(self.state.heap.new_closure(closure)))
    }

    /// The heap, for the bytes of strings.
    #[must_use]
    pub fn heap(&self) -> &Heap {
        &self.state.heap
    }

    /// A new string.
    pub fn string(&mut self, bytes: &[u8]) -> LuaValue {
        LuaValue::String(self.state.heap.string(bytes))
    }

    /// A new table of the values 1 to n.
    pub fn list(&mut self, values: &[LuaValue]) -> LuaValue {
        let table = self.state.heap.new_table(values.len(), 0);
        let done = self.state.heap.set_list(table, 0, values);
        debug_assert!(done.is_ok(), "a new table takes a list");
        LuaValue::Table(table)
    }

    /// A field of a table without metamethods; nil for what is no table.
    pub fn raw_get(&mut self, table: LuaValue, key: LuaValue) -> LuaValue {
        if let LuaValue::Table(table) = table { self.state.heap.get(table, key) } else { LuaValue::Nil }
    }

    /// Prepares a call; [`Self::run`] executes it.
    pub fn start(&mut self, function: LuaValue, arguments: &[LuaValue]) {
        if std::mem::replace(&mut self.is_started, true) {
            self.stop();
        }
        self.state.push(function);
        arguments.iter().for_each(|argument| self.state.push(*argument));
    }

    /// Runs until the call has ended, or `budget` backward jumps and calls have been made.
    pub fn run(&mut self, host: &mut dyn Host, budget: u64) -> RunEnd {
        self.state.budget = budget;
        let mut ended = None;
        if self.state.at.frames.is_empty() && self.state.at.resumer.is_none() && self.state.at.top > 0 {
            let count = self.state.at.top - 1;
            ended = run::begin(&mut self.state, &self.code, host, count);
        }
        match ended.unwrap_or_else(|| run::run(&mut self.state, &self.code, host)) {
            run::Ended::Done => RunEnd::Done,
            run::Ended::Failed => RunEnd::Failed,
            run::Ended::Suspended => RunEnd::Suspended,
            run::Ended::Aborted => {
                self.stop();
                RunEnd::Aborted
            }
        }
    }

    /// Results of the run, or its error.
    #[must_use]
    pub fn results(&self) -> &[LuaValue] {
        &self.state.at.stack[..self.state.at.top]
    }

    /// Ends a run that is suspended.
    pub fn stop(&mut self) {
        self.close_variables();
        if self.state.at.resumer.is_some() || self.state.at.stack.is_empty() {
            self.state.at = Coroutine::new(self::state::STACK_START);
        }
        self.state.errors.place = None;
        let at = &mut self.state.at;
        at.frames.clear();
        at.continuations.clear();
        at.open.clear();
        at.resumer = None;
        at.depth = 0;
        at.top = 0;
        self.state.current = crate::value::ThreadRef(0);
        if self.state.coroutines.len() != 1 || self.state.coroutines[0].is_some() {
            self.state.coroutines.clear();
            self.state.coroutines.shrink_to(1024);
            self.state.coroutines.push(None);
        }
    }

    /// Captured variables that are registers of what has not ended keep their values: what has captured them may outlive the run.
    fn close_variables(&mut self) {
        self.state.close(0);
        for other in self.state.coroutines.iter_mut().flatten() {
            for (slot, upvalue) in std::mem::take(&mut other.open) {
                self.state.heap.set_upvalue(upvalue, Upvalue::Closed(other.stack[slot as usize]));
            }
        }
    }

    /// Drops everything that the run has left behind.
    pub fn reset(&mut self) {
        self.stop();
        self.is_started = false;
        self.lists.iter().for_each(|list| self.state.heap.empty_list(*list));
        // What is left above the top is never read: functions begin with registers that are nil.
        if self.state.at.stack.len() > self::state::STACK_START {
            self.state.at.stack.truncate(self::state::STACK_START);
            self.state.at.stack.shrink_to_fit();
        }
        self.state.json = crate::json::JsonSettings::default();
        if self.state.heap.has_escaped() {
            meta::collect(&mut self.state, &self.code);
            self.keep();
        } else {
            self.state.heap.cut(self.used);
            self.code.cut();
        }
    }

    /// Bytes in use.
    #[must_use]
    pub fn memory_used(&self) -> usize {
        self.state.heap.memory.used()
    }

    /// The clock that `os.clock` reads, in seconds: 0 until one is set.
    pub fn set_clock(&mut self, seconds: fn() -> f64) {
        self.state.clock = seconds;
    }

    /// Seeds `math.random`.
    pub fn seed_random(&mut self, seed: i32) {
        self.state.random = crate::random::Random::new(seed);
    }
}

const _: () = {
    const fn is_send<T: Send>() {}
    const fn is_shared<T: Send + Sync>() {}
    is_send::<Machine>();
    is_shared::<Proto>();
};
