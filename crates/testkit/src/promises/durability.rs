//! Durability: what was acknowledged is there after a crash, as far as the settings promise that, nothing is there in part, and
//! what is there has all that it depends on.
//!
//! A writer does units of its own, one after the other. The number of a unit says what the writer's keys hold behind it, and most
//! units also count one up for all writers. After a crash the keys of a writer must be what its first *k* units leave, and the
//! common count must be that of all units that are there, each of which was told a count up to it: so they are the units up to one
//! place in the order in which they were done, and no others.

use std::time::Duration;

use crate::runtime::{LEFT_OUT, Stream};
use crate::scripted::Script;
use crate::{Client, Random, Runtime, Value};

/// How many units there were, of all writers.
const COUNT: &str = "durable:count";
/// Which of them was the last, by its writer and its number.
const LAST: &str = "durable:last";
/// Where units that count are told of.
const CHANNEL: &str = "durable:told";
/// Between two looks at the common count.
const LOOK: Duration = Duration::from_micros(200);
/// A time that no test lives to see, Unix milliseconds.
const FAR_MS: i64 = 4_000_000_000_000;
/// Units of which a list has the numbers.
const LISTED: u64 = 8;
/// Databases that are emptied belong to one writer each; a writer beyond them empties none.
const DATABASES: usize = 15;
/// Units of a writer in one life of the server, so that a check stays short.
const UNITS_MAX: u64 = 2_000;

/// How writers load the server in one of its lives.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// When they end by themselves, in the time of their runtime.
    pub until_ns: u64,
    /// The longest time between two units of a writer.
    pub pause: Duration,
    /// Units that a writer sends before it awaits the first reply, at most.
    pub depth: usize,
    /// Units may be refused: then they have changed nothing. Only with a depth of one.
    pub may_be_refused: bool,
}

/// What of the units that were acknowledged must be there after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// All of them.
    All,
    /// Those that were acknowledged until this time.
    Until(u64),
    /// Those that were found after an earlier crash.
    Found,
    /// None: the disk has lied.
    Nothing,
}

/// A unit that was done.
#[derive(Clone, Copy, Debug)]
struct Acknowledged {
    /// The far future for one that was not acknowledged and found in memory.
    at_ns: u64,
    /// The common count that it was told.
    count: Option<u64>,
}

/// What other clients than the writers have seen of units in one life of the server, with the times. It must be there after a crash
/// as what was acknowledged at that time.
#[derive(Debug, Default)]
pub struct Seen {
    /// The common count.
    counts: Vec<(u64, u64)>,
    /// Writers and their units.
    units: Vec<(u64, (usize, u64))>,
}

impl Promise {
    /// Whether what was told at a time must be there.
    pub(super) fn holds(self, at_ns: u64) -> bool {
        match self {
            Self::All => at_ns != u64::MAX,
            Self::Until(until_ns) => at_ns <= until_ns,
            Self::Found | Self::Nothing => false,
        }
    }
}

impl Seen {
    /// Looks at the common count until the time is over or the connection ends.
    pub fn look<R: Runtime>(runtime: &R, until_ns: u64) -> Self {
        let mut seen = Self::default();
        let Ok(mut client) = Client::of(runtime) else { return seen };
        while runtime.now_ns() < until_ns {
            runtime.sleep(LOOK);
            let Ok(Value::Bulk(count)) = client.call(&["GET", COUNT]) else { return seen };
            let count = String::from_utf8_lossy(&count).parse().unwrap_or_else(|_| panic!("the common count is {count:?}"));
            seen.counts.push((runtime.now_ns(), count));
        }
        seen
    }

