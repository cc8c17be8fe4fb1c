//! Files made here, checked and written anew.

use std::io::Read;

use almandine_config::{Config, Startup};
use almandine_keyspace::{Accessor, Keyspace, Options};
use almandine_rdb::file::{FileReader, WriteOptions, WriteVersion};

use super::*;
use crate::load::{Existing, LoadOptions, load};
use crate::save::{SaveProgress, SnapshotFile};

const FUTURE_MS: i64 = 4_102_444_800_123;

fn settings() -> ValueLimits {
    let Ok(Startup::Run(config)) = Config::load(&[]) else { panic!("the defaults are a configuration") };
    ValueLimits::of(&config.snapshot().settings)
}

fn string(text: &[u8]) -> Vec<u8> {
    let mut value = vec![almandine_rdb::types::STRING];
    almandine_rdb::write_string(text, &mut value);
    value
}

fn file(fill: impl FnOnce(&mut FileWriter<&mut Vec<u8>>)) -> Vec<u8> {
    let mut file = Vec::new();
    let write = WriteOptions { version: WriteVersion::Redis12, checksum: true, compression: true };
    let mut writer = FileWriter::new(&mut file, write);
    fill(&mut writer);
    writer.finish().unwrap();
    file
}

/// `keys` keys in three databases, and more.
fn many(keys: u64, more: impl FnOnce(&mut FileWriter<&mut Vec<u8>>)) -> Vec<u8> {
    file(|writer| {
        for key in 0..keys {
            if key % (keys / 3).max(1) == 0 {
                writer.database(key / (keys / 3).max(1), keys / 3, 0).unwrap();
            }
            writer.entry(format!("key:{key}").as_bytes(), &string(b"value"), EntryMetadata::default()).unwrap();
        }
        more(writer);
    })
}

fn verified(bytes: &[u8], memory_bytes: usize) -> Result<(Loaded, Passed), LoadError> {
    let options = PassOptions { read: ReadOptions::default(), databases: 16, memory_bytes };
    verify(Passes { open: &mut || Ok(bytes), options, proceed: &mut |_| true })
}

fn transcribed(bytes: &[u8], version: WriteVersion) -> Result<(Vec<u8>, Saved), TranscribeError> {
    let options = PassOptions { read: ReadOptions::default(), databases: 16, memory_bytes: 0 };
    let passes = Passes { open: &mut || Ok(bytes), options, proceed: &mut |_| true };
    let save = SaveOptions { version, ..SaveOptions::default() };
    transcribe_to(passes, Vec::new(), &save, &settings(), &mut |_, _| Ok(())).map(|(out, (_, saved))| (out, saved))
}

#[test]
fn a_key_that_is_there_twice_is_refused_however_little_memory_there_is() {
    let whole = many(9_000, |_| {});
    let (loaded, passed) = verified(&whole, 1 << 20).unwrap();
    assert_eq!((loaded.keys, passed.passes, passed.bytes), (9_000, 1, whole.len() as u64));
    let (_, passed) = verified(&whole, 0).unwrap();
    assert!((9..20).contains(&passed.passes), "{passed:?}");
    // In another database it is another key.
    let other = many(9_000, |writer| {
        writer.select(5).unwrap();
        writer.entry(b"key:1", &string(b"v"), EntryMetadata::default()).unwrap();
    });
    assert_eq!(verified(&other, 0).unwrap().0.keys, 9_001);
    let twice = many(9_000, |writer| {
        writer.select(1).unwrap();
        writer.entry(b"key:4000", &string(b"v"), EntryMetadata::default()).unwrap();
    });
    for memory_bytes in [0, 1 << 20] {
        let error = verified(&twice, memory_bytes).unwrap_err();
        assert!(matches!(&error.fault, LoadFault::Duplicate(key) if key == b"key:4000"), "{error}");
        assert!(error.offset as usize > whole.len() - 20 && error.offset < twice.len() as u64, "{error}");
    }
    assert!(matches!(transcribed(&twice, WriteVersion::Redis12), Err(TranscribeError::Load(_))));
}

