//! What the parameters say about themselves: `--help`, `--version`, the reference in `docs/`, the manual page and the completions
//! of shells.

mod completions;
mod page;

use std::fmt::Write;

use crate::effectless;
use crate::kind::Kind;
use crate::missing;
use crate::parameter::{Parameter, all};
use crate::settings::SECTIONS;

pub use completions::{Shell, completions};

/// The answer to `--version`.
#[must_use]
pub fn version() -> String {
    format!("Almandine server v={} bits={}\n", env!("CARGO_PKG_VERSION"), usize::BITS)
}

/// Columns of `--help`.
const COLUMNS: usize = 100;

/// The answer to `--help`.
#[must_use]
pub fn help() -> String {
    let mut text = String::from(
        "Usage: almandine-server [FILE] [-] [--PARAMETER VALUE ...] ...\n\n\
         Serves the Redis protocol on every core. FILE has the syntax of redis.conf and `-` reads more of it from the\n\
         standard input; parameters on the command line come last and win.\n\n\
         Examples:\n  \
           almandine-server                                    port 6379, one worker per core\n  \
           almandine-server /etc/almandine.conf --port 7000    a file, with another port\n  \
           almandine-server --workers 4 --maxmemory 8gb        four workers, a memory budget\n  \
           almandine-server --storage-dir /data --maxmemory 8gb   what does not fit 8gb goes to /data\n  \
           almandine-server --unixsocket /run/a.sock --port 0  a Unix socket only\n  \
           echo 'port 7000' | almandine-server -               from the standard input\n\n\
         Options:\n  \
           -h, --help       this text\n  \
           -v, --version    the version\n  \
           --check-config [FILE] [--PARAMETER VALUE ...]\n                   \
                            says whether the server would start, with every error and its line;\n                   \
                            it opens no port, disk or log\n  \
           --print-reference man|bash|zsh|fish\n                   \
                            prints the manual page, or the completions of a shell\n\n\
         Below are the parameters that have an effect, with their defaults in brackets. Those marked * are fixed at\n\
         start, CONFIG SET changes the others. Bytes take units: k is 1000, kb is 1024, likewise m, mb, g and gb.\n\
         Every other parameter of Redis 7 and Valkey 9 is accepted too: it has no effect, which the log says at start,\n\
         or is refused if it promises safety or durability that does not exist yet.\n",
    );
    for section in SECTIONS {
        let mut parameters = section.iter().filter(|parameter| shown(parameter)).peekable();
        if let Some(first) = parameters.peek() {
            let _ = write!(text, "\n{}:\n", first.section);
        }
        for parameter in parameters {
            let default = if parameter.default.is_empty() { "none" } else { parameter.default };
            let mark = if parameter.flags.immutable { " *" } else { "" };
            let _ = writeln!(text, "  --{} [{default}]{mark}", parameter.name);
            let choices = match parameter.kind.names() {
                [] => String::new(),
                names => format!(" One of: {}.", names.join(", ")),
            };
            write_wrapped(&mut text, &format!("{}{choices}", parameter.summary));
        }
    }
    text
}

/// Whether an operator is told of a parameter: it has an effect, and is not for developers only.
fn shown(parameter: &Parameter) -> bool {
    parameter.effective && !parameter.flags.hidden
}

/// The manual page, in the language of `man`.
#[must_use]
pub fn page() -> String {
    page::page()
}

