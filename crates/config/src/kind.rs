//! The types of parameters: how text becomes a value, what is wrong with a text that does not, and how a value is written.
//!
//! The error texts are Redis' own; suites and tools compare them.

use almandine_base::events::Classes;

use crate::special::{self, BufferLimits, SavePoint};
use crate::words;

/// Why a text is not a value.
pub type Problem = std::borrow::Cow<'static, str>;

/// An extra condition on a text.
pub type Check = fn(&str) -> Result<(), &'static str>;

/// The type of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `yes` or `no`.
    Bool,
    /// An integer within bounds, both included.
    Integer(i64, i64),
    /// File permissions, in octal.
    Octal,
    /// Bytes within bounds, with an optional unit: `k` is 1000, `kb` is 1024, likewise `m` and `g`.
    Memory(u64, u64),
    /// Bytes, or a percentage of `maxmemory`.
    Share,
    /// One word of a list.
    Choice(&'static [&'static str]),
    /// Several words of a list; the first stands for none.
    Choices(&'static [&'static str]),
    /// Any text that passes the check.
    Text(Check),
    /// A directory that exists; the value is its absolute path.
    Directory,
    /// Words, up to this number.
    Words(usize),
    /// Snapshot schedule: seconds and changes, in pairs.
    Save,
    /// Output limits for each class of clients.
    BufferLimits,
    /// Classes of keyspace events.
    Events,
    /// Percentiles between 0 and 100.
    Percentiles,
    /// Three scores for the kernel's out-of-memory killer.
    OomScores,
    /// A host and a port, or `no one`.
    Primary,
}

/// No condition.
///
/// # Errors
/// Never.
pub fn any(_: &str) -> Result<(), &'static str> {
    Ok(())
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "one variant for each kind")]
pub enum Value {
    Bool(bool),
    Integer(i64),
    Memory(u64),
    Percent(u8),
    /// An index into the words of the kind.
    Choice(usize),
    /// A bit for each word of the kind but the first.
    Choices(u32),
    Text(String),
    Words(Vec<String>),
    Save(Vec<SavePoint>),
    BufferLimits(BufferLimits),
    Events(Classes),
    Percentiles(Vec<f64>),
    OomScores([i32; 3]),
    /// Empty host: this is a primary itself.
    Primary(String, u16),
}

impl Kind {
    /// Whether a line of the file may hold more than one word of value.
    #[must_use]
    pub const fn takes_words(self) -> bool {
        matches!(
            self,
            Self::Choices(_)
                | Self::Words(_)
                | Self::Save
                | Self::BufferLimits
                | Self::Events
                | Self::Percentiles
                | Self::OomScores
                | Self::Primary
        )
    }

    /// The words of a value that is given as one text, as CONFIG SET does.
    #[must_use]
    pub fn words(self, text: &str) -> Vec<&str> {
        match self.takes_words() {
            true if text.is_empty() => Vec::new(),
            true => text.split(' ').collect(),
            false => vec![text],
        }
    }

    /// The value that `words` stand for. `previous` is the value so far, of which some kinds change only a part.
    ///
    /// # Errors
    /// What is wrong, in Redis' words.
    pub fn parse(self, words: &[&str], previous: &Value) -> Result<Value, Problem> {
        if !self.takes_words() {
            return match words {
                [word] => self.parse_word(word),
                _ => Err("wrong number of arguments".into()),
            };
        }
        match (self, previous) {
            (Self::Choices(names), _) => parse_choices(words, names),
            (Self::Words(max), _) => match words {
                [] | [""] => Ok(Value::Words(Vec::new())),
                _ if words.len() > max => Err("Too many bind addresses specified.".into()),
                _ => Ok(Value::Words(words.iter().map(ToString::to_string).collect())),
            },
            (Self::Save, _) => special::parse_save(words).map(Value::Save),
            (Self::BufferLimits, Value::BufferLimits(limits)) => limits.with(words).map(Value::BufferLimits),
            (Self::BufferLimits, _) => BufferLimits::default().with(words).map(Value::BufferLimits),
            (Self::Events, _) => special::parse_events(words).map(Value::Events),
            (Self::Percentiles, _) => special::parse_percentiles(words).map(Value::Percentiles),
            (Self::Primary, _) => special::parse_primary(words),
            _ => special::parse_oom_scores(words).map(Value::OomScores),
        }
    }

