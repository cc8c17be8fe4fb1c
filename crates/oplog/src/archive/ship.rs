//! Ships a log to its archive: what is durable on the disk, in the order in which a reader needs it.
//!
//! Pieces come first and the catalog that names their files behind them, so that whatever the archive has at a moment is a whole
//! prefix of the log, and never a shorter one than the moment before: INV-ARCHIVE-2. A new base takes long; while it is shipped,
//! the catalog goes on naming the one before, with all segments since. A base that is replaced while it is shipped is left for the
//! next one, which has most of its pages.

mod base;
mod drop;
mod former;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use almandine_base::step;
use almandine_io::files;

use self::base::BaseShipped;
pub use self::former::Kept;
use super::{
    ArchiveFault, ArchiveKeep, ArchivedFile, ArchivedLog, Catalog, Listing, Objects, Owner, PAGES_PART, PIECE_BYTES, PageSource,
    Pieces, create_once,
};
use crate::directory::{read_manifest, segment_path};
use crate::fault::Fault;
use crate::manifest::{Manifest, SegmentEntry};

/// Pieces of segments that are shipped before the next one of a base.
const SEGMENTS_FIRST: usize = 8;

/// The base of a log that runs, as the process knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamedBase {
    /// The last one that is durably named. One that the manifest only seems to name may be another one behind a crash.
    pub number: u64,
    /// The segments of this one, or of an earlier one, are not known to continue those before: what was lost with a disk may be in
    /// the base only.
    pub broken_at: u64,
}

/// What the archive has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shipped {
    /// It has the log through here; none, as long as it has less than the run before had, or nothing.
    pub through: Option<u64>,
    /// A base is on its way.
    pub more: bool,
    /// Why the base is not shipped, where its pages cannot be: the next one is.
    pub left_out: Option<String>,
}

/// What was shipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShipFigures {
    /// Objects.
    pub objects: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Pages of the device.
    pub pages: u64,
    /// Pages that the base which is on its way names, and that were not looked at yet.
    pub pages_left: u64,
}

/// See the module.
pub struct Shipper {
    objects: Box<dyn Objects>,
    directory: PathBuf,
    owner: Owner,
    catalog: Option<Catalog>,
    files: BTreeMap<ArchivedFile, Pieces>,
    pages: Option<Box<dyn PageSource>>,
    base: Option<BaseShipped>,
    /// A base whose pages cannot be shipped, and why.
    left_out: Option<(u64, String)>,
    /// What no catalog names any more.
    garbage: Vec<String>,
    /// The newest base and the pages that it names, while those of other bases that are not kept may be there.
    unswept: Option<(u64, Vec<u64>)>,
    keep: ArchiveKeep,
    figures: ShipFigures,
}

impl std::fmt::Debug for Shipper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shipper").field("directory", &self.directory).field("catalog", &self.catalog).finish_non_exhaustive()
    }
}

impl Shipper {
    /// Goes on with the archive of a directory that holds a log, or begins one.
    ///
    /// # Errors
    /// Of the store; or another server owns what is there.
    pub fn begin(objects: Box<dyn Objects>, directory: &Path) -> Result<Self, ArchiveFault> {
        let (listing, catalog) = look(&*objects)?;
        let known = Owner::read(directory)?;
        let Listing { catalogs, files } = listing;
        let of_another = |why: &str| {
            let how = "give this server an address of its own, or an empty directory to start from what is there";
            Err(ArchiveFault::Owned(format!("{why}: {how}")))
        };
        let owner = match (known, &catalog) {
            (Some(owner), Some(catalog)) if step!(CompareOwner, catalog.owner != owner.id, else false) => {
                return of_another("another server has taken the archive over");
            }
            (None, Some(_)) => return of_another("it has the archive of another log"),
            (None, None) if !files.is_empty() => return of_another("another server begins an archive there"),
            (Some(owner), _) => owner,
            (None, None) => {
                let owner = Owner::new()?;
                owner.write(directory)?;
                owner
            }
        };
        let own = catalog.as_ref().map_or(0..0, |catalog| catalog.claim + 1..catalog.version);
        let mut shipper = Self {
            objects,
            directory: directory.to_owned(),
            owner,
            catalog,
            files,
            pages: None,
            base: None,
            left_out: None,
            unswept: None,
            keep: ArchiveKeep::default(),
            figures: ShipFigures::default(),
            garbage: catalogs.into_iter().filter(|version| own.contains(version)).map(Catalog::name).collect(),
        };
        if shipper.catalog.is_some() {
            shipper.drop_unnamed(read_manifest(directory)?.as_ref());
        }
        Ok(shipper)
    }

