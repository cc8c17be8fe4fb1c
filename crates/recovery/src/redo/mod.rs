//! Redo: the units of the log, done again on a keyspace that has its base, or on an empty one.
//!
//! Groups come in the order of the log. The units of a group are taken in the order of their numbers, whatever rings they come
//! from: that is the order in which they were done, as far as any of them could tell. Entries on different keys commute, so each
//! goes to the lane of its key ([`LogLanes`]), where the base's keys have gone before; what changes databases is done when all
//! lanes have done what is before it. Nothing is looked at but what entries say; what is past its time stays, until the server
//! serves.
//!
//! Entries name *contents*, never a database. Here is which database consists of which contents; an entry on contents that no
//! database consists of any more has nothing to change.

mod lanes;
mod libraries;

use std::fmt;

use almandine_base::{step, steps};
use almandine_keyspace::Refusal;
use almandine_oplog::append::Leftover;
use almandine_oplog::entry::parts;
use almandine_oplog::group::LogSlice;
use almandine_oplog::read::{LogEnd, LogGroup};
use almandine_oplog::{LibraryForm, LogEntry, Operation, UnitHead, epoch_of};

use self::libraries::Libraries;
use crate::base::{BaseDatabases, LoadedBase};
pub use lanes::{LaneFault, LogLanes};

/// The contents of a database that the log does not know: no entry names them.
const UNNAMED: u64 = u64::MAX;

/// See the module.
#[derive(Debug)]
pub struct Redo {
    /// What each database consists of.
    databases: Vec<u64>,
    /// The greatest contents that were named.
    last_contents: u64,
    /// The number of the last unit that is in `databases` already.
    mapped: u64,
    /// The contents that were looked for last, and the database that consists of them.
    last_found: (u64, u16),
    /// The greatest epoch in which an edit may lack its key, because the base was being made.
    lacking_through: u64,
    /// The greatest epoch of a unit that was done.
    epoch: u64,
    done: Redone,
    libraries: Libraries,
}

/// How much was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Redone {
    /// Units.
    pub units: u64,
    /// Entries on keys and databases that there are; of those on keys, the base may have had some.
    pub entries: u64,
    /// Entries whose contents are gone.
    pub passed_over: u64,
}

/// Why a unit cannot be done again. The log is whole, so what is wrong was written so, or the server is another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedoFault {
    /// A unit has bytes that are no entry that this version knows.
    Unknown {
        /// The number of the unit.
        number: u64,
    },
    /// An entry does not go with what its key has.
    Refused {
        /// The number of the unit.
        number: u64,
        /// The key.
        key: Vec<u8>,
        /// How the keyspace put it.
        refusal: Refusal,
    },
    /// There are fewer databases than the log has.
    NoDatabase(u16),
}

impl fmt::Display for RedoFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { number } => write!(f, "unit {number} of the log has an entry that this version does not know"),
            Self::Refused { number, key, refusal } => {
                let key = String::from_utf8_lossy(key);
                match refusal {
                    Refusal::Missing(_) => write!(
                        f,
                        "the record of the storage cannot be read, or is damaged, that has the key '{key}', which unit {number} of \
                         the log changes: start again when the device is sound, or restore a backup"
                    ),
                    Refusal::Full => write!(
                        f,
                        "there is no room for the key '{key}' of unit {number} of the log: memory is used up, and the storage, if \
                         there is one, takes no more"
                    ),
                    Refusal::WrongKind => {
                        write!(f, "unit {number} of the log does not go with what the key '{key}' has: it is of another type")
                    }
                }
            }
            Self::NoDatabase(db) => write!(f, "the log has a database {db}: `databases` must be at least {}", u32::from(*db) + 1),
        }
    }
}

impl std::error::Error for RedoFault {}

impl Redo {
    /// Begins with what each database consists of: that of the base, or what a keyspace without a log has.
    #[must_use]
    pub fn new(databases: Vec<u64>) -> Self {
        let last_contents = databases.iter().copied().max().unwrap_or(0);
        Self {
            databases,
            last_contents,
            mapped: 0,
            last_found: (UNNAMED, 0),
            lacking_through: 0,
            epoch: 0,
            done: Redone::default(),
            libraries: Libraries::default(),
        }
    }

    /// Begins with what a base says of databases: `databases.all` in their order, and further ones that it does not have, which
    /// stay empty ([`Redo::settle`]).
    #[must_use]
    pub fn of_base(databases: &BaseDatabases, further: usize) -> Self {
        let mut redo = Self::new(databases.all.iter().map(|database| database.contents).collect());
        redo.mapped = databases.number;
        redo.databases.resize(redo.databases.len() + further, UNNAMED);
        redo
    }

    /// Behind all units: gives contents of their own to databases that the log does not know. Whether there are some.
    pub fn settle(&mut self) -> bool {
        let mut any = false;
        for contents in self.databases.iter_mut().filter(|contents| **contents == UNNAMED) {
            self.last_contents += 1;
            *contents = self.last_contents;
            any = true;
        }
        any
    }

    /// The base that was loaded was made in epochs up to this one.
    pub fn complete_base(&mut self, loaded: LoadedBase, through: u64) {
        self.last_contents = self.last_contents.max(loaded.last_contents);
        let (version, texts) = loaded.libraries;
        self.libraries.change(version, LibraryForm::All, texts);
        self.libraries.settle();
        self.lacking_through = through;
    }

    /// Keys of the base are lost: what edits them is passed over, until something gives them a whole value.
    pub fn lacks_keys(&mut self) {
        self.lacking_through = lanes::ANY_EPOCH;
    }

