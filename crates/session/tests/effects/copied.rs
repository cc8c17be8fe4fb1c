//! One worker with one client, and a copy that follows its effects.

use std::collections::BTreeSet;

use almandine_base::Output;
use almandine_io::clock;
#[cfg(debug_assertions)]
use almandine_keyspace::limit_allocations;
use almandine_net::Service;
use almandine_session::WorkerService;
use almandine_testkit::random::Random;

use crate::compare;
use crate::copy::Copy;
use crate::kept::Kept;
use crate::rig::{DATABASES, Rig};

/// Steps of the background that a command waits for at most.
const TRIES_MAX: usize = 10_000;

/// A worker with one client and a copy of what it does.
pub(crate) struct Copied {
    rig: Rig,
    service: WorkerService,
    connection: <WorkerService as Service>::Connection,
    out: Output,
    copy: Copy,
    replayed: usize,
    /// The keys in effects since all databases were emptied.
    names: BTreeSet<Vec<u8>>,
    /// How often all databases were emptied.
    pub(crate) emptied: usize,
}

impl Copied {
    pub(crate) fn new() -> Self {
        let rig = Rig::new();
        rig.keyspace.listeners().note_effects(true);
        let (copy, (service, connection)) = (Copy::new(rig.generations()), rig.open(0));
        Self { rig, service, connection, out: Output::new(), copy, replayed: 0, names: BTreeSet::new(), emptied: 0 }
    }

    /// Sends commands; whether the answers have errors of memory.
    pub(crate) fn send(&mut self, commands: &[Vec<Vec<u8>>]) -> bool {
        let mut input = Vec::new();
        for words in commands {
            input.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
            for word in words {
                input.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                input.extend_from_slice(word);
                input.extend_from_slice(b"\r\n");
            }
        }
        self.out.clear();
        if commands.is_empty() {
            return false;
        }
        let mut tries = 0;
        while self.service.receive(&mut self.connection, &input, &mut self.out).consumed == 0 {
            self.maintain();
            tries += 1;
            assert!(tries < TRIES_MAX, "the background does not end what {} waits for", String::from_utf8_lossy(&input));
        }
        self.out.bytes.windows(5).any(|answer| answer == b"-OOM ")
    }

    /// A step of the background, whose allocations do not fail.
    fn maintain(&self) {
        #[cfg(debug_assertions)]
        let limit = limit_allocations(None);
        self.rig.keyspace.maintain(clock::unix_ms());
        #[cfg(debug_assertions)]
        limit_allocations(limit);
    }

    /// Sends commands of one line each, and gives their effects.
    pub(crate) fn effects_of(&mut self, lines: &str) -> Vec<Kept> {
        let before = self.rig.kept().len();
        let commands: Vec<Vec<Vec<u8>>> =
            lines.lines().map(|line| line.split(' ').map(|word| word.as_bytes().to_vec()).collect()).collect();
        assert!(!self.send(&commands), "{lines}");
        let answers = String::from_utf8_lossy(&self.out.bytes);
        assert!(!answers.contains("-ERR") && !answers.contains("-WRONGTYPE"), "{lines}: {answers}");
        self.rig.kept()[before..].to_vec()
    }

    /// All databases are emptied.
    pub(crate) fn empty(&mut self) {
        let lines: [Vec<Vec<u8>>; 2] = [vec![b"SELECT".to_vec(), b"0".to_vec()], vec![b"FLUSHALL".to_vec()]];
        self.send(&lines);
        self.emptied += 1;
        self.names.clear();
    }

    /// The effects so far lead to the keys that there are: of those whose names are in effects all is compared, and there are no
    /// others.
    pub(crate) fn check(&mut self) {
        let new = self.rig.kept()[self.replayed..].to_vec();
        self.replayed += new.len();
        self.names.extend(new.iter().map(|kept| kept.key.clone()));
        self.copy.replay_all(&new, &mut Random::new(1));
        for db in 0..DATABASES {
            assert_eq!(self.rig.keyspace.dbsize(db), self.copy.len(db), "keys of database {db}");
        }
        let (_, now_ms, expected) = self.rig.cut_of(&|_, _| self.names.clone());
        compare(&expected, &self.copy.contents_of(now_ms, &|_, _| self.names.clone()));
    }
}
