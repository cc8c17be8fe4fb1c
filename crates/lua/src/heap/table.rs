//! Tables: an array part, and a hash part that keeps the order of insertion.
//!
//! The array part holds the keys 1 to n; a value that is appended behind it may draw further ones out of the hash part. Its last
//! value is never nil, so the length of an array is at hand. The hash part is a list of entries with chains of equal buckets over
//! it. An entry whose value is nil stays until the list is full, so a traversal may clear the fields that it meets.

use crate::value::{LuaValue, TableRef};

const NONE: u32 = u32::MAX;
/// Entries that a table may have, and values of its array part.
const ENTRIES_MAX: usize = 1 << 26;

/// The table refuses changes.
pub(crate) const READ_ONLY: u8 = 1;
/// The table was there when the region began: its first change is noted.
pub(crate) const OLD: u8 = 2;

#[derive(Clone, Debug)]
struct Entry {
    key: LuaValue,
    value: LuaValue,
    next: u32,
}

/// A table of Lua.
#[derive(Debug, Default)]
pub(crate) struct Table {
    array: Vec<LuaValue>,
    entries: Vec<Entry>,
    buckets: Vec<u32>,
    metatable: Option<TableRef>,
    flags: u8,
    /// Bits of the metamethods that the table, as a metatable, is known not to have.
    absent: u8,
}

/// A change that a table did not take: it would have too many entries.
#[derive(Debug)]
pub(crate) struct TooLarge;

impl Table {
    /// A table with room; `array` is memory for it, or none.
    pub(crate) fn with_capacity(array: usize, entries: usize, spare: Vec<LuaValue>) -> Self {
        let mut table = Self { array: spare, ..Self::default() };
        table.array.reserve_exact(array.min(ENTRIES_MAX));
        if entries > 0 {
            table.resize(entries.min(ENTRIES_MAX).next_power_of_two());
        }
        table
    }

    /// The memory of the array part, which is empty then.
    pub(crate) fn take_array(&mut self) -> Vec<LuaValue> {
        let mut array = std::mem::take(&mut self.array);
        array.clear();
        array
    }

    /// Empties a list. What is more than a list is replaced.
    pub(crate) fn empty(&mut self, kept: usize) {
        if self.buckets.is_empty() && self.metatable.is_none() && self.flags == 0 && self.array.capacity() <= kept {
            self.array.clear();
        } else {
            *self = Self::default();
        }
    }

    /// Values that the array part has room for.
    pub(crate) fn array_room(&self) -> usize {
        self.array.capacity()
    }

    /// Bytes of memory, without the object's slot.
    pub(crate) fn size(&self) -> usize {
        self.array.capacity() * size_of::<LuaValue>() + self.entries.capacity() * size_of::<Entry>() + self.buckets.capacity() * 4
    }

    pub(crate) fn metatable(&self) -> Option<TableRef> {
        self.metatable
    }

    pub(crate) fn set_metatable(&mut self, metatable: Option<TableRef>) {
        self.metatable = metatable;
    }

    #[inline]
    pub(crate) fn flags(&self) -> u8 {
        self.flags
    }

    pub(crate) fn set_flag(&mut self, flag: u8, on: bool) {
        self.flags = if on { self.flags | flag } else { self.flags & !flag };
    }

    pub(crate) fn lacks(&self, bit: u8) -> bool {
        self.absent & bit != 0
    }

    pub(crate) fn note_lacking(&mut self, bit: u8) {
        self.absent |= bit;
    }

    /// The value of a key whose long strings are canonical; nil without one.
    #[inline]
    pub(crate) fn get(&self, key: LuaValue) -> LuaValue {
        if let LuaValue::Number(number) = key
            && let Some(index) = array_index(number)
            && let Some(value) = self.array.get(index)
        {
            return *value;
        }
        self.find(key).map_or(LuaValue::Nil, |entry| self.entries[entry].value)
    }

