//! Takes what a machine keeps over to a new one, and leaves behind what nothing refers to.
//!
//! What outlives a run stays in its machine for good: regions are cut, not what is below them. A machine that keeps state from run
//! to run, or loads code in the place of other code, is replaced by a copy of what is still reached once that has become a small
//! part. Objects that every machine has from the beginning have the same index in both.

use std::collections::HashMap;
use std::sync::Arc;

use super::Machine;
use super::state::Event;
use crate::heap::Heap;
use crate::heap::objects::{Closure, NativeFunction, Upvalue};
use crate::heap::table::READ_ONLY;
use crate::value::{ClosureRef, LuaValue, NativeRef, StringRef, TableRef, ThreadRef, UpvalueRef};

/// Objects that a machine has had since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Base {
    tables: u32,
    closures: u32,
    natives: u32,
    upvalues: u32,
}

impl Base {
    pub(super) fn of(heap: &Heap) -> Self {
        let [tables, closures, natives, upvalues] = heap.lengths();
        Self { tables, closures, natives, upvalues }
    }
}

/// One taking over.
struct Transfer<'m> {
    from: &'m Machine,
    to: &'m mut Machine,
    base: Base,
    /// What became of objects: short strings are found by their bytes.
    strings: HashMap<StringRef, LuaValue>,
    tables: HashMap<TableRef, TableRef>,
    closures: HashMap<ClosureRef, ClosureRef>,
    natives: HashMap<NativeRef, NativeRef>,
    threads: HashMap<ThreadRef, ThreadRef>,
    upvalues: HashMap<UpvalueRef, UpvalueRef>,
    code: HashMap<u32, u32>,
    /// Objects that are there, without what they refer to.
    unfilled: Vec<Unfilled>,
    /// Tables some of whose entries come only if something else keeps their keys or values.
    weak: Vec<TableRef>,
}

enum Unfilled {
    Table(TableRef),
    Closure(ClosureRef),
    Native(NativeRef),
    Upvalue(UpvalueRef),
}

/// What `from` keeps that was made as `to` was: see [`super::Values::take_over`].
pub(super) fn take_over(to: &mut Machine, from: &Machine, values: &[LuaValue]) -> Option<Vec<LuaValue>> {
    if to.base != from.base || !from.lists.is_empty() {
        return None;
    }
    let mut transfer = Transfer {
        from,
        base: to.base,
        to,
        strings: HashMap::new(),
        tables: HashMap::new(),
        closures: HashMap::new(),
        natives: HashMap::new(),
        threads: HashMap::new(),
        upvalues: HashMap::new(),
        code: HashMap::new(),
        unfilled: Vec::new(),
        weak: Vec::new(),
    };
    let taken = values.iter().map(|value| transfer.value(*value)).collect::<Option<Vec<_>>>()?;
    while let Some(unfilled) = transfer.unfilled.pop() {
        transfer.fill(unfilled)?;
    }
    transfer.fill_weak()?;
    to.state.heap.memory.set_limit(from.state.heap.memory.limit());
    to.keep();
    Some(taken)
}