    fn parse_word(self, word: &str) -> Result<Value, Problem> {
        match self {
            Self::Bool if word.eq_ignore_ascii_case("yes") => Ok(Value::Bool(true)),
            Self::Bool if word.eq_ignore_ascii_case("no") => Ok(Value::Bool(false)),
            Self::Bool => Err("argument must be 'yes' or 'no'".into()),
            Self::Integer(min, max) => match integer(word) {
                None => Err("argument couldn't be parsed into an integer".into()),
                Some(value) if value < min || value > max => Err(between(min, max)),
                Some(value) => Ok(Value::Integer(value)),
            },
            Self::Octal => match i64::from_str_radix(word, 8) {
                Err(_) => Err("argument couldn't be parsed as an octal number".into()),
                Ok(value) if !(0..=0o777).contains(&value) => Err("argument must be between 0 and 777 inclusive".into()),
                Ok(value) => Ok(Value::Integer(value)),
            },
            Self::Memory(min, max) => match memory(word) {
                None => Err("argument must be a memory value".into()),
                Some(value) if value < min || value > max => Err(between(min, max)),
                Some(value) => Ok(Value::Memory(value)),
            },
            Self::Share => parse_share(word),
            Self::Choice(names) => match names.iter().position(|name| name.eq_ignore_ascii_case(word)) {
                Some(index) => Ok(Value::Choice(index)),
                None => Err(one_of(names)),
            },
            Self::Text(check) => match check(word) {
                Ok(()) => Ok(Value::Text(word.to_owned())),
                Err(problem) => Err(problem.into()),
            },
            Self::Directory => match almandine_io::files::canonical(word) {
                Ok(path) if almandine_io::files::is_directory(&path) => {
                    path.into_os_string().into_string().map(Value::Text).map_err(|_| "Not UTF-8".into())
                }
                // The default is a value, also where the working directory is gone or cannot be looked at.
                _ if word == "." => Ok(Value::Text(word.to_owned())),
                Ok(_) => Err("Not a directory".into()),
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.to_string().into()),
                Err(_) => Err("No such file or directory".into()),
            },
            _ => Err("wrong number of arguments".into()),
        }
    }

    /// The value as CONFIG GET and the command line write it.
    #[must_use]
    pub fn show(self, value: &Value) -> String {
        match value {
            Value::Bool(value) => if *value { "yes" } else { "no" }.to_owned(),
            Value::Integer(value) if matches!(self, Self::Octal) => format!("{value:o}"),
            Value::Integer(value) => value.to_string(),
            Value::Memory(value) => value.to_string(),
            Value::Percent(value) => format!("{value}%"),
            Value::Choice(index) => self.names()[*index].to_owned(),
            Value::Choices(0) => self.names()[0].to_owned(),
            Value::Choices(bits) => {
                let chosen = self.names().iter().skip(1).enumerate().filter(|(bit, _)| bits & (1 << bit) != 0);
                chosen.map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
            }
            Value::Text(text) => text.clone(),
            Value::Words(words) => words.join(" "),
            Value::Save(points) => special::show_save(points),
            Value::BufferLimits(limits) => limits.show(),
            Value::Events(events) => events.to_string(),
            Value::Percentiles(list) => list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            Value::OomScores(scores) => scores.map(|score| score.to_string()).join(" "),
            Value::Primary(host, _) if host.is_empty() => String::new(),
            Value::Primary(host, port) => format!("{host} {port}"),
        }
    }

    /// The lines of the file that stand for the value of parameter `name`.
    #[must_use]
    pub fn lines(self, name: &str, value: &Value) -> Vec<String> {
        match value {
            Value::Memory(bytes) => vec![format!("{name} {}", show_memory(*bytes))],
            Value::Text(text) => vec![format!("{name} {}", words::quote(text))],
            Value::Events(_) => vec![format!("{name} {}", words::quote(&self.show(value)))],
            Value::Words(list) if list.is_empty() => vec![format!("{name} \"\"")],
            Value::Percentiles(list) if list.is_empty() => vec![format!("{name} \"\"")],
            Value::Primary(host, _) if host.is_empty() => Vec::new(),
            Value::Save(points) if points.is_empty() => vec![format!("{name} \"\"")],
            Value::Save(points) => points.iter().map(|p| format!("{name} {} {}", p.seconds, p.changes)).collect(),
            Value::BufferLimits(limits) => limits.lines(name).into(),
            _ => vec![format!("{name} {}", self.show(value))],
        }
    }

    /// The words that a value may be, for kinds that have a list.
    #[must_use]
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Choice(names) | Self::Choices(names) => names,
            _ => &[],
        }
    }
}

