//! The log: `tracing` events as lines, on the standard output or in a file.
//!
//! The file is opened for each line, as Redis does, so that it may be moved away at any time. How a line looks is in [`line`].
//! Spans are not recorded.

mod line;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use almandine_config::Settings;
use almandine_config::choices::{Choice, Facility, LogFormat, LogLevel, LogTimestamp};
use almandine_io::file::File;
use almandine_io::syslog::{self, Severity, Syslog};
use almandine_io::{clock, process};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

use line::Message;

/// The least important level that is written: 0 nothing, 1 warning … 4 debug.
static VERBOSITY: AtomicU8 = AtomicU8::new(2);
/// [`LogFormat`] and [`LogTimestamp`], as indexes of their words.
static FORMAT: AtomicU8 = AtomicU8::new(0);
static TIMESTAMP: AtomicU8 = AtomicU8::new(0);
/// Where lines go; without, to the standard output.
static FILE: OnceLock<PathBuf> = OnceLock::new();

/// The system's log, where `syslog-enabled` asks for it.
static SYSLOG: OnceLock<Syslog> = OnceLock::new();

/// Changes how much is written, and how.
pub(crate) fn configure(settings: &Settings) {
    let process = &settings.process;
    let verbosity = match process.loglevel {
        LogLevel::Nothing => 0,
        LogLevel::Warning => 1,
        LogLevel::Notice => 2,
        LogLevel::Verbose => 3,
        LogLevel::Debug => 4,
    };
    VERBOSITY.store(verbosity, Relaxed);
    FORMAT.store(process.log_format as u8, Relaxed);
    TIMESTAMP.store(process.log_timestamp as u8, Relaxed);
}

/// The log file of these settings, which may be relative to `dir`; nothing for the standard output.
fn path(settings: &Settings) -> Option<PathBuf> {
    let process = &settings.process;
    (!process.logfile.is_empty()).then(|| Path::new(&process.dir).join(&process.logfile))
}

/// As much of [`check`] as makes no file: whether there is a directory for the log.
///
/// # Errors
/// When there is none: which, and why.
pub(crate) fn check_directory(settings: &Settings) -> io::Result<()> {
    let Some(path) = path(settings) else { return Ok(()) };
    let directory = almandine_io::files::canonical(path.parent().unwrap_or(&path));
    directory.map(drop).map_err(|error| unopened(&path, &error))
}

/// Tries whether the log can be written. Before anything else: a server whose log cannot be written must not start.
///
/// # Errors
/// When it cannot: which file, and why.
pub(crate) fn check(settings: &Settings) -> io::Result<()> {
    let Some(path) = path(settings) else { return Ok(()) };
    open(&path).map(drop).map_err(|error| unopened(&path, &error))
}

fn unopened(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("Can't open the log file '{}': {error}", path.display()))
}

/// Starts logging; once per process.
pub(crate) fn install(settings: &Settings) {
    configure(settings);
    if let Some(path) = path(settings) {
        // Only this function sets it, and installs a subscriber.
        let _ = FILE.set(path);
    }
    let process = &settings.process;
    if process.syslog_enabled
        && let Ok(syslog) = Syslog::open(Path::new(syslog::PATH), facility(process.syslog_facility), &process.syslog_ident)
    {
        // As for the file.
        let _ = SYSLOG.set(syslog);
    }
    let _ = tracing::subscriber::set_global_default(Log);
}

/// The protocol's number.
const fn facility(facility: Facility) -> u8 {
    match facility {
        Facility::User => 1,
        local => 16 + local as u8 - Facility::Local0 as u8,
    }
}

fn severity(level: &Level) -> Severity {
    match line::verbosity_of(level) {
        1 => Severity::Warning,
        2 => Severity::Notice,
        3 => Severity::Info,
        _ => Severity::Debug,
    }
}

fn open(path: &Path) -> io::Result<File> {
    almandine_io::files::append(path)
}

fn write(text: &str) -> io::Result<()> {
    match FILE.get() {
        None => process::print(text.as_bytes()),
        Some(path) => open(path)?.write_all(text.as_bytes()),
    }
}

/// Writes a message whatever the level, and without anything of `tracing`: for crashes.
pub(crate) fn urgent(message: &str) {
    // As for events.
    let _ = write(&formatted(&Level::ERROR, message));
    if let Some(syslog) = SYSLOG.get() {
        let _ = syslog.send(Severity::Warning, message);
    }
}

fn formatted(level: &Level, message: &str) -> String {
    let format = LogFormat::at(usize::from(FORMAT.load(Relaxed)));
    let timestamp = LogTimestamp::at(usize::from(TIMESTAMP.load(Relaxed)));
    line::line(clock::unix_ms(), level, message, format, timestamp)
}

struct Log;

/// Libraries tell of each request that they try again, so what they say is for debugging; what matters of it is told by ours.
fn is_wanted(level: &Level, target: &str, verbosity: u8) -> bool {
    if target.starts_with("almandine") { line::verbosity_of(level) <= verbosity } else { *level <= Level::INFO && verbosity >= 4 }
}

impl Subscriber for Log {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // The level may change at run time.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && is_wanted(metadata.level(), metadata.target(), VERBOSITY.load(Relaxed))
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = Message::default();
        event.record(&mut message);
        // A log that cannot be written must not stop the server, and has nowhere to complain.
        let _ = write(&formatted(event.metadata().level(), &message.0));
        if let Some(syslog) = SYSLOG.get() {
            let _ = syslog.send(severity(event.metadata().level()), &message.0);
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
