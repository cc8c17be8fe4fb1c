//! The objects of one virtual machine, and the memory that they take.
//!
//! Everything that a run makes lies above a watermark: [`Heap::cut`] drops it at once. What cannot be cut, and what a long run
//! leaves, is collected by marking and sweeping (`collect`).

pub(crate) mod collect;
pub(crate) mod gathered;
pub(crate) mod objects;
pub(crate) mod slab;
mod strings;
pub(crate) mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::value::{ClosureRef, LuaValue, NativeRef, StringRef, TableRef, ThreadRef, UpvalueRef};
use objects::{Closure, NativeFunction, UPVALUE_SIZE, Upvalue};
use slab::Slab;
use strings::Strings;
use table::{OLD, READ_ONLY, Table};

/// What a table costs beside its parts.
const TABLE_OVERHEAD: usize = size_of::<Table>() + 1;

/// Bytes of memory: used, allowed, and at which the next collection is due.
#[derive(Debug)]
pub(crate) struct Memory {
    used: usize,
    limit: usize,
    collect_at: usize,
    collections: bool,
    /// Bytes that native functions have gathered and that are no objects yet.
    gathered: Arc<AtomicUsize>,
}

/// Why a table did not take a value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    ReadOnly,
    NilKey,
    NanKey,
    TooLarge,
}

impl Refused {
    /// Why no table takes the key.
    #[inline]
    pub(crate) fn of_key(key: LuaValue) -> Option<Self> {
        match key {
            LuaValue::Nil => Some(Self::NilKey),
            LuaValue::Number(number) if number.is_nan() => Some(Self::NanKey),
            _ => None,
        }
    }
}

/// Objects by type.
#[derive(Debug)]
pub struct Heap {
    strings: Strings,
    tables: Slab<Table>,
    closures: Slab<Closure>,
    natives: Slab<NativeFunction>,
    upvalues: Slab<Upvalue>,
    /// Coroutines; their stacks are of the machine.
    threads: Slab<()>,
    pub(crate) memory: Memory,
    /// An object that outlives the region was made to refer to one of the region.
    escaped: bool,
    /// Memory of lists of the last region, for those of the next one.
    spare_lists: Vec<Vec<LuaValue>>,
}

/// Lists whose memory is kept, and how long they may have been: a script makes two of what it is given.
const SPARE_LISTS: usize = 2;
const SPARE_LENGTH: usize = 16;

/// Garbage below it is never collected.
pub(crate) const COLLECT_MIN: usize = 1 << 20;