/// Appends words in lines of at most [`COLUMNS`], indented.
fn write_wrapped(text: &mut String, words: &str) {
    const INDENT: &str = "      ";
    let mut column = 0;
    for word in words.split(' ') {
        if column == 0 || column + 1 + word.len() > COLUMNS {
            text.push_str(if column == 0 { INDENT } else { "\n      " });
            column = INDENT.len();
        } else {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += word.len();
    }
    text.push('\n');
}

/// The reference of all parameters, in Markdown: `docs/reference/config.md`.
#[must_use]
pub fn reference() -> String {
    let mut text = String::from(
        "# Configuration reference\n\n\
         Generated from the parameter table by `cargo xtask docs`; do not edit.\n\n\
         Parameters stand in the configuration file (`port 7000`), on the command line (`--port 7000`), and in CONFIG GET and\n\
         SET. *Accepted* ones are parsed, remembered and reported, and have no effect: they exist so that files, scripts and\n\
         tools of Redis and Valkey work unchanged. *Refused* ones promise safety or durability that does not exist yet: any\n\
         value but the default is an error, at start and in CONFIG SET. *Fixed* ones cannot be changed at run time; *protected*\n\
         ones only as `enable-protected-configs` allows. Bytes take units: `k` is 1000, `kb` is 1024, likewise\n\
         `m`, `mb`, `g`, `gb`.\n",
    );
    for section in SECTIONS {
        let Some(first) = section.first() else { continue };
        let _ = write!(text, "\n## {}\n\n| parameter | values | default | | meaning |\n|---|---|---|---|---|\n", first.section);
        for parameter in *section {
            let _ = writeln!(text, "{}", row(parameter));
        }
    }
    text.push_str("\n## Without effect, and why\n\n| reason | parameters |\n|---|---|\n");
    for reason in effectless::REASONS {
        let names: Vec<String> = reason.parameters.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(text, "| {} | {} |", reason.text, names.join(", "));
    }
    let (effective, total) = (all().filter(|p| p.effective).count(), all().count());
    let _ = write!(text, "\n{total} parameters, {effective} of them with an effect.\n");
    text
}

fn row(parameter: &Parameter) -> String {
    let alias = if parameter.alias.is_empty() { String::new() } else { format!(", `{}`", parameter.alias) };
    let default = if parameter.default.is_empty() { "empty".to_owned() } else { format!("`{}`", parameter.default) };
    let flags = parameter.flags;
    let marks = [
        ("accepted", !parameter.effective && !missing::is_missing(parameter)),
        ("refused", missing::is_missing(parameter)),
        ("fixed", flags.immutable),
        ("protected", flags.protected),
        ("secret", flags.sensitive),
        ("hidden", flags.hidden),
        ("Almandine's own", flags.own),
    ];
    let marks: Vec<&str> = marks.into_iter().filter(|mark| mark.1).map(|mark| mark.0).collect();
    let kind = values(parameter.kind);
    format!("| `{}`{alias} | {kind} | {default} | {} | {} |", parameter.name, marks.join(", "), parameter.summary)
}

/// The values of a kind, in words.
fn values(kind: Kind) -> String {
    match kind {
        Kind::Bool => "yes, no".into(),
        Kind::Integer(min, max) => match (min, max) {
            (_, i64::MAX) | (_, 0x7fff_ffff) => format!("integer from {min}"),
            (i64::MIN..=-0x8000_0000, _) => "integer".into(),
            _ => format!("{min} to {max}"),
        },
        Kind::Octal => "octal, 0 to 777".into(),
        Kind::Memory(..) => "bytes".into(),
        Kind::Share => "bytes or percent".into(),
        Kind::Choice(names) => names.join(", "),
        Kind::Choices(names) => format!("any of {}", names.join(", ")),
        Kind::Text(_) => "text".into(),
        Kind::Directory => "directory".into(),
        Kind::Words(max) => format!("up to {max} words"),
        Kind::Save => "pairs of seconds and changes".into(),
        Kind::BufferLimits => "class, bytes, bytes, seconds".into(),
        Kind::Events => format!("letters of `{}`", almandine_base::events::Classes::LETTERS_TAKEN),
        Kind::Percentiles => "numbers, 0 to 100".into(),
        Kind::OomScores => "three numbers, -2000 to 2000".into(),
        Kind::Primary => "host and port".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_names_every_parameter() {
        let text = reference();
        assert!(all().all(|p| text.contains(&format!("\n| `{}`", p.name))));
        assert!(text.lines().filter(|line| line.starts_with("| `")).all(|line| line.matches(" | ").count() == 4));
    }

    #[test]
    fn help_shows_what_an_operator_needs() {
        let text = help();
        assert!(["--port ", "--workers ", "--maxmemory "].iter().all(|name| text.contains(name)));
        assert!(!text.contains("--tls-dh-params-file"));
        for heading in ["\nNetwork:\n", "\nMemory:\n", "\nStorage:\n", "\nSecurity:\n"] {
            assert_eq!(text.matches(heading).count(), 1, "{heading}");
        }
        assert!(text.contains("One of: volatile-lru, "), "the values of a choice are named");
        assert!(!text.contains("docs/"), "it stands alone");
        assert!(text.lines().all(|line| line.chars().count() <= 120));
    }
}
