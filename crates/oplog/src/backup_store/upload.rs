//! Ships a sealed backup.
//!
//! What was shipped of it before is not shipped again. All of it is read all the same, for the sums.

use std::path::{Path, PathBuf};

use almandine_base::step;
use almandine_io::file::File;
use almandine_io::files;

use super::fault::StoreFault;
use super::inventory::{Inventory, StoredFile, StoredPiece, is_path, log_path};
use super::ledger::Outgoing;
use super::listing::{StoredBackups, StoredObjects};
use crate::archive::{Objects, PIECE_BYTES};
use crate::crc32c::sum;

/// Objects that are made at once.
const AT_ONCE: usize = 4;

/// A backup and its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shipment {
    /// What it is called.
    pub outgoing: Outgoing,
    /// Where it was sealed.
    pub directory: PathBuf,
    /// Its files there.
    pub files: Vec<PathBuf>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shipping {
    /// Bytes of files that are behind.
    pub done: u64,
    /// Bytes of all files.
    pub all: u64,
    /// Bytes that were made objects since the last time that this was told.
    pub shipped: u64,
}

/// Makes the objects of a backup, its inventory last. `go_on` hears of each step, and may end it.
///
/// # Errors
/// Of the store or the files; or `go_on` has ended it. What was shipped stays, and is not shipped again.
pub fn ship(objects: &dyn Objects, shipment: &Shipment, go_on: &mut dyn FnMut(Shipping) -> bool) -> Result<Inventory, StoreFault> {
    let name = shipment.outgoing.name;
    let mut found = StoredBackups::read(objects)?;
    let there = found.all.remove(&name).unwrap_or_default();
    step!(InventoryLast, (), else make_inventory(objects, &Work::new(shipment, None, &there)?.run(&mut |_| true)?)?);
    let inventory = Work::new(shipment, Some(objects), &there)?.run(go_on)?;
    // Something else may delete objects there.
    let there = StoredBackups::read(objects)?.all.remove(&name).unwrap_or_default();
    if let Some(missing) = there.lacks(&inventory) {
        return Err(StoreFault::Store(std::io::Error::other(format!("{missing} is gone again, or is not what was shipped"))));
    }
    make_inventory(objects, &inventory)?;
    Ok(inventory)
}

fn make_inventory(objects: &dyn Objects, inventory: &Inventory) -> Result<(), StoreFault> {
    make(objects, vec![(inventory.name.inventory(), inventory.encode().into_bytes())])
}

/// Makes objects, where an earlier try has not.
fn make(objects: &dyn Objects, all: Vec<(String, Vec<u8>)>) -> Result<(), StoreFault> {
    let wanted: Vec<(String, usize, u32)> = all.iter().map(|(name, bytes)| (name.clone(), bytes.len(), sum(bytes))).collect();
    let made = objects.create_all(all)?;
    for ((name, length, expected), made) in wanted.into_iter().zip(made) {
        // An earlier try may not have heard of it.
        if !made && objects.get(&name)?.is_none_or(|there| (there.len(), sum(&there)) != (length, expected)) {
            let why = format!("another server ships under the same name, from a copy of this directory: {name} is there already");
            return Err(StoreFault::Refused(why));
        }
    }
    Ok(())
}

struct Work<'w> {
    shipment: &'w Shipment,
    /// None: nothing is shipped.
    objects: Option<&'w dyn Objects>,
    there: &'w StoredObjects,
    files: Vec<(StoredFile, &'w PathBuf)>,
    batch: Vec<(String, Vec<u8>)>,
    at: Shipping,
}

impl<'w> Work<'w> {
    fn new(shipment: &'w Shipment, objects: Option<&'w dyn Objects>, there: &'w StoredObjects) -> Result<Self, StoreFault> {
        let mut paths: Vec<&PathBuf> = shipment.files.iter().collect();
        // Their numbers have to be those of the last try.
        paths.sort_unstable();
        let (mut all, mut at) = (Vec::new(), Shipping::default());
        for path in paths {
            let length = files::open(path).and_then(|file| file.len());
            let bytes = length.map_err(|error| StoreFault::file("read", path, error))?;
            at.all += bytes;
            all.push((StoredFile { path: stored_path(&shipment.directory, path)?, bytes, pieces: Vec::new() }, path));
        }
        Ok(Self { shipment, objects, there, files: all, batch: Vec::new(), at })
    }

    fn run(mut self, go_on: &mut dyn FnMut(Shipping) -> bool) -> Result<Inventory, StoreFault> {
        self.flush(go_on)?;
        for number in 0..self.files.len() {
            let path = self.files[number].1;
            let opened = files::open(path).map_err(|error| StoreFault::file("read", path, error))?;
            for begin in (0..self.files[number].0.bytes).step_by(usize::try_from(PIECE_BYTES).unwrap_or(usize::MAX)) {
                self.look_at_piece(number, &opened, begin)?;
                if self.batch.len() == AT_ONCE || self.batch.is_empty() {
                    self.flush(go_on)?;
                }
            }
        }
        self.flush(go_on)?;
        let Outgoing { name, log, start_s } = self.shipment.outgoing;
        Ok(Inventory { name, log, start_s, files: self.files.into_iter().map(|(file, _)| file).collect() })
    }

    fn look_at_piece(&mut self, number: usize, opened: &File, offset: u64) -> Result<(), StoreFault> {
        let (file, path) = &mut self.files[number];
        let length = PIECE_BYTES.min(file.bytes - offset);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        opened.read_exact_at(&mut bytes, offset).map_err(|error| StoreFault::file("read", *path, error))?;
        self.at.done += length;
        // Files with holes are restored with holes.
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        file.pieces.push(StoredPiece { offset, bytes: length, sum: sum(&bytes) });
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        if self.objects.is_some() && self.there.pieces.get(&(number, offset)) != Some(&length) {
            self.batch.push((self.shipment.outgoing.name.piece(number, offset), bytes));
        }
        Ok(())
    }

    fn flush(&mut self, go_on: &mut dyn FnMut(Shipping) -> bool) -> Result<(), StoreFault> {
        let batch = std::mem::take(&mut self.batch);
        let shipped = batch.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        if let Some(objects) = self.objects.filter(|_| !batch.is_empty()) {
            make(objects, batch)?;
        }
        if go_on(Shipping { shipped, ..self.at }) { Ok(()) } else { Err(StoreFault::Stopped) }
    }
}

/// Where a file of a backup belongs when it is restored.
fn stored_path(directory: &Path, file: &Path) -> Result<String, StoreFault> {
    let below = file.strip_prefix(directory).ok().and_then(Path::to_str).unwrap_or_default();
    let path = if below.contains('/') { below.to_owned() } else { log_path(below) };
    if is_path(&path) {
        return Ok(path);
    }
    Err(StoreFault::Refused(format!("{} is no file of a backup in {}", file.display(), directory.display())))
}
