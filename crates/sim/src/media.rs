//! A server with a log and snapshots of which one operation of its disk fails, or all for some time: what was acknowledged is
//! there, and the server serves again when the disk does.
//!
//! A run without a failure counts its operations; then each of them is the one that fails, in a run of its own that is the same up
//! to it. What an operation is to do may have happened when it fails, in part or not at all.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use almandine_base::mutants::Mutant;
use almandine_io::sim::disk::Failure;
use almandine_io::sim::turn::{Policy, Schedule};
use almandine_io::sim::world::CrashKind;
use almandine_testkit::promises::durability::{self, Load, Promise, Writer};
use almandine_testkit::{Client, Runtime, Value};

use crate::proofs::{AWAY, Machine};
use crate::run::{self, Plan};
use crate::runtime::{Connection, Simulated};
use crate::server;

/// How long a disk fails of which all operations do.
const FAILS: Duration = Duration::from_secs(3);
/// How long a base and a snapshot may fail from then on.
const SOON: Duration = Duration::from_secs(10);
/// How long a server that serves again may take for it once the disk does.
const HEALS: Duration = Duration::from_secs(120);
/// What it says of itself when something has failed, in INFO.
const TOLD: [&str; 3] = ["aof_last_write_status:err", "aof_last_bgrewrite_status:err", "rdb_last_bgsave_status:err"];
const REFUSED: &str = "SAVE is refused";

/// Which part of a run has the operations that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Clients write, while the log is rewritten and snapshots are made.
    Service,
    /// The server starts again behind that.
    Start,
}

/// Operations that fail.
#[derive(Clone, Copy, Debug)]
pub struct Fails {
    /// The number of the first one.
    pub operation: u64,
    /// How.
    pub failure: Failure,
    /// All from it on fail for some time, and not it alone.
    pub lasts: bool,
}

/// What a run follows from.
#[derive(Clone, Debug)]
pub struct Case {
    /// All other choices.
    pub seed: u64,
    /// `appendfsync`.
    pub mode: &'static str,
    /// Where operations are counted.
    pub part: Part,
    /// Which of them fail.
    pub fails: Option<Fails>,
    /// Steps that the product leaves out.
    pub left_out: Vec<Mutant>,
}

/// What a run has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// Operations of the part.
    pub operations: u64,
    /// What failed, by the names of operations.
    pub failed: BTreeSet<&'static str>,
    /// What the server said of it.
    pub told: BTreeSet<&'static str>,
    /// It served again only after a restart.
    pub restarts: bool,
    /// The start with the failure was refused, with this text.
    pub refused: Option<String>,
    /// Units that were there at the end.
    pub units: u64,
}

/// Runs a case.
///
/// # Errors
/// What is lost, or that the server does not serve again.
pub fn run(case: &Case) -> Result<Came, String> {
    let schedule = Schedule { policy: Policy::Random, inner_per_million: 0, stalls_per_million: 0 };
    let came: Arc<Mutex<Option<Came>>> = Arc::default();
    let outcome = run::run(&Plan::new(case.seed, schedule).without(&case.left_out), |world| {
        let (node, clients) = (world.node(), world.node());
        let words = format!("--workers 2 --appendonly yes --appendfsync {} --dbfilename dump.rdb", case.mode);
        let points = ["--save".to_owned(), "5 1".to_owned()];
        let settings: Vec<String> = words.split(' ').map(str::to_owned).chain(points).collect();
        let simulated = Simulated::new(node, server::address());
        let (case, slot) = (case.clone(), Arc::clone(&came));
        drop(world.spawn(clients, "proof", move || {
            let machine = Machine::of(&simulated, settings);
            let mut proof = Proof { machine, server: simulated, case, came: Came::default() };
            proof.record();
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(proof.came);
        }));
    });
    match outcome.failure {
        Some(failure) => Err(format!("{}{failure}", outcome.last)),
        None => came.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(|| "it has not come to its end".to_owned()),
    }
}

struct Proof {
    machine: Machine,
    server: Simulated,
    case: Case,
    came: Came,
}

impl Proof {
    fn record(&mut self) {
        let disk = self.machine.disk();
        self.machine.boot();
        let mut control = self.reach("at first");
        let first = self.begin(Part::Service);
        let mut writers = self.serve(&mut control);
        self.end(Part::Service, first);
        // A base would have all that is in memory, whatever the log has lost.
        let rewrites = self.case.fails.is_none_or(|fails| fails.operation % 2 == 1);
        self.came.restarts = !self.serves_again(&mut control, rewrites);
        assert!(
            !self.came.restarts || self.came.told.contains(TOLD[0]),
            "it takes no writes, and INFO says nothing of it: {:?}",
            self.came
        );
        // Behind a second and a sync nothing is left that only the system has.
        self.server.sleep(Duration::from_secs(3));
        let survives = self.case.mode == "no" || self.came.restarts;
        self.machine.crash(if survives { CrashKind::Process } else { CrashKind::Machine });
        self.server.sleep(AWAY);
        let first = self.begin(Part::Start);
        self.machine.boot();
        if let (Part::Start, None) = (self.case.part, self.machine.reach(&self.server)) {
            self.came.refused = self.machine.forget_refusal();
            self.end(Part::Start, first);
            self.machine.crash(CrashKind::Process);
            self.machine.boot();
        }
        control = self.reach("behind the crash");
        self.end(Part::Start, first);
        // A sync that has failed may have dropped what no client waited for.
        let promise = if self.came.restarts && self.case.mode != "always" { Promise::Found } else { Promise::All };
        let checked = durability::check(&mut control, &mut writers, promise, &[]);
        self.came.units = checked.unwrap_or_else(|breach| panic!("{breach}: {:?}", self.came));
        assert!(self.serves_again(&mut control, true), "a sound disk is not enough after a restart: {:?}", self.came);
        drop(disk);
        self.machine.shut_down(&mut control);
    }

