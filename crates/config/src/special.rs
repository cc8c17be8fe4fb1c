//! The parameters with a syntax of their own: snapshot schedule, output limits, event classes, percentiles, scores, primary.

use almandine_base::events::Classes;

use crate::kind::{Problem, Value, integer, memory};

/// A snapshot is due after `seconds` with at least `changes` changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// Seconds since the last snapshot.
    pub seconds: i64,
    /// Changes since then.
    pub changes: i64,
}

pub(crate) fn parse_save(words: &[&str]) -> Result<Vec<SavePoint>, Problem> {
    const BAD: Problem = Problem::Borrowed("Invalid save parameters");
    if words.is_empty() || words == [""] {
        return Ok(Vec::new());
    }
    if !words.len().is_multiple_of(2) {
        return Err(BAD);
    }
    let points = words.chunks_exact(2).map(|pair| match (integer(pair[0]), integer(pair[1])) {
        (Some(seconds @ 1..), Some(changes @ 0..)) => Ok(SavePoint { seconds, changes }),
        _ => Err(BAD),
    });
    points.collect()
}

pub(crate) fn show_save(points: &[SavePoint]) -> String {
    points.iter().map(|p| format!("{} {}", p.seconds, p.changes)).collect::<Vec<_>>().join(" ")
}

/// An amount of memory, by itself or as a part of `maxmemory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Bytes; 0 for no limit.
    Bytes(u64),
    /// Percent of `maxmemory`.
    Percent(u8),
}

impl Share {
    /// The share in bytes, given `maxmemory`; 0 for no limit.
    #[must_use]
    pub const fn bytes(self, maxmemory: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (maxmemory as u128 * percent as u128 / 100) as u64,
        }
    }
}

/// The output limit of one class of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferLimit {
    /// Bytes above which a client is closed at once; 0 for none.
    pub hard_bytes: u64,
    /// Bytes above which a client is closed after `soft_seconds`; 0 for none.
    pub soft_bytes: u64,
    /// How long a client may stay above `soft_bytes`.
    pub soft_seconds: i64,
}

/// The output limits of all classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferLimits {
    /// Ordinary clients, MONITOR included.
    pub normal: BufferLimit,
    /// Replicas.
    pub replica: BufferLimit,
    /// Subscribers.
    pub pubsub: BufferLimit,
}

impl BufferLimits {
    /// These limits with those that `words` state: class, hard, soft, seconds, and so on.
    pub(crate) fn with(mut self, words: &[&str]) -> Result<Self, Problem> {
        if !words.len().is_multiple_of(4) {
            return Err("Wrong number of arguments in buffer limit configuration.".into());
        }
        for four in words.chunks_exact(4) {
            let class = match four[0].to_ascii_lowercase().as_str() {
                "normal" => &mut self.normal,
                "slave" | "replica" => &mut self.replica,
                "pubsub" => &mut self.pubsub,
                _ => return Err("Invalid client class specified in buffer limit configuration.".into()),
            };
            let (Some(hard_bytes), Some(soft_bytes), Some(soft_seconds @ 0..)) =
                (memory(four[1]), memory(four[2]), integer(four[3]))
            else {
                return Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.".into());
            };
            *class = BufferLimit { hard_bytes, soft_bytes, soft_seconds };
        }
        Ok(self)
    }

    fn classes(&self) -> [(&'static str, &BufferLimit); 3] {
        [("normal", &self.normal), ("slave", &self.replica), ("pubsub", &self.pubsub)]
    }

    pub(crate) fn show(&self) -> String {
        self.lines("").concat().trim_start().to_owned()
    }

    pub(crate) fn lines(&self, name: &str) -> [String; 3] {
        let line =
            |(class, l): (&str, &BufferLimit)| format!("{name} {class} {} {} {}", l.hard_bytes, l.soft_bytes, l.soft_seconds);
        self.classes().map(line)
    }
}

pub(crate) fn parse_events(words: &[&str]) -> Result<Classes, Problem> {
    let problem = || format!("Invalid event class character. Use '{}'.", Classes::LETTERS_TAKEN).into();
    Classes::parse(&words.concat()).ok_or_else(problem)
}

pub(crate) fn parse_percentiles(words: &[&str]) -> Result<Vec<f64>, Problem> {
    if words.is_empty() || words == [""] {
        return Ok(Vec::new());
    }
    let percentile = |word: &&str| match word.parse::<f64>() {
        Err(_) => Err(Problem::Borrowed("Invalid latency-tracking-info-percentiles parameters")),
        Ok(value) if !(0.0..=100.0).contains(&value) => {
            Err(Problem::Borrowed("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]"))
        }
        Ok(value) => Ok(value),
    };
    words.iter().map(percentile).collect()
}

/// The cores of a list as `taskset` takes it: numbers, ranges, and ranges with a step.
///
/// # Errors
/// When it is none.
pub fn parse_cpus(text: &str) -> Result<Vec<usize>, &'static str> {
    const BAD: &str = "must be a list of cores such as 0-3,8 or 0-7:2";
    const CORES_MAX: usize = 1024;
    let mut cores = Vec::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number < CORES_MAX).ok_or(BAD);
        let (first, last, step) = (number(first)?, number(last)?, number(step)?);
        if first > last || step == 0 {
            return Err(BAD);
        }
        cores.extend((first..=last).step_by(step));
    }
    Ok(cores)
}

pub(crate) fn parse_oom_scores(words: &[&str]) -> Result<[i32; 3], Problem> {
    let words: [&str; 3] = words.try_into().map_err(|_| Problem::Borrowed("wrong number of arguments"))?;
    let mut scores = [0; 3];
    for (score, word) in scores.iter_mut().zip(words) {
        *score = word
            .parse()
            .ok()
            .filter(|score| (-2000..=2000).contains(score))
            .ok_or("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")?;
    }
    Ok(scores)
}

pub(crate) fn parse_primary(words: &[&str]) -> Result<Value, Problem> {
    match words {
        [] | [""] => Ok(Value::Primary(String::new(), 0)),
        [no, one] if no.eq_ignore_ascii_case("no") && one.eq_ignore_ascii_case("one") => Ok(Value::Primary(String::new(), 0)),
        [host, port] => match port.parse() {
            Ok(port) => Ok(Value::Primary((*host).to_owned(), port)),
            Err(_) => Err("Invalid master port".into()),
        },
        _ => Err("wrong number of arguments".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        assert_eq!(parse_cpus("0-3,8").unwrap(), [0, 1, 2, 3, 8]);
        assert_eq!(parse_cpus("0-7:3").unwrap(), [0, 3, 6]);
        assert!(parse_cpus("").unwrap().is_empty());
        assert!(["3-1", "a", "1,", "0-7:0", "-1", "5000"].iter().all(|text| parse_cpus(text).is_err()));
    }
}
