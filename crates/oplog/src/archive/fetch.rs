//! Makes the directory of a log of an archive: which it takes over, or leaves to its owner.

use std::io;
use std::path::Path;

use almandine_base::step;
use almandine_io::{file, files};

use super::{
    ArchiveFault, ArchivedFile, ArchivedLog, Catalog, FETCHING, Listing, Moment, Objects, Owner, PAGES_PART, PageTarget, Pieces,
    create_once,
};
use crate::directory::{Directory, base_path, drop_all, is_empty, segment_path};
use crate::encryption::LogKeys;
use crate::fault::Fault;
use crate::group::PartHead;
use crate::manifest::{Manifest, SegmentEntry};

/// What was fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Objects.
    pub objects: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Pages that the base names.
    pub pages: u64,
}

/// Whether a directory has no log, or not all of one that was fetched.
///
/// # Errors
/// As the system reports them.
pub fn is_to_be_fetched(directory: &Directory) -> Result<bool, Fault> {
    Ok(is_empty(directory.path())? || is_unfinished(directory.path())?)
}

/// Whether a directory has what a fetch has left that was cut off, or whose moment was not reached: that does not count.
///
/// # Errors
/// As the system reports them.
pub fn is_unfinished(directory: &Path) -> Result<bool, Fault> {
    let names = files::names(directory).map_err(|error| Fault::io("list", directory, error))?;
    Ok(names.iter().any(|name| name == FETCHING))
}

/// Makes a log of what an archive has, which this directory owns from then on: the server that wrote it cannot add to it any more.
/// None: there is no archive. What its base names beside the log goes to `pages`.
///
/// # Errors
/// Of the store, or of the files; the archive is damaged, or a key is not there, or a place for pages.
pub fn fetch(
    objects: &dyn Objects,
    directory: &Directory,
    keys: &LogKeys,
    pages: &mut dyn PageTarget,
) -> Result<Option<Fetched>, ArchiveFault> {
    let owner = Owner::new()?;
    // What cannot be read is left to its owner.
    if let Some(catalog) = Listing::read(objects)?.catalog(objects)? {
        catalog.log.manifest.check_keys(directory.path(), keys)?;
        check_pages(&catalog.log, directory, pages)?;
    }
    let Some((catalog, listing)) = take_over(objects, owner.id)? else { return Ok(None) };
    let fetched = make(objects, directory, (&catalog.log, &listing, Moment::Newest), (Some(owner), pages))?;
    finish(directory)?;
    Ok(Some(fetched))
}

fn check_pages(log: &ArchivedLog, directory: &Directory, pages: &mut dyn PageTarget) -> Result<(), ArchiveFault> {
    if log.has_pages() { pages.check(is_unfinished(directory.path())?) } else { Ok(()) }
}

/// Makes a log of what an archive has of a moment, and leaves that to its owner, which may go on meanwhile. None: there is none.
/// Of the newest one it counts. For another one it has the base before it and all of the log up to it, and what follows in the same
/// segment: it counts when it was cut there and [`finish`] was called.
///
/// # Errors
/// As of [`fetch`].
pub fn copy(
    objects: &dyn Objects,
    directory: &Directory,
    moment: Moment,
    pages: &mut dyn PageTarget,
) -> Result<Option<Fetched>, ArchiveFault> {
    loop {
        // In this order: what the catalog names was there before it.
        let Some(catalog) = Listing::read(objects)?.catalog(objects)? else { return Ok(None) };
        let log = moment.of(&catalog);
        check_pages(&log, directory, pages)?;
        let made = make(objects, directory, (&log, &Listing::read(objects)?, moment), (None, pages));
        let is_over = || Ok::<_, ArchiveFault>(Listing::read(objects)?.catalog(objects)?.is_none_or(|now| now == catalog));
        match made {
            // Its files may have been deleted for a later one.
            Err(ArchiveFault::Damaged(_)) if !is_over()? => {}
            made => {
                let made = made?;
                if moment == Moment::Newest {
                    finish(directory)?;
                }
                return Ok(Some(made));
            }
        }
    }
}

