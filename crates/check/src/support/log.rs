//! The end of the server's log. Scripts, DEBUG LOG and clients with unknown commands bring words of their own into it, so a line is
//! shown with its time and level, and its text as far as it is a beginning that is known here.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::redact::LEFT_OUT;

/// What is read of the file's end.
const READ_BYTES_MAX: u64 = 1 << 20;

/// How the server's own messages begin.
const BEGINNINGS: [&str; 47] = [
    "A TLS connection ends",
    "Accepted and without effect",
    "Almandine is now ready to exit",
    "Background AOF rewrite finished successfully",
    "Background AOF rewrite terminated with error",
    "Background append only file rewriting started",
    "Background saving error",
    "Background saving started",
    "Background saving terminated with success",
    "CONFIG SET",
    "Closed the connection of client",
    "Configuration loaded from",
    "DB loaded from append only file",
    "DB loaded from disk",
    "DB saved on disk",
    "Done loading RDB",
    "Error trying to save the DB, can't exit",
    "Evicting client",
    "FLUSHALL",
    "FLUSHDB",
    "Fatal",
    "Increased the limit of open files",
    "Listening on",
    "Loading RDB produced by version",
    "Metrics and health are at",
    "No configuration file",
    "Object storage fails",
    "Protocol error from client",
    "Reading from the storage device failed",
    "Ready to accept connections",
    "Received SIG",
    "Saving the final RDB snapshot before exiting",
    "Server initialized",
    "Shutdown requested",
    "Starting a base of the log",
    "Starting automatic rewriting of AOF",
    "TLS handshake with",
    "The files of TLS have changed and cannot be used",
    "The log begins with",
    "The log has no end",
    "The log is broken",
    "The log takes writes again",
    "The log's disk is full",
    "The snapshot",
    "User requested shutdown",
    "Writes are logged",
    "Writes to the storage succeed again",
];

/// The last lines of a log, as they are if `verbatim`; without those that hold one of `secrets` in any case.
pub(super) fn tail(path: &Path, lines: usize, verbatim: bool, secrets: &[String]) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(READ_BYTES_MAX)))?;
    let mut bytes = Vec::new();
    file.take(READ_BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line read may be the end of one.
    let text = if length > READ_BYTES_MAX { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
    let all: Vec<&str> = text.lines().collect();
    let shown = all[all.len().saturating_sub(lines)..].iter().map(|line| {
        if secrets.iter().any(|secret| line.contains(secret.as_str())) {
            format!("{LEFT_OUT}\n")
        } else if verbatim {
            format!("{line}\n")
        } else {
            beginning(line) + "\n"
        }
    });
    Ok(shown.collect())
}

/// Time and level of a line, and what is known of its text.
fn beginning(line: &str) -> String {
    let Some((time, level, text)) = parts(line) else { return LEFT_OUT.to_owned() };
    let known = BEGINNINGS.iter().find(|known| text.starts_with(**known));
    format!("{time} {level} {}", known.unwrap_or(&LEFT_OUT))
}

/// Time, level and text of a line in one of the three forms; none of a line that is in none.
fn parts(line: &str) -> Option<(&str, &str, &str)> {
    let (time, level, text) = if let Some(rest) = line.strip_prefix("pid=") {
        let (time, rest) = rest.split_once("timestamp=\"")?.1.split_once("\" level=")?;
        let (level, text) = rest.split_once(" message=\"")?;
        (time, level, text)
    } else if let Some(rest) = line.strip_prefix("{\"pid\":") {
        let (time, rest) = rest.split_once("\"timestamp\":\"")?.1.split_once("\",\"level\":\"")?;
        let (level, text) = rest.split_once("\",\"message\":\"")?;
        (time, level, text)
    } else {
        let rest = line.split_once(":M ")?.1;
        let (at, mark) = rest
            .match_indices([' '])
            .map(|(at, _)| (at, rest.get(at + 1..at + 3).unwrap_or_default()))
            .find(|(_, mark)| mark.ends_with(' '))?;
        (&rest[..at], mark.trim_end(), rest.get(at + 3..)?)
    };
    let is_known = ["warning", "notice", "info", "debug", "#", "*", "-", "."].contains(&level) && is_time(time);
    is_known.then_some((time, level, text))
}

/// Whether this is a time in one of the server's forms.
fn is_time(text: &str) -> bool {
    let shape: String = text.chars().map(|letter| if letter.is_ascii_digit() { '9' } else { letter }).collect();
    let month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        .into_iter()
        .find(|month| shape.contains(month));
    ["99 Aaa 9999 99:99:99.999", "9999-99-99T99:99:99.999+99:99", "9999999999999"]
        .contains(&shape.replace(month.unwrap_or("Aaa"), "Aaa").as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_what_only_the_server_can_have_written() {
        for (line, shown) in [
            (
                "7:M 28 Nov 2026 11:22:33.123 * Ready to accept connections tcp",
                "28 Nov 2026 11:22:33.123 * Ready to accept connections",
            ),
            ("7:M 28 Nov 2026 11:22:33.123 # CONFIG SET sesame by sesame", "28 Nov 2026 11:22:33.123 # CONFIG SET"),
            ("7:M 2026-11-28T11:22:33.123+00:00 # sesame", "2026-11-28T11:22:33.123+00:00 # (left out)"),
            ("7:M 1795864953123 . say Ready to accept connections", "1795864953123 . (left out)"),
            (
                "pid=7 role=primary timestamp=\"1795864953123\" level=notice message=\"FLUSHALL by sesame\"",
                "1795864953123 notice FLUSHALL",
            ),
            (
                "{\"pid\":7,\"role\":\"primary\",\"timestamp\":\"1795864953123\",\"level\":\"info\",\"message\":\"sesame\"}",
                "1795864953123 info (left out)",
            ),
            ("sesame:M sesame * Fatal", "(left out)"),
            ("7:M 28 Nov 2026 11:22:33.123 sesame", "(left out)"),
            ("", "(left out)"),
        ] {
            assert_eq!(beginning(line), shown);
        }
    }
}