    /// Listens to messages of units until the time is over or the server does not answer. One that breaks its log closes the
    /// connections of those that have missed some.
    pub fn listen<R: Runtime>(runtime: &R, until_ns: u64) -> Self {
        let mut seen = Self::default();
        while runtime.now_ns() < until_ns {
            let Ok(mut client) = Client::of(runtime) else { break };
            if client.send(&[["SUBSCRIBE", CHANNEL]]).is_err() {
                break;
            }
            while let Ok(Value::Array(message)) = client.receive() {
                let text = message.get(2).and_then(Value::bytes).map(String::from_utf8_lossy).unwrap_or_default();
                let unit = text.split_once('.').and_then(|(writer, unit)| Some((writer.parse().ok()?, unit.parse().ok()?)));
                seen.units.extend(unit.map(|unit| (runtime.now_ns(), unit)));
            }
        }
        seen
    }

    /// Compares with the common count and the units of writers that are there.
    fn check(&self, promise: Promise, count: u64, found: &[u64]) -> Result<(), String> {
        for (at_ns, seen) in self.counts.iter().filter(|(at_ns, _)| promise.holds(*at_ns)) {
            if *seen > count {
                return Err(format!("the common count was seen as {seen} at {at_ns} ns, and is {count}"));
            }
        }
        for (at_ns, (writer, unit)) in self.units.iter().filter(|(at_ns, _)| promise.holds(*at_ns)) {
            if found.get(*writer).is_some_and(|units| units < unit) {
                return Err(format!("unit {unit} of writer {writer} was heard of at {at_ns} ns, and {} are there", found[*writer]));
            }
        }
        Ok(())
    }
}

/// A writer, through all lives of the server.
#[derive(Debug)]
pub struct Writer {
    number: usize,
    random: Random,
    acts: u64,
    /// Units that were there after the last crash.
    kept: u64,
    /// Units that were sent, and those that were there.
    sent: u64,
    /// Of the units behind those that were there, the first ones.
    acknowledged: Vec<Acknowledged>,
    /// The longest time that one of them has waited for its reply.
    longest_ns: u64,
}

/// What a writer was told of a unit.
enum Told {
    Done(Option<u64>),
    Refused,
}

/// Whether a unit counts for all writers.
fn counts(unit: u64) -> bool {
    !unit.is_multiple_of(4)
}

/// Whether a unit empties the writer's database and writes into it, unless that has none.
fn empties(unit: u64) -> bool {
    unit % 8 == 4
}

/// Those of the first units that count.
fn counting(units: u64) -> u64 {
    units - units / 4
}

/// The last unit up to `units` of which this holds.
fn last(units: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    (1..=units).rev().find(|unit| holds(*unit))
}

fn text(value: Option<u64>) -> Value {
    value.map_or(Value::NullBulk, |value| Value::Bulk(value.to_string().into_bytes()))
}

impl Writer {
    /// One that has done nothing yet. `number` is its own.
    #[must_use]
    pub fn new(number: usize, seed: u64) -> Self {
        let random = Random::new(seed.wrapping_mul(1000) + number as u64);
        Self { number, random, acts: 0, kept: 0, sent: 0, acknowledged: Vec::new(), longest_ns: 0 }
    }

    /// The longest time that a unit has waited for its reply, of those since the last crash.
    #[must_use]
    pub fn longest_ns(&self) -> u64 {
        self.longest_ns
    }

    fn key(&self, what: &str) -> String {
        format!("durable:{}:{what}", self.number)
    }

    fn database(&self) -> usize {
        if self.number < DATABASES { self.number + 1 } else { 0 }
    }

    /// A unit: a transaction on several keys, a script, or a command on one.
    fn commands(&self, unit: u64) -> Vec<Vec<String>> {
        let commands = self.transaction(unit);
        if unit % 8 != 2 {
            return commands;
        }
        let bytes = |words: &[String]| words.iter().map(|word| word.clone().into_bytes()).collect::<Vec<_>>();
        let commands: Vec<_> = commands[1..commands.len() - 1].iter().map(|words| bytes(words)).collect();
        let keys = bytes(&[COUNT.to_owned(), LAST.to_owned(), self.key("last"), self.key("list")]);
        // One that is refused publishes nothing.
        let eval = Script::random(&mut Random::new(unit)).ends_refused().words(&commands, &keys);
        vec![eval.into_iter().map(|word| String::from_utf8_lossy(&word).into_owned()).collect()]
    }

