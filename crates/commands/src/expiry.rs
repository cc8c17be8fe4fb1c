//! Expiries as arguments: seconds or milliseconds, relative or absolute, checked as Redis checks them.

use almandine_command_spec::Arg;
use almandine_handler::{CommandError, Options, Word, errors, number};

/// Seconds or milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
}

/// An expiry as given. Redis reports a malformed one only after all options are read, so the amount is kept as it came.
#[derive(Clone, Copy, Debug)]
pub struct Expiry<'c> {
    /// The argument.
    pub amount: &'c [u8],
    /// Its unit.
    pub unit: Unit,
    /// Whether it counts from 1970 instead of from now.
    pub absolute: bool,
}

/// What a command does to the expiry of the key that it writes.
#[derive(Clone, Copy, Debug, Default)]
pub enum ExpiryChange<'c> {
    /// The command's ordinary behaviour.
    #[default]
    Unstated,
    /// EX, PX, EXAT, PXAT.
    Set(Expiry<'c>),
    /// KEEPTTL.
    Keep,
    /// PERSIST.
    Persist,
}

impl<'c> Expiry<'c> {
    /// The option that `word` starts, if it is EX, PX, EXAT or PXAT; its amount is taken from `options`.
    ///
    /// # Errors
    /// A syntax error when the amount is missing.
    pub fn option(word: Word<'_>, options: &mut Options<'c>) -> Result<Option<Self>, CommandError> {
        let (unit, absolute) = match word {
            w if w.is("EX") => (Unit::Seconds, false),
            w if w.is("PX") => (Unit::Milliseconds, false),
            w if w.is("EXAT") => (Unit::Seconds, true),
            w if w.is("PXAT") => (Unit::Milliseconds, true),
            _ => return Ok(None),
        };
        Ok(Some(Self { amount: options.value()?, unit, absolute }))
    }

    /// The point in time, Unix milliseconds. It may have passed; `command` is the name in lower case, for the error.
    ///
    /// # Errors
    /// When the amount is no integer, not positive, or too far away.
    pub fn at_ms(&self, now_ms: i64, command: &str) -> Result<i64, CommandError> {
        let amount = number::integer(self.amount)?;
        let at = if amount <= 0 { None } else { self.scale(amount) };
        let at = if self.absolute { at } else { at.and_then(|at| at.checked_add(now_ms)) };
        at.ok_or_else(|| errors::invalid_expiry(command))
    }

    fn scale(&self, amount: i64) -> Option<i64> {
        match self.unit {
            Unit::Seconds => amount.checked_mul(1000),
            Unit::Milliseconds => Some(amount),
        }
    }
}

/// What must hold of an expiry for it to be changed: NX, XX, GT and LT.
#[derive(Clone, Copy, Debug, Default)]
pub struct Condition {
    absent: bool,
    present: bool,
    greater: bool,
    less: bool,
}

impl Condition {
    /// Takes the word as a condition, if it is one.
    pub fn take(&mut self, word: Word<'_>) -> bool {
        match word {
            w if w.is("NX") => self.absent = true,
            w if w.is("XX") => self.present = true,
            w if w.is("GT") => self.greater = true,
            w if w.is("LT") => self.less = true,
            _ => return false,
        }
        true
    }

    /// Whether all that was taken can hold together.
    ///
    /// # Errors
    /// When it cannot.
    pub fn check(self) -> Result<(), CommandError> {
        if self.absent && (self.present || self.greater || self.less) {
            return Err(errors::generic::EXPIRE_NX_WITH_OTHERS);
        }
        if self.greater && self.less { Err(errors::generic::EXPIRE_GT_WITH_LT) } else { Ok(()) }
    }

    /// What has no expiry counts as expiring never, later than anything else.
    #[must_use]
    pub fn holds(self, old_ms: Option<i64>, new_ms: i64) -> bool {
        !(self.absent && old_ms.is_some()
            || self.present && old_ms.is_none()
            || self.greater && old_ms.is_none_or(|old_ms| new_ms <= old_ms)
            || self.less && old_ms.is_some_and(|old_ms| new_ms >= old_ms))
    }
}

