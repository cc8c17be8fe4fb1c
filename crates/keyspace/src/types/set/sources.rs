//! Several sets at once, as set algebra takes them: small ones copied, large ones as snapshots.

use std::ops::Range;
use std::sync::Arc;

use almandine_datatypes::hash::Placement;
use almandine_datatypes::packed::PackedSet;
use almandine_datatypes::set::{SetObject, Source};
use almandine_store::{Kind, SharedValue};

use super::Sets;
use crate::types::collection::downcast;
use crate::{Key, Keyspace, Reader, Refusal};

/// Sets as they were when they were read: of one moment, if their keys were latched. They hold memory, and nobody up.
pub struct SetSources {
    held: Vec<Held>,
    /// The bytes of packed ones.
    packed: Vec<u8>,
    keyspace: Arc<Keyspace>,
}

/// A set.
enum Held {
    /// There is no such key.
    Absent,
    /// Where in [`SetSources::packed`] it is.
    Packed(Range<usize>),
    /// A large one.
    Object(SharedValue),
}

impl SetSources {
    /// All of them, in the order in which they were asked for. Absent ones are empty.
    #[must_use]
    pub fn sources(&self) -> Vec<Source<'_>> {
        let empty = Source::Packed(PackedSet::new(&[]));
        self.held.iter().map(|held| self.source(held).unwrap_or(empty)).collect()
    }

    fn source<'s>(&'s self, held: &'s Held) -> Option<Source<'s>> {
        match held {
            Held::Absent => None,
            Held::Packed(range) => Some(Source::Packed(PackedSet::new(&self.packed[range.clone()]))),
            Held::Object(value) => value.as_object().and_then(downcast::<Sets>).map(Source::Object),
        }
    }

    /// Whether each of them was there.
    pub fn found(&self) -> impl Iterator<Item = bool> {
        self.held.iter().map(|held| !matches!(held, Held::Absent))
    }

    /// An empty set of their kind, for what is gathered from them.
    #[must_use]
    pub fn empty(&self) -> SetObject {
        SetObject::new(self.placement())
    }

    fn placement(&self) -> Placement {
        self.keyspace.types.placement
    }
}

impl Drop for SetSources {
    fn drop(&mut self) {
        for held in self.held.drain(..) {
            if let Held::Object(value) = held {
                self.keyspace.store.release(value);
            }
        }
    }
}

impl Reader<'_> {
    /// Takes keys as sets.
    ///
    /// # Errors
    /// When one of them is of another type.
    pub fn set_sources<'k>(&mut self, keys: impl Iterator<Item = Key<'k>>) -> Result<SetSources, Refusal> {
        let keyspace = Arc::clone(&self.accessor.keyspace);
        let mut sources = SetSources { held: Vec::with_capacity(keys.size_hint().0), packed: Vec::new(), keyspace };
        for key in keys {
            let key = self.current(key);
            let (begin, packed) = (sources.packed.len(), &mut sources.packed);
            let held = self.accessor.session.read(key, |view| {
                if view.kind() != Kind::Set {
                    return Err(Refusal::WrongKind);
                }
                // An attempt that was not valid may have left something.
                packed.truncate(begin);
                Ok(if let Some(value) = view.shared().filter(|_| view.object().is_some()) {
                    Held::Object(value)
                } else {
                    view.append_to(packed);
                    Held::Packed(begin..packed.len())
                })
            });
            match held.transpose()? {
                Some(held) => sources.held.push(held),
                None => {
                    self.accessor.session.remove_met_expired(key);
                    sources.held.push(Held::Absent);
                }
            }
        }
        Ok(sources)
    }
}
