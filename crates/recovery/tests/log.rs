//! What clients do goes through rings, the writer and files into another keyspace, over several runs, with databases that are
//! emptied and swapped: it is the same there.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use almandine_io::mapping;
use almandine_keyspace::{Accessor, Keyspace, Kind, Options, Put, Slot};
use almandine_oplog::RingOptions;
use almandine_oplog::append::{Appender, LogOptions};
use almandine_oplog::directory::Directory;
use almandine_oplog::manifest::RingsEntry;
use almandine_oplog::read::{LogEnd, read};
use almandine_oplog::remains::Remains;
use almandine_oplog::writer::{LogListener, LogProgress, LogState, LogWriter, SyncMode, WriterOptions};
use almandine_recovery::redo::{LogLanes, Redo};

const DATABASES: u16 = 3;
const KEYS: u64 = 40;
const BOOT: u128 = 1;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("almandine-redo-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Silent;

impl LogListener for Silent {
    fn advanced(&self) {}

    fn changed(&self, _state: LogState) {}
}

type Model = BTreeMap<(u16, Vec<u8>), Vec<u8>>;

/// A server that has recovered and serves.
struct Server {
    keyspace: Arc<Keyspace>,
    accessor: Accessor,
    writer: LogWriter,
}

impl Server {
    fn start(folder: &Folder, mode: SyncMode) -> Self {
        Self::start_with(folder, mode, 2)
    }

    /// Recovers by this number of lanes.
    fn start_with(folder: &Folder, mode: SyncMode, lanes: usize) -> Self {
        let store = almandine_store::Options { background: false, ..Default::default() };
        let keyspace = Keyspace::open(Options { databases: DATABASES.into(), store, ..Options::default() }).unwrap();
        let mut accessor = keyspace.accessor().unwrap();
        let directory = Directory::take(&folder.0).unwrap();
        let manifest = directory.manifest().unwrap();
        let mut redo = Redo::new((0..DATABASES).map(|db| keyspace.log().contents(db)).collect());
        let mut lanes = LogLanes::start(&mut accessor, lanes);
        let end: LogEnd = read(&folder.0, &manifest, 0, &mut |group| {
            redo.group(&mut lanes, group).unwrap_or_else(|fault| panic!("{fault}"));
            Ok(())
        })
        .unwrap();
        assert_eq!(redo.done().units, end.units);
        let remains = Remains::find((&folder.0, &manifest), BOOT, &end).unwrap();
        redo.left(&mut lanes, &remains.left, &end).unwrap();
        lanes.end().unwrap();
        let options = LogOptions { segment_bytes: 64 << 10, ..LogOptions::default() };
        let mut log = Appender::begin(directory, manifest, &end, &options, &remains.left, Box::new(|| {})).unwrap();
        remains.remove().unwrap();
        let ring_directory = folder.0.join("rings");
        mapping::prepare_directory(&ring_directory).unwrap();
        let rings = RingOptions {
            directory: Some(ring_directory.clone()),
            // What a client does in a run has room, so no unit ends with the process.
            bytes: 8 << 20,
            log: log.manifest().id,
            run: log.manifest().run,
            boot: BOOT,
            first_epoch: redo.epoch().max(end.epoch) + 1,
        };
        let source = keyspace.log().install(rings, redo.next_contents()).unwrap();
        let count = u32::try_from(keyspace.log().rings().unwrap().names().len()).unwrap();
        let run = log.manifest().run;
        log.name_rings(Some(RingsEntry { run, boot: BOOT, count, place: ring_directory })).unwrap();
        redo.databases().iter().zip(0..).for_each(|(contents, db)| keyspace.log().adopt(db, *contents));
        let options = WriterOptions { mode, rings_survive: true };
        let progress = Arc::new(LogProgress::default());
        let writer = LogWriter::start(log, Box::new(source), options, Box::new(Silent), progress).unwrap();
        keyspace.log().turn(true).unwrap();
        Self { keyspace, accessor, writer }
    }

    /// The value of each key.
    fn found(&mut self) -> Model {
        let mut found = Model::new();
        self.accessor.begin_batch(1);
        for (db, key) in (0..DATABASES).flat_map(|db| (0..KEYS).map(move |key| (db, key))) {
            let name = format!("key:{key}").into_bytes();
            let mut reader = self.accessor.reader(db);
            let key = reader.key(&name);
            if let Some(value) = reader.read(key).unwrap() {
                found.insert((db, name), value.to_vec());
            }
        }
        self.accessor.end_batch();
        found
    }

    /// One command, and what it does to the model.
    fn act(&mut self, random: &mut u64, model: &mut Model) {
        let mut below = |limit: u64| {
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*random >> 33) % limit
        };
        let (db, name) = ((below(u64::from(DATABASES))) as u16, format!("key:{}", below(KEYS)).into_bytes());
        match below(60) {
            0 => {
                self.accessor.begin_batch(1);
                self.accessor.flush(&[db]);
                self.accessor.end_batch();
                model.retain(|(of, _), _| *of != db);
            }
            1 => {
                let other = below(u64::from(DATABASES)) as u16;
                self.accessor.begin_batch(1);
                self.accessor.swap(db, other);
                self.accessor.end_batch();
                let places = std::mem::take(model).into_iter().map(|((of, name), value)| {
                    let to = if of == db {
                        other
                    } else if of == other {
                        db
                    } else {
                        of
                    };
                    ((to, name), value)
                });
                *model = places.collect();
            }
            what => {
                let value = vec![what as u8; [3, 200, 9000][below(3) as usize]];
                self.accessor.begin_batch(1);
                let place = (db, name.clone());
                self.set(place, &value, what < 12, model);
                self.accessor.end_batch();
            }
        }
    }

    /// Removes a key that is there, if told, or gives it a value.
    fn set(&mut self, place: (u16, Vec<u8>), value: &[u8], removes: bool, model: &mut Model) {
        let mut writer = self.accessor.writer(place.0);
        let key = writer.key(&place.1);
        match writer.modify(key).unwrap() {
            Slot::Vacant(slot) => slot.insert(Kind::String, value, Put::default()).unwrap(),
            Slot::Occupied(slot) if removes => {
                slot.remove();
                model.remove(&place);
                return;
            }
            Slot::Occupied(mut slot) => slot.replace(Kind::String, value, Put::default()).unwrap(),
        }
        model.insert(place, value.to_vec());
    }
}

