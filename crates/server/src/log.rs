//! The log: `tracing` events as lines in Redis' form, on the standard output or in a file.
//!
//! A line is `pid:M day month year time level message`; levels are `.` debug, `-` verbose, `*` notice, `#` warning. Times are UTC. The file is
//! opened for each line, as Redis does, so that it may be moved away at any time. Spans are not recorded.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use almandine_config::choices::LogLevel;
use almandine_io::clock;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

/// The least important level that is written: 0 nothing, 1 warning … 4 debug.
static VERBOSITY: AtomicU8 = AtomicU8::new(2);

/// Changes how much is written.
pub(crate) fn set_level(level: LogLevel) {
    let verbosity = match level {
        LogLevel::Nothing => 0,
        LogLevel::Warning => 1,
        LogLevel::Notice => 2,
        LogLevel::Verbose => 3,
        LogLevel::Debug => 4,
    };
    VERBOSITY.store(verbosity, Relaxed);
}

/// Starts logging; once per process. An empty path is the standard output.
pub(crate) fn install(path: &str, level: LogLevel) {
    set_level(level);
    let file = (!path.is_empty()).then(|| PathBuf::from(path));
    // Nobody else installs one.
    let _ = tracing::subscriber::set_global_default(Log { file });
}

struct Log {
    file: Option<PathBuf>,
}

fn verbosity_of(level: &Level) -> u8 {
    match *level {
        Level::ERROR | Level::WARN => 1,
        Level::INFO => 2,
        Level::DEBUG => 3,
        Level::TRACE => 4,
    }
}

/// Libraries tell of each request that they try again, so what they say is for debugging; what matters of it is told by ours.
fn is_wanted(level: &Level, target: &str, verbosity: u8) -> bool {
    if target.starts_with("almandine") { verbosity_of(level) <= verbosity } else { *level <= Level::INFO && verbosity >= 4 }
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
        let mut line = prefix(clock::unix_ms(), event.metadata().level());
        event.record(&mut Fields(&mut line));
        line.push('\n');
        // A log that cannot be written must not stop the server, and has nowhere to complain.
        let _ = self.write(&line);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl Log {
    fn write(&self, line: &str) -> io::Result<()> {
        match &self.file {
            None => io::stdout().lock().write_all(line.as_bytes()),
            Some(path) => OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes()),
        }
    }
}

/// The message first, then `name=value` for other fields.
struct Fields<'l>(&'l mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a String does not fail.
        let _ = if field.name() == "message" { write!(self.0, "{value:?}") } else { write!(self.0, " {}={value:?}", field.name()) };
    }
}

fn prefix(now_ms: i64, level: &Level) -> String {
    let mark = match verbosity_of(level) {
        1 => '#',
        2 => '*',
        3 => '-',
        _ => '.',
    };
    format!("{}:M {} {mark} ", std::process::id(), timestamp(now_ms))
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `21 Nov 2026 10:45:18.123`.
fn timestamp(now_ms: i64) -> String {
    let (seconds, milliseconds) = (now_ms.div_euclid(1000), now_ms.rem_euclid(1000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let month = usize::try_from(month - 1).ok().and_then(|index| MONTHS.get(index)).unwrap_or(&"???");
    format!("{day:02} {month} {year} {:02}:{:02}:{:02}.{milliseconds:03}", second / 3600, second / 60 % 60, second % 60)
}

/// Year, month and day of a number of days since 1970, in the Gregorian calendar. Years begin in March here, so that the leap day is the
/// last of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_follow_the_calendar() {
        assert_eq!(timestamp(0), "01 Jan 1970 00:00:00.000");
        assert_eq!(timestamp(1_709_210_096_789), "29 Feb 2024 12:34:56.789");
        assert_eq!(timestamp(1_798_761_599_000), "31 Dec 2026 23:59:59.000");
    }
}
