//! What a program that embeds a machine makes of values, and asks of them, outside of runs.

use super::Machine;
use super::error::note_place;
use super::transfer::take_over;
use crate::heap::objects::Upvalue;
use crate::value::LuaValue;

/// The values of a machine.
#[derive(Debug)]
pub struct Values<'m> {
    machine: &'m mut Machine,
}

impl<'m> Values<'m> {
    /// Those of this machine.
    #[inline]
    pub fn of(machine: &'m mut Machine) -> Self {
        Self { machine }
    }

    /// A new table with these fields.
    pub fn record(&mut self, fields: &[(&str, LuaValue)]) -> LuaValue {
        let table = self.machine.state.heap.new_table(0, fields.len());
        fields.iter().for_each(|(name, value)| self.machine.state.heap.set_field(table, name, *value));
        LuaValue::Table(table)
    }

    /// The same, by the name of the field.
    pub fn field(&mut self, table: LuaValue, name: &str) -> LuaValue {
        let key = self.machine.string(name.as_bytes());
        self.machine.raw_get(table, key)
    }

    /// The field of a table behind `key`, or the first one behind nil; `None` behind the last one.
    pub fn next(&mut self, table: LuaValue, key: LuaValue) -> Option<(LuaValue, LuaValue)> {
        let LuaValue::Table(table) = table else { return None };
        let key = self.machine.state.heap.key(key);
        self.machine.state.heap.table(table).next(key)?
    }

    /// A string, or a number as `tostring` writes it.
    #[must_use]
    pub fn text(&self, value: LuaValue) -> Option<Vec<u8>> {
        match value {
            LuaValue::String(text) => Some(self.machine.state.heap.bytes(text).to_vec()),
            LuaValue::Number(number) => {
                let mut text = Vec::new();
                crate::number::write(&mut text, number);
                Some(text)
            }
            _ => None,
        }
    }

    /// True for the string of these bytes.
    #[must_use]
    pub fn is_text(&self, value: LuaValue, bytes: &[u8]) -> bool {
        matches!(value, LuaValue::String(text) if self.machine.state.heap.bytes(text) == bytes)
    }

    /// Gives a table a metatable.
    pub fn set_metatable(&mut self, table: LuaValue, metatable: LuaValue) {
        if let (LuaValue::Table(table), LuaValue::Table(metatable)) = (table, metatable) {
            self.machine.state.heap.table_mut(table).set_metatable(Some(metatable));
        }
    }

    /// Makes a table, and everything that can be reached from it, read-only.
    pub fn freeze_table(&mut self, table: LuaValue) {
        if let LuaValue::Table(table) = table {
            self.machine.state.heap.freeze(table);
        }
    }

    /// A global variable that is a list, though globals be read-only. It is empty but for what [`Machine::fill`] puts there until
    /// [`Machine::reset`]. For between two runs.
    pub fn list_for_runs(&mut self, name: &str) -> LuaValue {
        let (name, list) = (self.machine.string(name.as_bytes()), self.machine.state.heap.new_table(0, 0));
        let globals = self.machine.state.globals;
        self.machine.state.heap.force(globals, name, LuaValue::Table(list));
        self.machine.code.forget_found();
        self.machine.lists.push(list);
        self.machine.keep();
        LuaValue::Table(list)
    }

    /// Fills an empty list for one run, or a new one in place of nil, with strings that are likely to be passed on only.
    pub fn fill_late<'t>(&mut self, list: LuaValue, texts: impl ExactSizeIterator<Item = &'t [u8]>) -> LuaValue {
        let heap = &mut self.machine.state.heap;
        let table = if let LuaValue::Table(list) = list { list } else { heap.new_table(texts.len(), 0) };
        heap.fill_late(table, texts);
        LuaValue::Table(table)
    }

    /// A new string that is likely to be passed on only.
    pub fn late_string(&mut self, bytes: &[u8]) -> LuaValue {
        LuaValue::String(self.machine.state.heap.late_string(bytes))
    }

    /// Keeps a value alive while the machine lives.
    pub fn root(&mut self, value: LuaValue) {
        self.machine.state.roots.push(value);
    }

    /// Takes over, for between two runs, what another machine keeps that was made in the same way: these values, whose places in
    /// this one it returns, and all that they reach. The limit of memory comes with them.
    ///
    /// `None` when that was made in another way, or lists are filled for its runs. This machine is of no use then.
    pub fn take_over(&mut self, from: &Machine, values: &[LuaValue]) -> Option<Vec<LuaValue>> {
        take_over(self.machine, from, values)
    }

    /// Sets a global variable though globals be read-only. What it is set to outlives runs only if it did before.
    pub fn force_global(&mut self, name: &str, value: LuaValue) {
        let key = LuaValue::String(self.machine.state.heap.string(name.as_bytes()));
        self.machine.state.heap.force(self.machine.state.globals, key, value);
        self.machine.code.forget_found();
    }

    /// Whether a function, with all that it reaches by the variables that it has captured, finds the same in each call: none of
    /// them is set by it, and none is a table that may be changed. Globals are taken to be read-only.
    #[must_use]
    pub fn keeps_nothing(&self, function: LuaValue) -> bool {
        let Machine { state, code, .. } = &*self.machine;
        let (mut rest, mut seen) = (vec![function], Vec::new());
        while let Some(value) = rest.pop() {
            match value {
                LuaValue::Function(closure) if seen.contains(&closure) => {}
                LuaValue::Function(closure) => {
                    seen.push(closure);
                    let closure = state.heap.closure(closure);
                    if code.get(closure.proto).proto.sets_captured() || closure.environment != state.globals {
                        return false;
                    }
                    for upvalue in &closure.upvalues {
                        match state.heap.upvalue(*upvalue) {
                            Upvalue::Closed(value) => rest.push(value),
                            Upvalue::Open { .. } => return false,
                        }
                    }
                }
                LuaValue::Native(native) if state.heap.native(native).values.is_empty() => {}
                LuaValue::Table(table) if state.heap.is_read_only(table) => {}
                LuaValue::Nil | LuaValue::Boolean(_) | LuaValue::Number(_) | LuaValue::String(_) => {}
                _ => return false,
            }
        }
        true
    }

    /// Where the last error was raised: the source, as it was given to [`crate::compile`], and the line.
    #[must_use]
    pub fn place(&self) -> Option<(&[u8], u32)> {
        self.machine.state.errors.place.map(|(code, line)| (&*self.machine.code.get(code).proto.source, line))
    }

    /// Notes for [`Self::place`] where a suspended run is.
    pub fn note_place(&mut self) {
        note_place(&mut self.machine.state, &self.machine.code);
    }

    /// Bytes that runs may use from now on, beside those that are in use.
    pub fn limit_memory(&mut self, bytes: usize) {
        let used = self.machine.memory_used();
        self.machine.state.heap.memory.set_limit(used.saturating_add(bytes));
    }
}