    /// Ships pages that bases name, too, which are there.
    #[must_use]
    pub fn with_pages(self, pages: Option<Box<dyn PageSource>>) -> Self {
        Self { pages, ..self }
    }

    /// What it has shipped.
    #[must_use]
    pub fn figures(&self) -> ShipFigures {
        self.figures
    }

    /// Behind what the archive has of this log; none where there are later segments here.
    #[must_use]
    pub fn archived_end(&self, manifest: &Manifest) -> Option<u64> {
        let catalog = self.catalog.as_ref().filter(|catalog| catalog.log.manifest.id == manifest.id)?;
        let archived = catalog.log.manifest.segments.last()?;
        let last = manifest.segments.last().map_or(0, |segment| segment.number);
        if archived.number < last {
            return None;
        }
        Some(archived.lsn + self.extent(catalog.log.segment(archived)))
    }

    /// Ships what a log has in its files through an LSN, which is durable. Where something fails it goes on from there when it is
    /// called again. Behind a base that is named for the first time, former ones are kept as long as is told now.
    ///
    /// # Errors
    /// Of the store, or of the files; or another server has taken the archive over.
    pub fn advance(&mut self, log: u128, durable: u64, base: NamedBase, keep: ArchiveKeep) -> Result<Shipped, ArchiveFault> {
        self.keep = keep;
        let is_it = |manifest: &Manifest| {
            manifest.id == log && step!(AwaitNamed, base_number(manifest) == Some(base.number), else manifest.base.is_some())
        };
        let Some(manifest) = read_manifest(&self.directory)?.filter(is_it) else { return Ok(Shipped::default()) };
        self.prepare_kept(&manifest)?;
        let target = self.target(manifest);
        step!(ShipFirst, (), else self.name_now(&target, base).map(|_| ())?);
        let again = Shipped { more: true, ..Shipped::default() };
        if !self.ship_segments(&target, durable)? {
            return Ok(again);
        }
        let Some(named) = self.name_now(&target, base)? else { return Ok(again) };
        let mut shipped = Shipped { through: named.then_some(durable), ..Shipped::default() };
        if !self.has_base_of(&target) {
            let is_whole = self.ship_base(&target)?;
            let through = target.log.manifest.base.map_or(0, |base| base.through);
            if is_whole && step!(ShipThrough, through <= durable, else true) {
                if !self.name(self.succeed(&target))? {
                    return Ok(again);
                }
                shipped.through = Some(durable);
            } else {
                shipped.left_out = self.why_left_out(&target);
                shipped.more = !is_whole && shipped.left_out.is_none();
            }
        }
        if self.has_base_of(&target) {
            self.end_base(&target);
        }
        self.sweep_pages();
        self.collect();
        Ok(shipped)
    }

    /// The catalog of what the manifest names.
    fn target(&self, manifest: Manifest) -> Catalog {
        let before = self.catalog.as_ref().filter(|catalog| catalog.log.manifest.id == manifest.id);
        let owner_of = |segment: &SegmentEntry| {
            let known = before.and_then(|catalog| catalog.log.segment_owners.get(&segment.number).copied());
            (segment.number, known.unwrap_or(self.owner.id))
        };
        let mut page_owners = BTreeMap::new();
        if manifest.base.is_some_and(|base| base.parts > PAGES_PART) {
            let owners = before.iter().flat_map(|catalog| &catalog.log.page_owners);
            page_owners = owners.filter(|(from, _)| **from < self.owner.pages_from).map(|(from, owner)| (*from, *owner)).collect();
            if step!(OwnPages, true, else page_owners.is_empty()) {
                page_owners.insert(self.owner.pages_from, self.owner.id);
            }
        }
        let same_base = before.filter(|catalog| base_number(&catalog.log.manifest) == base_number(&manifest));
        let log = ArchivedLog {
            base_owner: same_base.map_or(self.owner.id, |catalog| catalog.log.base_owner),
            since_ms: same_base.and_then(|catalog| self.since(catalog)),
            is_broken: false,
            segment_owners: manifest.segments.iter().map(owner_of).collect(),
            page_owners,
            manifest: Manifest { rings: None, end: None, ..manifest },
        };
        Catalog {
            version: 0,
            owner: self.owner.id,
            claim: self.catalog.as_ref().map_or(1, |catalog| catalog.claim),
            log,
            former: same_base.map(|catalog| Arc::clone(&catalog.former)).unwrap_or_default(),
        }
    }