impl Transfer<'_> {
    fn heap(&self) -> &Heap {
        &self.from.state.heap
    }

    /// The value in the new machine.
    fn value(&mut self, value: LuaValue) -> Option<LuaValue> {
        Some(match value {
            LuaValue::Nil | LuaValue::Boolean(_) | LuaValue::Number(_) | LuaValue::Light(_) => value,
            LuaValue::String(string) => self.string(string),
            LuaValue::Table(table) => LuaValue::Table(self.table(table)),
            LuaValue::Function(closure) => LuaValue::Function(self.closure(closure)?),
            LuaValue::Native(native) => LuaValue::Native(self.native(native)),
            LuaValue::Thread(thread) => LuaValue::Thread(self.thread(thread)),
        })
    }

    fn string(&mut self, string: StringRef) -> LuaValue {
        if let Some(taken) = self.strings.get(&string) {
            return *taken;
        }
        let taken = LuaValue::String(self.to.state.heap.string(self.from.state.heap.bytes(string)));
        if string.is_long() {
            self.strings.insert(string, taken);
        }
        taken
    }

    fn table(&mut self, table: TableRef) -> TableRef {
        if table.0 < self.base.tables {
            return table;
        }
        if let Some(taken) = self.tables.get(&table) {
            return *taken;
        }
        let taken = self.to.state.heap.new_table(0, 0);
        self.tables.insert(table, taken);
        self.unfilled.push(Unfilled::Table(table));
        taken
    }

    fn closure(&mut self, closure: ClosureRef) -> Option<ClosureRef> {
        if closure.0 < self.base.closures {
            return Some(closure);
        }
        if let Some(taken) = self.closures.get(&closure) {
            return Some(*taken);
        }
        let proto = self.code(self.heap().closure(closure).proto)?;
        let upvalues = self.heap().closure(closure).upvalues.clone();
        let upvalues = upvalues.iter().map(|upvalue| self.upvalue(*upvalue)).collect();
        let environment = self.to.state.globals;
        let taken = self.to.state.heap.new_closure(Closure { proto, upvalues, environment });
        self.closures.insert(closure, taken);
        self.unfilled.push(Unfilled::Closure(closure));
        Some(taken)
    }

    fn upvalue(&mut self, upvalue: UpvalueRef) -> UpvalueRef {
        if upvalue.0 < self.base.upvalues {
            return upvalue;
        }
        if let Some(taken) = self.upvalues.get(&upvalue) {
            return *taken;
        }
        let taken = self.to.state.heap.new_upvalue(Upvalue::default());
        self.upvalues.insert(upvalue, taken);
        self.unfilled.push(Unfilled::Upvalue(upvalue));
        taken
    }

    fn native(&mut self, native: NativeRef) -> NativeRef {
        if native.0 < self.base.natives {
            return native;
        }
        if let Some(taken) = self.natives.get(&native) {
            return *taken;
        }
        let NativeFunction { function, values } = self.heap().native(native);
        let (function, values) = (*function, vec![LuaValue::Nil; values.len()].into_boxed_slice());
        let taken = self.to.state.heap.new_native(NativeFunction { function, values });
        self.natives.insert(native, taken);
        self.unfilled.push(Unfilled::Native(native));
        taken
    }

    /// A coroutine is dead between two runs: it has nothing but its identity.
    fn thread(&mut self, thread: ThreadRef) -> ThreadRef {
        if thread == ThreadRef(0) {
            return thread;
        }
        let heap = &mut self.to.state.heap;
        *self.threads.entry(thread).or_insert_with(|| heap.new_thread())
    }

    /// The number of code in the new machine, with that of the functions inside it.
    fn code(&mut self, number: u32) -> Option<u32> {
        if let Some(taken) = self.code.get(&number) {
            return Some(*taken);
        }
        let proto = Arc::clone(&self.from.code.get(number).proto);
        let taken = self.to.code.load(&proto, &mut self.to.state.heap)?;
        let mut rest = vec![(number, taken)];
        while let Some((number, taken)) = rest.pop() {
            self.code.insert(number, taken);
            let (from, to) = (self.from.code.get(number), self.to.code.get(taken));
            rest.extend(from.prototypes.iter().copied().zip(to.prototypes.iter().copied()));
        }
        Some(taken)
    }

    /// Gives an object what it refers to.
    fn fill(&mut self, unfilled: Unfilled) -> Option<()> {
        match unfilled {
            Unfilled::Table(table) => return self.fill_table(table),
            Unfilled::Closure(closure) => {
                let environment = self.table(self.heap().closure(closure).environment);
                self.to.state.heap.set_closure_environment(self.closures[&closure], environment);
            }
            Unfilled::Native(native) => {
                for index in 0..self.heap().native(native).values.len() {
                    let value = self.value(self.heap().native(native).values[index])?;
                    self.to.state.heap.native_mut(self.natives[&native]).values[index] = value;
                }
            }
            Unfilled::Upvalue(upvalue) => {
                // Captured variables of a run are closed with it.
                let value = self.value(self.from.state.upvalue(upvalue))?;
                self.to.state.heap.set_upvalue(self.upvalues[&upvalue], Upvalue::Closed(value));
            }
        }
        Some(())
    }

    fn fill_table(&mut self, table: TableRef) -> Option<()> {
        let taken = self.tables[&table];
        if let Some(metatable) = self.heap().table(table).metatable() {
            let metatable = self.table(metatable);
            self.to.state.heap.table_mut(taken).set_metatable(Some(metatable));
        }
        let (weak_keys, weak_values) = self.heap().weakness(Some(Event::Mode.name()), table);
        if weak_keys || weak_values {
            self.weak.push(table);
            let kept: Vec<LuaValue> = self.heap().table(table).references(!weak_keys, !weak_values).collect();
            return kept.into_iter().try_for_each(|value| self.value(value).map(drop));
        }
        let mut position = 0;
        while let Some((next, key, value)) = self.heap().table(table).next_from(position) {
            position = next;
            let (key, value) = (self.value(key)?, self.value(value)?);
            self.to.state.heap.set(taken, key, value).ok()?;
        }
        self.freeze(table);
        Some(())
    }

    /// Fills weak tables, once it is known what else has come. Strings are values: they come with their entry.
    fn fill_weak(&mut self) -> Option<()> {
        for table in std::mem::take(&mut self.weak) {
            let mut position = 0;
            while let Some((next, key, value)) = self.heap().table(table).next_from(position) {
                position = next;
                if self.has_come(key) && self.has_come(value) {
                    let (key, value) = (self.value(key)?, self.value(value)?);
                    self.to.state.heap.set(self.tables[&table], key, value).ok()?;
                }
            }
            self.freeze(table);
        }
        Some(())
    }

    fn has_come(&self, value: LuaValue) -> bool {
        match value {
            LuaValue::Table(table) => table.0 < self.base.tables || self.tables.contains_key(&table),
            LuaValue::Function(closure) => closure.0 < self.base.closures || self.closures.contains_key(&closure),
            LuaValue::Native(native) => native.0 < self.base.natives || self.natives.contains_key(&native),
            LuaValue::Thread(thread) => self.threads.contains_key(&thread),
            _ => true,
        }
    }

    fn freeze(&mut self, table: TableRef) {
        if self.heap().table(table).flags() & READ_ONLY != 0 {
            self.to.state.heap.freeze_one(self.tables[&table]);
        }
    }
}