    /// The value of a string.
    #[inline]
    pub(crate) fn get_string(&self, key: crate::value::StringRef) -> LuaValue {
        if self.buckets.is_empty() {
            return LuaValue::Nil;
        }
        let mut at = self.buckets[key.0 as usize & (self.buckets.len() - 1)];
        while let Some(entry) = self.entries.get(at as usize) {
            if matches!(entry.key, LuaValue::String(string) if string == key) {
                return entry.value;
            }
            at = entry.next;
        }
        LuaValue::Nil
    }

    /// The value of the number `index`.
    #[inline]
    pub(crate) fn get_index(&self, index: usize) -> LuaValue {
        match self.array.get(index.wrapping_sub(1)) {
            Some(value) => *value,
            None => self.find(LuaValue::Number(index as f64)).map_or(LuaValue::Nil, |entry| self.entries[entry].value),
        }
    }

    /// Replaces the value of a key that has one; false without a change when it has none.
    #[inline]
    pub(crate) fn replace(&mut self, key: LuaValue, value: LuaValue) -> bool {
        if let LuaValue::Number(number) = key
            && let Some(index) = array_index(number)
            && let Some(place) = self.array.get_mut(index)
        {
            if place.is_nil() || value.is_nil() {
                return false;
            }
            *place = value;
            return true;
        }
        match self.find(key) {
            Some(entry) if !self.entries[entry].value.is_nil() => {
                self.entries[entry].value = value;
                true
            }
            _ => false,
        }
    }

    /// Appends a value behind the array part, if the key is the next one, there is room, and nothing else is to be done.
    #[inline]
    pub(crate) fn append(&mut self, key: LuaValue, value: LuaValue) -> bool {
        let length = self.array.len();
        let fits = length < self.array.capacity() && self.entries.is_empty() && self.metatable.is_none() && !value.is_nil();
        if fits && matches!(key, LuaValue::Number(number) if number == (length + 1) as f64) {
            self.array.push(value);
            return true;
        }
        false
    }

    /// Sets the values behind the key `before`, as a constructor does: nil among them does not end the array part.
    pub(crate) fn set_list(&mut self, before: usize, values: &[LuaValue]) -> Result<(), TooLarge> {
        let is_taken = |offset| self.find(LuaValue::Number((before + offset) as f64)).is_some();
        if before != self.array.len() || !self.entries.is_empty() && (1..=values.len()).any(is_taken) {
            for (offset, value) in values.iter().enumerate() {
                self.set(LuaValue::Number((before + offset + 1) as f64), *value)?;
            }
            return Ok(());
        }
        if before + values.len() > ENTRIES_MAX {
            return Err(TooLarge);
        }
        self.array.extend_from_slice(values);
        self.trim();
        Ok(())
    }

    /// Makes room for a list in a table that is empty.
    pub(crate) fn reserve(&mut self, values: usize) {
        debug_assert!(self.array.is_empty() && self.entries.is_empty() && values <= ENTRIES_MAX, "a list that is filled for a run");
        self.array.reserve_exact(values);
    }

    /// Appends a value that is not nil to a list.
    #[inline]
    pub(crate) fn push(&mut self, value: LuaValue) {
        self.array.push(value);
    }

    /// The array part ends with a value.
    fn trim(&mut self) {
        while self.array.last().is_some_and(|value| value.is_nil()) {
            self.array.pop();
        }
    }

    /// Sets a key, which is neither nil nor NaN and canonical.
    pub(crate) fn set(&mut self, key: LuaValue, value: LuaValue) -> Result<(), TooLarge> {
        self.absent = 0;
        if let LuaValue::Number(number) = key
            && let Some(index) = array_index(number)
            && index <= self.array.len()
        {
            return self.set_array(index, value);
        }
        if let Some(entry) = self.find(key) {
            self.entries[entry].value = value;
            return Ok(());
        }
        if value.is_nil() { Ok(()) } else { self.insert(key, value) }
    }

