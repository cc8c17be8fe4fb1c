//! Hashes: a key read and changed as one.
//!
//! A field past its time is absent here, whether or not it has been removed.

mod edits;
mod new;
mod snapshot;
#[cfg(test)]
mod tests;
mod write;

pub use new::NewHash;
pub use snapshot::HashSnapshot;
pub use write::{HashLimits, HashMut};

use almandine_datatypes::hash::{HashObject, Placement};
use almandine_datatypes::packed::{Encoding, Entry, PackedHash};
use almandine_store::{Kind, SharedValue};

use crate::{Accessor, Key, Reader, Refusal};

/// Bytes of an object from which on a look at all of it is one at a snapshot, without the latch.
const SNAPSHOT_BYTES: usize = 16 << 10;

/// A hash to be read.
#[derive(Clone, Copy)]
pub struct Hash<'h> {
    body: Body<'h>,
    now: u64,
}

#[derive(Clone, Copy)]
enum Body<'h> {
    Packed(PackedHash<'h>),
    Object(&'h HashObject),
}

impl<'h> Hash<'h> {
    /// How many fields there are. Of a large hash, those that are past their time and not yet removed are counted.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.body {
            Body::Packed(packed) if packed.next_due().is_some_and(|due| due <= self.now) => self.iter().count(),
            Body::Packed(packed) => packed.len(),
            Body::Object(object) => object.len(),
        }
    }

    /// How many fields there are, those past their time and not yet removed included.
    #[must_use]
    pub fn raw_len(&self) -> usize {
        match self.body {
            Body::Packed(packed) => packed.len(),
            Body::Object(object) => object.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it is so large that a reply with all of it should be made from a snapshot ([`Reader::large_hash`]).
    #[must_use]
    pub fn is_large(&self) -> bool {
        match self.body {
            Body::Packed(_) => false,
            Body::Object(object) => snapshot::is_large(object),
        }
    }

    /// What OBJECT ENCODING names.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        match self.body {
            Body::Packed(packed) => packed.encoding(),
            Body::Object(object) => object.encoding(),
        }
    }

    /// When the first of its fields expires, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        match self.body {
            Body::Packed(packed) => packed.next_due(),
            Body::Object(object) => almandine_base::object::Object::next_due(object),
        }
    }

    /// A field.
    ///
    /// # Errors
    /// When it is not in memory.
    #[inline]
    pub fn get(&self, field: &[u8]) -> Result<Option<Entry<'h>>, Refusal> {
        let found = match self.body {
            Body::Packed(packed) => packed.find(field),
            Body::Object(object) => object.find(field)?,
        };
        Ok(found.filter(|entry| is_live(entry, self.now)))
    }

    /// All fields. What is not in memory ends them with an error.
    pub fn try_iter(&self) -> impl Iterator<Item = Result<Entry<'h>, Refusal>> {
        let (packed, object) = match self.body {
            Body::Packed(packed) => (Some(packed.iter()), None),
            Body::Object(object) => (None, Some(object.iter())),
        };
        let now = self.now;
        let packed = packed.into_iter().flatten().map(Ok);
        let all = packed.chain(object.into_iter().flatten().map(|entry| entry.map_err(Refusal::from)));
        all.filter(move |entry| entry.as_ref().map_or(true, |entry| is_live(entry, now)))
    }

    fn iter(&self) -> impl Iterator<Item = Entry<'h>> {
        self.try_iter().filter_map(Result::ok)
    }

    /// The field at a place, below [`Hash::len`], of an order that only changes change. None: it is past its time.
    ///
    /// # Errors
    /// When it is not in memory.
    pub fn nth(&self, rank: usize) -> Result<Option<Entry<'h>>, Refusal> {
        let found = match self.body {
            Body::Packed(_) => self.iter().nth(rank),
            Body::Object(object) => object.nth(rank)?,
        };
        Ok(found.filter(|entry| is_live(entry, self.now)))
    }

    /// Visits `count` different fields at random, or all if they are fewer. `random` gives 64 random bits.
    ///
    /// # Errors
    /// When a part of the hash is not in memory; what was visited is no sample then.
    pub fn sample(&self, count: usize, random: &mut dyn FnMut() -> u64, visit: &mut dyn FnMut(Entry<'_>)) -> Result<(), Refusal> {
        let now = self.now;
        match self.body {
            Body::Packed(_) => {
                let (mut left, mut wanted) = (self.len(), count.min(self.len()));
                for entry in self.iter() {
                    if ((u128::from(random()) * left as u128) >> 64) < wanted as u128 {
                        visit(entry);
                        wanted -= 1;
                    }
                    left -= 1;
                }
                Ok(())
            }
            Body::Object(object) => Ok(object.sample(count, random, &mut |entry| {
                if is_live(&entry, now) {
                    visit(entry);
                }
            })?),
        }
    }

    /// Visits fields from `cursor` on, about `count` of a large hash, and returns the cursor to go on with; 0 begins and ends.
    ///
    /// # Errors
    /// When a part of the hash is not in memory; what was visited is visited again.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(Entry<'_>)) -> Result<u64, Refusal> {
        let now = self.now;
        match self.body {
            Body::Packed(_) => {
                self.iter().for_each(visit);
                Ok(0)
            }
            Body::Object(object) => Ok(object.scan(cursor, count, &mut |entry| {
                if is_live(&entry, now) {
                    visit(entry);
                }
            })?),
        }
    }

    /// An object of its own with all fields, in constant time if it was one.
    #[must_use]
    pub fn to_object(&self, placement: Placement) -> HashObject {
        match self.body {
            Body::Packed(packed) => HashObject::from_packed(&packed, placement),
            Body::Object(object) => object.clone(),
        }
    }
}

