//! Values of keys that lie on a device which fails or lies: each read gives what the key has, or an error; what was refused has
//! changed nothing; and behind a crash there is what was acknowledged, as far as the settings promise that.
//!
//! A keeper has keys of its own, so it knows what each of them may have: one value, or several where an answer was lost. Of a
//! medium that has lied a key may be gone at any time, for a damaged record is given up with the key that replaces it, and with it
//! one whose hash has the same tag. It never has other bytes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use super::durability::Promise;
use crate::runtime::LEFT_OUT;
use crate::storage::UNREADABLE;
use crate::{Client, Random, Runtime, Value};

/// Appended parts of a value.
const PARTS_MAX: usize = 5;
/// Commands that keepers have in one life of the server, so that a run stays short.
const ACTS_MAX: u64 = 1_500;
/// A time that no test lives to see, Unix milliseconds.
const FAR_MS: &str = "4000000000000";
/// Operations of keepers have numbers of clients from here on.
const FIRST_CLIENT: usize = 100;
/// How often a value is asked for that the device has not given, and the rest between two times.
const TRIES: u32 = 100;
const REST: Duration = Duration::from_millis(50);

/// What the medium of the device may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Medium {
    /// It may fail: commands are refused.
    pub may_fail: bool,
    /// It has lied: keys may be gone.
    pub has_lied: bool,
}

/// How keepers load the server in one of its lives.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// When they end by themselves, in the time of their runtime.
    pub until_ns: u64,
    /// The longest time between two commands.
    pub pause: Duration,
    /// All values are large: together they are more than the memory of the server.
    pub is_large: bool,
}

/// What a key has: the value of the command of this number, and what others have appended. Neither, and there is no such key.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    set: Option<u64>,
    parts: Vec<u64>,
}

/// What a key may have behind one of its commands.
#[derive(Clone, Debug)]
struct Step {
    /// When it was acknowledged.
    at_ns: Option<u64>,
    states: BTreeSet<State>,
}

/// A change.
#[derive(Clone, Copy, Debug)]
enum Change {
    Set,
    Append,
    Delete,
}

impl State {
    fn is_absent(&self) -> bool {
        *self == Self::default()
    }

    fn after(&self, change: Change, number: u64) -> Self {
        match change {
            Change::Set => Self { set: Some(number), parts: Vec::new() },
            Change::Append => Self { parts: self.parts.iter().copied().chain([number]).collect(), ..self.clone() },
            Change::Delete => Self::default(),
        }
    }
}

/// A client that writes keys of its own and reads them, through all lives of the server.
#[derive(Debug)]
pub struct Keeper {
    number: usize,
    random: Random,
    acts: u64,
    /// What each key may have had since it was found behind a crash.
    keys: Vec<Vec<Step>>,
}

fn is_refused(reply: &Value) -> bool {
    let refusals =
        [UNREADABLE, b"OOM", b"MISCONF", b"LOADING", b"ERR what this command needs from the storage device does not fit"];
    matches!(reply, Value::Error(text) if refusals.iter().any(|word| text.starts_with(word)))
}

impl Keeper {
    /// One that has done nothing yet. `number` is its own.
    #[must_use]
    pub fn new(number: usize, keys: usize, seed: u64) -> Self {
        let random = Random::new(seed.wrapping_mul(1000) + (FIRST_CLIENT + number) as u64);
        let none = Step { at_ns: Some(0), states: BTreeSet::from([State::default()]) };
        Self { number, random, acts: 0, keys: vec![vec![none]; keys] }
    }

    fn name(&self, key: usize) -> String {
        format!("values:{}:{key}", self.number)
    }

    /// What the command of this number sets: a head that names all of it, and bytes that follow from the head.
    fn set_bytes(&self, key: usize, number: u64, is_large: bool) -> Vec<u8> {
        let head = format!("{}.{key}.{number}.{};", self.number, u8::from(is_large));
        let mut random = Random::new(number << 20 | (key << 4 | self.number) as u64);
        let len = match (is_large, key % 8) {
            (true, _) => 60_000 + random.below(60_000),
            (false, 0) => 17_000 + random.below(20_000),
            (false, _) => 100 + random.below(1_500),
        };
        let mut bytes = head.into_bytes();
        let word = random.bits();
        bytes.extend((0..len).map(|at| b'a' + ((word >> (at % 59)) as u8 ^ (at >> 9) as u8) % 23));
        bytes
    }

    /// The state that has these bytes.
    fn state_of(&self, key: usize, bytes: &[u8]) -> Option<State> {
        let (mut state, mut rest) = (State::default(), bytes);
        let head = format!("{}.{key}.", self.number);
        if let Some(words) = bytes.strip_prefix(head.as_bytes()) {
            let end = words.iter().take(30).position(|byte| *byte == b';')?;
            let (number, is_large) = std::str::from_utf8(&words[..end]).ok()?.split_once('.')?;
            let number = number.parse().ok()?;
            rest = bytes.strip_prefix(&self.set_bytes(key, number, is_large == "1")[..])?;
            state.set = Some(number);
        }
        for part in rest.split_inclusive(|byte| *byte == b';') {
            let number = std::str::from_utf8(part).ok()?.strip_prefix('+')?.strip_suffix(';')?;
            state.parts.push(number.parse().ok()?);
        }
        Some(state)
    }

