//! All keys of a part of the order of scans become a file of a base.

use std::path::Path;
use std::time::Duration;

use almandine_io::thread;
use almandine_keyspace::{Accessor, Dumping};

use super::format::BaseHead;
use super::write::{BaseDatabase, BaseDatabases, BaseWriter};
use crate::durable::write_durably;
use crate::save::{SaveError, SaveProgress};

/// How often a record that cannot be read is tried again,
const ATTEMPTS: u32 = 50;
/// and the rest between two attempts.
const REST: Duration = Duration::from_millis(100);

/// What a part of a base is to be.
pub struct Dump<'d> {
    /// What it says of itself: part `head.part` of `head.parts`, a power of two up to 1,024.
    pub head: BaseHead,
    /// The greatest number of the log before redo begins.
    pub floor: u64,
    /// The version and the texts of the libraries of functions, asked for behind the last key.
    pub libraries: &'d dyn Fn() -> (u64, Vec<Vec<u8>>),
}

/// Writes a part of a base under this name, durably. Outside of a batch, while effects are numbered, or nothing changes.
///
/// # Errors
/// When it cannot be written as a whole; then there is no such file.
pub fn dump(accessor: &mut Accessor, path: &Path, dump: &Dump<'_>, progress: &SaveProgress) -> Result<u64, SaveError> {
    let head = dump.head;
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    write_durably(Path::new(&temporary), path, |out| {
        let mut file = BaseWriter::new(out, head)?;
        let mut walk = Dumping::part(head.part.into(), head.parts.into());
        let (mut attempts, mut failed) = (0, None);
        loop {
            let more = walk.next(accessor, |key| {
                if failed.is_none() && !progress.is_cancelled() {
                    failed = file.key(&key).err();
                    progress.rest();
                }
            });
            file.passed(walk.position(), dump.floor);
            progress.set_keys(file.keys());
            match (failed.take(), more) {
                (Some(error), _) => return Err(error.into()),
                _ if progress.is_cancelled() => return Err(SaveError::Cancelled),
                (None, Ok(true)) => attempts = 0,
                (None, Ok(false)) => break,
                (None, Err(_)) if attempts == ATTEMPTS => return Err(SaveError::Unreadable),
                (None, Err(_)) => {
                    attempts += 1;
                    thread::sleep(REST);
                }
            }
        }
        if head.part + 1 == head.parts {
            let (version, texts) = (dump.libraries)();
            file.libraries(version, &texts)?;
        }
        let keys = file.keys();
        Ok((file.finish(&databases(accessor))?, keys))
    })
}

/// The databases as they are now.
fn databases(accessor: &mut Accessor) -> BaseDatabases {
    // Within a batch nothing changes them.
    accessor.begin_batch(0);
    let number = accessor.keyspace().log().order().last_of_databases();
    let all = 0..accessor.keyspace().databases() as u16;
    let all = all
        .map(|db| BaseDatabase { db, contents: accessor.changes().generation(db), keys: accessor.keyspace().dbsize(db) })
        .collect();
    accessor.end_batch();
    BaseDatabases { number, all }
}
