//! How a line of the log looks.
//!
//! `legacy` is Redis' form: `pid:M time level message`; levels are `.` debug, `-` verbose, `*` notice, `#` warning. `logfmt` is
//! Valkey's, and `json` has the same fields, one object per line. Times are UTC.

use std::fmt::Write;

use almandine_config::choices::{LogFormat, LogTimestamp};
use tracing::Level;
use tracing::field::{Field, Visit};

/// An event's message, then `name=value` for its other fields.
#[derive(Default)]
pub(super) struct Message(pub(super) String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a String does not fail.
        let _ = if field.name() == "message" { write!(self.0, "{value:?}") } else { write!(self.0, " {}={value:?}", field.name()) };
    }
}

/// 1 warning … 4 debug.
pub(super) fn verbosity_of(level: &Level) -> u8 {
    match *level {
        Level::ERROR | Level::WARN => 1,
        Level::INFO => 2,
        Level::DEBUG => 3,
        Level::TRACE => 4,
    }
}

/// A line with its end.
pub(super) fn line(now_ms: i64, level: &Level, message: &str, format: LogFormat, timestamp: LogTimestamp) -> String {
    let (pid, time) = (std::process::id(), time(now_ms, timestamp));
    let (mark, name) = match verbosity_of(level) {
        1 => ('#', "warning"),
        2 => ('*', "notice"),
        3 => ('-', "info"),
        _ => ('.', "debug"),
    };
    match format {
        LogFormat::Legacy => format!("{pid}:M {time} {mark} {message}\n"),
        LogFormat::Logfmt => {
            let message = message.replace('"', "'").replace(['\n', '\r'], " ");
            format!("pid={pid} role=primary timestamp=\"{time}\" level={name} message=\"{message}\"\n")
        }
        LogFormat::Json => {
            let message = escaped(message);
            format!(
                "{{\"pid\":{pid},\"role\":\"primary\",\"timestamp\":\"{time}\",\"level\":\"{name}\",\"message\":\"{message}\"}}\n"
            )
        }
    }
}

/// The inside of a JSON string.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        // Writing to a String does not fail.
        let _ = match c {
            '"' | '\\' => write!(escaped, "\\{c}"),
            '\n' => write!(escaped, "\\n"),
            '\r' => write!(escaped, "\\r"),
            '\t' => write!(escaped, "\\t"),
            c if c.is_control() => write!(escaped, "\\u{:04x}", u32::from(c)),
            c => write!(escaped, "{c}"),
        };
    }
    escaped
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

fn time(now_ms: i64, timestamp: LogTimestamp) -> String {
    if timestamp == LogTimestamp::Milliseconds {
        return now_ms.to_string();
    }
    let (seconds, milliseconds) = (now_ms.div_euclid(1000), now_ms.rem_euclid(1000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let clock = format!("{:02}:{:02}:{:02}.{milliseconds:03}", second / 3600, second / 60 % 60, second % 60);
    if timestamp == LogTimestamp::Iso8601 {
        return format!("{year}-{month:02}-{day:02}T{clock}+00:00");
    }
    let month = usize::try_from(month - 1).ok().and_then(|index| MONTHS.get(index)).unwrap_or(&"???");
    format!("{day:02} {month} {year} {clock}")
}

/// Year, month and day of a number of days since 1970, in the Gregorian calendar. Years begin in March here, so that the leap day
/// is the last of its year.
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
    fn times_follow_the_calendar() {
        let legacy = |now_ms| time(now_ms, LogTimestamp::Legacy);
        assert_eq!(legacy(0), "01 Jan 1970 00:00:00.000");
        assert_eq!(legacy(1_709_210_096_789), "29 Feb 2024 12:34:56.789");
        assert_eq!(legacy(1_798_761_599_000), "31 Dec 2026 23:59:59.000");
        assert_eq!(time(1_709_210_096_789, LogTimestamp::Iso8601), "2024-02-29T12:34:56.789+00:00");
        assert_eq!(time(1_709_210_096_789, LogTimestamp::Milliseconds), "1709210096789");
    }

    #[test]
    fn a_message_is_one_field_whatever_it_holds() {
        let shown = |format| line(5, &Level::INFO, "a \"b\"\n\\c\u{1}", format, LogTimestamp::Milliseconds);
        let pid = std::process::id();
        assert_eq!(shown(LogFormat::Legacy), format!("{pid}:M 5 * a \"b\"\n\\c\u{1}\n"));
        let logfmt = format!("pid={pid} role=primary timestamp=\"5\" level=notice message=\"a 'b' \\c\u{1}\"\n");
        assert_eq!(shown(LogFormat::Logfmt), logfmt);
        let json = format!(
            "{{\"pid\":{pid},\"role\":\"primary\",\"timestamp\":\"5\",\"level\":\"notice\",\
             \"message\":\"a \\\"b\\\"\\n\\\\c\\u0001\"}}\n"
        );
        assert_eq!(shown(LogFormat::Json), json);
    }
}