fn is_live(entry: &Entry<'_>, now: u64) -> bool {
    entry.due.is_none_or(|due| due > now)
}

fn as_hash(object: &dyn almandine_base::object::Object) -> Option<&HashObject> {
    object.as_any().downcast_ref()
}

/// How a look at a hash found it.
enum Seen<R> {
    /// In place, and looked at.
    Done(R),
    /// Its bytes are in the scratch buffer.
    Copied,
    /// It is to be looked at without the latch.
    Shared(SharedValue),
}

impl Reader<'_> {
    /// Opens a key as a hash for a look at some of its fields. None: there is no such key.
    ///
    /// # Errors
    /// When it is of another type, or what `look` needs is not in memory.
    #[inline]
    pub fn read_hash<R>(&mut self, key: Key<'_>, look: impl FnOnce(&Hash<'_>) -> Result<R, Refusal>) -> Result<Option<R>, Refusal> {
        self.look_at_hash(key, usize::MAX, look)
    }

    /// As [`Reader::read_hash`], for a look at all of it: of a large one, at a snapshot, so that writers need not wait.
    ///
    /// # Errors
    /// As there.
    pub fn read_whole_hash<R>(
        &mut self,
        key: Key<'_>,
        look: impl FnOnce(&Hash<'_>) -> Result<R, Refusal>,
    ) -> Result<Option<R>, Refusal> {
        self.look_at_hash(key, SNAPSHOT_BYTES, look)
    }

    #[inline]
    fn look_at_hash<R>(
        &mut self,
        key: Key<'_>,
        in_place_max: usize,
        look: impl FnOnce(&Hash<'_>) -> Result<R, Refusal>,
    ) -> Result<Option<R>, Refusal> {
        let key = self.current(key);
        let now = self.now_ms().max(0) as u64;
        let Accessor { session, scratch, .. } = &mut *self.accessor;
        let mut look = Some(look);
        let seen = session.read(key, |view| {
            if view.kind() != Kind::Hash {
                return Err(Refusal::WrongKind);
            }
            let body = match (view.object(), view.long_bytes()) {
                (Some(object), _) if object.memory() > in_place_max => return Ok(view.shared().map_or(Seen::Copied, Seen::Shared)),
                (Some(object), _) => as_hash(object).map(Body::Object),
                (None, bytes) => bytes.map(|bytes| Body::Packed(PackedHash::new(bytes))),
            };
            let Some(body) = body else {
                scratch.clear();
                view.append_to(scratch);
                return Ok(Seen::Copied);
            };
            // The store visits such a value once.
            debug_assert!(look.is_some(), "what is read in place is read once");
            look.take().map_or(Ok(Seen::Copied), |look| look_at(Hash { body, now }, look).map(Seen::Done))
        });
        match seen.transpose()? {
            None => {
                self.accessor.session.remove_met_expired(key);
                Ok(None)
            }
            Some(Seen::Done(result)) => Ok(result),
            Some(Seen::Copied) => {
                let body = Body::Packed(PackedHash::new(&self.accessor.scratch));
                look.map_or(Ok(None), |look| look_at(Hash { body, now }, look))
            }
            Some(Seen::Shared(value)) => {
                let object = value.as_object().and_then(as_hash).zip(look);
                let result = object.map_or(Ok(None), |(object, look)| look_at(Hash { body: Body::Object(object), now }, look));
                self.accessor.session.release(value);
                result
            }
        }
    }
}

/// A packed hash whose fields have all expired is no key.
#[inline]
fn look_at<R>(hash: Hash<'_>, look: impl FnOnce(&Hash<'_>) -> Result<R, Refusal>) -> Result<Option<R>, Refusal> {
    if hash.next_due().is_some_and(|due| due <= hash.now) && hash.is_empty() {
        return Ok(None);
    }
    look(&hash).map(Some)
}