    /// Writes and reads until the time is over or the server does not answer.
    pub fn work<R: Runtime>(&mut self, runtime: &R, load: Load, medium: &dyn Fn() -> Medium) {
        let last = self.acts + ACTS_MAX;
        while runtime.now_ns() < load.until_ns && self.acts < last {
            let Ok(mut client) = Client::of(runtime) else { return };
            while runtime.now_ns() < load.until_ns && self.acts < last {
                runtime.sleep(Duration::from_nanos(self.random.below(load.pause.as_nanos() as usize + 1) as u64));
                self.acts += 1;
                if !runtime.includes(FIRST_CLIENT + self.number, self.acts) {
                    runtime.pause(LEFT_OUT);
                } else if self.act(runtime, &mut client, load.is_large, medium).is_none() {
                    break;
                }
            }
        }
    }

    /// One command; none when the connection has ended.
    fn act<R: Runtime>(
        &mut self,
        runtime: &R,
        client: &mut Client<R::Stream>,
        is_large: bool,
        medium: &dyn Fn() -> Medium,
    ) -> Option<()> {
        let key = self.random.below(self.keys.len());
        let has_parts = self.last(key).iter().any(|state| state.parts.len() >= PARTS_MAX);
        let change = match self.random.below(100) {
            0..40 => None,
            40..60 if !has_parts => Some(Change::Append),
            60..65 => Some(Change::Delete),
            _ => Some(Change::Set),
        };
        let Some(change) = change else {
            let reply = client.call(&["GET", &self.name(key)]).ok().filter(|reply| *reply != Value::Closed)?;
            self.look(key, &reply, medium()).unwrap_or_else(|breach| panic!("{breach}"));
            return Some(());
        };
        let (name, number) = (self.name(key), self.acts);
        let words: Vec<Vec<u8>> = match change {
            Change::Set => {
                let expires = key.is_multiple_of(3);
                let words = [b"SET".to_vec(), name.into_bytes(), self.set_bytes(key, number, is_large)];
                words.into_iter().chain(["PXAT", FAR_MS].iter().filter(|_| expires).map(|word| word.as_bytes().to_vec())).collect()
            }
            Change::Append => vec![b"APPEND".to_vec(), name.into_bytes(), format!("+{number};").into_bytes()],
            Change::Delete => vec![b"DEL".to_vec(), name.into_bytes()],
        };
        let reply = client.call(&words).ok().filter(|reply| *reply != Value::Closed);
        let medium = medium();
        let mut before = self.last(key).clone();
        if medium.has_lied {
            before.insert(State::default());
        }
        if let Some(reply) = reply.as_ref().filter(|reply| reply.is_error()) {
            assert!(medium.may_fail && is_refused(reply), "{change:?} of {} is answered {reply}", self.name(key));
            return Some(());
        }
        let mut states: BTreeSet<State> = before.iter().map(|state| state.after(change, number)).collect();
        let at_ns = reply.is_some().then(|| runtime.now_ns());
        if at_ns.is_none() {
            states.append(&mut before);
        }
        self.keys[key].push(Step { at_ns, states });
        reply.map(drop)
    }

    /// What a key may have now.
    fn last(&self, key: usize) -> &BTreeSet<State> {
        static NONE: BTreeSet<State> = BTreeSet::new();
        self.keys[key].last().map_or(&NONE, |step| &step.states)
    }

    /// Compares what a key is found to have with what it may have now.
    fn look(&self, key: usize, reply: &Value, medium: Medium) -> Result<(), String> {
        if reply.is_error() {
            let is_right = medium.may_fail && is_refused(reply);
            return if is_right { Ok(()) } else { Err(format!("GET {} is answered {reply}", self.name(key))) };
        }
        self.found(key, reply, self.last(key), medium).map(drop)
    }

    /// The state that was found, which is one of those or, of a medium that has lied, none.
    fn found(&self, key: usize, reply: &Value, may: &BTreeSet<State>, medium: Medium) -> Result<State, String> {
        let bytes = reply.bytes().unwrap_or_default();
        let state = if reply.is_null() { Some(State::default()) } else { self.state_of(key, bytes) };
        match state {
            Some(state) if may.contains(&state) || medium.has_lied && state.is_absent() => Ok(state),
            other => {
                let mut text = format!("{} may have {may:?}, and has ", self.name(key));
                let _ = match other {
                    Some(state) => write!(text, "{state:?}"),
                    None => write!(text, "other bytes: {}", Value::Bulk(bytes[..bytes.len().min(300)].to_vec())),
                };
                Err(text)
            }
        }
    }

    /// The last time at which a change was acknowledged.
    #[must_use]
    pub fn last_told_ns(&self) -> u64 {
        self.keys.iter().flatten().filter_map(|step| step.at_ns).max().unwrap_or(0)
    }