    fn set_array(&mut self, index: usize, value: LuaValue) -> Result<(), TooLarge> {
        if let Some(place) = self.array.get_mut(index) {
            *place = value;
            if value.is_nil() && index + 1 == self.array.len() {
                self.trim();
            }
            return Ok(());
        }
        // A traversal may have gone past the key in the hash part: it stays there.
        if !self.entries.is_empty()
            && let Some(entry) = self.find(LuaValue::Number((index + 1) as f64))
        {
            if value.is_nil() {
                self.entries[entry].value = value;
                return Ok(());
            }
            self.entries[entry].value = LuaValue::Nil;
        }
        if value.is_nil() {
            return Ok(());
        }
        if index >= ENTRIES_MAX {
            return Err(TooLarge);
        }
        self.array.push(value);
        if !self.entries.is_empty() {
            self.draw_from_hash();
        }
        Ok(())
    }

    /// Moves the keys that follow the array part out of the hash part.
    fn draw_from_hash(&mut self) {
        while let Some(entry) = self.find(LuaValue::Number((self.array.len() + 1) as f64)) {
            let value = std::mem::take(&mut self.entries[entry].value);
            if value.is_nil() || self.array.len() >= ENTRIES_MAX {
                self.entries[entry].value = value;
                return;
            }
            self.array.push(value);
        }
    }

    #[inline]
    fn find(&self, key: LuaValue) -> Option<usize> {
        if self.buckets.is_empty() {
            return None;
        }
        let mut at = self.buckets[hash(key) as usize & (self.buckets.len() - 1)];
        while let Some(entry) = self.entries.get(at as usize) {
            if entry.key.same(key) {
                return Some(at as usize);
            }
            at = entry.next;
        }
        None
    }

    #[inline(never)]
    fn insert(&mut self, key: LuaValue, value: LuaValue) -> Result<(), TooLarge> {
        if self.entries.len() == self.buckets.len() {
            let live = self.entries.iter().filter(|entry| !entry.value.is_nil()).count();
            if live >= ENTRIES_MAX {
                return Err(TooLarge);
            }
            self.resize((live + live / 4 + 1).next_power_of_two());
        }
        let bucket = hash(key) as usize & (self.buckets.len() - 1);
        let next = std::mem::replace(&mut self.buckets[bucket], self.entries.len() as u32);
        self.entries.push(Entry { key, value, next });
        Ok(())
    }

    /// Makes room for `size` entries, a power of two, and drops those without a value.
    fn resize(&mut self, size: usize) {
        let mut entries = Vec::with_capacity(size);
        entries.extend(self.entries.drain(..).filter(|entry| !entry.value.is_nil()));
        self.entries = entries;
        self.buckets = vec![NONE; size];
        for (index, entry) in self.entries.iter_mut().enumerate() {
            let bucket = hash(entry.key) as usize & (size - 1);
            entry.next = std::mem::replace(&mut self.buckets[bucket], index as u32);
        }
    }

    /// A border: `t[n]` is not nil and `t[n + 1]` is.
    #[inline]
    pub(crate) fn length(&self) -> usize {
        if self.entries.is_empty() { self.array.len() } else { self.length_with_hash() }
    }

    fn length_with_hash(&self) -> usize {
        let mut length = self.array.len();
        while !self.get_index(length + 1).is_nil() {
            length += 1;
        }
        length
    }

    /// The entry behind `key`, where nil is before the first; `None` for a key that is not there.
    pub(crate) fn next(&self, key: LuaValue) -> Option<Option<(LuaValue, LuaValue)>> {
        let position = self.position(key)?;
        Some(self.next_from(position).map(|(_, key, value)| (key, value)))
    }

    /// The first entry at or behind a position, and the position behind it.
    pub(crate) fn next_from(&self, position: usize) -> Option<(usize, LuaValue, LuaValue)> {
        let array = self.array.len();
        for index in position..array {
            if !self.array[index].is_nil() {
                return Some((index + 1, LuaValue::Number((index + 1) as f64), self.array[index]));
            }
        }
        let from = position.max(array) - array;
        let found = self.entries.get(from..)?.iter().position(|entry| !entry.value.is_nil())?;
        let entry = &self.entries[from + found];
        Some((array + from + found + 1, entry.key, entry.value))
    }

