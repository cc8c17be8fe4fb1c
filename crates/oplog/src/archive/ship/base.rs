//! Ships a base: its parts, and the pages that it names on the device, as far as the archive does not have them.
//!
//! What a base names stays on the device until the manifest names another one (INV-RETAIN-1). So nothing is kept there for the
//! archive, however long its store is away: what was read counts if the manifest names the base behind the read, and a base that
//! does not last until it is shipped is left for the next one.

use std::io;

use almandine_base::step;
use almandine_io::file::File;
use almandine_io::files;

use super::{Shipper, base_number};
use crate::archive::{ArchiveFault, ArchivedFile, Catalog, PAGES_PART, PIECE_BYTES, PageSource};
use crate::directory::{base_path, read_manifest};
use crate::fault::Fault;
use crate::manifest::BaseEntry;

/// Pages that are shipped before segments are looked at again.
const PAGES_TOGETHER: usize = 4;

/// A base that is on its way.
pub(super) struct BaseShipped {
    number: u64,
    parts: Vec<(ArchivedFile, File, u64)>,
    /// The pages that it names, and how many of them the archive has.
    pages: Vec<u64>,
    shipped: usize,
}

impl Shipper {
    /// Ships some of a base. True: the archive has all of it.
    pub(super) fn ship_base(&mut self, target: &Catalog) -> Result<bool, ArchiveFault> {
        let Some(base) = target.log.manifest.base else { return Ok(false) };
        if self.why_left_out(target).is_some() {
            return Ok(false);
        }
        let mut source = self.pages.take();
        let shipped = self.ship_some(target, base, source.as_deref_mut());
        self.pages = source;
        match shipped {
            // Its pages have gone with it.
            Err(ArchiveFault::Pages(_)) if !self.is_named(base.number)? => Ok(false),
            Err(ArchiveFault::Pages(why)) => {
                self.left_out = Some((base.number, why));
                Ok(false)
            }
            shipped => shipped,
        }
    }

    /// Why a base is not shipped.
    pub(super) fn why_left_out(&self, target: &Catalog) -> Option<String> {
        let (number, why) = self.left_out.as_ref()?;
        (Some(*number) == base_number(&target.log.manifest)).then(|| why.clone())
    }

    /// The catalog names the base: what only others had named is to be deleted.
    pub(super) fn end_base(&mut self, target: &Catalog) {
        let Some(shipped) = self.base.take() else { return };
        self.figures.pages_left = 0;
        if Some(shipped.number) == base_number(&target.log.manifest) {
            self.unswept = Some((shipped.number, shipped.pages));
        }
    }

    fn is_named(&self, base: u64) -> Result<bool, ArchiveFault> {
        Ok(base_number(&read_manifest(&self.directory)?.unwrap_or_default()) == Some(base))
    }

