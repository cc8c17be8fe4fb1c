//! What a server of hashes whose fields expire answers, in the simplest way there is.

use std::collections::BTreeMap;

use crate::Value;

/// What the model does wrong, on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// HSET leaves a field's time.
    SetKeepsTime,
    /// HINCRBY takes a field's time away.
    IncrementLosesTime,
    /// COPY makes fields without times.
    CopyLosesTimes,
    /// RENAME does.
    RenameLosesTimes,
    /// RESTORE does.
    RestoreLosesTimes,
    /// HSETEX … KEEPTTL takes a field's time away.
    KeepLosesTime,
    /// A field that is given a past time stays.
    PastStays,
    /// GT takes a field without a time for one that expires first.
    NoneIsEarly,
    /// A hash whose last field goes stays, empty.
    EmptyStays,
    /// HGETEX without a time takes it away.
    ReadLosesTime,
    /// FNX looks at the first field only.
    FirstFieldDecides,
}

/// All but [`Fault::None`].
pub const FAULTS: [Fault; 11] = [
    Fault::SetKeepsTime,
    Fault::IncrementLosesTime,
    Fault::CopyLosesTimes,
    Fault::RenameLosesTimes,
    Fault::RestoreLosesTimes,
    Fault::KeepLosesTime,
    Fault::PastStays,
    Fault::NoneIsEarly,
    Fault::EmptyStays,
    Fault::ReadLosesTime,
    Fault::FirstFieldDecides,
];

/// When a field expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// The command said when; else how long, and the server's clock decides.
    pub exact: bool,
}

/// How a field's time is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It stays as it is.
    Keep,
    /// It goes.
    Clear,
    /// It becomes this one.
    Set(Time),
}

/// The condition of HEXPIRE and its like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// None.
    Always,
    /// The field has no time.
    Nx,
    /// It has one.
    Xx,
    /// It has an earlier one.
    Gt,
    /// It has a later one or none.
    Lt,
}

/// The condition of HSETEX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// None.
    Any,
    /// No field exists.
    Fnx,
    /// All do.
    Fxx,
}

/// What is asked of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// HTTL.
    Seconds,
    /// HPTTL.
    Milliseconds,
    /// HEXPIRETIME.
    AtSeconds,
    /// HPEXPIRETIME.
    AtMilliseconds,
}

/// An answer about a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// No field, -2, or no time, -1, or a time that was given exactly.
    Exactly(i64),
    /// About this, in the unit of the question.
    About(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    value: Vec<u8>,
    time: Option<Time>,
}

type Hash = BTreeMap<Vec<u8>, Field>;

/// Hashes by key.
#[derive(Clone, Debug)]
pub struct Model {
    hashes: BTreeMap<Vec<u8>, Hash>,
    fault: Fault,
}

fn bulk(bytes: &[u8]) -> Value {
    Value::Bulk(bytes.to_vec())
}