    fn transaction(&self, unit: u64) -> Vec<Vec<String>> {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (own, list, single) = (self.key("last"), self.key("list"), self.key("single"));
        let far_ms = FAR_MS + unit.cast_signed();
        match unit % 8 {
            0 => vec![words(&format!("PEXPIREAT {single} {far_ms}"))],
            4 if empties(unit) && self.number < DATABASES => vec![
                words("MULTI"),
                words(&format!("SET {single} {unit}")),
                words(&format!("SELECT {}", self.database())),
                words("FLUSHDB"),
                words(&format!("SET {} {unit}", self.key("emptied"))),
                words("SELECT 0"),
                words("EXEC"),
            ],
            4 => vec![words(&format!("SET {single} {unit}"))],
            _ => vec![
                words("MULTI"),
                words(&format!("INCR {COUNT}")),
                // What is told of is the whole of it.
                words(&format!("PUBLISH {CHANNEL} {}.{unit}", self.number)),
                words(&format!("SET {LAST} {}.{unit}", self.number)),
                words(&format!("SET {own} {unit}")),
                words(&format!("PEXPIREAT {own} {far_ms}")),
                words(&format!("RPUSH {list} {unit}")),
                words(&format!("LTRIM {list} -{LISTED} -1")),
                words("EXEC"),
            ],
        }
    }

    /// Asks for what the writer's keys hold, and changes databases for that.
    fn questions(&self) -> Vec<Vec<String>> {
        let (own, list, single) = (self.key("last"), self.key("list"), self.key("single"));
        let lines = [
            format!("GET {own}"),
            format!("PEXPIRETIME {own}"),
            format!("LRANGE {list} 0 -1"),
            format!("GET {single}"),
            format!("PEXPIRETIME {single}"),
            format!("SELECT {}", self.database()),
            format!("GET {}", self.key("emptied")),
            "SELECT 0".to_owned(),
        ];
        lines.iter().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    }

    /// What they hold behind the first units.
    fn expected(&self, units: u64) -> Vec<Value> {
        let far = |unit: Option<u64>, none| Value::Integer(unit.map_or(none, |unit| FAR_MS + unit.cast_signed()));
        let own = last(units, counts);
        let mut listed: Vec<Value> =
            (1..=units).rev().filter(|unit| counts(*unit)).take(LISTED as usize).map(|unit| text(Some(unit))).collect();
        listed.reverse();
        let single = last(units, |unit| unit % 8 == 4);
        let due = last(units, |unit| unit % 8 == 0).filter(|due| single.is_some_and(|single| *due > single));
        let due = far(due, if single.is_some() { -1 } else { -2 });
        let emptied = text(last(units, empties).filter(|_| self.number < DATABASES));
        vec![text(own), far(own, -2), Value::Array(listed), text(single), due, emptied]
    }

    /// Does units until the time is over or the server does not answer. One that breaks its log closes connections, and the writer
    /// goes on behind what it finds then.
    pub fn write<R: Runtime>(&mut self, runtime: &R, load: Load) {
        while runtime.now_ns() < load.until_ns && self.sent - self.kept < UNITS_MAX {
            let Ok(mut client) = Client::of(runtime) else { return };
            if !self.is_found_in_memory(&mut client) {
                return;
            }
            self.write_by(runtime, &mut client, load);
        }
    }

    /// Learns which of the units that were sent are done. False when the connection ends meanwhile.
    fn is_found_in_memory<S: Stream>(&mut self, client: &mut Client<S>) -> bool {
        let least = self.kept + self.acknowledged.len() as u64;
        if least == self.sent {
            return true;
        }
        let Ok(replies) = client.pipeline(&self.questions()) else { return false };
        if replies.contains(&Value::Closed) {
            return false;
        }
        self.sent = self.matching(least, replies).unwrap_or_else(|breach| panic!("on a further connection: {breach}"));
        let unheard = Acknowledged { at_ns: u64::MAX, count: None };
        self.acknowledged.resize(usize::try_from(self.sent - self.kept).unwrap_or(usize::MAX), unheard);
        true
    }