    fn ship_some(
        &mut self,
        target: &Catalog,
        base: BaseEntry,
        mut source: Option<&mut (dyn PageSource + 'static)>,
    ) -> Result<bool, ArchiveFault> {
        if self.base.as_ref().is_none_or(|shipped| shipped.number != base.number) {
            self.base = self.open_base(target, base, source.as_deref_mut())?;
        }
        let Some(mut shipped) = self.base.take() else { return Ok(false) };
        let is_whole = self.ship_part(&shipped).and_then(|is_whole| match source {
            Some(source) if is_whole => step!(ShipPages, self.ship_pages(target, &mut shipped, source), else Ok(true)),
            _ => Ok(is_whole),
        });
        let is_whole = is_whole.and_then(|is_whole| {
            let inventory = target.log.inventory().filter(|_| is_whole && self.keep.is_on());
            inventory.map_or(Ok(()), |inventory| self.put_inventory(inventory, &shipped.pages)).map(|()| is_whole)
        });
        self.figures.pages_left = (shipped.pages.len() - shipped.shipped) as u64;
        self.base = Some(shipped);
        is_whole
    }

    /// Opens the files of a base; none: there is a later one, and they may be gone.
    fn open_base(
        &self,
        target: &Catalog,
        base: BaseEntry,
        source: Option<&mut (dyn PageSource + 'static)>,
    ) -> Result<Option<BaseShipped>, ArchiveFault> {
        let open = |(file, part)| {
            let opened = files::open(base_path(&self.directory, base.number, part))?;
            let bytes = opened.len()?;
            Ok((file, opened, bytes))
        };
        let parts = target.log.base_files().zip(0..).map(open).collect::<io::Result<Vec<_>>>();
        let table = target.log.has_pages().then(|| match source {
            Some(source) => source.open(&base_path(&self.directory, base.number, PAGES_PART)),
            None => Err(ArchiveFault::Pages("there is no storage-dir".to_owned())),
        });
        if !self.is_named(base.number)? {
            return Ok(None);
        }
        let parts = parts.map_err(|error| Fault::io("open a base in", &self.directory, error))?;
        let pages = table.transpose()?.unwrap_or_default().pages;
        debug_assert!(pages.is_sorted_by(|a, b| a < b), "INV-ARCHIVE-3: a table names each page once");
        Ok(Some(BaseShipped { number: base.number, parts, pages, shipped: 0 }))
    }

    /// Ships a piece of a part of the base. True: the archive has all parts.
    fn ship_part(&mut self, shipped: &BaseShipped) -> Result<bool, ArchiveFault> {
        let lacks = |shipper: &Self, part: &&(ArchivedFile, File, u64)| shipper.extent(part.0) < part.2;
        let Some((file, opened, bytes)) = shipped.parts.iter().find(|part| lacks(self, part)) else { return Ok(true) };
        let begin = self.extent(*file);
        let mut piece = vec![0; usize::try_from((bytes - begin).min(PIECE_BYTES)).unwrap_or(usize::MAX)];
        let read = opened.read_exact_at(&mut piece, begin);
        read.map_err(|error| Fault::io("read a base in", &self.directory, error))?;
        self.put(*file, begin, &piece)?;
        Ok(!shipped.parts.iter().any(|part| lacks(self, &part)))
    }

    /// Ships some of the pages that the archive lacks. True: it has all.
    fn ship_pages(
        &mut self,
        target: &Catalog,
        shipped: &mut BaseShipped,
        source: &mut dyn PageSource,
    ) -> Result<bool, ArchiveFault> {
        step!(KeepPages, (), else self.drop_pages(&target.log, &shipped.pages, &[]));
        let mut shipped_now = 0;
        while let Some(page) = shipped.pages.get(shipped.shipped) {
            let file = target.log.page(*page);
            if self.extent(file) == 0 {
                if shipped_now == PAGES_TOGETHER {
                    return Ok(false);
                }
                if step!(OwnPages, file.owner() != self.owner.id, else false) {
                    return Err(ArchiveFault::Pages(format!("{} is not in the archive any more", file.piece(0))));
                }
                self.ship_page(*page, file, shipped.number, source)?;
                (shipped_now, self.figures.pages) = (shipped_now + 1, self.figures.pages + 1);
            }
            shipped.shipped += 1;
        }
        Ok(true)
    }

    fn ship_page(&mut self, page: u64, file: ArchivedFile, base: u64, source: &mut dyn PageSource) -> Result<(), ArchiveFault> {
        let (mut first, mut piece, mut begin) = (Vec::new(), Vec::new(), 0);
        source.read(page, &mut |bytes| {
            let mut rest = bytes;
            loop {
                let room = usize::try_from(PIECE_BYTES).unwrap_or(usize::MAX) - piece.len();
                let (taken, left) = rest.split_at(room.min(rest.len()));
                piece.extend_from_slice(taken);
                rest = left;
                if rest.is_empty() {
                    return Ok(());
                }
                if step!(PageBeginLast, begin == 0, else false) {
                    first = std::mem::take(&mut piece);
                } else {
                    self.put_of_page((file, begin), &piece, base)?;
                    piece.clear();
                }
                begin += PIECE_BYTES;
            }
        })?;
        self.put_of_page((file, begin), &piece, base)?;
        if first.is_empty() { Ok(()) } else { self.put_of_page((file, 0), &first, base) }
    }

    /// Makes a piece of a page, of what was read while the manifest named the base.
    fn put_of_page(&mut self, (file, begin): (ArchivedFile, u64), piece: &[u8], base: u64) -> Result<(), ArchiveFault> {
        if step!(ConfirmPages, !self.is_named(base)?, else false) {
            return Err(ArchiveFault::Pages("there is a later base".to_owned()));
        }
        // What an earlier try has made of a page that does not change.
        let is_there = self.files.get(&file).is_some_and(|pieces| pieces.has(begin));
        if is_there { Ok(()) } else { self.put(file, begin, piece) }
    }
}