/// What was fetched counts from now on.
///
/// # Errors
/// When that cannot be written.
pub fn finish(directory: &Directory) -> Result<(), Fault> {
    let marker = directory.path().join(FETCHING);
    files::remove(&marker).map_err(|error| Fault::io("remove", &marker, error))?;
    directory.sync_names()
}

/// Makes the files of a log, and an owner of the archive of their directory.
fn make(
    objects: &dyn Objects,
    directory: &Directory,
    (log, listing, moment): (&ArchivedLog, &Listing, Moment),
    (owner, pages): (Option<Owner>, &mut dyn PageTarget),
) -> Result<Fetched, ArchiveFault> {
    let path = directory.path();
    let marker = path.join(FETCHING);
    files::replace(&marker, "").map_err(|error| Fault::io("write", &marker, error))?;
    drop_all(path)?;
    let mut fetched = Fetched::default();
    let manifest = &log.manifest;
    for file in log.base_files() {
        let ArchivedFile::Base { number, part, .. } = file else { continue };
        let to = base_path(path, number, part);
        fetch_file(objects, (file, listing), &to, (1, None), &mut fetched)?;
    }
    let mut owner = owner;
    if let Some(base) = manifest.base.filter(|_| log.has_pages()) {
        let table = pages.begin(manifest.id, &base_path(path, base.number, PAGES_PART))?;
        fetch_pages(objects, (log, listing), (&table.pages, pages), &mut fetched)?;
        owner = owner.map(|owner| Owner { pages_from: table.next, ..owner });
    }
    let mut segments: Vec<SegmentEntry> = Vec::new();
    for (at, segment) in manifest.segments.iter().enumerate() {
        let (file, to) = (log.segment(segment), segment_path(path, segment.number));
        // What the segment before has behind that place was durable before: a later run has it here again, with its own time.
        if at > 0 && begins_behind(moment, objects, (segment, file))? {
            break;
        }
        let next = manifest.segments.get(at + 1);
        let least = next.map_or(0, |next| next.lsn - segment.lsn);
        fetch_file(objects, (file, listing), &to, (least, Some(segment.bytes)), &mut fetched)?;
        segments.push(*segment);
    }
    owner.map_or(Ok(()), |owner| owner.write(path))?;
    directory.replace(&Manifest { rings: None, end: None, segments, ..manifest.clone() })?;
    Ok(fetched)
}

/// Whether all of a segment is behind a moment.
fn begins_behind(
    moment: Moment,
    objects: &dyn Objects,
    (segment, file): (&SegmentEntry, ArchivedFile),
) -> Result<bool, ArchiveFault> {
    match moment {
        Moment::Newest => Ok(false),
        Moment::Lsn(lsn) => Ok(segment.lsn >= lsn),
        Moment::Time(unix_ms) => {
            let piece = objects.get(&file.piece(0))?.unwrap_or_default();
            // A group that has begun in the segment before has its time in its last part.
            let begun = PartHead::decode(&piece).ok().filter(|head| head.part == 0 && head.lsn == segment.lsn);
            Ok(begun.is_some_and(|head| head.unix_ms as f64 > unix_ms))
        }
    }
}

