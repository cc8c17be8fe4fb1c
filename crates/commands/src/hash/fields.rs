//! Arguments of the commands on fields that expire: `FIELDS numfields field …`, and the time. Members of sorted sets have MEMBERS.
//!
//! Redis 7.4 wants options before FIELDS, Redis 8.4 takes them in any order; so do we.

use almandine_command_spec::Arg;
use almandine_datatypes::number::parse_i64;
use almandine_handler::{CommandError, Options, Word, errors, number};
use almandine_resp::Args;

use crate::expiry::{Condition, Expiry, Unit};

/// FIELDS in a spec.
pub(crate) const FIELDS: Arg = Arg::block("fields", &[Arg::integer("numfields"), Arg::value("field").multiple()]).token("FIELDS");

/// MEMBERS in a spec.
pub(crate) const MEMBERS: Arg =
    Arg::block("members", &[Arg::integer("nummembers"), Arg::value("member").multiple()]).token("MEMBERS");

/// What a command has that expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    /// Fields of a hash.
    Field,
    /// Members of a sorted set.
    Member,
}

impl Element {
    fn word(self) -> &'static str {
        match self {
            Self::Field => "FIELDS",
            Self::Member => "MEMBERS",
        }
    }

    /// Where the word is missing.
    pub(crate) fn missing(self) -> CommandError {
        match self {
            Self::Field => errors::hash::FIELDS_MISSING,
            Self::Member => errors::sorted_set::MEMBERS_MISSING,
        }
    }

    fn mismatch(self) -> CommandError {
        match self {
            Self::Field => errors::hash::FIELDS_MISMATCH,
            Self::Member => errors::sorted_set::MEMBERS_MISMATCH,
        }
    }
}

/// The latest expiry of a field, in milliseconds since 1970: Redis' bound, a quarter of what 48 bits can say.
const EXPIRY_MS_MAX: i64 = ((1 << 48) - 2) >> 2;

/// The arguments behind FIELDS and its number: fields, or fields and values.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'c> {
    /// All arguments of the command.
    args: Args<'c>,
    first: usize,
    end: usize,
}

impl<'c> Fields<'c> {
    /// What follows the word FIELDS, each field being `width` arguments. `options` moves behind them.
    ///
    /// # Errors
    /// `bad_count` when their number is none, else when there are not as many.
    fn read(args: Args<'c>, options: &mut Options<'c>, form: &Form, bad_count: CommandError) -> Result<Self, CommandError> {
        let (width, element) = (form.width, form.element);
        let count = options.next().ok_or_else(|| element.mismatch())?;
        let count = parse_i64(count.0).and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0).ok_or(bad_count)?;
        if count > options.remaining() / width {
            return Err(element.mismatch());
        }
        let first = Options::position(options);
        let end = first + count * width;
        *options = Options::after(args, end);
        Ok(Self { args, first, end })
    }

    /// The arguments, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'c [u8]> + use<'c> {
        self.args.slice_from(self.first).iter().take(self.end - self.first)
    }

    /// The arguments, two by two.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&'c [u8], &'c [u8])> + use<'c> {
        let args = self.args;
        (self.first..self.end).step_by(2).map(move |at| (args.at(at), args.at(at + 1)))
    }

    /// How many arguments there are.
    pub(crate) fn len(&self) -> usize {
        self.end - self.first
    }
}

/// How a command names its fields.
pub(crate) struct Form {
    /// Its first argument that may be FIELDS or an option.
    pub(crate) at: usize,
    /// Arguments for each field.
    pub(crate) width: usize,
    /// What they are.
    pub(crate) element: Element,
    /// The error for a bad number of them.
    pub(crate) bad_count: Option<CommandError>,
}

