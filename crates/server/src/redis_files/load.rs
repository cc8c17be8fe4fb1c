//! Loads an append-only file of Redis into the keyspace.
//!
//! Its commands are executed by an instance of their own, so that they meet no user, no pause and no limit, and are in no figure of
//! the server. Nothing is past its time meanwhile, as in Redis: what follows in the file has met it alive.

use std::io;
use std::path::Path;
use std::sync::Arc;

use almandine_handler::Table;
use almandine_instance::{Acl, Instance};
use almandine_io::{clock, files};
use almandine_rdb::aof::{AofCommand, AofError, AofFault, AofReader};
use almandine_recovery::load::{Existing, FileInput, LoadOptions};
use almandine_script::RestorePolicy;
use almandine_session::{Replay, ReplayTime, Unanswered};

use super::replies::first_error;
use super::source::{Source, failed, has_snapshot};
use crate::snapshots;

/// Commands that are executed together, and their bytes.
const BATCH_COMMANDS: usize = 64;
const BATCH_BYTES: usize = 256 << 10;

/// Loads a source. Returns whether it is loaded: not when the end of the server is asked for meanwhile.
///
/// # Errors
/// When it cannot be loaded as a whole, but for an end that the settings say may be missing.
pub(crate) fn load(instance: &Instance, table: &'static Table, source: &Source) -> io::Result<bool> {
    let began_ns = clock::monotonic_ns();
    let own = Instance::new(
        instance.config.copy(),
        Arc::clone(&instance.keyspace),
        1,
        Acl::open(table.catalog()),
        instance.run.id.clone(),
    );
    let mut loading = Loading { instance, own: Arc::new(own), table, before: 0, commands: 0 };
    for (index, (path, bytes)) in source.files.iter().enumerate() {
        if !loading.file(path, index + 1 == source.files.len())? {
            return Ok(false);
        }
        loading.before += bytes;
    }
    let codes: Vec<Vec<u8>> = loading.own.scripts.libraries.all().into_iter().map(|(_, library)| library.code.to_vec()).collect();
    snapshots::restore(instance, source.path(), &codes, RestorePolicy::Flush)?;
    let elapsed_ms = (clock::monotonic_ns() - began_ns) / 1_000_000;
    tracing::info!(
        "Loaded {}: {} files, {} commands, {elapsed_ms} ms",
        source.path().display(),
        source.files.len(),
        loading.commands
    );
    Ok(true)
}

struct Loading<'l> {
    instance: &'l Instance,
    /// The instance of the commands.
    own: Arc<Instance>,
    table: &'static Table,
    /// Bytes of the files before.
    before: u64,
    /// Commands that were executed.
    commands: u64,
}

