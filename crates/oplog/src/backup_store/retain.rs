//! Drops older backups behind newer ones.

use almandine_base::step;

use super::fault::StoreFault;
use super::inventory::Inventory;
use super::ledger::Ledger;
use super::listing::{StoredBackups, StoredObjects};
use super::name::StoredName;
use crate::archive::Objects;

/// What an owner keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// The newest ones, up to this number; 0: all.
    pub count: u64,
    /// Those that were sealed in these last seconds; 0: all.
    pub seconds: u64,
}

/// What became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// Backups of the owner that count.
    pub kept: u64,
    /// Those that were dropped now.
    pub dropped: u64,
}

/// Drops what the ledger says, and the owner's backups that are not to be kept. The newest one is always kept, and no other is
/// dropped unless that one is whole. One that is on its way is none.
///
/// # Errors
/// Of the store or the ledger; or the newest one is not whole, and all stay.
pub fn retain(objects: &dyn Objects, ledger: &Ledger, keep: Keep, now_s: u64) -> Result<Retained, StoreFault> {
    let found = StoredBackups::read(objects)?;
    let mut drops = ledger.drops();
    let outgoing = ledger.outgoing().map(|outgoing| outgoing.name);
    // One that is there already, but not said to be, may still be given up.
    let is_said = |name: &StoredName| step!(HeedOutgoing, outgoing != Some(*name), else true);
    let is_own = |name: &StoredName| name.owner == ledger.owner() && !drops.contains(name) && is_said(name);
    let mut own: Vec<StoredName> = found.counting().filter(|name| is_own(name)).copied().collect();
    own.sort_unstable_by_key(|name| std::cmp::Reverse(name.number));
    let is_old = |(place, name): &(u64, StoredName)| {
        keep.count > 0 && *place >= keep.count || keep.seconds > 0 && name.end_s < now_s.saturating_sub(keep.seconds)
    };
    let old: Vec<StoredName> = (0..).zip(own.iter().copied()).skip(1).filter(is_old).map(|(_, name)| name).collect();
    if let Some(newest) = own.first().filter(|_| !old.is_empty()) {
        step!(LookAtNewest, check_whole(objects, *newest, &found.all[newest])?);
        debug_assert!(!old.contains(newest), "INV-SHIPPED-1: the newest one stays");
        ledger.drop(&old)?;
        drops.extend(&old);
    }
    for name in &drops {
        drop_objects(objects, *name, found.all.get(name))?;
        ledger.dropped(*name)?;
    }
    Ok(Retained { kept: (own.len() - old.len()) as u64, dropped: drops.len() as u64 })
}

/// Whether all pieces are there that its inventory names.
fn check_whole(objects: &dyn Objects, name: StoredName, there: &StoredObjects) -> Result<(), StoreFault> {
    let damaged = |why: String| StoreFault::Damaged(format!("{why}; so no older backup is dropped"));
    let bytes = objects.get(&name.inventory())?.ok_or_else(|| damaged(format!("{} is gone", name.inventory())))?;
    let inventory = Inventory::decode(name, &bytes).map_err(damaged)?;
    there.lacks(&inventory).map_or(Ok(()), |missing| Err(damaged(format!("{missing} is missing"))))
}

/// Deletes what there is of a backup.
fn drop_objects(objects: &dyn Objects, name: StoredName, there: Option<&StoredObjects>) -> Result<(), StoreFault> {
    let pieces: Vec<String> =
        there.iter().flat_map(|there| there.pieces.keys()).map(|(file, offset)| name.piece(*file, *offset)).collect();
    let delete_pieces = || if pieces.is_empty() { Ok(()) } else { objects.delete(&pieces) };
    // Without its inventory it does not count.
    step!(DropInventoryFirst, objects.delete(&[name.inventory()])?, then delete_pieces()?);
    Ok(())
}
