//! What the manifest names: bases and segments.
//!
//! Names are made durable beside the writer where nothing has to wait for that: a base while groups are appended, and the file of a
//! segment before it is needed. There is one change of the manifest at a time.

use std::sync::Arc;

use almandine_base::step;
use almandine_io::files;

use super::begin::new_segment;
use super::beside::{Naming, NamingState, NextSegment};
use super::{Appender, Place};
use crate::directory::segment_path;
use crate::fault::Fault;
use crate::manifest::{BaseEntry, Manifest};

impl Appender {
    /// Names a base, and drops the segments before it.
    ///
    /// # Errors
    /// Of the system: then either of both bases may be named, and the files of both stay, unless it is known that the new one is
    /// not.
    pub fn name_base(&mut self, base: BaseEntry) -> Result<(), Fault> {
        self.wait_for_names();
        let mut naming = self.naming_of(base);
        if !self.is_named {
            // The base, its segment and the manifest are files of their own, whichever of those before the disk has.
            self.directory.go_on();
        }
        let manifest = naming.manifest.as_ref().unwrap_or(&self.manifest);
        naming.state = NamingState::Done(self.directory.replace(manifest));
        self.end_naming(naming)?;
        self.awaits_base = false;
        if !std::mem::replace(&mut self.is_named, true) {
            // Those of the log that was there before.
            self.drop_next();
            let _ = self.directory.drop_unnamed(&self.manifest);
        }
        self.finish_errands();
        Ok(())
    }

    /// Whether a base can be named beside the writer: the log is named, whole, and no other base is being named.
    pub(crate) fn names_beside(&self) -> bool {
        self.is_named && !self.awaits_base && self.beside.naming.is_none()
    }

    /// Does that beside the writer; [`Self::has_named_base`] says what has come of it.
    pub(crate) fn begin_naming_base(&mut self, base: BaseEntry) {
        debug_assert!(self.names_beside(), "one after the other");
        let mut naming = self.naming_of(base);
        let (directory, manifest) = (Arc::clone(&self.directory), naming.manifest.clone());
        let replace = move || manifest.map_or(Ok(()), |manifest| directory.replace(&manifest));
        naming.state = NamingState::UnderWay(self.beside.errands.give(replace));
        self.beside.naming = Some(naming);
    }

    /// What has come of the base that is being named; none while that is not known.
    pub(crate) fn has_named_base(&mut self) -> Option<Result<(), Fault>> {
        let is_done = self.beside.naming.as_ref().is_some_and(|naming| match &naming.state {
            NamingState::UnderWay(pending) => pending.is_done(),
            NamingState::Done(_) => true,
        });
        let mut naming = self.beside.naming.take_if(|_| is_done)?;
        naming.wait();
        Some(self.end_naming(naming))
    }

    fn naming_of(&self, base: BaseEntry) -> Naming {
        debug_assert!(
            base.through <= self.durable.lsn,
            "INV-CHECKPOINT-1: a base is named when the log that completes it is durable"
        );
        let mut manifest = self.manifest.clone();
        let former = manifest.base.replace(base);
        let dropped: Vec<_> = manifest.segments.extract_if(.., |segment| segment.lsn < base.lsn).collect();
        step!(NameFirst, (), else self.drop_files(&dropped, former));
        Naming { base, manifest: Some(manifest), dropped, former, state: NamingState::Done(Ok(())) }
    }

    /// Takes the manifest that is on the disk now, and gives up what it does not name.
    fn end_naming(&mut self, mut naming: Naming) -> Result<(), Fault> {
        self.adopt(&mut naming);
        if let NamingState::Done(Err(fault)) = naming.state {
            if !self.directory.is_broken() {
                self.drop_files(&[], Some(naming.base));
            }
            return Err(fault);
        }
        self.drop_files(&naming.dropped, naming.former);
        Ok(())
    }

    /// Waits until the manifest on the disk is known, where a base is being named: the next one begins with it.
    pub(super) fn wait_for_names(&mut self) {
        if let Some(mut naming) = self.beside.naming.take() {
            naming.wait();
            self.adopt(&mut naming);
            self.beside.naming = Some(naming);
        }
    }

    fn adopt(&mut self, naming: &mut Naming) {
        if matches!(naming.state, NamingState::Done(Ok(())))
            && let Some(manifest) = naming.manifest.take()
        {
            // The number of a file that was made ready meanwhile is not given again.
            self.manifest = Manifest { last_segment: self.manifest.last_segment, ..manifest };
        }
    }

    /// Has a file ready for the next segment, if there is a spare one.
    pub(crate) fn prepare_next(&mut self) {
        if self.beside.next.is_some() || !self.is_named {
            return;
        }
        let Some((spare, bytes)) = self.spares.take() else { return };
        self.manifest.last_segment += 1;
        let number = self.manifest.last_segment;
        let (directory, path) = (Arc::clone(&self.directory), segment_path(self.directory.path(), number));
        let named = self.beside.errands.give(move || {
            files::rename(&spare, &path).map_err(|error| Fault::io("rename", &spare, error))?;
            step!(SyncNames, directory.sync_names()?);
            Ok(())
        });
        self.beside.next = Some(NextSegment { number, bytes, named });
    }

    /// Gives up the file that was made ready.
    pub(super) fn drop_next(&mut self) {
        if let Some(next) = self.beside.next.take() {
            let path = segment_path(self.directory.path(), next.number);
            self.beside.errands.give(|| files::remove(path));
        }
    }

    /// A segment that begins at `place` is the last one from now on.
    pub(super) fn next_segment(&mut self, place: Place) -> Result<(), Fault> {
        self.wait_for_names();
        let mut manifest = self.manifest.clone();
        manifest.segments.retain(|segment| segment.lsn < place.lsn);
        let ready = self.beside.next.take().and_then(NextSegment::wait);
        let ways = (&self.spares, &*self.keys, self.write_path);
        let segment = new_segment(&self.directory, &mut manifest, ways, (place, ready))?;
        debug_assert!(place.lsn <= self.segment.synced_lsn(), "INV-OPLOG-2: what is before a segment is durable first");
        // The manifest on the disk may name it, also where this fails: no other segment has its number.
        self.manifest.last_segment = manifest.last_segment;
        if self.is_named && ready.is_some() {
            self.directory.put(&manifest)?;
            let directory = Arc::clone(&self.directory);
            self.beside.names = Some(self.beside.errands.give(move || directory.sync_names()));
        } else if self.is_named {
            self.directory.replace(&manifest)?;
        }
        (self.manifest, self.segment) = (manifest, segment);
        Ok(())
    }
}
