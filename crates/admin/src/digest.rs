//! Signatures of data, to compare two servers: 40 hexadecimal digits that do not depend on the order of keys. They are not those of
//! Redis.

use almandine_datatypes::stream::{Producers, StreamId, StreamObject};
use almandine_datatypes::string::digest;
use almandine_handler::Stop;
use almandine_keyspace::types::hash::{Hash, Hashes};
use almandine_keyspace::types::list::{List, Lists};
use almandine_keyspace::types::set::{Set, Sets};
use almandine_keyspace::types::sorted_set::{SortedSet, SortedSets};
use almandine_keyspace::types::stream::Streams;
use almandine_keyspace::{Accessor, Key, Kind, Reader, Refusal};

/// Keys asked for in one step of a scan.
const STEP: usize = 256;

/// 160 bits, in whole words.
type Signature = [u64; 3];

/// The signature of all keys of the first `databases` databases.
///
/// # Errors
/// When a value is not in memory.
pub(super) fn of_databases(accessor: &mut Accessor, databases: u16) -> Result<String, Stop> {
    let (mut sum, mut whole) = (Signature::default(), Ok(()));
    for db in 0..databases {
        let mut cursor = 0;
        loop {
            let mut keys: Vec<(Vec<u8>, bool)> = Vec::with_capacity(STEP);
            let mut reader = accessor.reader(db);
            let scanned = reader.scan(cursor, STEP, &mut |key, metadata| keys.push((key.to_vec(), metadata.expiry_ms.is_some())));
            cursor = scanned.cursor;
            // All of them, so that those on the device are read together.
            whole = whole.and(scanned.whole.map_err(Stop::from));
            for (bytes, expires) in &keys {
                let key = reader.key(bytes);
                match content(&mut reader, key) {
                    Ok(Some(content)) => {
                        let marks = [db.to_le_bytes(), [u8::from(*expires), 0]].concat();
                        add(&mut sum, &signature(&[&marks, bytes, &content]));
                    }
                    content => whole = whole.and(content.map(drop)),
                }
            }
            if cursor == 0 {
                break;
            }
        }
    }
    whole.map(|()| hex(&sum))
}

/// The signature of one key's value; zeroes when there is none.
///
/// # Errors
/// When the value is not in memory.
pub(super) fn of_value(accessor: &mut Accessor, db: u16, key: &[u8]) -> Result<String, Stop> {
    let mut reader = accessor.reader(db);
    let key = reader.key(key);
    let content = content(&mut reader, key)?;
    Ok(hex(&content.map(|content| signature(&[&content])).unwrap_or_default()))
}

/// A value as bytes that do not depend on how it is stored.
fn content(keys: &mut Reader<'_>, key: Key<'_>) -> Result<Option<Vec<u8>>, Stop> {
    // A key that becomes one of another type between two looks at it is looked at again.
    loop {
        match keys.metadata(key)?.map(|metadata| metadata.kind) {
            None => return Ok(None),
            Some(Kind::Hash) => match keys.read_whole_as::<Hashes, _>(key, of_hash) {
                Err(Refusal::WrongKind) => {}
                content => return Ok(content?),
            },
            Some(Kind::List) => match keys.read_whole_as::<Lists, _>(key, of_list) {
                Err(Refusal::WrongKind) => {}
                content => return Ok(content?),
            },
            Some(Kind::Set) => match keys.read_whole_as::<Sets, _>(key, of_set) {
                Err(Refusal::WrongKind) => {}
                content => return Ok(content?),
            },
            Some(Kind::SortedSet) => match keys.read_whole_as::<SortedSets, _>(key, of_sorted_set) {
                Err(Refusal::WrongKind) => {}
                content => return Ok(content?),
            },
            Some(Kind::Stream) => match keys.read_whole_as::<Streams, _>(key, |stream| of_stream((*stream)?)) {
                Err(Refusal::WrongKind) => {}
                content => return Ok(content?),
            },
            Some(_) => return Ok(keys.read(key)?.map(|value| [value.kind().name().as_bytes(), b":", &value].concat())),
        }
    }
}

/// The order of fields does not matter.
fn of_hash(hash: &Hash<'_>) -> Result<Vec<u8>, Refusal> {
    let mut sum = Signature::default();
    for entry in hash.try_iter() {
        let entry = entry?;
        add(&mut sum, &signature(&[entry.field, entry.value, &entry.due.unwrap_or(0).to_le_bytes()]));
    }
    Ok([Kind::Hash.name().as_bytes(), b":", hex(&sum).as_bytes()].concat())
}

