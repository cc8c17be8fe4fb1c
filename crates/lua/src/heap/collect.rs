//! Collection by marking and sweeping, for runs that leave much behind.
//!
//! It happens between instructions only, so everything alive is on a stack, in a frame, or can be reached from the roots. There
//! are no finalizers: nothing of a script runs when an object dies.

use super::objects::{UPVALUE_SIZE, Upvalue};
use super::{Heap, TABLE_OVERHEAD};
use crate::value::{ClosureRef, LuaValue, NativeRef, StringRef, TableRef, ThreadRef, UpvalueRef};

/// Objects that are marked but whose references are not.
#[derive(Debug, Default)]
pub(crate) struct Marker {
    gray: Vec<LuaValue>,
    threads: Vec<ThreadRef>,
    weak: Vec<TableRef>,
    /// The string `__mode`.
    mode: Option<StringRef>,
}

impl Marker {
    pub(crate) fn new(mode: StringRef) -> Self {
        Self { mode: Some(mode), ..Self::default() }
    }

    /// A coroutine whose stack is still to be marked by the machine.
    pub(crate) fn next_thread(&mut self) -> Option<ThreadRef> {
        self.threads.pop()
    }
}

impl Heap {
    /// Marks a value; what it refers to is marked by [`Self::mark_all`].
    pub(crate) fn mark(&mut self, marker: &mut Marker, value: LuaValue) {
        let is_new = match value {
            LuaValue::String(string) => {
                self.strings.mark(string);
                false
            }
            LuaValue::Table(table) => self.tables.mark(table.0 as usize),
            LuaValue::Function(closure) => self.closures.mark(closure.0 as usize),
            LuaValue::Native(native) => self.natives.mark(native.0 as usize),
            LuaValue::Thread(thread) => self.threads.mark(thread.0 as usize),
            LuaValue::Nil | LuaValue::Boolean(_) | LuaValue::Number(_) | LuaValue::Light(_) => false,
        };
        if is_new {
            marker.gray.push(value);
        }
    }

    pub(crate) fn mark_upvalue(&mut self, marker: &mut Marker, upvalue: UpvalueRef) {
        if self.upvalues.mark(upvalue.0 as usize) {
            match self.upvalue(upvalue) {
                Upvalue::Closed(value) => self.mark(marker, value),
                Upvalue::Open { thread, .. } => self.mark(marker, LuaValue::Thread(thread)),
            }
        }
    }

    /// Marks everything that marked objects refer to, but for the stacks of coroutines.
    pub(crate) fn mark_all(&mut self, marker: &mut Marker) {
        while let Some(value) = marker.gray.pop() {
            match value {
                LuaValue::Table(table) => self.mark_table(marker, table),
                LuaValue::Function(closure) => self.mark_closure(marker, closure),
                LuaValue::Native(native) => self.mark_native(marker, native),
                LuaValue::Thread(thread) => marker.threads.push(thread),
                _ => {}
            }
        }
    }

    fn mark_table(&mut self, marker: &mut Marker, table: TableRef) {
        let (weak_keys, weak_values) = self.weakness(marker.mode, table);
        if weak_keys || weak_values {
            marker.weak.push(table);
        }
        let references: Vec<LuaValue> = self.table(table).references(!weak_keys, !weak_values).collect();
        references.into_iter().for_each(|value| self.mark(marker, value));
        if let Some(metatable) = self.table(table).metatable() {
            self.mark(marker, LuaValue::Table(metatable));
        }
    }

    /// Whether a table's keys, and its values, are weak: its metatable says so by the field `mode`.
    pub(crate) fn weakness(&self, mode: Option<StringRef>, table: TableRef) -> (bool, bool) {
        let Some(metatable) = self.table(table).metatable() else { return (false, false) };
        match mode.map(|mode| self.table(metatable).get_string(mode)) {
            Some(LuaValue::String(mode)) => (self.bytes(mode).contains(&b'k'), self.bytes(mode).contains(&b'v')),
            _ => (false, false),
        }
    }

    fn mark_closure(&mut self, marker: &mut Marker, closure: ClosureRef) {
        let environment = self.closure(closure).environment;
        self.mark(marker, LuaValue::Table(environment));
        for index in 0..self.closure(closure).upvalues.len() {
            let upvalue = self.closure(closure).upvalues[index];
            self.mark_upvalue(marker, upvalue);
        }
    }

    fn mark_native(&mut self, marker: &mut Marker, native: NativeRef) {
        for index in 0..self.native(native).values.len() {
            let value = self.native(native).values[index];
            self.mark(marker, value);
        }
    }

    /// Objects that outlive the region are roots, since they may have been made to refer to it.
    pub(crate) fn mark_old(&mut self, marker: &mut Marker) {
        for index in 0..self.tables.watermark() {
            self.mark(marker, LuaValue::Table(TableRef(index as u32)));
        }
        for index in 0..self.closures.watermark() {
            self.mark(marker, LuaValue::Function(ClosureRef(index as u32)));
        }
        for index in 0..self.natives.watermark() {
            self.mark(marker, LuaValue::Native(NativeRef(index as u32)));
        }
        for index in 0..self.upvalues.watermark() {
            self.mark_upvalue(marker, UpvalueRef(index as u32));
        }
    }

    /// Clears weak entries and frees what is not marked; coroutines that died are named.
    pub(crate) fn sweep(&mut self, marker: Marker) -> Vec<ThreadRef> {
        for table in marker.weak {
            self.clear_weak(table);
        }
        let tables: usize = self.tables.unmarked().map(|index| self.tables.get(index).size() + TABLE_OVERHEAD).sum();
        let closures: usize = self.closures.unmarked().map(|index| self.closures.get(index).size()).sum();
        let natives: usize = self.natives.unmarked().map(|index| self.natives.get(index).size()).sum();
        let upvalues = self.upvalues.unmarked().count() * UPVALUE_SIZE;
        let strings = self.strings.sweep();
        self.memory.give(tables + closures + natives + upvalues + strings);
        let dead = self.threads.unmarked().map(|index| ThreadRef(index as u32)).collect();
        self.tables.sweep();
        self.closures.sweep();
        self.natives.sweep();
        self.upvalues.sweep();
        self.threads.sweep();
        self.memory.plan();
        dead
    }

    fn clear_weak(&mut self, table: TableRef) {
        let mut content = std::mem::take(self.tables.get_mut(table.0 as usize));
        // A string is a value, not an object: it stays as long as its entry.
        for value in content.references(true, true).collect::<Vec<_>>() {
            if let LuaValue::String(string) = value {
                self.strings.mark(string);
            }
        }
        content.clear_dead(|value| !self.is_alive(value));
        *self.tables.get_mut(table.0 as usize) = content;
    }

    fn is_alive(&self, value: LuaValue) -> bool {
        match value {
            LuaValue::String(string) => self.strings.is_alive(string),
            LuaValue::Table(table) => self.tables.is_alive(table.0 as usize),
            LuaValue::Function(closure) => self.closures.is_alive(closure.0 as usize),
            LuaValue::Native(native) => self.natives.is_alive(native.0 as usize),
            LuaValue::Thread(thread) => self.threads.is_alive(thread.0 as usize),
            LuaValue::Nil | LuaValue::Boolean(_) | LuaValue::Number(_) | LuaValue::Light(_) => true,
        }
    }
}
