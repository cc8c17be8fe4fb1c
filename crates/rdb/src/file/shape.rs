//! Where a value ends: the strings, numbers and bytes that a type byte announces, without a look into them.

use crate::types;

/// Takes what it is told stands next.
pub(super) trait Steps {
    /// Why it cannot.
    type Fault;

    /// A number in as many bytes as lengths take.
    fn number(&mut self) -> Result<u64, Self::Fault>;
    /// A string.
    fn text(&mut self) -> Result<(), Self::Fault>;
    /// A byte.
    fn byte(&mut self) -> Result<u8, Self::Fault>;
    /// Bytes of fixed meaning.
    fn bytes(&mut self, len: u64) -> Result<(), Self::Fault>;
}

/// What a type byte begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A value.
    Value,
    /// A collection without elements, which is no value.
    Empty,
    /// No value that is known.
    Unknown,
}

/// Bytes of a stream entry's id.
const ID_BYTES: u64 = 16;
/// Bytes of a time, or of a score.
const WORD_BYTES: u64 = 8;
/// The first of the three bytes that stand for a score that is no number of digits.
const SCORE_NAN: u8 = 253;

/// Takes the steps of a value behind its type byte, in a file of this version.
pub(super) fn walk<S: Steps>(steps: &mut S, value_type: u8, version: u16) -> Result<Shape, S::Fault> {
    let is_valkey = version >= crate::value::footer::VERSION_VALKEY_9;
    match value_type {
        types::STRING
        | types::HASH_ZIPMAP
        | types::LIST_ZIPLIST
        | types::SET_INTSET
        | types::ZSET_ZIPLIST
        | types::HASH_ZIPLIST
        | types::HASH_LISTPACK
        | types::ZSET_LISTPACK
        | types::SET_LISTPACK => value(steps.text()),
        types::LIST | types::SET | types::LIST_QUICKLIST => counted(steps, S::text),
        types::LIST_QUICKLIST_2 => counted(steps, |steps| {
            steps.number()?;
            steps.text()
        }),
        types::HASH => counted(steps, pair),
        types::ZSET => counted(steps, |steps| {
            steps.text()?;
            match steps.byte()? {
                SCORE_NAN.. => Ok(()),
                len => steps.bytes(len.into()),
            }
        }),
        types::ZSET_2 => counted(steps, |steps| {
            steps.text()?;
            steps.bytes(WORD_BYTES)
        }),
        types::ZSET_EXPIRY => counted(steps, |steps| {
            steps.text()?;
            steps.bytes(2 * WORD_BYTES)
        }),
        types::HASH_VALKEY if is_valkey => counted(steps, |steps| {
            pair(steps)?;
            steps.bytes(WORD_BYTES)
        }),
        types::HASH_METADATA_CANDIDATE if !is_valkey => counted(steps, expiring_pair),
        types::HASH_LISTPACK_EX_CANDIDATE if !is_valkey => value(steps.text()),
        types::HASH_METADATA if !is_valkey => {
            steps.bytes(WORD_BYTES)?;
            counted(steps, expiring_pair)
        }
        types::HASH_LISTPACK_EX if !is_valkey => {
            steps.bytes(WORD_BYTES)?;
            value(steps.text())
        }
        types::STREAM_LISTPACKS | types::STREAM_LISTPACKS_2 | types::STREAM_LISTPACKS_3 => value(stream(steps, value_type)),
        types::STREAM_LISTPACKS_4 | types::STREAM_LISTPACKS_5 if !is_valkey => value(stream(steps, value_type)),
        _ => Ok(Shape::Unknown),
    }
}

/// Whether a value of this type has a shape in a file of this version.
pub(super) fn is_known(value_type: u8, version: u16) -> bool {
    // The shape of every type that is known begins with a step.
    walk(&mut FirstStep, value_type, version).is_err()
}

fn value<F>(walked: Result<(), F>) -> Result<Shape, F> {
    walked.map(|()| Shape::Value)
}

fn counted<S: Steps>(steps: &mut S, element: impl FnMut(&mut S) -> Result<(), S::Fault>) -> Result<Shape, S::Fault> {
    let count = repeated(steps, element)?;
    Ok(if count == 0 { Shape::Empty } else { Shape::Value })
}

/// A count, then that many elements.
fn repeated<S: Steps>(steps: &mut S, mut element: impl FnMut(&mut S) -> Result<(), S::Fault>) -> Result<u64, S::Fault> {
    let count = steps.number()?;
    (0..count).try_for_each(|_| element(steps)).map(|()| count)
}

fn pair<S: Steps>(steps: &mut S) -> Result<(), S::Fault> {
    steps.text()?;
    steps.text()
}

fn expiring_pair<S: Steps>(steps: &mut S) -> Result<(), S::Fault> {
    steps.number()?;
    pair(steps)
}

fn numbers<S: Steps, const N: usize>(steps: &mut S) -> Result<(), S::Fault> {
    (0..N).try_for_each(|_| steps.number().map(drop))
}

fn ids<S: Steps>(steps: &mut S) -> Result<(), S::Fault> {
    repeated(steps, |steps| steps.bytes(ID_BYTES)).map(drop)
}

fn stream<S: Steps>(steps: &mut S, value_type: u8) -> Result<(), S::Fault> {
    repeated(steps, pair)?;
    // Entries and the last id; then the first id, the highest deleted one and how many there ever were.
    numbers::<S, 3>(steps)?;
    if value_type >= types::STREAM_LISTPACKS_2 {
        numbers::<S, 5>(steps)?;
    }
    repeated(steps, |steps| group(steps, value_type))?;
    if value_type >= types::STREAM_LISTPACKS_4 {
        numbers::<S, 2>(steps)?;
        repeated(steps, |steps| {
            steps.text()?;
            repeated(steps, |steps| {
                steps.text()?;
                numbers::<S, 2>(steps)
            })
            .map(drop)
        })?;
        numbers::<S, 2>(steps)?;
    }
    Ok(())
}

fn group<S: Steps>(steps: &mut S, value_type: u8) -> Result<(), S::Fault> {
    steps.text()?;
    numbers::<S, 2>(steps)?;
    if value_type >= types::STREAM_LISTPACKS_2 {
        steps.number()?;
    }
    repeated(steps, |steps| {
        steps.bytes(ID_BYTES + WORD_BYTES)?;
        steps.number().map(drop)
    })?;
    repeated(steps, |steps| {
        steps.text()?;
        steps.bytes(if value_type >= types::STREAM_LISTPACKS_3 { 2 * WORD_BYTES } else { WORD_BYTES })?;
        ids(steps)
    })?;
    if value_type >= types::STREAM_LISTPACKS_5 {
        ids(steps)?;
    }
    Ok(())
}

/// Fails at the first step.
struct FirstStep;

impl Steps for FirstStep {
    type Fault = ();

    fn number(&mut self) -> Result<u64, ()> {
        Err(())
    }

    fn text(&mut self) -> Result<(), ()> {
        Err(())
    }

    fn byte(&mut self) -> Result<u8, ()> {
        Err(())
    }

    fn bytes(&mut self, _: u64) -> Result<(), ()> {
        Err(())
    }
}