impl Loading<'_> {
    /// Loads a file. False when the end of the server is asked for.
    fn file(&mut self, path: &Path, is_last: bool) -> io::Result<bool> {
        let open = || files::open(path).map_err(|error| failed(path, &error));
        let mut offset = 0;
        if has_snapshot(path)? {
            let options = LoadOptions {
                keep_expired: true,
                ..snapshots::load::options(&self.instance.config.snapshot().settings, Existing::Refuse)
            };
            let mut accessor = self.accessor()?;
            let Some((loaded, end)) = snapshots::load::read(self.instance, path, &mut accessor, (options, self.before))? else {
                return Ok(false);
            };
            snapshots::restore(&self.own, path, &loaded.functions, RestorePolicy::Append)?;
            offset = end;
        }
        let reader = AofReader::new(FileInput::behind(open()?, offset), offset);
        self.commands_of(path, reader, is_last)
    }

    fn accessor(&self) -> io::Result<almandine_keyspace::Accessor> {
        let none = || io::Error::other("the store has no session left to load the append-only file of Redis");
        self.instance.keyspace.accessor().ok_or_else(none)
    }

    fn commands_of(&mut self, path: &Path, mut reader: AofReader<FileInput>, is_last: bool) -> io::Result<bool> {
        let replay = Replay::new(Arc::clone(&self.own), self.table, self.accessor()?);
        let replay = replay.ok_or_else(|| io::Error::other("the commands of the append-only file of Redis have no client"))?;
        let mut batch =
            Batch { replay, path, bytes: Vec::new(), commands: Vec::new(), time: ReplayTime::Still, present_due: false };
        // Where MULTI stands of what is not executed yet.
        let mut unit = None;
        let ended = loop {
            match reader.read_command() {
                Ok(Some(command)) => {
                    let name = command.name();
                    if self.table.lookup(name).is_none() {
                        let name = String::from_utf8_lossy(name).into_owned();
                        let offset = command.offset;
                        return Err(io::Error::other(format!(
                            "Unknown command '{name}' reading the append only file {}, at offset {offset}. It is one of a module \
                             or of a newer version, and what it did would be missing: have the old server write a snapshot (SAVE)",
                            path.display()
                        )));
                    }
                    if name.eq_ignore_ascii_case(b"multi") {
                        unit = Some(command.offset);
                    } else if name.eq_ignore_ascii_case(b"exec") {
                        unit = None;
                    }
                    batch.take(&command)?;
                    self.commands += 1;
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
            self.instance.persistence.loading.reached(self.before + reader.offset());
            if batch.commands.is_empty() && self.instance.shutdown.requested() {
                return Ok(false);
            }
        };
        batch.execute()?;
        batch.replay.end();
        self.end_of(path, (ended, unit), is_last)?;
        Ok(true)
    }

    /// Whether a file may end so.
    fn end_of(&self, path: &Path, (ended, unit): (Option<AofError>, Option<u64>), is_last: bool) -> io::Result<()> {
        let settings = &self.instance.config.snapshot().settings.persistence;
        let bytes = files::open(path).and_then(|file| file.len()).map_err(|error| failed(path, &error))?;
        let (kept, fault) = match ended {
            None => match unit {
                None => return Ok(()),
                Some(begin) => (begin, AofFault::Truncated),
            },
            Some(error) => (unit.unwrap_or(error.offset).min(error.offset), error.fault),
        };
        let (left, shown) = (bytes.saturating_sub(kept), path.display());
        match fault {
            AofFault::Io(error) => Err(io::Error::other(format!(
                "Unrecoverable error reading the append only file {shown}, at offset {kept}: {error}"
            ))),
            AofFault::Truncated if settings.load_truncated && is_last => {
                let what = if unit.is_some() { "a transaction" } else { "a command" };
                tracing::warn!(
                    "{shown} ends within {what}: its last {left} bytes, from offset {kept} on, are left out, as aof-load-truncated \
                     says"
                );
                Ok(())
            }
            AofFault::Truncated if is_last => Err(io::Error::other(format!(
                "Unexpected end of file reading the append only file {shown}: the last {left} bytes, from offset {kept} on, are no \
                 whole command or transaction. To begin without them, set aof-load-truncated to yes, or cut the file with \
                 redis-check-aof --fix when you have a copy"
            ))),
            AofFault::Truncated => Err(io::Error::other(format!(
                "Unexpected end of file reading the append only file {shown}, at offset {kept}: it is not the last of the \
                 manifest's files, so that what follows would be executed without what is missing"
            ))),
            AofFault::Malformed(why) if is_last && left <= settings.corrupt_tail_bytes_max => {
                tracing::warn!(
                    "{shown} has a corrupt end ({why}): its last {left} bytes, from offset {kept} on, are left out, as \
                     aof-load-corrupt-tail-max-size says"
                );
                Ok(())
            }
            AofFault::Malformed(why) => Err(io::Error::other(format!(
                "Bad file format reading the append only file {shown}: {why}, at offset {kept}. What is behind that cannot be \
                 trusted. Take a copy, then cut the file with redis-check-aof --fix, or let aof-load-corrupt-tail-max-size be at \
                 least {left}"
            ))),
        }
    }
}

/// Commands that are executed together.
struct Batch<'b> {
    replay: Replay,
    path: &'b Path,
    bytes: Vec<u8>,
    /// Of each its offset and its name.
    commands: Vec<(u64, Vec<u8>)>,
    time: ReplayTime,
    /// A command behind the last MULTI counts from the present.
    present_due: bool,
}

