//! Values of other keys, which patterns of BY and GET lead to.
//!
//! Which keys these are is known when the elements are. They are latched together with what is sorted, so that all is of one
//! moment; it is looked whether the elements are still the same. Where they are too many for that, each is read by itself.

use almandine_base::events::Classes;
use almandine_handler::{Context, Stop};
use almandine_keyspace::types::hash::Hashes;
use almandine_keyspace::{Kind, Reader, Refusal};

use super::options::{Get, Sorting};
use super::pattern::Pattern;

/// Keys that are latched together, at most, by a command that only reads.
pub(super) const TOGETHER_MAX: usize = 1 << 16;

/// Reads values.
pub(super) struct Values<'r, 'c> {
    keys: &'r mut Reader<'c>,
    context: &'r Context,
    /// The name of the key.
    name: Vec<u8>,
    value: Vec<u8>,
}

impl<'r, 'c> Values<'r, 'c> {
    pub(super) fn new(keys: &'r mut Reader<'c>, context: &'r Context) -> Self {
        Self { keys, context, name: Vec::new(), value: Vec::new() }
    }

    /// The value that a pattern leads to for an element. None: there is no such key or field, or it is of another type.
    ///
    /// # Errors
    /// When it is not in memory.
    pub(super) fn of(&mut self, pattern: &Pattern, element: &[u8]) -> Result<Option<&[u8]>, Stop> {
        let Self { keys, context, name, value } = self;
        pattern.key(element, name);
        let key = keys.key(name);
        value.clear();
        let (found, has_value) = match &pattern.field {
            None => match keys.read(key)? {
                Some(string) if string.kind() == Kind::String => {
                    value.extend_from_slice(&string);
                    (true, true)
                }
                other => (other.is_some(), false),
            },
            Some(field) => {
                let looked = keys.read_as::<Hashes, _>(key, |hash| {
                    let entry = hash.get(field)?;
                    value.extend_from_slice(entry.map_or(&[][..], |entry| entry.value));
                    Ok(entry.is_some())
                });
                match looked {
                    Ok(has_field) => (has_field.is_some(), has_field == Some(true)),
                    Err(Refusal::WrongKind) => (true, false),
                    Err(refusal) => return Err(refusal.into()),
                }
            }
        };
        context.statistics().looked_up(found);
        if !found && keys.published().any(Classes::MISS) {
            keys.events().state(Classes::MISS, "keymiss", key);
        }
        Ok(has_value.then_some(&**value))
    }
}

/// The patterns that lead to other keys.
fn patterns(sorting: &Sorting) -> impl Iterator<Item = &Pattern> {
    let gets = sorting.gets.iter().filter_map(|get| match get {
        Get::Value(pattern) => Some(pattern),
        Get::Element | Get::Nothing => None,
    });
    sorting.by.iter().chain(gets)
}

/// How many keys the patterns lead to from this number of elements.
pub(super) fn count(sorting: &Sorting, elements: usize) -> usize {
    patterns(sorting).count().saturating_mul(elements)
}

/// Writes the names of all keys that the patterns lead to from an element.
pub(super) fn names(sorting: &Sorting, element: &[u8], out: &mut Vec<Vec<u8>>) {
    for pattern in patterns(sorting) {
        let mut name = Vec::new();
        pattern.key(element, &mut name);
        out.push(name);
    }
}