    fn reach(&self, when: &str) -> Client<Connection> {
        self.machine.reach(&self.server).unwrap_or_else(|| panic!("the start {when} is refused: {:?}", self.machine.refused()))
    }

    /// Operations are counted from here on, and some may fail.
    fn begin(&self, part: Part) -> u64 {
        let disk = self.machine.disk();
        let first = disk.operations();
        if part == self.case.part
            && let Some(Fails { operation, failure, lasts }) = self.case.fails
        {
            let at = first + operation;
            disk.fail_at(at..if lasts { u64::MAX } else { at + 1 }, failure);
        }
        first
    }

    /// The disk is sound again.
    fn end(&mut self, part: Part, first: u64) {
        if part != self.case.part {
            return;
        }
        let disk = self.machine.disk();
        if self.came.operations == 0 {
            self.came.operations = disk.operations() - first;
        }
        disk.fail_at(Range::default(), Failure::Medium);
        disk.heal();
        self.came.failed = disk.happened().into_keys().collect();
    }

    /// Writers write while the log is rewritten and snapshots are made.
    fn serve(&mut self, control: &mut Client<Connection>) -> Vec<Writer> {
        let is_long = self.case.mode == "everysec";
        let (time, pause) = if is_long { (Duration::from_millis(2_300), 40) } else { (Duration::from_millis(150), 3) };
        let until_ns = self.server.now_ns() + time.as_nanos() as u64;
        let load = Load { until_ns, pause: Duration::from_millis(pause), depth: 1, may_be_refused: true };
        let threads: Vec<_> = (0..2)
            .map(|number| {
                let (own, mut writer) = (self.server.clone(), Writer::new(number, self.case.seed));
                self.server.spawn("writer", move || {
                    writer.write(&own, load);
                    writer
                })
            })
            .collect();
        self.server.sleep(time / 8);
        for command in ["BGREWRITEAOF", "SAVE", "BGSAVE", "BGREWRITEAOF"] {
            let reply = self.call(control, &[command]);
            if command == "SAVE" && reply.is_error() {
                self.came.told.insert(REFUSED);
            }
            self.await_quiet(control);
        }
        let writers = threads.into_iter().map(|thread| thread.join()).collect();
        if self.case.part == Part::Service && self.case.fails.is_some_and(|fails| fails.lasts) {
            self.server.sleep(FAILS);
        }
        self.look(control);
        writers
    }

    /// Waits until nothing is written in the background, and looks what the server says meanwhile.
    fn await_quiet(&mut self, control: &mut Client<Connection>) {
        let until_ns = self.server.now_ns() + HEALS.as_nanos() as u64;
        while !self.look(control) {
            assert!(self.server.now_ns() < until_ns, "a base or a snapshot does not end");
            self.server.sleep(Duration::from_millis(1));
        }
    }

    /// A log that breaks closes connections that wait for it.
    fn call(&self, control: &mut Client<Connection>, words: &[&str]) -> Value {
        for _ in 0..3 {
            match control.call(words) {
                Ok(reply) if reply != Value::Closed => return reply,
                _ => *control = self.reach("already"),
            }
        }
        panic!("{words:?} is not answered");
    }

    /// Whether nothing is written in the background.
    fn look(&mut self, control: &mut Client<Connection>) -> bool {
        let info = self.call(control, &["INFO", "persistence"]);
        let info = String::from_utf8_lossy(info.bytes().unwrap_or_default()).into_owned();
        self.came.told.extend(TOLD.iter().filter(|word| info.contains(**word)));
        let runs = ["aof_rewrite_in_progress:1", "aof_rewrite_scheduled:1", "rdb_bgsave_in_progress:1"];
        !runs.iter().any(|word| info.contains(word))
    }

    /// Whether the server takes writes by itself, and, where it is to, a base and a snapshot succeed then.
    fn serves_again(&mut self, control: &mut Client<Connection>, rewrites: bool) -> bool {
        let until_ns = self.server.now_ns() + HEALS.as_nanos() as u64;
        while control.call(&["SET", "probe", "1"]).ok() != Some(Value::ok()) {
            // Connections that wait for a log that is given up are closed.
            if let Ok(client) = Client::of(&self.server) {
                *control = client;
            }
            self.look(control);
            if self.server.now_ns() > until_ns {
                return false;
            }
            self.server.sleep(Duration::from_millis(50));
        }
        if !rewrites {
            return true;
        }
        // What the log has ready for a base may be made again a second later only.
        let until_ns = self.server.now_ns() + SOON.as_nanos() as u64;
        loop {
            self.await_quiet(control);
            let replies = ["SAVE", "BGREWRITEAOF"].map(|command| (command, self.call(control, &[command])));
            self.await_quiet(control);
            let before = std::mem::take(&mut self.came.told);
            self.look(control);
            let left = std::mem::replace(&mut self.came.told, before);
            if left.is_empty() && !replies.iter().any(|(_, reply)| reply.is_error()) {
                return true;
            }
            assert!(self.server.now_ns() < until_ns, "the disk is sound, and INFO says {left:?}: {replies:?}");
            self.server.sleep(Duration::from_millis(200));
        }
    }
}