impl Batch<'_> {
    fn take(&mut self, command: &AofCommand<'_>) -> io::Result<()> {
        let name = command.name();
        let counts = counts_from_present(command);
        let ends_unit = name.eq_ignore_ascii_case(b"exec") || name.eq_ignore_ascii_case(b"discard");
        let time = if counts || (ends_unit && self.present_due) { ReplayTime::Present } else { ReplayTime::Still };
        if name.eq_ignore_ascii_case(b"multi") {
            self.present_due = false;
        } else {
            self.present_due |= counts;
        }
        if time != self.time || self.bytes.len() + command.bytes.len() > BATCH_BYTES || self.commands.len() == BATCH_COMMANDS {
            self.execute()?;
        }
        self.time = time;
        self.commands.push((command.offset, name.to_vec()));
        self.bytes.extend_from_slice(command.bytes);
        Ok(())
    }

    fn execute(&mut self) -> io::Result<()> {
        let Self { replay, path, bytes, commands, time, .. } = self;
        let (index, why) = match replay.execute(bytes, *time) {
            Ok(replies) => match first_error(replies) {
                None => {
                    commands.clear();
                    bytes.clear();
                    bytes.shrink_to(4 * BATCH_BYTES);
                    return Ok(());
                }
                Some((index, error)) => (index, String::from_utf8_lossy(error).into_owned()),
            },
            Err(Unanswered::Waits) => (0, "it or one behind it waits for another client".to_owned()),
            Err(Unanswered::Closed) => (0, "it or one behind it is not accepted".to_owned()),
        };
        let (offset, name) = commands.get(index).cloned().unwrap_or_default();
        Err(io::Error::other(format!(
            "the command {} at offset {offset} of the append only file {} fails, which it did not when it was written: {why}. What \
             it did would be missing: have the old server write a snapshot (SAVE)",
            String::from_utf8_lossy(&name),
            path.display()
        )))
    }
}

