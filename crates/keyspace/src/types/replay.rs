//! Effects on elements of values, done again: each type knows its own edits.

use almandine_store::{Kind, elements};

use super::Collection;
use super::hash::Hashes;
use super::list::Lists;
use super::set::Sets;
use super::sorted_set::SortedSets;
use super::stream::Streams;
use crate::{Key, Refusal, Writer};

impl Writer<'_> {
    /// Makes edits that were made to the value of a key.
    pub(crate) fn replay_edits(&mut self, key: Key<'_>, kind: Kind, edits: &[u8]) -> Result<(), Refusal> {
        match kind {
            Kind::Hash => self.replay_as::<Hashes>(key, edits),
            Kind::Set => self.replay_as::<Sets>(key, edits),
            Kind::SortedSet => self.replay_as::<SortedSets>(key, edits),
            Kind::List => self.replay_as::<Lists>(key, edits),
            Kind::Stream => self.replay_as::<Streams>(key, edits),
            _ => Err(Refusal::WrongKind),
        }
    }

    /// Removes elements that expired.
    pub(crate) fn replay_expiry(&mut self, key: Key<'_>, kind: Kind, expired: &[u8]) -> Result<(), Refusal> {
        match kind {
            Kind::Hash => {
                let mut hash = self.write_as::<Hashes>(key, Hashes::UNLIMITED)?;
                for field in elements(expired) {
                    hash.remove(field)?;
                }
                hash.commit_in_form()
            }
            Kind::SortedSet => {
                let mut set = self.write_as::<SortedSets>(key, SortedSets::UNLIMITED)?;
                for member in elements(expired) {
                    set.remove(member)?;
                }
                set.commit_in_form()
            }
            _ => Err(Refusal::WrongKind),
        }
    }
}