impl Model {
    /// Without any key.
    #[must_use]
    pub fn new(fault: Fault) -> Self {
        Self { hashes: BTreeMap::new(), fault }
    }

    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.hashes.keys()
    }

    /// Removes what is due at `now_ms`. Returns the keys that are gone with it.
    pub fn expire(&mut self, now_ms: i64) -> Vec<Vec<u8>> {
        for hash in self.hashes.values_mut() {
            hash.retain(|_, field| field.time.is_none_or(|time| time.at_ms > now_ms));
        }
        let gone: Vec<Vec<u8>> = self.hashes.iter().filter(|(_, hash)| hash.is_empty()).map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| self.tidy(key));
        gone
    }

    fn tidy(&mut self, key: &[u8]) {
        if self.fault != Fault::EmptyStays && self.hashes.get(key).is_some_and(BTreeMap::is_empty) {
            self.hashes.remove(key);
        }
    }

    fn find(&self, key: &[u8], field: &[u8]) -> Option<&Field> {
        self.hashes.get(key)?.get(field)
    }

    /// HGET, null when it is not there.
    #[must_use]
    pub fn get(&self, key: &[u8], field: &[u8]) -> Value {
        self.find(key, field).map_or(Value::NullBulk, |field| bulk(&field.value))
    }

    /// The value itself.
    #[must_use]
    pub fn value(&self, key: &[u8], field: &[u8]) -> Option<&[u8]> {
        self.find(key, field).map(|field| &*field.value)
    }

    /// Fields with their values, flat.
    #[must_use]
    pub fn all(&self, key: &[u8]) -> Value {
        let pairs = self.hashes.get(key).into_iter().flatten();
        Value::Array(pairs.flat_map(|(name, field)| [bulk(name), bulk(&field.value)]).collect())
    }

    /// Names of fields.
    #[must_use]
    pub fn names(&self, key: &[u8]) -> Value {
        Value::Array(self.hashes.get(key).into_iter().flatten().map(|(name, _)| bulk(name)).collect())
    }

    /// HLEN.
    #[must_use]
    pub fn len(&self, key: &[u8]) -> i64 {
        self.hashes.get(key).map_or(0, |hash| hash.len() as i64)
    }

    /// Whether the key is there.
    #[must_use]
    pub fn exists(&self, key: &[u8]) -> bool {
        self.hashes.contains_key(key)
    }

    /// Sets a field; whether it is new.
    pub fn set(&mut self, key: &[u8], name: &[u8], value: &[u8], change: Change) -> bool {
        let hash = self.hashes.entry(key.to_vec()).or_default();
        let before = hash.get(name).map(|field| field.time);
        let time = match change {
            Change::Keep => before.flatten(),
            Change::Clear => None,
            Change::Set(time) => Some(time),
        };
        hash.insert(name.to_vec(), Field { value: value.to_vec(), time });
        before.is_none()
    }

    /// HSET of one field.
    pub fn hset(&mut self, key: &[u8], name: &[u8], value: &[u8]) -> bool {
        self.set(key, name, value, if self.fault == Fault::SetKeepsTime { Change::Keep } else { Change::Clear })
    }

    /// HINCRBY or HINCRBYFLOAT, with the sum.
    pub fn increment(&mut self, key: &[u8], name: &[u8], sum: &[u8]) {
        let lost = self.fault == Fault::IncrementLosesTime;
        self.set(key, name, sum, if lost { Change::Clear } else { Change::Keep });
    }

    /// Removes a field; what it held.
    pub fn remove(&mut self, key: &[u8], name: &[u8]) -> Option<Vec<u8>> {
        let field = self.hashes.get_mut(key)?.remove(name)?;
        self.tidy(key);
        Some(field.value)
    }

    /// HEXPIRE and its like, for one field: -2, 0, 1 or 2.
    pub fn expire_field(&mut self, key: &[u8], name: &[u8], time: Time, condition: Condition, now_ms: i64) -> i64 {
        let none_is_early = self.fault == Fault::NoneIsEarly;
        let Some(field) = self.hashes.get_mut(key).and_then(|hash| hash.get_mut(name)) else { return -2 };
        let holds = match condition {
            Condition::Always => true,
            Condition::Nx => field.time.is_none(),
            Condition::Xx => field.time.is_some(),
            Condition::Gt => field.time.map_or(none_is_early, |before| before.at_ms < time.at_ms),
            Condition::Lt => field.time.is_none_or(|before| before.at_ms > time.at_ms),
        };
        if !holds {
            return 0;
        }
        field.time = Some(time);
        if self.drop_past(key, name, now_ms) { 2 } else { 1 }
    }

    /// Removes a field whose time is past.
    fn drop_past(&mut self, key: &[u8], name: &[u8], now_ms: i64) -> bool {
        let is_past = self.find(key, name).and_then(|field| field.time).is_some_and(|time| time.at_ms <= now_ms);
        if is_past && self.fault == Fault::PastStays {
            if let Some(field) = self.hashes.get_mut(key).and_then(|hash| hash.get_mut(name)) {
                field.time = None;
            }
            return true;
        }
        is_past && self.remove(key, name).is_some()
    }

    /// HTTL and its like, for one field.
    #[must_use]
    pub fn remaining(&self, key: &[u8], name: &[u8], ask: Ask, now_ms: i64) -> Remaining {
        let Some(field) = self.find(key, name) else { return Remaining::Exactly(-2) };
        let Some(time) = field.time else { return Remaining::Exactly(-1) };
        // Seconds are rounded up.
        let seconds = |ms: i64| (ms + 999) / 1000;
        match ask {
            Ask::Seconds => Remaining::About(seconds(time.at_ms - now_ms)),
            Ask::Milliseconds => Remaining::About(time.at_ms - now_ms),
            Ask::AtSeconds if time.exact => Remaining::Exactly(seconds(time.at_ms)),
            Ask::AtMilliseconds if time.exact => Remaining::Exactly(time.at_ms),
            Ask::AtSeconds => Remaining::About(seconds(time.at_ms)),
            Ask::AtMilliseconds => Remaining::About(time.at_ms),
        }
    }

    /// HPERSIST, for one field: -2, -1 or 1.
    pub fn persist(&mut self, key: &[u8], name: &[u8]) -> i64 {
        match self.hashes.get_mut(key).and_then(|hash| hash.get_mut(name)) {
            None => -2,
            Some(Field { time: None, .. }) => -1,
            Some(field) => {
                field.time = None;
                1
            }
        }
    }

    /// HGETEX, for one field.
    pub fn get_and_change(&mut self, key: &[u8], name: &[u8], change: Change, now_ms: i64) -> Value {
        let answer = self.get(key, name);
        let forgets = self.fault == Fault::ReadLosesTime && change == Change::Keep;
        if let Some(field) = self.hashes.get_mut(key).and_then(|hash| hash.get_mut(name)) {
            match change {
                Change::Set(time) => field.time = Some(time),
                Change::Clear => field.time = None,
                Change::Keep if forgets => field.time = None,
                Change::Keep => {}
            }
            self.drop_past(key, name, now_ms);
        }
        answer
    }

    /// HSETEX: 1 or 0.
    pub fn set_all(&mut self, key: &[u8], pairs: &[(Vec<u8>, Vec<u8>)], existing: Existing, change: Change, now_ms: i64) -> i64 {
        let looked_at = if self.fault == Fault::FirstFieldDecides { &pairs[..1] } else { pairs };
        let mut there = looked_at.iter().map(|(name, _)| self.find(key, name).is_some());
        let holds = match existing {
            Existing::Any => true,
            Existing::Fnx => !there.any(|is| is),
            Existing::Fxx => there.all(|is| is),
        };
        if !holds {
            return 0;
        }
        let change = if change == Change::Keep && self.fault == Fault::KeepLosesTime { Change::Clear } else { change };
        for (name, value) in pairs {
            self.set(key, name, value, change);
        }
        for (name, _) in pairs {
            self.drop_past(key, name, now_ms);
        }
        1
    }

    /// Puts the hash of one key to another; false when there is none.
    fn duplicate(&mut self, from: &[u8], to: &[u8], fault: Fault) -> bool {
        let Some(mut hash) = self.hashes.get(from).cloned() else { return false };
        if self.fault == fault {
            hash.values_mut().for_each(|field| field.time = None);
        }
        self.hashes.insert(to.to_vec(), hash);
        true
    }

    /// RENAME; false when there is no such key.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> bool {
        let done = self.duplicate(from, to, Fault::RenameLosesTimes);
        if done && from != to {
            self.hashes.remove(from);
        }
        done
    }

    /// COPY; whether it did.
    pub fn copy(&mut self, from: &[u8], to: &[u8], replace: bool) -> bool {
        (replace || !self.exists(to)) && self.duplicate(from, to, Fault::CopyLosesTimes)
    }

    /// DUMP and RESTORE … REPLACE.
    pub fn restore(&mut self, from: &[u8], to: &[u8]) -> bool {
        self.duplicate(from, to, Fault::RestoreLosesTimes)
    }

    /// DEL.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        self.hashes.remove(key).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: Time = Time { at_ms: 5000, exact: true };

    #[test]
    fn times_come_and_go() {
        let mut model = Model::new(Fault::None);
        assert!(model.hset(b"h", b"a", b"1"));
        assert_eq!(model.expire_field(b"h", b"a", LATER, Condition::Gt, 0), 0);
        assert_eq!(model.expire_field(b"h", b"a", LATER, Condition::Always, 0), 1);
        assert_eq!(model.remaining(b"h", b"a", Ask::AtSeconds, 0), Remaining::Exactly(5));
        model.increment(b"h", b"a", b"2");
        assert_eq!(model.persist(b"h", b"a"), 1);
        assert_eq!(model.expire_field(b"h", b"a", LATER, Condition::Always, 5000), 2);
        assert!(!model.exists(b"h"));
    }

    #[test]
    fn what_is_due_takes_the_key_along() {
        let mut model = Model::new(Fault::None);
        let pairs = [(b"a".to_vec(), b"1".to_vec())];
        assert_eq!(model.set_all(b"h", &pairs, Existing::Fxx, Change::Clear, 0), 0);
        assert_eq!(model.set_all(b"h", &pairs, Existing::Fnx, Change::Set(LATER), 0), 1);
        assert_eq!(model.expire(4999), Vec::<Vec<u8>>::new());
        assert_eq!(model.expire(5000), [b"h".to_vec()]);
        assert_eq!(model.len(b"h"), 0);
    }
}