/// Whether a command counts a time from the present. Redis writes absolute times; other programs and old scripts may not.
fn counts_from_present(command: &AofCommand<'_>) -> bool {
    let is = |word: &[u8], names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
    let has = |from: usize, names: &[&str]| command.words().skip(from).any(|word| is(word, names));
    let name = command.name();
    // Streams note when a consumer was seen last.
    is(name, &["EXPIRE", "PEXPIRE", "SETEX", "PSETEX", "HEXPIRE", "HPEXPIRE", "XADD", "XCLAIM", "XAUTOCLAIM", "XGROUP"])
        || is(name, &["XREADGROUP", "EVAL", "EVALSHA", "EVAL_RO", "FCALL", "FCALL_RO"])
        || (is(name, &["SET"]) && command.words().len() > 4 && has(3, &["EX", "PX"]))
        || (is(name, &["GETEX", "HSETEX", "HGETEX", "MSETEX"]) && has(2, &["EX", "PX"]))
        || (is(name, &["RESTORE"]) && !has(4, &["ABSTTL"]))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use almandine_config::{Config, Startup};
    use almandine_io::files;
    use almandine_keyspace::{Keyspace, Options};

    use super::*;
    use crate::redis_files::scratch::Scratch;

    fn request(words: &[&str]) -> String {
        let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        format!("*{}\r\n{words}", words.matches('$').count())
    }

    /// Loads bytes, and says how often `count` was incremented.
    fn loaded(path: &PathBuf, bytes: &[u8], truncated: &str) -> Result<Option<i64>, String> {
        files::write(path, bytes).unwrap();
        let args = ["--aof-load-truncated", truncated].map(str::to_owned);
        let Ok(Startup::Run(config)) = Config::load(&args) else { panic!("a configuration") };
        let store = almandine_store::Options { background: false, ..Default::default() };
        let keyspace = Keyspace::open(Options { store, ..Options::default() }).unwrap();
        let table = crate::commands::table(&[]).unwrap();
        let instance = Instance::new(*config, Arc::clone(&keyspace), 1, Acl::open(table.catalog()), "0".repeat(40));
        let source = Source { files: vec![(path.clone(), bytes.len() as u64)], manifest: None };
        assert!(load(&instance, table, &source).map_err(|error| error.to_string())?);
        let mut accessor = keyspace.accessor().unwrap();
        accessor.begin_batch(0);
        let mut reader = accessor.reader(0);
        let key = reader.key(b"count");
        let count = reader.read(key).unwrap().map(|value| std::str::from_utf8(&value).unwrap().parse().unwrap());
        drop(reader);
        accessor.end_batch();
        Ok(count)
    }

    /// Of a file that is cut anywhere exactly the units are loaded that are whole in it, where the end may be missing; else it is
    /// refused. Bytes that are others are refused or are other commands: such a file has no sums.
    #[test]
    fn each_prefix_is_its_whole_units_and_no_byte_is_fatal() {
        let scratch = Scratch::new("redis-files-damage");
        let path = scratch.path().join("appendonly.aof");
        // Behind each of these the count is another one.
        let units = [
            request(&["SELECT", "0"]),
            request(&["INCR", "count"]),
            [request(&["MULTI"]), request(&["INCR", "count"]), request(&["INCR", "count"]), request(&["EXEC"])].concat(),
            format!("#TS:1628217470\r\n{}", request(&["INCRBY", "count", "4"])),
        ];
        let counts = [0, 1, 3, 7];
        let whole = units.concat();
        let mut ends = vec![(0, 0)];
        for (unit, count) in units.iter().zip(counts) {
            ends.push((ends.last().unwrap().0 + unit.len(), count));
        }
        for cut in 0..=whole.len() {
            let (end, count) = *ends.iter().rfind(|(end, _)| *end <= cut).unwrap();
            let bytes = &whole.as_bytes()[..cut];
            let expected = (count > 0).then_some(count);
            assert_eq!(loaded(&path, bytes, "yes"), Ok(expected), "{cut}");
            let behind_remark = if whole[end..cut].starts_with('#') && cut >= end + 16 { end + 16 } else { end };
            let is_whole = behind_remark == cut;
            let strict = loaded(&path, bytes, "no");
            assert_eq!(strict.is_ok(), is_whole, "{cut}: {strict:?}");
            let text = strict.err().unwrap_or_default();
            assert!(is_whole || text.contains(&format!("from offset {behind_remark} on")), "{cut}: {text}");
        }
        let mut refused = 0;
        for at in 0..whole.len() {
            let mut bytes = whole.clone().into_bytes();
            bytes[at] ^= 1 << (at % 7);
            refused += usize::from(loaded(&path, &bytes, "no").is_err());
        }
        assert!(2 * refused > whole.len(), "{refused} of {}", whole.len());
    }

    #[test]
    fn commands_that_count_from_the_present_are_told() {
        let counts = |words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            let mut bytes = format!("*{}\r\n", words.len());
            words.iter().for_each(|word| bytes.push_str(&format!("${}\r\n{word}\r\n", word.len())));
            let mut reader = AofReader::new(bytes.as_bytes(), 0);
            counts_from_present(&reader.read_command().unwrap().unwrap())
        };
        for words in ["expire k 1", "SET k v EX 10", "set k v nx px 10", "RESTORE k 10 x", "XADD s * f v", "GETEX k PX 1"] {
            assert!(counts(words), "{words}");
        }
        for words in ["PEXPIREAT k 1", "SET k EX", "SET px v", "SET k v PXAT 10", "RESTORE k 10 x ABSTTL", "GETEX k PERSIST"] {
            assert!(!counts(words), "{words}");
        }
    }
}