impl Heap {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            strings: Strings::new(seed),
            tables: Slab::new(),
            closures: Slab::new(),
            natives: Slab::new(),
            upvalues: Slab::new(),
            threads: Slab::new(),
            memory: Memory { used: 0, limit: usize::MAX, collect_at: COLLECT_MIN, collections: true, gathered: Arc::default() },
            escaped: false,
            spare_lists: Vec::with_capacity(SPARE_LISTS),
        }
    }

    /// The bytes of a string.
    #[inline]
    #[must_use]
    pub fn bytes(&self, string: StringRef) -> &[u8] {
        self.strings.bytes(string)
    }

    /// Equality without metamethods.
    #[inline]
    #[must_use]
    pub fn equals(&self, left: LuaValue, right: LuaValue) -> bool {
        match (left, right) {
            (LuaValue::String(a), LuaValue::String(b)) => {
                a == b || ((a.is_long() || b.is_long()) && self.bytes(a) == self.bytes(b))
            }
            _ => left.same(right),
        }
    }

    pub(crate) fn string(&mut self, bytes: &[u8]) -> StringRef {
        let (string, taken) = self.strings.make(bytes);
        self.memory.take(taken);
        string
    }

    pub(crate) fn late_string(&mut self, bytes: &[u8]) -> StringRef {
        let (string, taken) = self.strings.make_late(bytes);
        self.memory.take(taken);
        string
    }

    pub(crate) fn string_owned(&mut self, bytes: Vec<u8>) -> StringRef {
        let (string, taken) = self.strings.make_owned(bytes);
        self.memory.take(taken);
        string
    }

    /// The value as a key: strings that were not interned are replaced by the one that stands for them.
    #[inline]
    pub(crate) fn key(&mut self, key: LuaValue) -> LuaValue {
        match key {
            LuaValue::String(string) if string.is_long() => LuaValue::String(self.strings.canonical(string)),
            _ => key,
        }
    }

    pub(crate) fn new_table(&mut self, array: usize, entries: usize) -> TableRef {
        let spare = if (1..=SPARE_LENGTH).contains(&array) { self.spare_lists.pop().unwrap_or_default() } else { Vec::new() };
        let table = Table::with_capacity(array, entries, spare);
        self.memory.take(table.size() + TABLE_OVERHEAD);
        TableRef(self.tables.insert(table) as u32)
    }

    #[inline]
    pub(crate) fn table(&self, table: TableRef) -> &Table {
        self.tables.get(table.0 as usize)
    }

    pub(crate) fn is_read_only(&self, table: TableRef) -> bool {
        self.table(table).flags() & READ_ONLY != 0
    }

    /// For changes that are neither of entries nor of size.
    pub(crate) fn table_mut(&mut self, table: TableRef) -> &mut Table {
        self.note_change(table);
        self.tables.get_mut(table.0 as usize)
    }

    /// Remembers that a metatable lacks a metamethod.
    pub(crate) fn note_lacking(&mut self, table: TableRef, bit: u8) {
        self.tables.get_mut(table.0 as usize).note_lacking(bit);
    }

    #[inline]
    pub(crate) fn get(&mut self, table: TableRef, key: LuaValue) -> LuaValue {
        let key = self.key(key);
        self.table(table).get(key)
    }

    /// Replaces a value that is there, in a table that is neither read-only nor old; false when it is not so.
    #[inline]
    pub(crate) fn replace(&mut self, table: TableRef, key: LuaValue, value: LuaValue) -> bool {
        if matches!(key, LuaValue::String(string) if string.is_long()) {
            return false;
        }
        let table = self.tables.get_mut(table.0 as usize);
        table.flags() == 0 && table.replace(key, value)
    }

    /// The same; it also appends to the array part where there is room for it and no metatable.
    #[inline]
    pub(crate) fn replace_or_append(&mut self, table: TableRef, key: LuaValue, value: LuaValue) -> bool {
        if matches!(key, LuaValue::String(string) if string.is_long()) {
            return false;
        }
        let table = self.tables.get_mut(table.0 as usize);
        table.flags() == 0 && (table.replace(key, value) || table.append(key, value))
    }

    /// Sets a field without metamethods.
    pub(crate) fn set(&mut self, table: TableRef, key: LuaValue, value: LuaValue) -> Result<(), Refused> {
        if self.table(table).flags() & READ_ONLY != 0 {
            return Err(Refused::ReadOnly);
        }
        if let Some(refused) = Refused::of_key(key) {
            return Err(refused);
        }
        self.note_change(table);
        let key = self.key(key);
        let table = self.tables.get_mut(table.0 as usize);
        let before = table.size();
        table.set(key, value).map_err(|_| Refused::TooLarge)?;
        let after = table.size();
        if after != before {
            self.memory.take(after);
            self.memory.give(before);
        }
        Ok(())
    }

    /// Sets the values behind the key `before` of a new table.
    pub(crate) fn set_list(&mut self, table: TableRef, before: usize, values: &[LuaValue]) -> Result<(), Refused> {
        let table = self.tables.get_mut(table.0 as usize);
        let size = table.size();
        table.set_list(before, values).map_err(|_| Refused::TooLarge)?;
        self.memory.take(table.size() - size.min(table.size()));
        Ok(())
    }

    /// Fills an empty list with strings that are likely to be passed on only.
    pub(crate) fn fill_late<'t>(&mut self, table: TableRef, texts: impl ExactSizeIterator<Item = &'t [u8]>) {
        let Self { strings, tables, memory, .. } = self;
        let table = tables.get_mut(table.0 as usize);
        let (size, mut taken) = (table.size(), 0);
        table.reserve(texts.len());
        for text in texts {
            let (string, bytes) = strings.make_late(text);
            taken += bytes;
            table.push(LuaValue::String(string));
        }
        memory.take(taken + table.size() - size.min(table.size()));
    }

    /// Empties a list that is filled for each run. It belongs to the run that there is, though it outlives it.
    pub(crate) fn empty_list(&mut self, table: TableRef) {
        let table = self.tables.get_mut(table.0 as usize);
        table.set_flag(OLD, false);
        table.empty(SPARE_LENGTH);
    }

    /// Sets a field of a table though it be read-only.
    pub(crate) fn force(&mut self, table: TableRef, key: LuaValue, value: LuaValue) {
        let key = self.key(key);
        let table = self.tables.get_mut(table.0 as usize);
        let done = table.set(key, value);
        debug_assert!(done.is_ok(), "the globals have room for the fields of a run");
    }

    /// A field of the library's own tables while they are built.
    pub(crate) fn set_field(&mut self, table: TableRef, name: &str, value: LuaValue) {
        let key = LuaValue::String(self.string(name.as_bytes()));
        let done = self.set(table, key, value);
        debug_assert_eq!(done, Ok(()), "the library's tables are writable while they are built");
    }

    #[inline]
    fn note_change(&mut self, table: TableRef) {
        if self.table(table).flags() & OLD != 0 {
            self.tables.get_mut(table.0 as usize).set_flag(OLD, false);
            self.escaped = true;
        }
    }

    pub(crate) fn new_closure(&mut self, closure: Closure) -> ClosureRef {
        self.memory.take(closure.size());
        ClosureRef(self.closures.insert(closure) as u32)
    }

    #[inline]
    pub(crate) fn closure(&self, closure: ClosureRef) -> &Closure {
        self.closures.get(closure.0 as usize)
    }

    pub(crate) fn set_closure_environment(&mut self, closure: ClosureRef, table: TableRef) {
        self.escaped |= (closure.0 as usize) < self.closures.watermark();
        self.closures.get_mut(closure.0 as usize).environment = table;
    }

    pub(crate) fn new_native(&mut self, native: NativeFunction) -> NativeRef {
        self.memory.take(native.size());
        NativeRef(self.natives.insert(native) as u32)
    }

    #[inline]
    pub(crate) fn native(&self, native: NativeRef) -> &NativeFunction {
        self.natives.get(native.0 as usize)
    }

    pub(crate) fn native_mut(&mut self, native: NativeRef) -> &mut NativeFunction {
        self.escaped |= (native.0 as usize) < self.natives.watermark();
        self.natives.get_mut(native.0 as usize)
    }

    pub(crate) fn new_upvalue(&mut self, upvalue: Upvalue) -> UpvalueRef {
        self.memory.take(UPVALUE_SIZE);
        UpvalueRef(self.upvalues.insert(upvalue) as u32)
    }

    #[inline]
    pub(crate) fn upvalue(&self, upvalue: UpvalueRef) -> Upvalue {
        *self.upvalues.get(upvalue.0 as usize)
    }

    #[inline]
    pub(crate) fn set_upvalue(&mut self, upvalue: UpvalueRef, content: Upvalue) {
        self.escaped |= (upvalue.0 as usize) < self.upvalues.watermark();
        *self.upvalues.get_mut(upvalue.0 as usize) = content;
    }

    pub(crate) fn new_thread(&mut self) -> ThreadRef {
        ThreadRef(self.threads.insert(()) as u32)
    }

    /// Makes a table, and everything that can be reached from it, read-only.
    pub(crate) fn freeze(&mut self, table: TableRef) {
        let mut rest = vec![table];
        while let Some(table) = rest.pop() {
            if self.table(table).flags() & READ_ONLY != 0 {
                continue;
            }
            self.tables.get_mut(table.0 as usize).set_flag(READ_ONLY, true);
            let table = self.table(table);
            rest.extend(table.metatable());
            rest.extend(
                table
                    .references(true, true)
                    .filter_map(|value| if let LuaValue::Table(table) = value { Some(table) } else { None }),
            );
        }
    }

    /// Everything that there is outlives the runs to come.
    pub(crate) fn begin_region(&mut self) {
        for index in self.tables.watermark()..self.tables.len() {
            let table = self.tables.get_mut(index);
            table.set_flag(OLD, table.flags() & READ_ONLY == 0);
        }
        self.strings.begin_region();
        self.tables.begin_region();
        self.closures.begin_region();
        self.natives.begin_region();
        self.upvalues.begin_region();
        self.threads.begin_region();
        self.escaped = false;
    }

    /// True when the region cannot be cut, since something that outlives it refers to it.
    pub(crate) fn has_escaped(&self) -> bool {
        self.escaped
    }

    /// The number of objects, freed ones included.
    pub(crate) fn objects(&self) -> usize {
        self.strings.len() + self.tables.len() + self.closures.len() + self.natives.len() + self.upvalues.len()
    }

    /// Makes a table read-only, and nothing that it refers to.
    pub(crate) fn freeze_one(&mut self, table: TableRef) {
        self.tables.get_mut(table.0 as usize).set_flag(READ_ONLY, true);
    }

    /// How many tables, closures, native functions and captured variables there are, freed ones included.
    pub(crate) fn lengths(&self) -> [u32; 4] {
        [self.tables.len(), self.closures.len(), self.natives.len(), self.upvalues.len()].map(|length| length as u32)
    }

    /// Drops all objects of the region; `used` is what was used when it began.
    pub(crate) fn cut(&mut self, used: usize) {
        self.strings.cut();
        for index in self.tables.watermark()..self.tables.len().min(self.tables.watermark() + SPARE_LISTS) {
            let table = self.tables.get_mut(index);
            if (1..=SPARE_LENGTH).contains(&table.array_room()) && self.spare_lists.len() < SPARE_LISTS {
                self.spare_lists.push(table.take_array());
            }
        }
        self.tables.cut();
        self.closures.cut();
        self.natives.cut();
        self.upvalues.cut();
        self.threads.cut();
        self.memory.used = used;
        self.memory.collect_at = used + COLLECT_MIN;
    }
}

impl Memory {
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) {
        self.used = self.used.saturating_add(bytes);
    }

    #[inline]
    pub(crate) fn give(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }

    pub(crate) fn used(&self) -> usize {
        self.used
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// True when `bytes` more are within the limit.
    #[inline]
    pub(crate) fn allows(&self, bytes: usize) -> bool {
        self.used.saturating_add(bytes).saturating_add(self.gathered.load(Ordering::Relaxed)) <= self.limit
    }

    /// True when a collection is due, or the limit is passed.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.used >= self.collect_at || self.used > self.limit
    }

    /// The next check collects.
    pub(crate) fn ask(&mut self) {
        self.collect_at = 0;
    }

    pub(crate) fn stop(&mut self) {
        (self.collections, self.collect_at) = (false, usize::MAX);
    }

    pub(crate) fn restart(&mut self) {
        self.collections = true;
        self.plan();
    }

    /// Plans the next collection after one.
    pub(crate) fn plan(&mut self) {
        if self.collections {
            self.collect_at = (self.used * 2).max(self.used + COLLECT_MIN);
        }
    }
}