#[test]
fn what_is_within_values_is_looked_at() {
    let refused = |value: &[u8]| {
        let bytes = file(|writer| writer.entry(b"k", value, EntryMetadata::default()).unwrap());
        verified(&bytes, 0).unwrap_err().to_string()
    };
    // A set of strings that has a member twice: where it ends is told all the same.
    let mut set = vec![almandine_rdb::types::SET, 2];
    (0..2).for_each(|_| almandine_rdb::write_string(b"member", &mut set));
    assert!(refused(&set).contains("malformed value"), "{}", refused(&set));
    let mut hash = vec![almandine_rdb::types::HASH_LISTPACK];
    almandine_rdb::write_string(b"no listpack", &mut hash);
    assert!(refused(&hash).contains("malformed value"), "{}", refused(&hash));
    let library = file(|writer| writer.function(b"return 1").unwrap());
    assert!(matches!(verified(&library, 0).unwrap_err().fault, LoadFault::Function));
}

/// As much as there is of it at a time.
struct Counted<'c> {
    bytes: &'c [u8],
    open: &'c std::cell::Cell<u32>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.bytes.read(buffer)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.open.set(self.open.get() - 1);
    }
}

#[test]
fn a_file_is_closed_before_it_is_read_again_and_the_caller_may_end_it() {
    let (bytes, open) = (many(3_000, |_| {}), std::cell::Cell::new(0));
    for last in [0, 1, 2, u32::MAX] {
        let options = PassOptions { read: ReadOptions::default(), databases: 16, memory_bytes: 0 };
        let mut again = || {
            open.set(open.get() + 1);
            assert_eq!(open.get(), 1);
            Ok(Counted { bytes: &bytes, open: &open })
        };
        let ended = verify(Passes { open: &mut again, options, proceed: &mut |passed| passed.passes < last });
        match ended {
            Ok(_) => assert_eq!(last, u32::MAX),
            Err(error) => assert!(matches!(error.fault, LoadFault::Stopped) && last != u32::MAX, "{error}"),
        }
    }
}

/// What a server makes of a file by loading and saving it, and what is written value by value, have the same contents.
#[test]
fn a_file_that_is_written_anew_has_what_saving_has() {
    let source = many(300, |writer| {
        writer.function(b"#!lua name=lib\nredis.register_function('f', f)").unwrap();
        writer.select(7).unwrap();
        let future = EntryMetadata { expiry_ms: Some(FUTURE_MS), frequency: Some(9), ..EntryMetadata::default() };
        writer.entry(b"future", &string(&[b'x'; 5_000]), future).unwrap();
        writer.entry(b"past", &string(b"v"), EntryMetadata { expiry_ms: Some(1), ..EntryMetadata::default() }).unwrap();
        for (name, count, size) in [("small", 5, 3), ("large", 900, 3), ("long", 5, 200)] {
            values(count, size).into_iter().for_each(|(kind, value)| {
                writer.entry(format!("{name}:{kind}").as_bytes(), &value, EntryMetadata::default()).unwrap();
            });
        }
    });
    for version in [WriteVersion::Redis10, WriteVersion::Redis11, WriteVersion::Redis12, WriteVersion::Valkey80] {
        let (bytes, saved) = transcribed(&source, version).unwrap();
        let by_state = saved_by_state(&source, version);
        let pairs = contents(&bytes).into_iter().zip(contents(&by_state));
        pairs.for_each(|(one, other)| assert_eq!(one, other, "{version:?}"));
        assert_eq!(saved.bytes, bytes.len() as u64);
        assert_eq!(saved.keys as usize, contents(&bytes).iter().filter(|item| item.starts_with("key ")).count());
        // Once more it is the same but for its moment.
        let (again, _) = transcribed(&bytes, version).unwrap();
        assert_eq!(contents(&again), contents(&bytes));
    }
}

