//! What is under way beside the writer: a sync, the names of files, the file of the next segment, a base that is being named.

use std::io;

use super::place::Place;
use crate::errands::{Errands, Pending};
use crate::fault::Fault;
use crate::manifest::{BaseEntry, Manifest, SegmentEntry};

/// What is under way beside the writer.
#[derive(Debug)]
pub(super) struct Beside {
    pub(super) errands: Errands,
    pub(super) syncing: Option<Syncing>,
    /// Names of files that are being made durable: nothing is that comes behind.
    pub(super) names: Option<Pending<Result<(), Fault>>>,
    /// The file of the segment behind the last one, if that is made ready.
    pub(super) next: Option<NextSegment>,
    /// A base that is being named.
    pub(super) naming: Option<Naming>,
}

/// A sync that is under way.
#[derive(Debug)]
pub(super) struct Syncing {
    pub(super) pending: Pending<io::Result<()>>,
    /// How much of the segment was written when it was begun, and behind which group that was.
    pub(super) written: u64,
    pub(super) end: Place,
}

impl Beside {
    pub(super) fn new(errands: Errands) -> Self {
        Self { errands, syncing: None, names: None, next: None, naming: None }
    }
}

/// A file that is made ready for the next segment.
#[derive(Debug)]
pub(super) struct NextSegment {
    pub(super) number: u64,
    pub(super) bytes: u64,
    pub(super) named: Pending<Result<(), Fault>>,
}

/// A base that is being named.
#[derive(Debug)]
pub(super) struct Naming {
    pub(super) base: BaseEntry,
    /// The manifest with it, until that is the one on the disk, and what it drops.
    pub(super) manifest: Option<Manifest>,
    pub(super) dropped: Vec<SegmentEntry>,
    pub(super) former: Option<BaseEntry>,
    pub(super) state: NamingState,
}

#[derive(Debug)]
pub(super) enum NamingState {
    UnderWay(Pending<Result<(), Fault>>),
    Done(Result<(), Fault>),
}

impl NextSegment {
    /// Whether its name is durable, once that is known.
    pub(super) fn wait(self) -> Option<(u64, u64)> {
        self.named.wait()?.ok().map(|()| (self.number, self.bytes))
    }
}

impl Naming {
    /// Waits until it is known what has come of it.
    pub(super) fn wait(&mut self) {
        let done = NamingState::Done(Err(Fault::Stopped));
        self.state = match std::mem::replace(&mut self.state, done) {
            NamingState::UnderWay(pending) => NamingState::Done(pending.wait().unwrap_or(Err(Fault::Stopped))),
            done @ NamingState::Done(_) => done,
        };
    }
}