fn same(found: &Model, model: &Model, what: &str) {
    for (key, value) in model {
        assert!(found.get(key) == Some(value), "{what}: {key:?}");
    }
    assert_eq!(found.len(), model.len(), "{what}: too much");
}

#[test]
fn what_was_done_is_there_in_the_next_run() {
    for (mode, seed) in [SyncMode::Always, SyncMode::EverySecond, SyncMode::Never].into_iter().zip(1..) {
        let folder = Folder::new(&format!("runs-{seed}"));
        let (mut model, mut random) = (Model::new(), seed);
        for run in 0..4 {
            // As many lanes as runs before, and one in the first.
            let mut server = Server::start_with(&folder, mode, run + 1);
            same(&server.found(), &model, &format!("{mode:?}, run {run}"));
            for _ in 0..600 {
                server.act(&mut random, &mut model);
            }
            same(&server.found(), &model, "before the end");
            server.keyspace.log().turn(false).unwrap();
            let Server { writer, accessor, .. } = server;
            drop(accessor);
            match run {
                0 => drop(writer.end().unwrap()),
                // The process ends; what is not written is in its rings.
                1 => drop(writer),
                _ => drop(writer.sync().unwrap()),
            }
        }
    }
}

#[test]
fn with_always_what_is_said_to_be_durable_is_in_the_files() {
    let folder = Folder::new("always");
    let (mut model, mut random) = (Model::new(), 7);
    let mut server = Server::start(&folder, SyncMode::Always);
    for _ in 0..200 {
        server.act(&mut random, &mut model);
    }
    let epoch = server.keyspace.log().rings().unwrap().options().first_epoch + 1_000_000;
    server.writer.progress().want(epoch);
    let begun = std::time::Instant::now();
    while server.writer.progress().figures().pending_bytes > 0 || server.writer.progress().figures().units == 0 {
        assert!(begun.elapsed().as_secs() < 60, "the writer does not come to an end");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    drop(server);
    let mut server = Server::start(&folder, SyncMode::Always);
    same(&server.found(), &model, "after a crash");
}

#[test]
fn a_log_of_more_databases_is_refused() {
    let folder = Folder::new("databases");
    let mut server = Server::start(&folder, SyncMode::Always);
    server.act(&mut 0, &mut Model::new());
    server.accessor.begin_batch(1);
    server.accessor.flush(&[2]);
    server.accessor.end_batch();
    server.writer.sync().unwrap();
    drop(server);
    let store = almandine_store::Options { background: false, ..Default::default() };
    let keyspace = Keyspace::open(Options { databases: 2, store, ..Options::default() }).unwrap();
    let mut accessor = keyspace.accessor().unwrap();
    let directory = Directory::take(&folder.0).unwrap();
    let mut redo = Redo::new((0..2).map(|db| keyspace.log().contents(db)).collect());
    let (mut refused, mut lanes) = (None, LogLanes::start(&mut accessor, 2));
    read(&folder.0, &directory.manifest().unwrap(), 0, &mut |group| {
        refused = redo.group(&mut lanes, group).err().or(refused.take());
        Ok(())
    })
    .unwrap();
    let text = refused.unwrap().to_string();
    assert!(text.contains("database 2") && text.contains("at least 3"), "{text}");
}