    fn position(&self, key: LuaValue) -> Option<usize> {
        if key.is_nil() {
            return Some(0);
        }
        let index = if let LuaValue::Number(number) = key { array_index(number) } else { None };
        if let Some(index) = index.filter(|index| *index < self.array.len()) {
            return Some(index + 1);
        }
        if let Some(entry) = self.find(key) {
            return Some(self.array.len() + entry + 1);
        }
        // The end of the array part may have been cleared during the traversal.
        index.filter(|index| *index < self.array.capacity()).map(|_| self.array.len())
    }

    /// Keys and values that keep objects alive; weak ones are left out.
    pub(crate) fn references(&self, keys: bool, values: bool) -> impl Iterator<Item = LuaValue> + '_ {
        let entries = self.entries.iter().filter(|entry| !entry.value.is_nil());
        let array = self.array.iter().filter(move |_| values).copied();
        array.chain(entries.flat_map(move |entry| [keys.then_some(entry.key), values.then_some(entry.value)].into_iter().flatten()))
    }

    /// Clears the entries that have a dead key or value.
    pub(crate) fn clear_dead(&mut self, is_dead: impl Fn(LuaValue) -> bool) {
        for value in &mut self.array {
            if is_dead(*value) {
                *value = LuaValue::Nil;
            }
        }
        self.trim();
        for entry in &mut self.entries {
            if is_dead(entry.key) || is_dead(entry.value) {
                entry.value = LuaValue::Nil;
            }
        }
    }
}

/// The place of a number in an array part.
#[inline]
fn array_index(number: f64) -> Option<usize> {
    let index = number as u32;
    (f64::from(index) == number && index != 0).then(|| index as usize - 1)
}

#[inline]
fn hash(key: LuaValue) -> u32 {
    match key {
        LuaValue::Nil => 0,
        LuaValue::Boolean(value) => u32::from(value),
        LuaValue::Number(number) => {
            let bits = (number + 0.0).to_bits();
            let folded = (bits ^ (bits >> 32)) as u32;
            let mixed = folded.wrapping_mul(0x9e37_79b1);
            mixed ^ (mixed >> 15)
        }
        LuaValue::Light(index)
        | LuaValue::String(crate::value::StringRef(index))
        | LuaValue::Table(TableRef(index))
        | LuaValue::Function(crate::value::ClosureRef(index))
        | LuaValue::Native(crate::value::NativeRef(index))
        | LuaValue::Thread(crate::value::ThreadRef(index)) => index,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: usize) -> LuaValue {
        LuaValue::Number(value as f64)
    }

    #[test]
    fn values_that_are_set_backwards_end_in_the_array_part() {
        let mut table = Table::default();
        for i in (1..=100).rev() {
            table.set(number(i), number(i * 2)).expect("room");
        }
        assert_eq!((table.length(), table.array.len()), (100, 100));
        assert!((1..=100).all(|i| table.get(number(i)).same(number(i * 2))));
    }

    #[test]
    fn a_traversal_may_clear_what_it_meets() {
        let mut table = Table::default();
        for i in 1..=10 {
            table.set(number(i), number(i)).expect("room");
            table.set(number(i * 1000), number(i)).expect("room");
        }
        let (mut key, mut met) = (LuaValue::Nil, 0);
        while let Some((next, _)) = table.next(key).expect("a key of the table") {
            table.set(next, LuaValue::Nil).expect("room");
            (key, met) = (next, met + 1);
        }
        assert_eq!((met, table.length()), (20, 0));
        assert!(table.next(number(77)).is_none());
    }

    #[test]
    fn the_hash_part_keeps_the_order_of_insertion() {
        let mut table = Table::default();
        for i in [500, 300, 900, 100_000] {
            table.set(number(i), number(1)).expect("room");
        }
        table.set(number(300), LuaValue::Nil).expect("room");
        let (mut key, mut keys) = (LuaValue::Nil, Vec::new());
        while let Some((next, _)) = table.next(key).expect("a key of the table") {
            keys.push(format!("{next:?}"));
            key = next;
        }
        assert_eq!(keys, ["Number(500.0)", "Number(900.0)", "Number(100000.0)"]);
    }
}
