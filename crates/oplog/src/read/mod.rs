//! Reads a log: its groups in their order, up to where it ends.
//!
//! All segments but the last one were durable before the next one was named, so each of their parts must be there. In the last one
//! the first part that is not whole is the torn end of a write that was never acknowledged, and is left out; unless a later part
//! knows that it was durable: then it was damaged since, and the log is refused. [`proof`] looks for such a part.
//!
//! What lies behind the beginning of the next segment is not read, neither as part nor as proof: a process that was thought dead
//! may have written it.

mod bodies;
mod parts;
mod proof;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use almandine_base::step;

use self::bodies::Bodies;
pub use self::bodies::BodyAccess;
use self::parts::{Parts, Read};
use crate::append::Place;
use crate::directory::segment_path;
use crate::encryption::LogKeys;
use crate::fault::Fault;
use crate::group::{LINE_BYTES, PartHead, Slices};
use crate::manifest::{Manifest, SegmentEntry};
use crate::source::RingId;

/// A group as it was read.
#[derive(Debug)]
pub struct LogGroup<'b> {
    /// Where it begins.
    pub lsn: u64,
    /// Where the next one begins.
    pub end_lsn: u64,
    /// The head of its last part.
    pub head: PartHead,
    /// What its parts hold together; encrypted, where only sums are read.
    pub body: &'b [u8],
    /// Whether it is.
    pub is_opaque: bool,
    /// Units, as its heads say.
    pub units: u64,
}

impl<'b> LogGroup<'b> {
    /// The units, by the rings that they come from; none where they cannot be read.
    #[must_use]
    pub fn slices(&self) -> Slices<'b> {
        Slices::new(if self.is_opaque { &[] } else { self.body })
    }
}

/// Where a log ends, and what is known of what it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// Behind its last group.
    pub place: Place,
    /// Up to here it is known to be durable: to have outlived a crash of the machine, had there been one.
    pub proven: Place,
    /// The greatest epoch of a group.
    pub epoch: u64,
    /// The last number of each ring of each run that was read.
    pub last: BTreeMap<(u64, RingId), u64>,
    /// Groups with units.
    pub groups: u64,
    /// Units.
    pub units: u64,
    /// Where a torn end begins in the last segment, and how many bytes of it were found.
    pub torn: Option<(u64, u64)>,
}

