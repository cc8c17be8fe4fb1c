//! What the store asks of the types.

use std::sync::Arc;

use almandine_base::object::{Kind, Object, Types};
use almandine_datatypes::hash::{HashObject, PackedHash, Placement};
use almandine_datatypes::list::{ListObject, PackedList};
use almandine_datatypes::set::{PackedSet, SetObject};
use almandine_datatypes::sorted_set::{PackedSortedSet, SortedSetObject};
use almandine_datatypes::stream::StreamObject;
use almandine_store::{HeapValue, SharedValue};

/// The types that there are.
#[derive(Clone, Copy, Debug)]
pub struct TypeTable {
    /// Where elements lie in objects; the same for all of a process.
    pub placement: Placement,
}

impl TypeTable {
    /// The object with the elements of packed bytes, for a key whose record has no room for them. None for a string, which lies
    /// on the heap as the bytes that it is.
    pub(crate) fn unpacked(&self, kind: Kind, packed: &[u8]) -> Option<SharedValue> {
        let object: Box<dyn Object> = match kind {
            Kind::Hash => Box::new(HashObject::from_packed(&PackedHash::new(packed), self.placement)),
            Kind::Set => Box::new(SetObject::from_packed(&PackedSet::new(packed), self.placement)),
            Kind::SortedSet => Box::new(SortedSetObject::from_packed(&PackedSortedSet::new(packed), self.placement)),
            Kind::List => Box::new(ListObject::from_packed(&PackedList::new(packed))),
            _ => return None,
        };
        Some(Arc::new(HeapValue::object(object)))
    }
}

impl Types for TypeTable {
    fn empty(&self, kind: Kind) -> Option<Box<dyn Object>> {
        match kind {
            Kind::Hash => Some(Box::new(HashObject::new(self.placement))),
            Kind::Set => Some(Box::new(SetObject::new(self.placement))),
            Kind::SortedSet => Some(Box::new(SortedSetObject::new(self.placement))),
            Kind::List => Some(Box::new(ListObject::new())),
            Kind::Stream => Some(Box::new(StreamObject::new())),
            _ => None,
        }
    }

    fn next_due(&self, kind: Kind, packed: &[u8]) -> Option<u64> {
        match kind {
            Kind::Hash => PackedHash::new(packed).next_due(),
            Kind::SortedSet => PackedSortedSet::new(packed).next_due(),
            _ => None,
        }
    }

    fn expire(&self, kind: Kind, packed: &[u8], now: u64, out: &mut Vec<u8>, removed: &mut dyn FnMut(&[u8])) -> usize {
        let keep = |due: Option<u64>| due.is_none_or(|due| due > now);
        match kind {
            Kind::Hash => {
                let hash = PackedHash::new(packed);
                hash.iter().filter(|entry| !keep(entry.due)).for_each(|entry| removed(entry.field));
                hash.len() - hash.retain(|entry| keep(entry.due), out)
            }
            Kind::SortedSet => {
                let set = PackedSortedSet::new(packed);
                set.iter().filter(|entry| !keep(entry.due)).for_each(|entry| removed(entry.member));
                set.len() - set.retain(|entry| keep(entry.due), out)
            }
            _ => {
                debug_assert!(false, "elements of other types do not expire");
                0
            }
        }
    }
}