/// Reads FIELDS and everything before and behind it: what is not FIELDS goes to `option`, which says whether it is one.
///
/// # Errors
/// Those of `option`, and when FIELDS is missing or malformed. `unknown` makes the error for what is no option and stands before
/// FIELDS.
pub(crate) fn parse<'c>(
    args: Args<'c>,
    form: Form,
    unknown: impl Fn(&[u8]) -> CommandError,
    mut option: impl FnMut(Word<'c>, &mut Options<'c>) -> Result<bool, CommandError>,
) -> Result<Fields<'c>, CommandError> {
    let (mut options, mut fields) = (Options::after(args, form.at), None);
    let mut form = form;
    while let Some(word) = options.next() {
        if word.is(form.element.word())
            && let Some(bad_count) = form.bad_count.take()
        {
            fields = Some(Fields::read(args, &mut options, &form, bad_count)?);
        } else if !option(word, &mut options)? {
            // Behind the fields it is one too many.
            return Err(if fields.is_some() { form.element.mismatch() } else { unknown(word.0) });
        }
    }
    fields.ok_or_else(|| form.element.missing())
}

/// As [`parse`], for commands without options.
///
/// # Errors
/// When the words are no fields, or something follows them.
pub(crate) fn only_fields(args: Args<'_>, element: Element) -> Result<Fields<'_>, CommandError> {
    let bad_count = match element {
        Element::Field => errors::hash::FIELDS_NOT_POSITIVE,
        Element::Member => errors::sorted_set::MEMBERS_NOT_POSITIVE,
    };
    let form = Form { at: 2, width: 1, element, bad_count: Some(bad_count) };
    parse(args, form, |_| element.missing(), |_, _| Ok(false))
}

/// Conditions as EXPIRE has them, and what they are for: Redis takes one, Valkey also XX with GT or LT.
///
/// # Errors
/// Those of [`parse`].
pub(crate) fn conditional(args: Args<'_>, element: Element) -> Result<(Condition, Fields<'_>), CommandError> {
    let mut condition = Condition::default();
    let bad_count = match element {
        Element::Field => errors::hash::FIELDS_TO_EXPIRE_NOT_POSITIVE,
        Element::Member => errors::sorted_set::MEMBERS_NOT_POSITIVE,
    };
    let form = Form { at: 3, width: 1, element, bad_count: Some(bad_count) };
    let fields = parse(args, form, |_| element.missing(), |word, _| Ok(condition.take(word)))?;
    // Redis takes the second of them for a misplaced FIELDS.
    condition.check().map_err(|_| element.missing())?;
    Ok((condition, fields))
}

/// An element that does not exist, in answers.
pub(crate) const NO_ELEMENT: i64 = -2;
/// An element that does not expire.
pub(crate) const NO_EXPIRY: i64 = -1;

/// The expiry of an element as time since `base_ms`. Seconds are rounded up.
pub(crate) fn time_left(found: Option<Option<u64>>, base_ms: i64, unit: Unit) -> i64 {
    match found {
        None => NO_ELEMENT,
        Some(None) => NO_EXPIRY,
        Some(Some(due)) => {
            let left_ms = due.cast_signed().saturating_sub(base_ms).max(0);
            match unit {
                Unit::Seconds => (left_ms + 999) / 1000,
                Unit::Milliseconds => left_ms,
            }
        }
    }
}

/// The point in time that an argument says, in milliseconds since 1970; it may be past. `command` is the name in lower case, for
/// the error.
///
/// # Errors
/// When it is no integer, negative, or too far away.
pub(crate) fn due(expiry: Expiry<'_>, now_ms: i64, command: &str) -> Result<u64, CommandError> {
    let amount = number::integer(expiry.amount)?;
    if amount < 0 {
        return Err(errors::hash::EXPIRY_NEGATIVE);
    }
    let amount_ms = match expiry.unit {
        Unit::Seconds => amount.checked_mul(1000),
        Unit::Milliseconds => Some(amount),
    };
    let base_ms = if expiry.absolute { 0 } else { now_ms };
    let at_ms = amount_ms.and_then(|amount_ms| amount_ms.checked_add(base_ms)).filter(|at_ms| *at_ms <= EXPIRY_MS_MAX);
    at_ms.and_then(|at_ms| u64::try_from(at_ms).ok()).ok_or_else(|| errors::invalid_expiry(command))
}

#[cfg(test)]
mod tests {
    use super::*;
    use almandine_resp::ArgsBuf;

    fn parsed(line: &str, width: usize) -> Result<(String, String), CommandError> {
        let mut args = ArgsBuf::new();
        line.split(' ').for_each(|word| args.push(word.as_bytes()));
        let mut seen = String::new();
        let form = Form { at: 1, width, element: Element::Field, bad_count: Some(errors::hash::FIELDS_NOT_POSITIVE) };
        let fields = parse(args.as_args(), form, errors::hash::unknown_option, |word, options| {
            let known = word.is("NX") || word.is("EX");
            if known {
                seen += &String::from_utf8_lossy(word.0);
            }
            if word.is("EX") {
                seen += &String::from_utf8_lossy(options.value()?);
            }
            Ok(known)
        })?;
        Ok((String::from_utf8_lossy(&fields.iter().collect::<Vec<_>>().join(&b' ')).into_owned(), seen))
    }

    #[test]
    fn options_stand_on_either_side_of_the_fields() {
        let said = |fields: &str, options: &str| Ok((fields.to_owned(), options.to_owned()));
        assert_eq!(parsed("C FIELDS 2 a b", 1), said("a b", ""));
        assert_eq!(parsed("C NX fields 1 FIELDS", 1), said("FIELDS", "NX"));
        assert_eq!(parsed("C FIELDS 1 NX EX 10", 1), said("NX", "EX10"));
        assert_eq!(parsed("C EX 10 FIELDS 1 a b NX", 2), said("a b", "EX10NX"));
    }

    #[test]
    fn malformed_fields_are_errors() {
        for (line, error) in [
            ("C NX", errors::hash::FIELDS_MISSING),
            ("C FIELDS", errors::hash::FIELDS_MISMATCH),
            ("C FIELDS 0 a", errors::hash::FIELDS_NOT_POSITIVE),
            ("C FIELDS -1 a", errors::hash::FIELDS_NOT_POSITIVE),
            ("C FIELDS x a", errors::hash::FIELDS_NOT_POSITIVE),
            ("C FIELDS 2 a", errors::hash::FIELDS_MISMATCH),
            ("C FIELDS 9223372036854775807 a", errors::hash::FIELDS_MISMATCH),
            ("C FIELDS 1 a b", errors::hash::FIELDS_MISMATCH),
            ("C FIELDS 1 a FIELDS 1 b", errors::hash::FIELDS_MISMATCH),
            ("C what FIELDS 1 a", errors::hash::unknown_option(b"what")),
        ] {
            assert_eq!(parsed(line, 1).unwrap_err(), error, "{line}");
        }
        assert_eq!(parsed("C FIELDS 2 a b c", 2).unwrap_err(), errors::hash::FIELDS_MISMATCH);
    }

    #[test]
    fn times_are_scaled_and_checked() {
        let at = |amount: &str, unit, absolute| due(Expiry { amount: amount.as_bytes(), unit, absolute }, 1_000, "hexpire");
        assert_eq!(at("0", Unit::Seconds, false), Ok(1_000));
        assert_eq!(at("2", Unit::Seconds, false), Ok(3_000));
        assert_eq!(at("2", Unit::Milliseconds, true), Ok(2));
        assert_eq!(at("-1", Unit::Seconds, false), Err(errors::hash::EXPIRY_NEGATIVE));
        assert_eq!(at("70368744177663", Unit::Milliseconds, true), Ok(70_368_744_177_663));
        let too_far = Err(errors::invalid_expiry("hexpire"));
        assert_eq!(at("70368744177664", Unit::Milliseconds, true), too_far);
        assert_eq!(at("70368744177663", Unit::Milliseconds, false), too_far);
        assert_eq!(at("9223372036854775807", Unit::Seconds, true), too_far);
    }
}