/// A value of each type with `count` elements of `size` bytes or a little more, as a file has it.
fn values(count: usize, size: usize) -> Vec<(&'static str, Vec<u8>)> {
    use almandine_rdb::value::{hash, list, set, sorted_set};
    let texts: Vec<Vec<u8>> = (0..count).map(|number| format!("{number:0size$}x").into_bytes()).collect();
    let numbers: Vec<Vec<u8>> = (0..count).map(|number| number.to_string().into_bytes()).collect();
    let mut all = Vec::new();
    // Of those that expire a third is past its time: what is left has the same form.
    let mut add = |kind, write: &dyn Fn(&mut Vec<u8>)| {
        let mut value = Vec::new();
        write(&mut value);
        all.push((kind, value));
    };
    add("list", &|out| list::write(texts.iter().map(|text| &**text), almandine_datatypes::list::ListLimits::new(-2), out));
    for (kind, members) in [("set", &texts), ("numbers", &numbers)] {
        add(kind, &|out| _ = set::write(set::SetForm::Table, members.iter().map(|text| &**text), out));
    }
    let members = || texts.iter().enumerate().map(|(score, text)| (&**text, score as f64));
    add("sorted", &|out| _ = sorted_set::write(sorted_set::SortedSetForm::Table, members(), out));
    let dues = [None, Some(FUTURE_MS), Some(1)];
    for (kind, form, with_due) in [("hash", hash::HashForm::Table, false), ("dues", hash::HashForm::TableWithExpiries, true)] {
        let fields = texts.iter().enumerate().map(|(at, text)| (&**text, &b"v"[..], if with_due { dues[at % 3] } else { None }));
        add(kind, &|out| _ = hash::write(form, fields.clone(), out));
    }
    all
}

fn accessor() -> Accessor {
    let store = almandine_store::Options { background: false, ..Default::default() };
    Keyspace::open(Options { store, ..Options::default() }).unwrap().accessor().unwrap()
}

fn saved_by_state(source: &[u8], version: WriteVersion) -> Vec<u8> {
    let mut accessor = accessor();
    accessor.keyspace().settings().hold_expiry(true);
    let options =
        LoadOptions { limits: settings(), read: ReadOptions::default(), existing: Existing::Refuse, keep_expired: true, lanes: 1 };
    let loaded = load(&mut accessor, source, &options, &mut |_, _| true).unwrap();
    let save = SaveOptions { version, functions: loaded.functions, ..SaveOptions::default() };
    let file = SnapshotFile::begin_now(&mut accessor).unwrap();
    file.write_to(&mut accessor, Vec::new(), &save, &SaveProgress::default()).unwrap().0
}

/// What a file has, in an order of its own.
fn contents(bytes: &[u8]) -> Vec<String> {
    let mut reader = FileReader::open(bytes, ReadOptions::default()).unwrap();
    let (version, mut database, mut all) = (reader.version().number(), 0, Vec::new());
    while let Some(item) = reader.read_item().unwrap() {
        match item {
            Item::Database(number) => database = number,
            Item::Function(code) => all.push(format!("function {code:?}")),
            Item::Entry(entry) => {
                let value = AnyValue::read(entry.value_type, version, &mut { entry.value }).unwrap();
                let mut elements: Vec<String> = match &value {
                    AnyValue::Hash(of) => of.fields().map(|field| format!("{:?}", field.unwrap())).collect(),
                    AnyValue::Set(of) => of.members().map(|member| format!("{:?}", member.unwrap())).collect(),
                    AnyValue::SortedSet(of) => of.members().map(|member| format!("{:?}", member.unwrap())).collect(),
                    AnyValue::List(of) => vec![format!("{:?}", of.elements().map(Result::unwrap).collect::<Vec<_>>())],
                    other => vec![format!("{other:?}")],
                };
                elements.sort();
                let EntryMetadata { expiry_ms, .. } = entry.metadata;
                all.push(format!("key {database} {:?} of {}, {expiry_ms:?}: {elements:?}", entry.key, entry.value_type));
            }
            _ => {}
        }
    }
    all.sort();
    all
}
