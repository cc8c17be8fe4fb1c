//! The unit of work of a session that has changed something and has not ended.

/// Keys for which a session keeps its memory.
const KEYS_KEPT: usize = 1 << 10;

/// What a unit of work has done so far.
#[derive(Default)]
pub(in crate::session) struct OpenUnit {
    is_open: bool,
    /// Whether databases consist of something else.
    pub(in crate::session) databases: bool,
    /// Hashes of the keys that it has changed.
    pub(in crate::session) changed: Vec<u64>,
    /// The number of the session's last unit.
    pub(in crate::session) last: u64,
}

impl OpenUnit {
    /// Whether it has changed anything.
    #[inline]
    pub(in crate::session) fn is_open(&self) -> bool {
        self.is_open
    }

    /// It has changed a key, whose bucket is latched exclusively.
    pub(in crate::session) fn note(&mut self, hash: u64) {
        self.is_open = true;
        if self.changed.last() != Some(&hash) {
            self.changed.push(hash);
        }
    }

    /// It has given a record up whose key is not known.
    pub(in crate::session) fn note_lost(&mut self) {
        self.is_open = true;
    }

    /// It has changed what databases consist of.
    pub(in crate::session) fn note_databases(&mut self) {
        (self.is_open, self.databases) = (true, true);
    }

    /// It has ended.
    pub(in crate::session) fn end(&mut self) {
        debug_assert!(self.is_open, "INV-ORDER-1: a unit ends once");
        (self.is_open, self.databases) = (false, false);
        self.changed.clear();
        self.changed.shrink_to(KEYS_KEPT);
    }
}