    fn has_base_of(&self, target: &Catalog) -> bool {
        self.catalog.as_ref().is_some_and(|catalog| {
            let (own, other) = (&catalog.log.manifest, &target.log.manifest);
            own.id == other.id && base_number(own) == base_number(other)
        })
    }

    /// Names what can be named without a new base. Whether the log is named to its end then; none as of [`Self::name`].
    fn name_now(&mut self, target: &Catalog, base: NamedBase) -> Result<Option<bool>, ArchiveFault> {
        let next = if self.has_base_of(target) { Some(target.clone()) } else { self.interim(target, base) };
        let Some(next) = next else { return Ok(Some(false)) };
        Ok(self.name(next)?.then_some(true))
    }

    /// The segments of both, behind the base that the archive has; none where it has not all of them.
    ///
    /// The first one that the manifest names has to be in the catalog, where no process knows better: a base that heals a broken
    /// log begins with a segment that was never named with another base, and that is no continuation of what was before.
    fn interim(&self, target: &Catalog, base: NamedBase) -> Option<Catalog> {
        let (before, target_log) = (self.before(target)?, &target.log);
        let first = target_log.manifest.segments.first()?;
        let continues = base_number(&before.log.manifest).is_some_and(|number| number >= base.broken_at);
        if step!(NamedBefore, !continues && !before.log.manifest.segments.contains(first), else false) {
            return None;
        }
        let mut log = before.log.clone();
        log.cut(first.lsn);
        let is_whole = log.manifest.segments.last().is_none_or(|last| last.lsn + self.extent(log.segment(last)) >= first.lsn);
        log.absorb(target_log);
        let manifest = Manifest { base: log.manifest.base, segments: log.manifest.segments, ..target_log.manifest.clone() };
        let log = ArchivedLog { manifest, since_ms: self.since(before), ..log };
        is_whole.then(|| Catalog { log, former: Arc::clone(&before.former), ..target.clone() })
    }

    /// The catalog, of the same log.
    fn before(&self, target: &Catalog) -> Option<&Catalog> {
        self.catalog.as_ref().filter(|catalog| catalog.log.manifest.id == target.log.manifest.id)
    }

    fn extent(&self, file: ArchivedFile) -> u64 {
        self.files.get(&file).map_or(0, Pieces::extent)
    }

    /// Ships what segments have. False: one of them was dropped meanwhile, and there is another manifest.
    fn ship_segments(&mut self, target: &Catalog, durable: u64) -> Result<bool, ArchiveFault> {
        let segments = &target.log.manifest.segments;
        let mut pieces = 0;
        for (at, segment) in segments.iter().enumerate() {
            let file = target.log.segment(segment);
            let end = segments.get(at + 1).map_or(durable, |next| next.lsn);
            let limit = end.saturating_sub(segment.lsn).min(segment.bytes);
            loop {
                let begin = self.extent(file);
                if begin >= limit {
                    break;
                }
                let Some(bytes) = self.read(segment, begin, (limit - begin).min(PIECE_BYTES))? else { return Ok(false) };
                self.put(file, begin, &bytes)?;
                pieces += 1;
                if pieces % SEGMENTS_FIRST == 0 && !self.has_base_of(target) {
                    self.ship_base(target)?;
                }
            }
        }
        Ok(true)
    }

    /// Bytes of a segment that the manifest still names behind that: what it does not name is written over.
    fn read(&self, segment: &SegmentEntry, begin: u64, bytes: u64) -> Result<Option<Vec<u8>>, ArchiveFault> {
        let path = segment_path(&self.directory, segment.number);
        let mut piece = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        let read = files::open(&path).and_then(|file| file.read_exact_at(&mut piece, begin));
        if !read_manifest(&self.directory)?.is_some_and(|manifest| manifest.segments.contains(segment)) {
            return Ok(None);
        }
        read.map_err(|error| Fault::io("read", &path, error))?;
        Ok(Some(piece))
    }

