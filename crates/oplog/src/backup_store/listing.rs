//! What there is of backups at an address.

use std::collections::BTreeMap;

use super::fault::StoreFault;
use super::inventory::Inventory;
use super::name::{INVENTORY, StoredName};
use crate::archive::Objects;

/// The objects of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredObjects {
    /// Its inventory is there: it counts.
    pub counts: bool,
    /// Bytes of its pieces, by file and place.
    pub(super) pieces: BTreeMap<(u32, u64), u64>,
}

impl StoredObjects {
    /// How many pieces it has.
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Bytes of them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pieces.values().sum()
    }

    /// The first piece of an inventory that is not there as it says.
    pub(super) fn lacks(&self, inventory: &Inventory) -> Option<String> {
        let mut pieces = inventory.pieces();
        let missing = pieces.find(|(file, piece)| self.pieces.get(&(*file, piece.offset)) != Some(&piece.bytes));
        missing.map(|(file, piece)| inventory.name.piece(file, piece.offset))
    }
}

/// What is at an address.
#[derive(Clone, Debug, Default)]
pub struct StoredBackups {
    /// Backups, also those that do not count.
    pub all: BTreeMap<StoredName, StoredObjects>,
    /// How many objects there are that are of no backup.
    pub others: u64,
}

impl StoredBackups {
    /// Looks.
    ///
    /// # Errors
    /// As the store reports them.
    pub fn read(objects: &dyn Objects) -> Result<Self, StoreFault> {
        let mut found = Self::default();
        for (name, bytes) in objects.list()? {
            if let Some(own) = name.strip_prefix(INVENTORY).and_then(StoredName::parse) {
                found.all.entry(own).or_default().counts = true;
            } else if let Some((own, place)) = StoredName::of_piece(&name) {
                found.all.entry(own).or_default().pieces.insert(place, bytes);
            } else {
                found.others += 1;
            }
        }
        Ok(found)
    }

    /// Those that count, the oldest first.
    pub fn counting(&self) -> impl DoubleEndedIterator<Item = &StoredName> {
        self.all.iter().filter(|(_, objects)| objects.counts).map(|(name, _)| name)
    }
}
