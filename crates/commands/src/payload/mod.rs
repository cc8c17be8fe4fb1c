//! Values as DUMP writes them: a type byte and the value as in a snapshot file, then a footer. A value is written in the oldest
//! form that can say all of it, with the oldest version whose readers know that form, so that as many servers as possible take it.

use almandine_config::Settings;
use almandine_handler::{CommandError, Stop, errors};
use almandine_keyspace::types::Stored;
use almandine_keyspace::{Key, Kind, Put, Reader, Refusal, Writer};
use almandine_rdb::types;
use almandine_rdb::value::AnyValue;
use almandine_rdb::value::footer::{self, Leniency};
use almandine_recovery::put::{PutError, ValueLimits};
use almandine_recovery::save::value::{self, Readers};

/// Bytes of a payload beside its value: the type byte and the footer.
pub const ENVELOPE_BYTES: usize = 11;

/// The payload of libraries of functions, by their texts.
pub fn of_libraries<'l>(texts: impl Iterator<Item = &'l [u8]>) -> Vec<u8> {
    let mut payload = Vec::new();
    for text in texts {
        payload.push(LIBRARY);
        almandine_rdb::write_string(text, &mut payload);
    }
    footer::seal(&mut payload, footer::VERSION_REDIS_7_0);
    payload
}

/// The texts of the libraries of a payload.
///
/// # Errors
/// When its footer is wrong, or it has something else.
pub fn open_libraries(payload: &[u8]) -> Result<Vec<Vec<u8>>, CommandError> {
    let (mut content, _) = footer::open(payload).ok_or(errors::generic::DUMP_NOT_VERIFIED)?;
    let mut texts = Vec::new();
    while let Some(&kind) = content.split_off_first() {
        if kind != LIBRARY {
            return Err(errors::script::NO_FUNCTIONS);
        }
        texts.push(almandine_rdb::read_string(&mut content).ok_or(errors::generic::DUMP_MALFORMED)?);
    }
    Ok(texts)
}

/// The byte before the text of a library.
const LIBRARY: u8 = 245;

/// The payload of a key's value. None: there is no such key.
///
/// # Errors
/// When the value is not in memory.
pub fn of_key(keys: &mut Reader<'_>, key: Key<'_>) -> Result<Option<Vec<u8>>, Stop> {
    let frozen = keys.freeze(key)?;
    Ok(frozen.stored().map(payload).transpose()?.flatten())
}

/// The payload of a value. None: nothing of it is left.
fn payload(value: Stored<'_>) -> Result<Option<Vec<u8>>, Refusal> {
    let mut payload = Vec::new();
    let version = value::write(value, Readers::Most, &mut payload)?;
    Ok(version.map(|version| {
        footer::seal(&mut payload, version);
        payload
    }))
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
    AnyValue::read(value_type, version, &mut content).map_err(|_| malformed(value_type))
}

/// The error for a payload that is no whole value, which the log has, too.
fn malformed(value_type: u8) -> CommandError {
    tracing::debug!("{} integrity check failed: a payload of type {value_type} is refused", types::form_name(value_type));
    errors::generic::DUMP_MALFORMED
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
    let is_of = kind(&value);
    match almandine_recovery::put::put(keys, key, value, put, &ValueLimits::of(settings)) {
        Ok(_) => Ok(()),
        Err(PutError::Malformed) => {
            tracing::debug!("{is_of:?} integrity check failed: its payload is refused");
            Err(errors::generic::DUMP_MALFORMED.into())
        }
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
    use almandine_keyspace::Body;

    fn of_string(bytes: &[u8]) -> Vec<u8> {
        payload(Stored { kind: Kind::String, body: Body::Bytes(bytes), now: 0 }).unwrap().unwrap()
    }

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
    fn libraries_go_through_a_payload() {
        let texts = [&b"#!lua name=a\n"[..], &[b'x'; 1000]];
        assert_eq!(open_libraries(&of_libraries(texts.into_iter())).unwrap(), texts);
        assert_eq!(open_libraries(&of_libraries(std::iter::empty())), Ok(Vec::new()));
        assert_eq!(open_libraries(PAYLOAD_HELLO), Err(errors::script::NO_FUNCTIONS));
        assert_eq!(open_libraries(b"garbage"), Err(errors::generic::DUMP_NOT_VERIFIED));
    }
}