/// EX, PX, EXAT and PXAT in a spec.
pub const EXPIRY_ARGS: [Arg; 4] = [
    Arg::integer("seconds").token("EX"),
    Arg::integer("milliseconds").token("PX"),
    Arg::unix_time("unix-time-seconds").token("EXAT"),
    Arg::unix_time("unix-time-milliseconds").token("PXAT"),
];

/// An expiry, or PERSIST.
pub const EXPIRY_OR_PERSIST: Arg = Arg::one_of(
    "expiration",
    &[EXPIRY_ARGS[0], EXPIRY_ARGS[1], EXPIRY_ARGS[2], EXPIRY_ARGS[3], Arg::pure_token("persist", "PERSIST")],
)
.optional();

/// An expiry, or KEEPTTL.
pub const EXPIRY_OR_KEEP: Arg = Arg::one_of(
    "expiration",
    &[EXPIRY_ARGS[0], EXPIRY_ARGS[1], EXPIRY_ARGS[2], EXPIRY_ARGS[3], Arg::pure_token("keepttl", "KEEPTTL")],
)
.optional();

impl<'c> ExpiryChange<'c> {
    /// This and then another one: the same option may be repeated, and the last one holds. None: they contradict each other.
    #[must_use]
    pub fn joined(self, new: Self) -> Option<Self> {
        let agree = match (self, new) {
            (Self::Unstated, _) | (Self::Keep, Self::Keep) | (Self::Persist, Self::Persist) => true,
            (Self::Set(old), Self::Set(new)) => (old.unit, old.absolute) == (new.unit, new.absolute),
            _ => false,
        };
        agree.then_some(new)
    }
}

/// The same expiry option may be repeated, and the last one holds; two different ones contradict each other.
///
/// # Errors
/// When they do.
pub fn only_expiry<'c>(before: ExpiryChange<'c>, new: Expiry<'c>) -> Result<ExpiryChange<'c>, CommandError> {
    before.joined(ExpiryChange::Set(new)).ok_or(CommandError::Syntax)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(amount: &str, unit: Unit, absolute: bool) -> Result<i64, String> {
        let expiry = Expiry { amount: amount.as_bytes(), unit, absolute };
        expiry.at_ms(1_000, "set").map_err(|error| error.to_string())
    }

    fn condition(absent: bool, present: bool, greater: bool, less: bool) -> Condition {
        Condition { absent, present, greater, less }
    }

    #[test]
    fn never_is_later_than_any_time() {
        let (always, nx) = (Condition::default(), condition(true, false, false, false));
        let (gt, lt) = (condition(false, false, true, false), condition(false, false, false, true));
        assert!(always.holds(None, 5) && always.holds(Some(9), 5));
        assert!(nx.holds(None, 5) && !nx.holds(Some(9), 5));
        assert!(!gt.holds(None, 5) && !gt.holds(Some(5), 5) && gt.holds(Some(4), 5));
        assert!(lt.holds(None, 5) && !lt.holds(Some(5), 5) && lt.holds(Some(6), 5));
        assert!(!condition(false, true, false, true).holds(None, 5));
    }

    #[test]
    fn amounts_are_scaled_and_checked() {
        assert_eq!(at_ms("2", Unit::Seconds, false), Ok(3_000));
        assert_eq!(at_ms("2", Unit::Milliseconds, true), Ok(2));
        let invalid = Err("ERR invalid expire time in 'set' command".to_owned());
        assert_eq!(at_ms("0", Unit::Seconds, false), invalid);
        assert_eq!(at_ms("-5", Unit::Milliseconds, true), invalid);
        assert_eq!(at_ms("9223372036854775", Unit::Seconds, true).ok(), Some(9_223_372_036_854_775_000));
        assert_eq!(at_ms("9223372036854776", Unit::Seconds, true), invalid);
        assert_eq!(at_ms("9223372036854775807", Unit::Milliseconds, false), invalid);
        assert_eq!(at_ms("1.5", Unit::Seconds, false), Err("ERR value is not an integer or out of range".to_owned()));
    }
}
