//! `convert`: the files of one server become those of another.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use almandine_server::{Conversion, Form};
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::progress::Progress;
use crate::report::{Outcome, Report};

/// Between two looks at how far it is.
const PERIOD: Duration = Duration::from_millis(200);
/// What a share is shown of.
const WHOLE: f64 = 1000.0;

#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// The directory of a log, or of an append-only file of Redis with its manifest; or a single append-only file, or a snapshot.
    from: PathBuf,
    /// Where to write: something that is not there yet.
    to: PathBuf,
    /// What to write.
    #[arg(long, value_enum)]
    form: FormName,
    /// How many databases there are. A log has as many as the server that it is for.
    #[arg(long, value_name = "COUNT", default_value = "16")]
    databases: u16,
    /// The version of the snapshot: 10, 11, 12 or valkey-80.
    #[arg(long, value_name = "VERSION", default_value = "10")]
    rdb_version: String,
    /// Refuse an append-only file of Redis that ends within a command.
    #[arg(long)]
    whole: bool,
    #[command(flatten)]
    search: Search,
}

/// How much memory the search for keys that are there twice may take, where not all data is in memory.
#[derive(Debug, Args)]
pub(crate) struct Search {
    /// MiB of memory for the search for keys that a snapshot has twice. One with more keys than fit there, 131,072 for each MiB, is
    /// read several times.
    #[arg(long, value_name = "MIB", default_value = "256")]
    search_memory: u32,
}

impl Search {
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(u64::from(self.search_memory) << 20).unwrap_or(usize::MAX)
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormName {
    /// A snapshot file, as SAVE writes it.
    Rdb,
    /// An append-only file that Redis and Valkey start from: a directory with a snapshot and its manifest.
    Aof,
    /// A log of this server: a directory.
    Log,
}

pub(crate) fn convert(task: &Convert, key_file: Option<&Path>, report: &mut Report) -> Outcome {
    let form = match task.form {
        FormName::Rdb => Form::Snapshot,
        FormName::Aof => Form::RedisLog,
        FormName::Log => Form::Log,
    };
    let (databases, truncated) = (task.databases.to_string(), if task.whole { "no" } else { "yes" });
    let settings = ["--databases", &databases, "--rdb-version", &task.rdb_version, "--aof-load-truncated", truncated];
    let mut settings = settings.map(str::to_owned).to_vec();
    settings.extend(key_file.into_iter().flat_map(|path| ["--log-key-file".to_owned(), path.to_string_lossy().into_owned()]));
    let failed = |report: &mut Report, error: &std::io::Error| {
        let outcome = if error.kind() == ErrorKind::Other { Outcome::Damaged } else { Outcome::CouldNotLook };
        report.say("fault", json!({ "kind": "error", "text": error.to_string() }), error.to_string());
        outcome
    };
    let conversion = match Conversion::new(&task.from, &task.to, form, task.search.bytes(), &settings) {
        Ok(conversion) => conversion,
        Err(error) => return failed(report, &error),
    };
    match run(&conversion) {
        Ok(converted) => {
            let text = format!("the {} in {} has {} keys", converted.source, task.from.display(), converted.keys);
            report.say("source", converted.source, text);
            converted.notes.iter().for_each(|note| report.list("notes", json!(note), note));
            report.say("keys", converted.keys, format!("and {} libraries of functions", converted.functions));
            report.say("functions", converted.functions, format!("{} bytes are written to {}", converted.bytes, task.to.display()));
            report.say("bytes", converted.bytes, "nothing of what was read was changed");
            if let Some(newer) = converted.newer {
                let text = format!("some of its values need version {newer} of the snapshot's format: older servers refuse them");
                report.say("rdb_version_needed", newer, text);
            }
            Outcome::Whole
        }
        Err(error) => failed(report, &error),
    }
}

/// Runs it, and shows how far it is.
fn run(conversion: &Conversion) -> std::io::Result<almandine_server::Converted> {
    thread::scope(|scope| {
        let running = scope.spawn(|| conversion.run());
        let mut progress = Progress::of_shares(WHOLE as u64);
        while !running.is_finished() {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a thousand")]
            progress.reached((conversion.share() * WHOLE) as u64);
            thread::sleep(PERIOD);
        }
        running.join().unwrap_or_else(|_| Err(std::io::Error::other("the conversion has panicked")))
    })
}