/// Makes a new owner that of the archive. No other owner changes what it has from then on.
fn take_over(objects: &dyn Objects, owner: u64) -> Result<Option<(Catalog, Listing)>, ArchiveFault> {
    loop {
        let mut listing = Listing::read(objects)?;
        let Some(catalog) = listing.catalog(objects)? else { return Ok(None) };
        let catalog = if catalog.owner == owner {
            catalog
        } else {
            let version = catalog.version + 1;
            let next = Catalog { version, owner, claim: version, ..catalog };
            if !create_once(objects, &Catalog::name(next.version), next.encode().as_bytes())? {
                continue;
            }
            next
        };
        // Its writer can name nothing any more, but add to the last segment.
        let Some(last) = catalog.log.manifest.segments.last().map(|segment| catalog.log.segment(segment)) else {
            return Ok(Some((catalog, listing)));
        };
        if step!(SealArchive, true, else false) {
            let pieces = listing.files.entry(last).or_default();
            if !pieces.is_sealed() && !create_once(objects, &last.piece(pieces.extent()), &[])? {
                continue;
            }
        }
        // What was there before it could not name anything, too.
        return Ok(Some((catalog, Listing::read(objects)?)));
    }
}

/// Puts the pages that the base names where they belong.
fn fetch_pages(
    objects: &dyn Objects,
    (log, listing): (&ArchivedLog, &Listing),
    (all, target): (&[u64], &mut dyn PageTarget),
    fetched: &mut Fetched,
) -> Result<(), ArchiveFault> {
    let (mut pages, mut names) = (Vec::new(), Vec::new());
    for page in all {
        let file = log.page(*page);
        let Some(pieces) = listing.files.get(&file).filter(|pieces| pieces.extent() > 0) else {
            return Err(ArchiveFault::Damaged(format!("{} is missing", file.piece(0))));
        };
        names.extend(pieces.in_order().map(|(begin, _)| file.piece(begin)));
        pages.resize(names.len(), *page);
    }
    let mut fault = None;
    let got = objects.get_each(&names, &mut |at, piece| {
        let taken = match &piece {
            Some(piece) => target.put(pages[at], piece),
            None => Err(ArchiveFault::Damaged(format!("{} is missing", names[at]))),
        };
        (fetched.objects, fetched.bytes) = (fetched.objects + 1, fetched.bytes + piece.map_or(0, |piece| piece.len() as u64));
        fault = taken.err();
        if fault.is_some() { Err(io::Error::other("a piece is of no use")) } else { Ok(()) }
    });
    fault.map_or(Ok(()), Err)?;
    got?;
    fetched.pages = all.len() as u64;
    target.end()
}

/// Makes a file of its pieces, which have `least` bytes or more, and gives it its `length`.
fn fetch_file(
    objects: &dyn Objects,
    (file, listing): (ArchivedFile, &Listing),
    to: &Path,
    (least, length): (u64, Option<u64>),
    fetched: &mut Fetched,
) -> Result<(), ArchiveFault> {
    let none = Pieces::default();
    let pieces = listing.files.get(&file).unwrap_or(&none);
    if pieces.extent() < least {
        let why = format!("{} is missing", file.piece(pieces.extent()));
        return Err(ArchiveFault::Damaged(why));
    }
    let failed = |error: io::Error| ArchiveFault::from(Fault::io("write", to, error));
    let made = file::open(to, false).map_err(failed)?;
    let places: Vec<(u64, u64)> = pieces.in_order().collect();
    let names: Vec<String> = places.iter().map(|(begin, _)| file.piece(*begin)).collect();
    let mut fault = None;
    let got = objects.get_each(&names, &mut |at, piece| {
        let (begin, bytes) = places[at];
        let written = match piece.filter(|piece| piece.len() as u64 == bytes) {
            Some(piece) => made.write_all_at(&piece, begin).map_err(failed),
            None => Err(ArchiveFault::Damaged(format!("{} does not have its {bytes} bytes", names[at]))),
        };
        (fetched.objects, fetched.bytes) = (fetched.objects + 1, fetched.bytes + bytes);
        fault = written.err();
        if fault.is_some() { Err(io::Error::other("a piece is of no use")) } else { Ok(()) }
    });
    fault.map_or(Ok(()), Err)?;
    got?;
    if let Some(length) = length {
        made.set_len(length.max(pieces.extent())).map_err(failed)?;
    }
    made.sync_all().map_err(failed)
}