    /// Makes a piece. What an earlier try has made of it, that did not hear so, stands.
    fn put(&mut self, file: ArchivedFile, begin: u64, piece: &[u8]) -> Result<(), ArchiveFault> {
        debug_assert!(file.owner() == self.owner.id, "INV-ARCHIVE-1: what another owner has made is not added to");
        let name = file.piece(begin);
        let mut bytes = piece.len();
        if !self.objects.create(&name, piece)? {
            let there = self.objects.get(&name)?.unwrap_or_default();
            let is_own = !there.is_empty() && (piece.starts_with(&there) || there.starts_with(piece));
            if is_own {
                bytes = there.len();
            } else if step!(HeedSeal, true, else false) {
                return Err(taken_over());
            }
        }
        self.files.entry(file).or_default().add(begin, bytes as u64);
        (self.figures.objects, self.figures.bytes) = (self.figures.objects + 1, self.figures.bytes + bytes as u64);
        Ok(())
    }

    /// Makes a catalog the one that counts, unless it is. False: an earlier try has made another one, with what was to be named
    /// then, which counts now, and behind which this one may lead back.
    fn name(&mut self, catalog: Catalog) -> Result<bool, ArchiveFault> {
        let version = self.catalog.as_ref().map_or(0, |catalog| catalog.version);
        let wanted = Catalog { version, ..catalog };
        if self.catalog.as_ref() == Some(&wanted) {
            return Ok(true);
        }
        let next = Catalog { version: version + 1, ..wanted };
        debug_assert!(
            self.is_whole(&next),
            "INV-ARCHIVE-2: segments that a catalog names are there up to where the next one begins"
        );
        let name = Catalog::name(next.version);
        step!(DropBehind, (), else self.drop_ahead(&next));
        let is_made = create_once(&*self.objects, &name, next.encode().as_bytes())?;
        let next = if is_made {
            next
        } else {
            let there = self.objects.get(&name)?.and_then(|bytes| Catalog::decode(&name, &bytes).ok());
            there.filter(|there| there.owner == self.owner.id).ok_or_else(taken_over)?
        };
        let former = self.catalog.replace(next).filter(|former| step!(KeepClaim, former.version > former.claim, else true));
        self.garbage.extend(former.map(|former| Catalog::name(former.version)));
        let manifest = read_manifest(&self.directory)?;
        self.drop_unnamed(manifest.as_ref());
        Ok(is_made)
    }

    /// Whether the archive has all that a catalog promises.
    fn is_whole(&self, catalog: &Catalog) -> bool {
        // There, histories are to notice it.
        let mutants = cfg!(feature = "mutants");
        let is_there = |log: &ArchivedLog| {
            let segments = &log.manifest.segments;
            let followed = segments.windows(2).all(|pair| self.extent(log.segment(&pair[0])) >= pair[1].lsn - pair[0].lsn);
            followed && log.base_files().all(|file| self.extent(file) > 0)
        };
        mutants || catalog.logs().all(is_there)
    }
}

/// What is there. A list takes its time: files of an owner that came meanwhile must not count as named by no catalog.
fn look(objects: &dyn Objects) -> Result<(Listing, Option<Catalog>), ArchiveFault> {
    loop {
        let listing = Listing::read(objects)?;
        let catalog = listing.catalog(objects)?;
        let version = catalog.as_ref().map_or(0, |catalog| catalog.version);
        let is_last = || Ok::<_, ArchiveFault>(objects.get(&Catalog::name(version + 1))?.is_none());
        if step!(ListAgain, listing.catalogs.last().copied().unwrap_or(0) == version && is_last()?, else true) {
            return Ok((listing, catalog));
        }
    }
}

fn base_number(manifest: &Manifest) -> Option<u64> {
    manifest.base.map(|base| base.number)
}

fn taken_over() -> ArchiveFault {
    ArchiveFault::Owned(
        "another server has taken the archive over, and goes on with this log: what is done here is not in it. End this server, or \
         start it with an address of its own"
            .to_owned(),
    )
}