    /// The version of the libraries of functions, and their texts.
    pub fn functions(&self) -> (u64, impl Iterator<Item = Vec<u8>>) {
        self.libraries.all()
    }

    /// What each database consists of now.
    #[must_use]
    pub fn databases(&self) -> &[u64] {
        &self.databases
    }

    /// The greatest epoch of a unit that was done.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Contents that the log has never named.
    #[must_use]
    pub fn next_contents(&self) -> u64 {
        self.last_contents + 1
    }

    /// How much was done.
    #[must_use]
    pub fn done(&self) -> Redone {
        self.done
    }

    /// Does the units of the next group again. They are done when the lanes have settled.
    ///
    /// # Errors
    /// When one cannot be done, or something before could not.
    pub fn group(&mut self, lanes: &mut LogLanes<'_>, group: &LogGroup<'_>) -> Result<(), RedoFault> {
        self.cut(lanes, group.slices().filter_map(Result::ok))
    }

    /// Does the units again that rings have left and the log has not, which ends with `end`. They are done when the lanes have
    /// settled.
    ///
    /// # Errors
    /// When one cannot be done, or something before could not.
    pub fn left(&mut self, lanes: &mut LogLanes<'_>, left: &[Leftover], end: &LogEnd) -> Result<(), RedoFault> {
        self.cut(lanes, left.iter().map(|ring| LogSlice { run: ring.run, ring: ring.ring, units: ring.not_in_log(end) }))
    }

    /// Does the units of a cut again, in the order of their numbers.
    fn cut<'u>(&mut self, lanes: &mut LogLanes<'_>, slices: impl Iterator<Item = LogSlice<'u>>) -> Result<(), RedoFault> {
        let mut units: Vec<(u64, u64, u16, &[u8])> = Vec::new();
        for slice in slices {
            let mut rest = slice.units;
            while let Some((head, unit, behind)) = UnitHead::split(rest) {
                units.push((head.number, slice.run, slice.ring.0, unit));
                rest = behind;
            }
        }
        units.sort_unstable_by_key(|&(number, run, ring, _)| (number, run, ring));
        units.into_iter().try_for_each(|(number, _, _, unit)| self.unit(lanes, number, unit))?;
        self.libraries.settle();
        Ok(())
    }

    fn unit(&mut self, lanes: &mut LogLanes<'_>, number: u64, unit: &[u8]) -> Result<(), RedoFault> {
        let mut rest = unit;
        while !rest.is_empty() {
            steps::take(1);
            let (entry, behind) = LogEntry::split(rest).ok_or(RedoFault::Unknown { number })?;
            let bytes = &rest[..rest.len() - behind.len()];
            rest = behind;
            let is_done = match entry.operation {
                Operation::Database(db) => self.database(lanes, db, (entry.contents, number))?,
                // Its key is not known: what it was is in no base and no entry behind this.
                Operation::Lost => false,
                Operation::Functions { form, libraries } => {
                    let libraries: Option<Vec<Vec<u8>>> = parts(libraries).map(|part| part.map(<[u8]>::to_vec)).collect();
                    self.libraries.change(entry.contents, form, libraries.ok_or(RedoFault::Unknown { number })?)
                }
                _ => match self.database_of(entry.contents) {
                    None => false,
                    Some(db) => {
                        lanes.entry((db, entry.key), bytes, (number, self.lacking_through))?;
                        true
                    }
                },
            };
            *(if is_done { &mut self.done.entries } else { &mut self.done.passed_over }) += 1;
        }
        self.epoch = self.epoch.max(epoch_of(number));
        self.done.units += 1;
        Ok(())
    }

    /// A database consists of other contents: of those of another database, which it gives its own, or of new ones.
    fn database(&mut self, lanes: &mut LogLanes<'_>, db: u16, (contents, number): (u64, u64)) -> Result<bool, RedoFault> {
        let at = usize::from(db);
        let Some(&before) = self.databases.get(at) else { return Err(RedoFault::NoDatabase(db)) };
        self.last_contents = self.last_contents.max(contents);
        // Emptied again it would lose what the base has of its later contents.
        if before == contents || number <= step!(SkipMapped, self.mapped, else 0) {
            return Ok(false);
        }
        // What is on its way to a database goes to what that consists of now.
        lanes.settle()?;
        self.last_found = (UNNAMED, 0);
        let accessor = lanes.accessor();
        accessor.begin_batch(0);
        match self.databases.iter().position(|&other| other == contents) {
            Some(other) => {
                self.databases.swap(at, other);
                accessor.swap(db, u16::try_from(other).unwrap_or(u16::MAX));
            }
            None => {
                self.databases[at] = contents;
                accessor.flush(&[db]);
            }
        }
        accessor.end_batch();
        Ok(true)
    }

    /// The database that consists of these contents.
    fn database_of(&mut self, contents: u64) -> Option<u16> {
        self.last_contents = self.last_contents.max(contents);
        if self.last_found.0 != contents || contents == UNNAMED {
            steps::take(self.databases.len());
            let db = self.databases.iter().position(|&of| of == contents)?;
            self.last_found = (contents, u16::try_from(db).unwrap_or(u16::MAX));
        }
        Some(self.last_found.1)
    }
}

impl From<LaneFault> for RedoFault {
    fn from(LaneFault { number, key, refusal }: LaneFault) -> Self {
        refusal.map_or(Self::Unknown { number }, |refusal| Self::Refused { number, key, refusal })
    }
}
