//! Values as DUMP writes them: a type byte and the value as in a snapshot file, then a footer. A value is written in the oldest
//! form that can say all of it, with the oldest version whose readers know that form, so that as many servers as possible take it.
//!
//! A file for each type of collections.

mod hash;
mod list;
mod set;
mod sorted_set;
mod stream;

use almandine_config::Settings;
use almandine_handler::{CommandError, Stop, errors};
use almandine_keyspace::types::hash::Hashes;
use almandine_keyspace::types::list::Lists;
use almandine_keyspace::types::set::Sets;
use almandine_keyspace::types::sorted_set::SortedSets;
use almandine_keyspace::types::stream::Streams;
use almandine_keyspace::{Key, Kind, Put, Reader, Refusal, Writer};
use almandine_rdb::types;
use almandine_rdb::value::AnyValue;
use almandine_rdb::value::footer::{self, Leniency};
use almandine_recovery::put::{PutError, ValueLimits};

/// Bytes of a payload beside its value: the type byte and the footer.
pub const ENVELOPE_BYTES: usize = 11;

/// The payload of nothing: what FUNCTION DUMP answers without functions.
#[must_use]
pub fn nothing() -> Vec<u8> {
    let mut payload = Vec::new();
    footer::seal(&mut payload, footer::VERSION_REDIS_7_0);
    payload
}

/// Whether this is the payload of nothing.
///
/// # Errors
/// When its footer is wrong.
pub fn is_nothing(payload: &[u8]) -> Result<bool, CommandError> {
    let (content, _) = footer::open(payload).ok_or(errors::generic::DUMP_NOT_VERIFIED)?;
    Ok(content.is_empty())
}

/// The payload of a key's value. None: there is no such key.
///
/// # Errors
/// When the value is not in memory.
pub fn of_key(keys: &mut Reader<'_>, key: Key<'_>) -> Result<Option<Vec<u8>>, Stop> {
    // A key that becomes one of another type between two looks at it is looked at again.
    loop {
        match keys.metadata(key)?.map(|metadata| metadata.kind) {
            None => return Ok(None),
            Some(Kind::Hash) => match keys.read_whole_as::<Hashes, _>(key, hash::payload) {
                Err(Refusal::WrongKind) => {}
                payload => return Ok(payload?),
            },
            Some(Kind::List) => match keys.read_whole_as::<Lists, _>(key, list::payload) {
                Err(Refusal::WrongKind) => {}
                payload => return Ok(payload?),
            },
            Some(Kind::Set) => match keys.read_whole_as::<Sets, _>(key, set::payload) {
                Err(Refusal::WrongKind) => {}
                payload => return Ok(payload?),
            },
            Some(Kind::Stream) => match keys.read_whole_as::<Streams, _>(key, |stream| stream::payload((*stream)?)) {
                Err(Refusal::WrongKind) => {}
                payload => return Ok(payload?),
            },
            Some(Kind::SortedSet) => match keys.read_whole_as::<SortedSets, _>(key, sorted_set::payload) {
                Err(Refusal::WrongKind) => {}
                payload => return Ok(payload?),
            },
            Some(Kind::String) => match keys.read(key)? {
                Some(value) if value.kind() != Kind::String => {}
                value => return Ok(value.map(|value| of_string(&value))),
            },
        }
    }
}

fn of_string(value: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(value.len() + 32);
    payload.push(types::STRING);
    almandine_rdb::write_string(value, &mut payload);
    footer::seal(&mut payload, footer::VERSION_REDIS_7_0);
    payload
}

/// Reads a payload.
///
/// # Errors
/// When its footer or its content is wrong.
pub fn open(payload: &[u8]) -> Result<AnyValue<'_>, CommandError> {
    open_leniently(payload, Leniency::default())
}

/// As [`open`], with less asked of the footer.
///
/// # Errors
/// When what is asked of its footer, or its content, is wrong.
pub fn open_leniently(payload: &[u8], leniency: Leniency) -> Result<AnyValue<'_>, CommandError> {
    let (mut content, version) = footer::open_leniently(payload, leniency).ok_or(errors::generic::DUMP_NOT_VERIFIED)?;
    let Some(&value_type) = content.split_off_first() else { return Err(errors::generic::DUMP_MALFORMED) };
    AnyValue::read(value_type, version, &mut content).map_err(|_| errors::generic::DUMP_MALFORMED)
}

/// Bytes that reading a payload takes beside it: a compressed string may stand for many times its own.
#[must_use]
pub fn expanded_len(payload: &[u8]) -> usize {
    payload.split_first().filter(|(kind, _)| **kind == types::STRING).map_or(0, |(_, content)| almandine_rdb::expanded_len(content))
}

/// Makes the value of a payload that of a key, whatever it had. Elements past their time are left out; without any others the
/// key goes.
///
/// # Errors
/// When the payload is malformed, or the store is full; then nothing has changed.
pub fn put(keys: &mut Writer<'_>, key: Key<'_>, value: AnyValue<'_>, put: Put, settings: &Settings) -> Result<(), Stop> {
    match almandine_recovery::put::put(keys, key, value, put, &ValueLimits::of(settings)) {
        Ok(_) => Ok(()),
        Err(PutError::Malformed) => Err(errors::generic::DUMP_MALFORMED.into()),
        Err(PutError::Refused(refusal)) => Err(refusal.into()),
    }
}

/// The type of a value.
#[must_use]
pub fn kind(value: &AnyValue<'_>) -> Kind {
    match value {
        AnyValue::String(_) => Kind::String,
        AnyValue::Hash(_) => Kind::Hash,
        AnyValue::List(_) => Kind::List,
        AnyValue::Set(_) => Kind::Set,
        AnyValue::SortedSet(_) => Kind::SortedSet,
        AnyValue::Stream(_) => Kind::Stream,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(payload: &[u8]) -> Result<Vec<u8>, CommandError> {
        match open(payload)? {
            AnyValue::String(value) => Ok(value),
            _ => panic!("no string"),
        }
    }

    /// What redis-server 7.0 answers to DUMP of these values.
    #[test]
    fn payloads_are_those_of_redis() {
        assert_eq!(of_string(b"hello"), PAYLOAD_HELLO);
        assert_eq!(of_string(b"10"), PAYLOAD_10);
        for value in [&b"hello"[..], b"10", b"", b"-70000", &[b'x'; 100]] {
            assert_eq!(string(&of_string(value)).as_deref(), Ok(value));
        }
        assert_eq!(string(PAYLOAD_COMPRESSED), Ok(b"abc".repeat(60)));
    }

    const PAYLOAD_HELLO: &[u8] = b"\x00\x05hello\x0a\x00cr\xdfve4 \x0a";
    /// "abc" sixty times, compressed.
    const PAYLOAD_COMPRESSED: &[u8] = b"\x00\xc3\x0b@\xb4\x03abca\xe0\xa5\x02\x01bc\x0a\x00+[k\xacl&\xc3m";
    const PAYLOAD_10: &[u8] = b"\x00\xc0\x0a\x0a\x00n\x9fWE\x0e\xaec\xbb";

    #[test]
    fn any_flipped_bit_is_noticed() {
        let good = of_string(b"hello");
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(string(&bad), Err(errors::generic::DUMP_NOT_VERIFIED));
        }
        assert_eq!(string(b""), Err(errors::generic::DUMP_NOT_VERIFIED));
    }

    #[test]
    fn nothing_has_a_payload() {
        assert_eq!(is_nothing(&nothing()), Ok(true));
        assert_eq!(is_nothing(&of_string(b"")), Ok(false));
    }
}
