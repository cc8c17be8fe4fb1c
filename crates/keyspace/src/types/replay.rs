//! Effects on elements of values, done again: each type knows its own edits.

use almandine_store::{Kind, elements};

use super::hash::HashLimits;
use super::set::NO_LIMITS;
use super::sorted_set;
use crate::{Key, Refusal, Writer};

impl Writer<'_> {
    /// Makes edits that were made to the value of a key.
    ///
    /// # Errors
    /// As [`Writer::replay`].
    pub(crate) fn replay_edits(&mut self, key: Key<'_>, kind: Kind, edits: &[u8]) -> Result<(), Refusal> {
        match kind {
            Kind::Hash => {
                let mut hash = self.write_hash(key, HashLimits::NONE)?;
                hash.replay(edits)?;
                hash.commit()
            }
            Kind::Set => {
                let mut set = self.write_set(key, NO_LIMITS)?;
                set.replay(edits)?;
                set.commit()
            }
            Kind::SortedSet => {
                let mut set = self.write_sorted_set(key, sorted_set::NO_LIMITS)?;
                set.replay(edits)?;
                set.commit()
            }
            Kind::List => {
                let mut list = self.replay_list(key)?;
                list.replay(edits)?;
                list.commit()
            }
            Kind::Stream => {
                let mut stream = self.write_stream(key)?;
                stream.replay(edits)?;
                stream.commit()
            }
            _ => Err(Refusal::WrongKind),
        }
    }

    /// Removes elements that expired.
    ///
    /// # Errors
    /// As [`Writer::replay`].
    pub(crate) fn replay_expiry(&mut self, key: Key<'_>, kind: Kind, expired: &[u8]) -> Result<(), Refusal> {
        match kind {
            Kind::Hash => {
                let mut hash = self.write_hash(key, HashLimits::NONE)?;
                for field in elements(expired) {
                    hash.remove(field)?;
                }
                hash.commit()
            }
            Kind::SortedSet => {
                let mut set = self.write_sorted_set(key, sorted_set::NO_LIMITS)?;
                for member in elements(expired) {
                    set.remove(member)?;
                }
                set.commit()
            }
            _ => Err(Refusal::WrongKind),
        }
    }
}
