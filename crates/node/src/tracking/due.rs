//! When tracked keys expire, by time.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A key of a database.
type Name = (u16, Arc<[u8]>);

/// The expiries.
#[derive(Debug, Default)]
pub(super) struct Due {
    by_key: HashMap<Name, i64>,
    by_time: BTreeSet<(i64, Name)>,
}

impl Due {
    /// See [`super::Tracking::note_expiry`].
    pub(super) fn note(&mut self, db: u16, key: &[u8], expiry_ms: Option<i64>, keys_max: usize) {
        if expiry_ms.is_none() && self.by_key.is_empty() {
            return;
        }
        let name: Name = (db, key.into());
        if let Some(before) = self.by_key.remove(&name) {
            self.by_time.remove(&(before, name.clone()));
        }
        if let Some(expiry_ms) = expiry_ms.filter(|_| keys_max == 0 || self.by_key.len() < keys_max) {
            self.by_key.insert(name.clone(), expiry_ms);
            self.by_time.insert((expiry_ms, name));
        }
    }

    /// Takes out the keys whose time has come.
    pub(super) fn take(&mut self, now_ms: i64) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        while let Some((expiry_ms, _)) = self.by_time.first()
            && *expiry_ms <= now_ms
            && let Some((_, name)) = self.by_time.pop_first()
        {
            self.by_key.remove(&name);
            keys.push(name.1.to_vec());
        }
        keys
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_note_counts_and_the_number_of_keys_is_bounded() {
        let mut due = Due::default();
        due.note(0, b"a", Some(10), 2);
        due.note(0, b"a", Some(30), 2);
        due.note(1, b"a", Some(20), 2);
        due.note(0, b"b", Some(5), 2);
        assert_eq!(due.take(19), Vec::<Vec<u8>>::new());
        assert_eq!(due.take(20), [b"a"]);
        due.note(0, b"a", None, 2);
        assert_eq!(due.take(i64::MAX), Vec::<Vec<u8>>::new());
    }
}