    /// What a key may have behind a crash.
    fn kept(&self, key: usize, promise: Promise) -> BTreeSet<State> {
        let steps = &self.keys[key];
        let least = steps.iter().rposition(|step| step.at_ns.is_some_and(|at_ns| promise.holds(at_ns))).unwrap_or(0);
        steps[least..].iter().flat_map(|step| step.states.iter().cloned()).collect()
    }

    /// Looks what the keys have behind a crash, or now, where [`Promise::All`] holds and nothing was lost. How many keys there are.
    ///
    /// # Errors
    /// What a key has that it may not have, or that the device does not give it.
    pub fn check<R: Runtime>(
        &mut self,
        runtime: &R,
        client: &mut Client<R::Stream>,
        promise: Promise,
        medium: Medium,
    ) -> Result<u64, String> {
        let mut there = 0;
        for key in 0..self.keys.len() {
            let name = self.name(key);
            let mut tries = 0;
            let reply = loop {
                let reply = client.call(&["GET", &name]).map_err(|error| format!("GET {name}: {error}"))?;
                if !reply.is_error() {
                    break reply;
                }
                tries += 1;
                if !is_refused(&reply) || tries == TRIES {
                    return Err(format!("GET {name} of a sound device is answered {reply}"));
                }
                runtime.sleep(REST);
            };
            let may = if promise == Promise::Nothing {
                // Whatever it has had at any time.
                let state = self.state_of(key, reply.bytes().unwrap_or_default());
                state.into_iter().filter(|state| state.set.is_none_or(|number| number <= self.acts)).collect()
            } else {
                self.kept(key, promise)
            };
            let state = self.found(key, &reply, &may, medium).map_err(|breach| format!("by {promise:?} {breach}"))?;
            there += u64::from(!state.is_absent());
            // A record that was given up is there again where no base says so yet.
            let states = if medium.has_lied && state.is_absent() { may } else { BTreeSet::from([state.clone()]) };
            let states = states.into_iter().chain([state]).collect();
            self.keys[key] = vec![Step { at_ns: Some(0), states }];
        }
        Ok(there)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: Medium = Medium { may_fail: false, has_lied: false };

    fn keeper() -> Keeper {
        let mut keeper = Keeper::new(1, 9, 7);
        let state = |set, parts: &[u64]| State { set, parts: parts.to_vec() };
        let step = |at_ns, state| Step { at_ns, states: BTreeSet::from([state]) };
        keeper.keys[2].push(step(Some(10), state(Some(4), &[])));
        keeper.keys[2].push(step(Some(20), state(Some(4), &[6])));
        keeper.keys[2].push(step(None, state(Some(8), &[])));
        keeper.acts = 8;
        keeper
    }

    #[test]
    fn a_value_is_known_by_all_of_its_bytes() {
        let keeper = keeper();
        for is_large in [false, true] {
            let mut bytes = keeper.set_bytes(2, 4, is_large);
            assert_eq!(keeper.state_of(2, &bytes), Some(State { set: Some(4), parts: Vec::new() }));
            bytes.extend_from_slice(b"+6;");
            assert_eq!(keeper.state_of(2, &bytes), Some(State { set: Some(4), parts: vec![6] }));
            assert_eq!(keeper.state_of(3, &bytes), None, "it is another key's");
            for at in (0..bytes.len()).filter(|at| *at < 20 || at % 501 == 0) {
                let mut other = bytes.clone();
                other[at] ^= 0x40;
                assert_eq!(keeper.state_of(2, &other), None, "byte {at}");
                assert_ne!(keeper.state_of(2, &bytes[..at.max(1)]), keeper.state_of(2, &bytes), "{at} bytes");
            }
        }
        assert_eq!(keeper.state_of(2, b"+6;+7;"), Some(State { set: None, parts: vec![6, 7] }));
    }

    #[test]
    fn a_promise_says_what_a_key_may_have() {
        let keeper = keeper();
        let sets = |promise| keeper.kept(2, promise).iter().map(|state| (state.set, state.parts.len())).collect::<Vec<_>>();
        assert_eq!(sets(Promise::All), [(Some(4), 1), (Some(8), 0)]);
        assert_eq!(sets(Promise::Until(10)), [(Some(4), 0), (Some(4), 1), (Some(8), 0)]);
        assert_eq!(sets(Promise::Found), [(None, 0), (Some(4), 0), (Some(4), 1), (Some(8), 0)]);
    }

    #[test]
    fn other_bytes_an_older_value_and_an_error_without_a_reason_are_breaches() {
        let keeper = keeper();
        let (last, older) = (Value::Bulk(keeper.set_bytes(2, 8, false)), Value::Bulk(keeper.set_bytes(2, 4, false)));
        assert!(keeper.look(2, &last, SOUND).is_ok());
        assert!(keeper.look(2, &older, SOUND).is_err());
        assert!(keeper.look(2, &Value::NullBulk, SOUND).is_err());
        assert!(keeper.look(2, &Value::NullBulk, Medium { has_lied: true, ..SOUND }).is_ok());
        let error = Value::Error(UNREADABLE.to_vec());
        assert!(keeper.look(2, &error, SOUND).is_err());
        assert!(keeper.look(2, &error, Medium { may_fail: true, ..SOUND }).is_ok());
    }
}