    fn write_by<R: Runtime>(&mut self, runtime: &R, client: &mut Client<R::Stream>, load: Load) {
        while runtime.now_ns() < load.until_ns && self.sent - self.kept < UNITS_MAX {
            runtime.sleep(Duration::from_nanos(self.random.below(load.pause.as_nanos() as usize + 1) as u64));
            self.acts += 1;
            if !runtime.includes(self.number, self.acts) {
                runtime.pause(LEFT_OUT);
                continue;
            }
            let first = self.sent + 1;
            self.sent += 1 + self.random.below(load.depth) as u64;
            let sent_ns = runtime.now_ns();
            let commands: Vec<Vec<Vec<String>>> = (first..=self.sent).map(|unit| self.commands(unit)).collect();
            if client.send(&commands.concat()).is_err() {
                return;
            }
            for (unit, commands) in (first..).zip(commands) {
                match self.receive(client, unit, commands.len()) {
                    Some(Told::Done(count)) => {
                        let at_ns = runtime.now_ns();
                        self.longest_ns = self.longest_ns.max(at_ns - sent_ns);
                        self.acknowledged.push(Acknowledged { at_ns, count });
                    }
                    Some(Told::Refused) if load.may_be_refused => self.sent -= 1,
                    Some(Told::Refused) => panic!("unit {unit} of writer {} is refused", self.number),
                    None => return,
                }
            }
        }
    }

    /// The reply to a unit; none when the connection has ended.
    fn receive<S: Stream>(&self, client: &mut Client<S>, unit: u64, replies: usize) -> Option<Told> {
        let mut reply = Value::Closed;
        for _ in 0..replies {
            reply = client.receive().ok().filter(|reply| *reply != Value::Closed)?;
        }
        Some(match &reply {
            Value::Error(error) if [&b"MISCONF"[..], b"EXECABORT", b"OOM"].iter().any(|word| error.starts_with(word)) => {
                Told::Refused
            }
            // As a script is told that may write nothing.
            Value::Array(replies) if matches!(replies.first(), Some(Value::Error(error)) if error.starts_with(b"MISCONF")) => {
                Told::Refused
            }
            Value::Array(replies) if counts(unit) => {
                let count = replies.first().and_then(Value::integer).map(i64::cast_unsigned);
                assert!(count.is_some() && !replies.iter().any(Value::is_error), "unit {unit} is answered {reply}");
                Told::Done(count)
            }
            Value::Array(replies) if empties(unit) && !replies.iter().any(Value::is_error) => Told::Done(None),
            Value::Simple(_) | Value::Integer(_) if !counts(unit) => Told::Done(None),
            _ => panic!("unit {unit} of writer {} is answered {reply}", self.number),
        })
    }

    /// How many of its units must be there.
    fn least(&self, promise: Promise) -> u64 {
        let last = self.acknowledged.iter().rposition(|unit| promise.holds(unit.at_ns));
        if promise == Promise::Nothing { 0 } else { self.kept + last.map_or(0, |last| last as u64 + 1) }
    }

    /// How many of its units are there.
    fn find<S: Stream>(&self, client: &mut Client<S>, promise: Promise) -> Result<u64, String> {
        let found = client.pipeline(&self.questions()).map_err(|error| error.to_string())?;
        self.matching(self.least(promise), found).map_err(|breach| format!("by {promise:?} {breach}"))
    }

    /// How many of its units leave what was found, of which these are there at least.
    fn matching(&self, least: u64, mut found: Vec<Value>) -> Result<u64, String> {
        found.retain(|reply| *reply != Value::ok());
        (least..=self.sent).find(|units| self.expected(*units) == found).ok_or_else(|| {
            let words: Vec<String> = found.iter().map(ToString::to_string).collect();
            let (number, sent, kept, told) = (self.number, self.sent, self.kept, self.acknowledged.len());
            format!(
                "writer {number} has sent {sent} units, {kept} were there before and {told} more were done; the first {least} must \
                 be there, and there is {}",
                words.join(", ")
            )
        })
    }
}