/// Reads the groups of a log that is not encrypted from the segment on that begins at `from`.
///
/// # Errors
/// When something is missing, damaged or encrypted, and what `each` returns.
pub fn read(
    directory: &Path,
    manifest: &Manifest,
    from: u64,
    each: &mut dyn FnMut(&LogGroup<'_>) -> Result<(), Fault>,
) -> Result<LogEnd, Fault> {
    read_with((directory, BodyAccess::Keys(&LogKeys::NONE)), manifest, from, each)
}

/// Reads the groups of a log from the segment on that begins at `from`.
///
/// # Errors
/// When something is missing or damaged, or a key is not there, and what `each` returns.
pub fn read_with(
    (directory, access): (&Path, BodyAccess<'_>),
    manifest: &Manifest,
    from: u64,
    each: &mut dyn FnMut(&LogGroup<'_>) -> Result<(), Fault>,
) -> Result<LogEnd, Fault> {
    let first = manifest.segments.iter().position(|segment| segment.lsn >= from).unwrap_or(manifest.segments.len());
    read_segments((directory, access), manifest, first, each)
}

/// As [`read_with`], from the segment of this place on. Of a group that has begun before it nothing is given.
pub(crate) fn read_segments(
    (directory, access): (&Path, BodyAccess<'_>),
    manifest: &Manifest,
    first: usize,
    each: &mut dyn FnMut(&LogGroup<'_>) -> Result<(), Fault>,
) -> Result<LogEnd, Fault> {
    let segments = &manifest.segments[first..];
    let from = manifest.base.map_or(0, |base| base.lsn);
    let begin = segments.first().map_or(Place { lsn: from, sum: 0 }, |segment| Place { lsn: segment.lsn, sum: segment.sum });
    let mut reader = Reader {
        manifest,
        // The base has all before, whose segments are gone.
        end: LogEnd { place: begin, proven: begin, epoch: manifest.base.map_or(0, |base| base.epoch), ..LogEnd::default() },
        at: begin,
        begin: begin.lsn,
        unproven: VecDeque::new(),
        part: if first == 0 { Some(0) } else { None },
        is_partial: false,
        units: 0,
        run: 0,
        bodies: Bodies::new(access),
    };
    for (at, segment) in segments.iter().enumerate() {
        if !reader.segment(directory, segment, segments.get(at + 1), each)? {
            break;
        }
    }
    let end = reader.end;
    match (manifest.end, segments.last()) {
        (Some(clean), Some(last)) if end.place.lsn < clean => {
            let why = format!("the log was ended cleanly at LSN {clean}, and is whole up to LSN {} only", end.place.lsn);
            Err(Fault::damaged(&segment_path(directory, last.number), end.place.lsn.saturating_sub(last.lsn), why))
        }
        _ => Ok(end),
    }
}

struct Reader<'m> {
    manifest: &'m Manifest,
    bodies: Bodies<'m>,
    end: LogEnd,
    /// Where the next part begins.
    at: Place,
    /// Ends of groups that are not known to be durable.
    unproven: VecDeque<Place>,
    /// Where the group that is read begins.
    begin: u64,
    /// The next part of it; none when it may have begun before what is read.
    part: Option<u32>,
    /// It has.
    is_partial: bool,
    units: u64,
    run: u64,
}

impl Reader<'_> {
    /// Reads a segment; false when the log ends in it.
    fn segment(
        &mut self,
        directory: &Path,
        segment: &SegmentEntry,
        next: Option<&SegmentEntry>,
        each: &mut dyn FnMut(&LogGroup<'_>) -> Result<(), Fault>,
    ) -> Result<bool, Fault> {
        let path = segment_path(directory, segment.number);
        if self.at != (Place { lsn: segment.lsn, sum: segment.sum }) {
            return Err(Fault::damaged(
                &path,
                0,
                format!("it begins at LSN {}, and what is before ends at LSN {}", segment.lsn, self.at.lsn),
            ));
        }
        if self.part.is_some_and(|part| part > 0) && self.run != segment.run {
            return Err(Fault::damaged(&path, 0, "it begins a run, and the group before it has no end"));
        }
        self.run = segment.run;
        self.prove(segment.lsn);
        let mut parts = Parts::open(&path, self.manifest.id, segment, next)?;
        let limit = next.map_or(parts.len(), |next| next.lsn - segment.lsn);
        loop {
            let offset = self.at.lsn - segment.lsn;
            if offset >= limit {
                return Ok(next.is_some());
            }
            let why = match parts.read(offset, limit)? {
                Read::Part(head, body) => match self.follows(&head) {
                    Ok(()) => {
                        self.take(&path, offset, &head, body, each)?;
                        continue;
                    }
                    Err(why) => why,
                },
                Read::Bad(why) => why,
            };
            if next.is_some() {
                return Err(Fault::damaged(&path, offset, format!("{why}, and the segment was durable as a whole")));
            }
            let proof = parts.look_behind(offset)?;
            if let Some(later) = proof.durable {
                let why = format!("{why}, and what was written at byte {later} knows that it was durable");
                return Err(Fault::damaged(&path, offset, why));
            }
            let from = self.end.place.lsn.max(segment.lsn) - segment.lsn;
            let bytes = proof.end.unwrap_or(offset).max(offset) - from;
            self.end.torn = (bytes > 0).then_some((from, bytes));
            return Ok(false);
        }
    }

    /// Groups that end up to here are durable.
    fn prove(&mut self, lsn: u64) {
        while let Some(place) = self.unproven.pop_front_if(|place| place.lsn <= lsn) {
            self.end.proven = place;
        }
    }

    /// Whether a whole part is the next one.
    fn follows(&self, head: &PartHead) -> Result<(), &'static str> {
        if head.before != step!(CheckChain, self.at.sum, else head.before) {
            Err("a part follows another one than that before it")
        } else if self.part.is_some_and(|part| part != head.part) {
            Err("a part of a group is missing")
        } else {
            Ok(())
        }
    }

    fn take(
        &mut self,
        path: &Path,
        offset: u64,
        head: &PartHead,
        body: &[u8],
        each: &mut dyn FnMut(&LogGroup<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.at = Place { lsn: head.lsn - offset + head.end_offset(offset), sum: head.sum };
        self.is_partial |= self.part.is_none() && head.part > 0;
        self.part = Some(head.part + 1);
        self.prove(head.durable_lsn);
        self.units += u64::from(head.units);
        self.bodies.add((path, offset), head, body)?;
        if !head.end.of_group {
            return Ok(());
        }
        let (body, is_opaque) = self.bodies.group();
        let group = LogGroup { lsn: self.begin, end_lsn: self.at.lsn, head: *head, body, is_opaque, units: self.units };
        if !self.is_partial
            && let Err(why) = note(&mut self.end, &group)
        {
            return Err(Fault::damaged(path, offset, why));
        }
        if !self.is_partial {
            each(&group)?;
        }
        (self.end.place, self.end.epoch) = (self.at, self.end.epoch.max(head.epoch));
        self.unproven.push_back(self.at);
        (self.begin, self.part, self.units, self.is_partial) = (self.at.lsn, Some(0), 0, false);
        self.bodies.clear();
        debug_assert!(self.end.place.lsn.is_multiple_of(LINE_BYTES as u64), "parts are whole lines");
        Ok(())
    }
}

/// Notes the numbers of a group's units. Its sums are right, so what is wrong here was written so.
fn note(end: &mut LogEnd, group: &LogGroup<'_>) -> Result<(), &'static str> {
    let mut units = if group.is_opaque { group.units } else { 0 };
    for slice in group.slices() {
        let slice = slice.map_err(|_| "a slice of its group is cut short")?;
        let last = end.last.entry((slice.run, slice.ring)).or_insert(0);
        for head in slice.heads() {
            let number = head.map_err(|_| "a unit of its group is cut short")?.number;
            if number <= *last {
                return Err("the numbers of a ring do not ascend");
            }
            *last = number;
            units += 1;
        }
    }
    if units != group.units {
        return Err("its group has another number of units than its heads say");
    }
    end.units += units;
    end.groups += u64::from(units > 0);
    Ok(())
}
