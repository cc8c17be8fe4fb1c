//! All that a file says, in a form that can be compared.

use std::collections::BTreeMap;
use std::io::{self, Read};

use almandine_rdb::file::{Entry, FileError, FileReader, Item, ReadOptions};
use almandine_rdb::value::AnyValue;

/// A key's value, and what is said of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    pub(crate) value: String,
    pub(crate) expiry_ms: Option<i64>,
    pub(crate) idle_s: Option<u64>,
    pub(crate) frequency: Option<u8>,
}

/// A whole file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Contents {
    pub(crate) version: u16,
    pub(crate) aux: BTreeMap<String, String>,
    pub(crate) functions: Vec<String>,
    pub(crate) keys: BTreeMap<(u64, String), Key>,
    /// Databases with their announced sizes, and all other items.
    pub(crate) items: Vec<String>,
}

/// Reads a file to its end; values that are malformed are errors, too.
pub(crate) fn read(input: impl Read, options: ReadOptions) -> Result<Contents, FileError> {
    let mut reader = FileReader::open(input, options)?;
    let version = reader.version().number();
    let (mut contents, mut database) = (Contents { version, ..Contents::default() }, 0);
    while let Some(item) = reader.read_item()? {
        match item {
            Item::Aux { name, value } => {
                contents.aux.insert(text(&name), text(&value));
            }
            Item::Function(code) => contents.functions.push(text(&code)),
            Item::Database(number) => database = number,
            Item::Sizes { keys, expiring } => contents.items.push(format!("{database}: {keys}, {expiring}")),
            Item::Entry(entry) => {
                let value = value(&entry, version).ok_or_else(|| entry.malformed())?;
                let metadata = entry.metadata;
                let key = Key { value, expiry_ms: metadata.expiry_ms, idle_s: metadata.idle_s, frequency: metadata.frequency };
                contents.keys.insert((database, text(&entry.key)), key);
            }
            other => contents.items.push(format!("{other:?}")),
        }
    }
    assert!(reader.read_item().is_ok_and(|item| item.is_none()), "behind the end is nothing");
    Ok(contents)
}

/// As [`read`], from bytes that come a few at a time.
pub(crate) fn read_bytes(bytes: &[u8]) -> Result<Contents, FileError> {
    read(Trickle { bytes, step: 0 }, ReadOptions::default())
}

struct Trickle<'b> {
    bytes: &'b [u8],
    step: usize,
}

impl Read for Trickle<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.step = (self.step + 1) % 7;
        if self.step == 3 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let len = self.bytes.len().min(out.len()).min(1 << self.step);
        let (now, later) = self.bytes.split_at(len);
        out[..len].copy_from_slice(now);
        self.bytes = later;
        Ok(len)
    }
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn value(entry: &Entry<'_>, version: u16) -> Option<String> {
    let mut input = entry.value;
    let value = AnyValue::read(entry.value_type, version, &mut input).ok().filter(|_| input.is_empty())?;
    Some(match value {
        AnyValue::String(string) => text(&string),
        AnyValue::List(list) => {
            let elements: Result<Vec<String>, _> = list.elements().map(|element| element.map(|text_| text(&text_))).collect();
            format!("list {:?}", elements.ok()?)
        }
        AnyValue::Set(set) => {
            let members: Result<Vec<String>, _> = set.members().map(|member| member.map(|text_| text(&text_))).collect();
            let mut members = members.ok()?;
            members.sort();
            format!("set {members:?}")
        }
        AnyValue::Hash(hash) => {
            let fields: Result<BTreeMap<String, _>, _> =
                hash.fields().map(|field| field.map(|field| (text(&field.name), (text(&field.value), field.expiry_ms)))).collect();
            format!("hash {:?}", fields.ok()?)
        }
        AnyValue::SortedSet(set) => {
            let members: Result<BTreeMap<String, _>, _> =
                set.members().map(|member| member.map(|member| (text(&member.name), (member.score, member.expiry_ms)))).collect();
            format!("sorted set {:?}", members.ok()?)
        }
        AnyValue::Stream(stream) => {
            let mut written = Vec::new();
            almandine_rdb::value::stream::write(&stream, &mut written).ok()?;
            format!("stream {}", written.escape_ascii())
        }
    })
}
