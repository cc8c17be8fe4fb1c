//! Workers with clients, whose effects are kept.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;

use almandine_base::Output;
use almandine_config::{Config, Startup};
use almandine_handler::Table;
use almandine_instance::{Acl, Instance};
use almandine_io::clock;
use almandine_io::socket::Address;
use almandine_keyspace::{Keyspace, Options};
use almandine_net::{Peer, Service};
use almandine_session::WorkerService;
use almandine_testkit::random::Random;

use crate::commands::command;
use crate::kept::Kept;
use crate::seen::{Contents, Names, contents_of, keys};

pub(crate) const WORKERS: usize = 3;
pub(crate) const DATABASES: u16 = 3;

/// Workers with clients.
pub(crate) struct Rig {
    pub(crate) keyspace: Arc<Keyspace>,
    instance: Arc<Instance>,
    table: &'static Table,
    /// What was handed over, batch by batch.
    kept: Arc<Mutex<Vec<Kept>>>,
    /// Batches hold it shared: a thread that has it alone finds all effects handed over.
    pub(crate) between_batches: RwLock<()>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        // Its background is a thread of the proof, which is between two of its steps, too, where the keys are compared.
        let store = almandine_store::Options { background: false, ..Default::default() };
        let keyspace = Keyspace::open(Options { databases: usize::from(DATABASES), store, ..Options::default() }).unwrap();
        let kept: Arc<Mutex<Vec<Kept>>> = Arc::default();
        let sink = Arc::clone(&kept);
        keyspace.listeners().on_effects(move |changes| {
            let all: Vec<Kept> = changes.iter().map(|change| Kept::of(&change)).collect();
            sink.lock().unwrap_or_else(PoisonError::into_inner).extend(all);
        });
        let Ok(Startup::Run(config)) = Config::load(&["--protected-mode", "no", "--save", ""].map(str::to_owned)) else {
            panic!("a configuration")
        };
        let table = Table::new(&[almandine_commands::COMMANDS, almandine_admin::COMMANDS].concat(), &[], &[]).unwrap();
        let instance = Instance::new(*config, Arc::clone(&keyspace), WORKERS, Acl::open(table.catalog()), "0".repeat(40));
        Self { keyspace, instance: Arc::new(instance), table, kept, between_batches: RwLock::new(()) }
    }

    /// A worker with one client.
    pub(crate) fn open(&self, worker: usize) -> (WorkerService, <WorkerService as Service>::Connection) {
        let mut sessions = WorkerService::new(Arc::clone(&self.instance), self.table, self.keyspace.accessor().unwrap(), worker);
        let local = Address::Ip("127.0.0.1:6379".parse().unwrap());
        let peer = Peer { remote: local.clone(), local, worker, descriptor: 0, names: Vec::new() };
        let connection = sessions.open(worker as u64 + 1, &peer, &mut Output::new()).unwrap();
        (sessions, connection)
    }

    /// One worker with one client, which sends `pipelines` pipelines, or until it is told to stop.
    pub(crate) fn run(&self, worker: usize, pipelines: usize, seed: u64, stop: &AtomicBool) {
        let ((mut sessions, mut connection), mut random) = (self.open(worker), Random::new(seed));
        let mut out = Output::new();
        for pipeline in 0..pipelines {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let mut input = Vec::new();
            // Long batches, so that they meet.
            for number in 0..1 + random.below(40) {
                command(&mut random, &format!("{seed}.{pipeline}.{number}"), &mut input);
            }
            out.clear();
            // What has to wait for the background is sent again, unless that has ended, too.
            while self.between(|| sessions.receive(&mut connection, &input, &mut out).consumed) == 0
                && !stop.load(Ordering::Relaxed)
            {
                thread::yield_now();
            }
        }
        sessions.close(connection);
    }

    /// The background, until it is told to stop.
    pub(crate) fn maintain(&self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.between(|| self.keyspace.maintain(clock::unix_ms()));
            thread::yield_now();
        }
    }

    /// A batch.
    fn between<R>(&self, batch: impl FnOnce() -> R) -> R {
        let _shared = self.between_batches.read().unwrap_or_else(PoisonError::into_inner);
        batch()
    }

    pub(crate) fn generations(&self) -> BTreeMap<u16, u64> {
        let mut accessor = self.keyspace.accessor().unwrap();
        (0..DATABASES).map(|db| (db, accessor.changes().generation(db))).collect()
    }

    pub(crate) fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is between two batches: the effects so far, and the keys that they have led to.
    pub(crate) fn cut(&self) -> (usize, i64, Contents) {
        self.cut_of(&keys)
    }

    /// As [`Rig::cut`], of the keys that `named` names.
    pub(crate) fn cut_of(&self, named: Names<'_>) -> (usize, i64, Contents) {
        let _alone = self.between_batches.write().unwrap();
        let now_ms = clock::unix_ms();
        let mut accessor = self.keyspace.accessor().unwrap();
        let dbs: Vec<u16> = (0..DATABASES).collect();
        let contents = contents_of(&mut accessor, &dbs, now_ms, named);
        (self.kept().len(), now_ms, contents)
    }
}
