//! The ledger of a directory of a log: which owner of backups it is, which backup is on its way to object storage, and which ones
//! are on their way out.
//!
//! What is begun is in it first, durably, so that a server that was killed goes on. A backup that is to be dropped is no more
//! shipped from then on.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use almandine_io::sync::{Mutex, MutexGuard};
use almandine_io::{entropy, files};

use super::fault::StoreFault;
use super::name::StoredName;
use crate::fault::Fault;

const FILE: &str = "BACKUPS";
const FIRST_LINE: &str = "almandine backups 1";

/// A backup that is to be shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its name.
    pub name: StoredName,
    /// The log that it was taken of.
    pub log: u128,
    /// When it was begun, Unix seconds.
    pub start_s: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    owner: u64,
    /// The number of the last backup.
    last: u64,
    ships: Option<Outgoing>,
    drops: BTreeSet<StoredName>,
}

impl Ledger {
    /// That of a directory of a log. One that has none is a new owner.
    ///
    /// # Errors
    /// Of the system; or what is there is no ledger.
    pub fn open(directory: &Path) -> Result<Self, StoreFault> {
        let path = directory.join(FILE);
        let state = match files::read_to_string(&path) {
            Ok(text) => State::parse(&text).ok_or_else(|| Fault::damaged(&path, 0, "it is no ledger of backups"))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut owner = [0; 8];
                entropy::fill(&mut owner)?;
                State { owner: u64::from_le_bytes(owner), ..State::default() }
            }
            Err(error) => return Err(StoreFault::file("read", &path, error)),
        };
        Ok(Self { path, state: Mutex::new(state) })
    }

    /// The owner.
    #[must_use]
    pub fn owner(&self) -> u64 {
        self.state().owner
    }

    /// The backup that is to be shipped.
    #[must_use]
    pub fn outgoing(&self) -> Option<Outgoing> {
        self.state().ships
    }

    /// Those whose objects are to be deleted.
    #[must_use]
    pub fn drops(&self) -> Vec<StoredName> {
        self.state().drops.iter().copied().collect()
    }

    /// A backup is about to be sealed, and to be shipped then. One that was to be shipped before is dropped.
    ///
    /// # Errors
    /// Of the system.
    pub fn begin(&self, (end_s, lsn): (u64, u64), (log, start_s): (u128, u64)) -> Result<Outgoing, StoreFault> {
        self.change(|state| {
            state.last += 1;
            state.drops.extend(state.ships.map(|former| former.name));
            let name = StoredName { end_s, lsn, owner: state.owner, number: state.last };
            *state.ships.insert(Outgoing { name, log, start_s })
        })
    }

    /// It is there. False: it was given up meanwhile.
    ///
    /// # Errors
    /// Of the system.
    pub fn shipped(&self, name: StoredName) -> Result<bool, StoreFault> {
        self.change(|state| state.ships.take_if(|ships| ships.name == name).is_some())
    }

    /// What is to be shipped is dropped instead.
    ///
    /// # Errors
    /// Of the system.
    pub fn give_up(&self) -> Result<(), StoreFault> {
        self.change(|state| state.drops.extend(state.ships.take().map(|former| former.name)))
    }

    /// These are to be dropped.
    ///
    /// # Errors
    /// Of the system.
    pub fn drop(&self, names: &[StoredName]) -> Result<(), StoreFault> {
        self.change(|state| state.drops.extend(names))
    }

    /// Nothing is left of this one.
    ///
    /// # Errors
    /// Of the system.
    pub fn dropped(&self, name: StoredName) -> Result<(), StoreFault> {
        self.change(|state| _ = state.drops.remove(&name))
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> Result<T, StoreFault> {
        let mut state = self.state();
        let mut next = state.clone();
        let answer = change(&mut next);
        if next != *state {
            files::replace(&self.path, next.text()).map_err(|error| StoreFault::file("write", &self.path, error))?;
            *state = next;
        }
        Ok(answer)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn text(&self) -> String {
        let Self { owner, last, ships, drops } = self;
        let mut text = format!("{FIRST_LINE}\nowner {owner:016x}\nlast {last}\n");
        if let Some(Outgoing { name, log, start_s }) = ships {
            let _ = writeln!(text, "ship {name} log {log:032x} start {start_s}");
        }
        drops.iter().for_each(|name| _ = writeln!(text, "drop {name}"));
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next() != Some(FIRST_LINE) {
            return None;
        }
        let owner = u64::from_str_radix(lines.next()?.strip_prefix("owner ")?, 16).ok()?;
        let mut state = Self { owner, last: lines.next()?.strip_prefix("last ")?.parse().ok()?, ..Self::default() };
        for line in lines {
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["ship", name, "log", log, "start", start] => {
                    let (name, log) = (StoredName::parse(name)?, u128::from_str_radix(log, 16).ok()?);
                    state.ships = Some(Outgoing { name, log, start_s: start.parse().ok()? });
                }
                ["drop", name] => _ = state.drops.insert(StoredName::parse(name)?),
                _ => return None,
            }
        }
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_pinned_and_no_other_passes() {
        let name = StoredName { end_s: 9, lsn: 8192, owner: 0xAB, number: 7 };
        let ships = Some(Outgoing { name, log: 0x0102, start_s: 5 });
        let drops = [StoredName { number: 3, ..name }].into();
        let state = State { owner: 0xAB, last: 7, ships, drops };
        let text = "almandine backups 1\nowner 00000000000000ab\nlast 7\n\
            ship 000000000009-000000008192-00000000000000ab-00000007 log 00000000000000000000000000000102 start 5\n\
            drop 000000000009-000000008192-00000000000000ab-00000003\n";
        assert_eq!(state.text(), text);
        assert_eq!(State::parse(text), Some(state));
        for other in ["", "almandine backups 1\nowner x\nlast 7\n", &text.replace("drop", "dorp"), &text.replace("last", "ship")] {
            assert_eq!(State::parse(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_begun_outlives_the_process_and_numbers_go_on() {
        let directory = std::env::temp_dir().join(format!("almandine-ledger-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let open = || Ledger::open(&directory).unwrap();
        let ledger = open();
        let first = ledger.begin((100, 8192), (1, 90)).unwrap();
        assert_eq!((open().outgoing(), open().owner(), first.name.number), (Some(first), ledger.owner(), 1));
        // A clock that was set back changes nothing of that.
        let second = open().begin((50, 8192), (1, 40)).unwrap();
        assert_eq!((second.name.number, open().drops()), (2, vec![first.name]));
        let ledger = open();
        assert!(!ledger.shipped(first.name).unwrap() && ledger.shipped(second.name).unwrap());
        assert!(!ledger.shipped(second.name).unwrap());
        let third = ledger.begin((60, 8192), (1, 40)).unwrap();
        ledger.give_up().unwrap();
        assert!(!ledger.shipped(third.name).unwrap(), "it was given up");
        ledger.dropped(first.name).unwrap();
        assert_eq!((open().outgoing(), open().drops()), (None, vec![third.name]));
        let _ = std::fs::remove_dir_all(&directory);
    }
}