/// The order of elements matters.
fn of_list(list: &List<'_>) -> Result<Vec<u8>, Refusal> {
    let mut sum = Signature::default();
    for element in list.try_iter() {
        sum = signature(&[hex(&sum).as_bytes(), &element?]);
    }
    Ok([Kind::List.name().as_bytes(), b":", hex(&sum).as_bytes()].concat())
}

/// The order of members does not matter.
fn of_set(set: &Set<'_>) -> Result<Vec<u8>, Refusal> {
    let mut sum = Signature::default();
    for member in set.try_iter() {
        add(&mut sum, &signature(&[&member?]));
    }
    Ok([Kind::Set.name().as_bytes(), b":", hex(&sum).as_bytes()].concat())
}

/// The order of members follows from their scores; of both zeroes it is the same.
fn of_sorted_set(set: &SortedSet<'_>) -> Result<Vec<u8>, Refusal> {
    let mut sum = Signature::default();
    for entry in set.iter() {
        let entry = entry?;
        let score = (entry.score + 0.0).to_bits().to_le_bytes();
        add(&mut sum, &signature(&[entry.member, &score, &entry.due.unwrap_or(0).to_le_bytes()]));
    }
    Ok([Kind::SortedSet.name().as_bytes(), b":", hex(&sum).as_bytes()].concat())
}

/// Entries, and groups with what is pending; not what is told of nodes.
fn of_stream(stream: &StreamObject) -> Result<Vec<u8>, Refusal> {
    let mut sum = Signature::default();
    let known = |number: Option<u64>| number.map_or(-1i128, i128::from).to_le_bytes();
    for entry in stream.entries().range(StreamId::MIN, StreamId::MAX)? {
        let entry = entry?;
        let (id, mut parts) = (entry.id.text(), Vec::with_capacity(1 + 2 * entry.fields.len()));
        parts.push(&*id);
        entry.fields.for_each(|(name, value)| parts.extend_from_slice(&[name, value]));
        add(&mut sum, &signature(&parts));
    }
    let ends =
        [&stream.last_id().text()[..], &stream.max_deleted().text(), &stream.entries_added().to_le_bytes()].map(<[u8]>::to_vec);
    add(&mut sum, &signature(&[&ends[0], &ends[1], &ends[2]]));
    for group in stream.groups().iter() {
        let name = group.name();
        add(&mut sum, &signature(&[name, &group.last_id().text(), &known(group.entries_read())]));
        for (_, consumer) in group.consumers() {
            add(&mut sum, &signature(&[name, &consumer.name, &consumer.seen.to_le_bytes(), &known(consumer.active)]));
        }
        for pending in group.pending_from(StreamId::MIN) {
            let pending = pending?;
            let owner = group.consumer(pending.owner).map_or(&[][..], |consumer| &consumer.name);
            let (time, count) = (pending.time.to_le_bytes(), pending.count.to_le_bytes());
            add(&mut sum, &signature(&[name, &pending.id.text(), owner, &time, &count]));
        }
    }
    for (name, ids) in stream.producers().into_iter().flat_map(Producers::iter) {
        ids.for_each(|(iid, id)| add(&mut sum, &signature(&[name, iid, &id.text()])));
    }
    Ok([Kind::Stream.name().as_bytes(), b":", hex(&sum).as_bytes()].concat())
}

/// Each part with its length, so that what belongs to one is not taken for the other.
fn signature(parts: &[&[u8]]) -> Signature {
    let mut bytes = vec![0];
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    [1, 2, 3].map(|lane| {
        bytes[0] = lane;
        let digits = digest::hex(&bytes);
        digits.iter().fold(0, |word, digit| word << 4 | u64::from(char::from(*digit).to_digit(16).unwrap_or(0)))
    })
}

fn add(sum: &mut Signature, signature: &Signature) {
    sum.iter_mut().zip(signature).for_each(|(sum, word)| *sum ^= word);
}

fn hex(signature: &Signature) -> String {
    let [first, second, third] = signature;
    format!("{first:016x}{second:016x}{:08x}", third >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(signature(&[b"ab", b"c"]), signature(&[b"a", b"bc"]));
        assert_eq!(hex(&Signature::default()), "0".repeat(40));
        assert_eq!(hex(&signature(&[b"x"])).len(), 40);
    }
}