fn parse_choices(words: &[&str], names: &[&str]) -> Result<Value, Problem> {
    if words.is_empty() {
        return Err(one_of(names));
    }
    let mut bits = 0;
    for word in words {
        match names.iter().position(|name| name.eq_ignore_ascii_case(word)) {
            Some(0) => {}
            Some(index) => bits |= 1 << (index - 1),
            None => return Err(one_of(names)),
        }
    }
    Ok(Value::Choices(bits))
}

fn parse_share(word: &str) -> Result<Value, Problem> {
    if let Some(percent) = word.strip_suffix('%') {
        return match integer(percent) {
            Some(0..=100) => Ok(Value::Percent(integer(percent).and_then(|p| u8::try_from(p).ok()).unwrap_or(100))),
            Some(101..) => Err("percentage argument must be less or equal to 100".into()),
            _ => Err("argument must be a memory or percent value".into()),
        };
    }
    memory(word).map(Value::Memory).ok_or_else(|| "argument must be a memory or percent value".into())
}

fn between(min: impl std::fmt::Display, max: impl std::fmt::Display) -> Problem {
    format!("argument must be between {min} and {max} inclusive").into()
}

fn one_of(names: &[&str]) -> Problem {
    format!("argument(s) must be one of the following: {}", names.join(", ")).into()
}

/// An integer in its one canonical form: no sign but `-`, no leading zeros, no blanks.
#[must_use]
pub fn integer(word: &str) -> Option<i64> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let canonical = word == "0" || !digits.starts_with(['0', '+']);
    word.parse().ok().filter(|_| canonical)
}

/// Bytes with an optional unit.
#[must_use]
pub fn memory(word: &str) -> Option<u64> {
    let unit_at = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    let (digits, unit) = word.split_at(unit_at);
    let unit: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    // Redis takes a missing number for zero.
    if digits.is_empty() { Some(0) } else { digits.parse::<u64>().ok()?.checked_mul(unit) }
}

/// Bytes in the largest unit that loses nothing.
fn show_memory(bytes: u64) -> String {
    let units = [("gb", 30), ("mb", 20), ("kb", 10)];
    match units.into_iter().find(|(_, shift)| bytes > 0 && bytes.trailing_zeros() >= *shift) {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_knows_decimal_and_binary_units() {
        let cases = [
            ("1k", Some(1000)),
            ("1KB", Some(1024)),
            ("2m", Some(2_000_000)),
            ("1gb", Some(1 << 30)),
            ("5b", Some(5)),
            ("x", None),
        ];
        for (word, bytes) in cases.into_iter().chain([("", Some(0)), ("-1", None), ("1kbx", None), ("99999999999gb", None)]) {
            assert_eq!(memory(word), bytes, "{word}");
        }
        assert_eq!([0, 1, 1000, 1024, 3 << 20, 1 << 30].map(show_memory), ["0", "1", "1000", "1kb", "3mb", "1gb"]);
    }

    #[test]
    fn integers_are_canonical() {
        assert_eq!(["0", "-5", "12"].map(integer), [Some(0), Some(-5), Some(12)]);
        assert!(["", "+1", "01", "-0", " 1", "1 ", "9223372036854775808"].iter().all(|word| integer(word).is_none()));
    }
}
