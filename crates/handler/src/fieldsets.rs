//! HIMPORT: lists of fields that a connection has given names to.

use std::collections::{BTreeMap, BTreeSet};

use almandine_resp::{Args, ArgsBuf};

use crate::errors::{self, CommandError};

/// Bytes of names and fields that one connection may keep.
const BYTES_MAX: usize = 16 << 20;
/// What a name or a field takes beside its bytes, about.
const OVERHEAD: usize = 64;

/// The fieldsets of one connection.
#[derive(Debug, Default)]
pub struct Fieldsets {
    sets: BTreeMap<Box<[u8]>, ArgsBuf>,
    /// What they take, about.
    bytes: usize,
}

impl Fieldsets {
    /// Gives a list of fields a name, which then means no other list.
    ///
    /// # Errors
    /// When a field is in it twice, or all fieldsets together are too large; then nothing has changed.
    pub fn prepare(&mut self, name: &[u8], fields: Args<'_>) -> Result<(), CommandError> {
        let mut seen = BTreeSet::new();
        if !fields.iter().all(|field| seen.insert(field)) {
            return Err(errors::hash::FIELD_TWICE);
        }
        let before = self.sets.get(name).map_or(0, |before| bytes(name, before.as_args()));
        let after = self.bytes - before + bytes(name, fields);
        if after > BYTES_MAX {
            return Err(errors::hash::FIELDSETS_TOO_LARGE);
        }
        let mut set = ArgsBuf::new();
        fields.iter().for_each(|field| set.push(field));
        self.sets.insert(name.into(), set);
        self.bytes = after;
        Ok(())
    }

    /// The fields that a name stands for.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<Args<'_>> {
        self.sets.get(name).map(ArgsBuf::as_args)
    }

    /// Forgets a name. Says whether it was known.
    pub fn discard(&mut self, name: &[u8]) -> bool {
        let discarded = self.sets.remove(name);
        self.bytes -= discarded.as_ref().map_or(0, |set| bytes(name, set.as_args()));
        discarded.is_some()
    }

    /// Bytes of memory that they take, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// How many names there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }
}

fn bytes(name: &[u8], fields: Args<'_>) -> usize {
    name.len() + OVERHEAD + fields.iter().map(|field| field.len() + OVERHEAD).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str) -> ArgsBuf {
        let mut args = ArgsBuf::new();
        line.split(' ').for_each(|word| args.push(word.as_bytes()));
        args
    }

    #[test]
    fn a_name_means_the_last_list_that_had_no_field_twice() {
        let mut sets = Fieldsets::default();
        assert_eq!(sets.prepare(b"s", fields("a b").as_args()), Ok(()));
        assert_eq!(sets.prepare(b"s", fields("c a c").as_args()), Err(errors::hash::FIELD_TWICE));
        assert_eq!(sets.get(b"s").map(|set| set.len()), Some(2));
        assert_eq!(sets.prepare(b"s", fields("c").as_args()), Ok(()));
        assert_eq!(sets.get(b"s").map(|set| set.at(0)), Some(&b"c"[..]));
        assert!(sets.discard(b"s") && !sets.discard(b"s") && sets.get(b"s").is_none());
        assert_eq!((sets.len(), sets.bytes), (0, 0));
    }

    #[test]
    fn what_a_connection_keeps_is_bounded() {
        let (mut sets, field) = (Fieldsets::default(), "x".repeat(1 << 20));
        let kept = (0..100).take_while(|name: &u8| sets.prepare(&[*name], fields(&field).as_args()).is_ok()).count();
        assert_eq!(kept, 15);
        // One that takes another's place takes its room, too.
        assert_eq!(sets.prepare(&[0], fields(&field).as_args()), Ok(()));
    }
}
