//! Streams in payloads: what redis-server dumps and restores, and the forms that it does not know.

#[path = "../../datatypes/tests/oracle/mod.rs"]
mod oracle;

use almandine_base::object::Object;
use almandine_datatypes::stream::{NodeLimits, Pending, ProducerLimits, StreamId, StreamObject, UNOWNED};
use almandine_rdb::file::{EntryMetadata, FileReader, FileWriter, Item, ReadOptions, WriteOptions, WriteVersion};
use almandine_rdb::types;
use almandine_rdb::value::footer;
use almandine_rdb::value::stream::{self, StreamForm};
use oracle::{Oracle, Random, Reply};

type Words = Vec<Vec<u8>>;

fn words(text: &str) -> Words {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn read(payload: &[u8]) -> StreamObject {
    let (mut content, _) = footer::open(payload).expect("a payload");
    let value_type = *content.split_off_first().expect("a type");
    assert!(stream::is_type(value_type));
    let stream = stream::read(value_type, &mut content).expect("a stream");
    assert!(content.is_empty());
    stream.check();
    stream
}

fn written(stream: &StreamObject) -> (StreamForm, Vec<u8>) {
    let mut payload = Vec::new();
    let form = stream::write(stream, &mut payload).expect("all is in memory");
    assert_eq!(payload[0], form.value_type());
    footer::seal(&mut payload, form.version());
    (form, payload)
}

/// All that a server tells of a stream, but times that pass.
fn told(oracle: &mut Oracle, key: &[u8]) -> Reply {
    oracle.ask(&[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"])
}

fn any_value(random: &mut Random) -> Vec<u8> {
    match random.below(5) {
        0 => random.text(200, b"ab"),
        1 => (random.next() as i64 >> random.below(64)).to_string().into_bytes(),
        2 => random.below(10).to_string().into_bytes(),
        _ => random.text(12, b"xyz0"),
    }
}

/// An XADD and the same for ours.
fn add(random: &mut Random, commands: &mut Vec<Words>, ours: &mut StreamObject, limits: NodeLimits) {
    let last = ours.last_id();
    let id = match random.below(3) {
        0 => StreamId::new(last.ms + 1 + random.below(100_000), random.below(3)),
        _ => StreamId::new(last.ms, last.seq + 1 + random.below(2)),
    };
    let names = random.of(&["name 12 other", "name 12 other", "name"]);
    let pairs: Vec<(Vec<u8>, Vec<u8>)> = words(names).into_iter().map(|name| (name, any_value(random))).collect();
    let mut command = words(&format!("XADD s {}-{}", id.ms, id.seq));
    command.extend(pairs.iter().flat_map(|(name, value)| [name.clone(), value.clone()]));
    commands.push(command);
    ours.append(id, pairs.iter().map(|(name, value)| (&name[..], &value[..])), limits);
}

/// Nodes are those of redis-server, byte for byte, and so is the payload.
#[test]
fn the_same_nodes_as_redis() {
    let mut oracle = Oracle::start();
    oracle.ask(&[b"CONFIG", b"SET", b"rdbcompression", b"no"]);
    for seed in 0..30u64 {
        let mut random = Random(seed);
        let limits = NodeLimits { bytes: random.of(&[4096, 4096, 300, 1000]), entries: random.of(&[100, 100, 3, 0]) };
        let mut commands = vec![
            words("DEL s"),
            words(&format!("CONFIG SET stream-node-max-bytes {} stream-node-max-entries {}", limits.bytes, limits.entries)),
        ];
        let mut ours = StreamObject::new();
        (0..random.of(&[1, 20, 600])).for_each(|_| add(&mut random, &mut commands, &mut ours, limits));
        commands.push(words("XGROUP CREATE s g 0"));
        commands.push(words("XGROUP CREATE s 12 $"));
        let last_id = ours.last_id();
        ours.groups_mut().create(b"g", StreamId::MIN, Some(0));
        ours.groups_mut().create(b"12", last_id, None);
        let replies = oracle.ask_all(&commands);
        assert!(replies.iter().all(|reply| !matches!(reply, Reply::Error(_))), "{replies:?}");
        let theirs = oracle.ask(&[b"DUMP", b"s"]);
        ours.groups_mut().change(0, |group| group.set_read(last_id, None));
        ours.groups_mut().change(1, |group| group.set_read(StreamId::MIN, None));
        let (form, payload) = written(&ours);
        assert_eq!(form, StreamForm::Plain);
        assert_eq!(theirs.text(), payload, "seed {seed}");
        assert_eq!(written(&read(&payload)).1, payload);
        // With gaps, too, nodes begin where redis-server's do.
        let mut commands = Vec::new();
        for _ in 0..200 {
            let all: Vec<StreamId> =
                ours.entries().range(StreamId::MIN, StreamId::MAX).expect("all").map(|entry| entry.expect("all").id).collect();
            if random.below(2) == 0 && !all.is_empty() {
                let id = random.of(&all[all.len() - all.len().min(5)..]);
                commands.push(words(&format!("XDEL s {}-{}", id.ms, id.seq)));
                assert!(ours.remove(id).expect("all is in memory"));
            } else {
                add(&mut random, &mut commands, &mut ours, limits);
            }
        }
        oracle.ask_all(&commands);
        let nodes = oracle.ask(&[b"XINFO", b"STREAM", b"s"]).array()[3].integer();
        assert_eq!(nodes, ours.entries().radix_tree().expect("all is in memory").0 as i64, "seed {seed}");
    }
}

/// A stream with groups, built by redis-server, is the same after it went through ours.
#[test]
fn what_redis_dumps_comes_back_to_it() {
    let mut oracle = Oracle::start();
    for seed in 0..20u64 {
        let (mut random, mut commands, mut ours) = (Random(seed), vec![words("DEL s t")], StreamObject::new());
        let limits = NodeLimits { bytes: 4096, entries: 100 };
        (0..300).for_each(|_| add(&mut random, &mut commands, &mut ours, limits));
        commands.extend(["XGROUP CREATE s g 0", "XGROUP CREATE s h 0", "XGROUP CREATE s 77 $"].map(words));
        for _ in 0..100 {
            let (group, consumer) = (random.of(&["g", "h", "77"]), random.of(&["alice", "bob", "123"]));
            commands.push(match random.below(4) {
                0 => words(&format!("XDEL s {}", random.below(300_000))),
                1 => words(&format!("XTRIM s MAXLEN ~ {}", 100 + random.below(200))),
                2 => words(&format!("XGROUP CREATECONSUMER s {group} {consumer}")),
                _ => words(&format!("XREADGROUP GROUP {group} {consumer} COUNT {} STREAMS s >", 1 + random.below(9))),
            });
        }
        let replies = oracle.ask_all(&commands);
        assert!(replies.iter().all(|reply| !matches!(reply, Reply::Error(_))), "{replies:?}");
        let theirs = oracle.ask(&[b"DUMP", b"s"]);
        let (form, payload) = written(&read(theirs.text()));
        assert_eq!(form, StreamForm::Plain);
        assert_eq!(oracle.ask(&[b"RESTORE", b"t", b"0", &payload]), Reply::Text(b"OK".to_vec()));
        assert_eq!(told(&mut oracle, b"t"), told(&mut oracle, b"s"), "seed {seed}");
    }
}

fn with_everything() -> StreamObject {
    let mut stream = StreamObject::new();
    let limits = NodeLimits { bytes: 4096, entries: 10 };
    (1..=30).for_each(|ms| stream.append(StreamId::new(ms, 3), [(&b"f"[..], &b"v"[..])].into_iter(), limits));
    stream.groups_mut().create(b"g", StreamId::MIN, Some(0));
    let (number, _) = stream.groups_mut().change(0, |group| group.ensure_consumer(b"c", 5)).expect("a group");
    stream.groups_mut().change(0, |group| group.touch(number, 9, Some(7))).expect("a group");
    stream.groups_mut().change(0, |group| group.ensure_consumer(b"idle", 6)).expect("a group");
    stream.deliver(0, Some(number), (12, 11), &mut |_| ()).expect("all is in memory");
    stream
}

fn same(one: &StreamObject, other: &StreamObject) -> bool {
    let image = |stream: &StreamObject| {
        let mut out = Vec::new();
        stream.write_part(Default::default(), usize::MAX, &mut out).expect("all is in memory");
        out
    };
    image(one) == image(other)
}

/// The stream of a key in a file whose strings are compressed.
fn through_a_file(value: &[u8]) -> StreamObject {
    let options = WriteOptions { version: WriteVersion::Redis12, checksum: true, compression: true };
    let mut writer = FileWriter::new(Vec::new(), options);
    writer.entry(b"k", value, EntryMetadata::default()).expect("memory");
    let file = writer.finish().expect("memory");
    let mut reader = FileReader::open(&file[..], ReadOptions::default()).expect("a file");
    let Ok(Some(Item::Entry(entry))) = reader.read_item() else { panic!("no key") };
    let mut input = entry.value;
    let stream = stream::read(entry.value_type, &mut input).expect("a stream");
    assert!(input.is_empty(), "the value ends where its shape does");
    assert!(reader.read_item().expect("an end").is_none());
    stream
}

/// Redis 7.0 knows no times of consumers' activity.
#[test]
fn redis_7_0_restores_streams_without_activity() {
    let mut payload = Vec::new();
    let form = stream::write_without_activity(&with_everything(), &mut payload).expect("all is in memory");
    assert_eq!((form, payload[0]), (StreamForm::Plain, types::STREAM_LISTPACKS_2));
    footer::seal(&mut payload, form.version());
    let mut oracle = Oracle::start();
    assert_eq!(oracle.ask(&[b"RESTORE", b"k", b"0", &payload]), Reply::Text(b"OK".to_vec()));
    assert_eq!(oracle.ask(&[b"XLEN", b"k"]), Reply::Integer(30));
}

#[test]
fn younger_forms() {
    let mut stream = with_everything();
    for (expected, value_type, version) in [
        (StreamForm::Active, types::STREAM_LISTPACKS_3, 11),
        (StreamForm::Producers, types::STREAM_LISTPACKS_4, 13),
        (StreamForm::Released, types::STREAM_LISTPACKS_5, 13),
    ] {
        if expected == StreamForm::Producers {
            stream.producers_mut().configure(ProducerLimits { seconds: 7, ids: 2 });
            ["1", "a", "b"].iter().for_each(|iid| stream.producers_mut().put(b"p", iid.as_bytes(), StreamId::new(1, 2), true));
            stream.producers_mut().count_duplicate();
        } else if expected == StreamForm::Released {
            stream
                .groups_mut()
                .change(0, |group| group.pend(Pending { id: StreamId::new(3, 3), time: 0, count: u64::MAX >> 1, owner: UNOWNED }))
                .unwrap()
                .expect("memory");
        }
        let (form, payload) = written(&stream);
        assert_eq!((form, form.value_type(), form.version()), (expected, value_type, version));
        assert!(same(&read(&payload), &stream), "{form:?}");
        assert!(same(&through_a_file(&payload[..payload.len() - 10]), &stream), "{form:?}");
        for len in 0..payload.len() - 10 {
            let mut content = &payload[1..len.max(1)];
            assert!(stream::read(value_type, &mut content).is_err(), "{len} bytes");
        }
    }
}

/// StreamForm 15, of Redis 6.2: what was not written then is reckoned.
#[test]
fn an_older_form() {
    let mut stream = with_everything();
    stream.groups_mut().remove(b"g");
    let (_, payload) = written(&stream);
    let content = &payload[1..payload.len() - 10];
    // The first id, the highest deleted one, entries added and groups: each a byte.
    let mut older = content[..content.len() - 6].to_vec();
    // A group at the last id without anything.
    older.extend_from_slice(&[1, 1, b'g', 30, 3, 0, 0]);
    let read = stream::read(types::STREAM_LISTPACKS, &mut &older[..]).expect("a stream");
    assert_eq!((read.len(), read.entries_added(), read.max_deleted()), (30, 30, StreamId::MIN));
    assert_eq!(read.groups().get(b"g").expect("a group").entries_read(), Some(30));
}

/// Bytes that were changed give an error or a stream that is sound.
#[test]
fn damage() {
    let (_, payload) = written(&with_everything());
    let mut random = Random(3);
    for _ in 0..20_000 {
        let mut content = payload[1..payload.len() - 10].to_vec();
        for _ in 0..1 + random.below(3) {
            let at = random.below(content.len() as u64) as usize;
            content[at] = random.next() as u8;
        }
        let mut input = &content[..];
        if let Ok(stream) = stream::read(payload[0], &mut input) {
            stream.check();
        }
    }
}