/// The last time at which a writer was told anything.
#[must_use]
pub fn last_told_ns(writers: &[Writer]) -> u64 {
    let told = writers.iter().flat_map(|writer| &writer.acknowledged).map(|unit| unit.at_ns);
    told.filter(|at_ns| *at_ns != u64::MAX).max().unwrap_or(0)
}

/// Looks what is there after a crash, where writers go on, and compares it with what was acknowledged and `seen`. How many of the
/// units that were sent since the last one are there.
///
/// # Errors
/// What is missing, or there in part.
pub fn check<S: Stream>(client: &mut Client<S>, writers: &mut [Writer], promise: Promise, seen: &[Seen]) -> Result<u64, String> {
    let replies = client.pipeline(&[["GET", COUNT], ["GET", LAST]]).map_err(|error| error.to_string())?;
    let word = |reply: &Value| String::from_utf8_lossy(reply.bytes().unwrap_or_default()).into_owned();
    let (count, last) = (word(&replies[0]).parse::<u64>().unwrap_or(0), word(&replies[1]));
    let found = writers.iter().map(|writer| writer.find(client, promise)).collect::<Result<Vec<u64>, String>>()?;
    let all: u64 = found.iter().map(|units| counting(*units)).sum();
    if all != count {
        return Err(format!("the common count is {count}, and of the writers {found:?} units are there, of which {all} count"));
    }
    seen.iter().try_for_each(|seen| seen.check(promise, count, &found))?;
    for (writer, units) in writers.iter().zip(&found) {
        for (unit, told) in (writer.kept + 1..).zip(&writer.acknowledged) {
            if told.count.is_some_and(|told| (told <= count) != (unit <= *units)) {
                let (number, told) = (writer.number, told.count.unwrap_or(0));
                return Err(format!(
                    "unit {unit} of writer {number} was count {told} of {count}, and {units} units of it are there"
                ));
            }
        }
    }
    let expected = |(writer, units): (&Writer, &u64)| {
        let own = self::last(*units, counts)?;
        let told = own.checked_sub(writer.kept + 1).and_then(|at| writer.acknowledged.get(at as usize)).and_then(|unit| unit.count);
        (last == format!("{}.{own}", writer.number)).then_some(told)
    };
    match writers.iter().zip(&found).find_map(expected) {
        None if count > 0 => return Err(format!("the last unit is {last}, and of the writers {found:?} units are there")),
        Some(Some(told)) if told != count => return Err(format!("the last unit is {last}, which was count {told} of {count}")),
        _ => {}
    }
    let mut new = 0;
    for (writer, units) in writers.iter_mut().zip(found) {
        new += units.saturating_sub(writer.kept);
        (writer.kept, writer.sent) = (units, units);
        writer.acknowledged.clear();
        writer.longest_ns = 0;
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_leaves_something_else() {
        let writer = Writer::new(0, 1);
        let all: Vec<Vec<Value>> = (0..200).map(|units| writer.expected(units)).collect();
        assert!(all.iter().enumerate().all(|(at, one)| !all[..at].contains(one)));
        let keys = |units| writer.expected(units).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(keys(0), "(nil) :-2 *[] (nil) :-2 (nil)");
        assert_eq!(keys(8), r#"$"7" :4000000000007 *[$"1", $"2", $"3", $"5", $"6", $"7"] $"4" :4000000000008 $"4""#);
        assert_eq!(counting(8), 6);
    }

    #[test]
    fn a_promise_says_how_many_units_must_be_there() {
        let told = |at_ns| Acknowledged { at_ns, count: None };
        let writer = Writer { kept: 5, sent: 9, acknowledged: vec![told(10), told(20)], ..Writer::new(0, 1) };
        let least = [Promise::All, Promise::Until(10), Promise::Until(9), Promise::Found, Promise::Nothing];
        assert_eq!(least.map(|promise| writer.least(promise)), [7, 6, 5, 5, 0]);
    }
}
