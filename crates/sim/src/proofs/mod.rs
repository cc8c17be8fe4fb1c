//! Proofs of `testkit` that run in a world: their clients are threads of one machine, the server is a node on another.

mod crashing;
mod durable;
mod loads;
mod machine;
mod snapshots;
mod told;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub(crate) use self::machine::{AWAY, Machine};
use almandine_io::sim::turn::Policy;
use almandine_testkit::{Client, Runtime};

use crate::run::{self, Outcome, Plan};
use crate::runtime::{Connection, Simulated};
use crate::scenario::{FLOOD_KEYS, Medium, Scenario};
use crate::server;

/// A proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Commands of one key and of several are linearizable.
    Histories,
    /// Units of work are serializable, transactions among them, while keys expire.
    Units,
    /// As units, on sets, lists, sorted sets and streams.
    Collections,
    /// No money is lost, and optimistic locks hold.
    Transactions,
    /// Waiters are served in the order in which they came, and nothing is lost.
    Blocking,
    /// Sessions that serve waiters of each other's keys come to an end, and serve at once.
    Moves,
    /// Listeners of a channel hear one order.
    Channels,
    /// A client that has read an old value is told of its change.
    Tracking,
    /// Events of a key come in the order of its changes.
    Events,
    /// Each key is checked, and changes of users hold at once.
    Rights,
    /// Waiters for groups of streams are served in time, and told when their stream goes.
    Claims,
    /// Results are of sources that have not changed meanwhile.
    Computations,
    /// When memory is full keys go as the policy says, and nothing else changes.
    Eviction,
    /// A server crashes while clients write, and boots again: histories of each life are linearizable.
    Crashes,
    /// A server that makes snapshots beside writers crashes, and boots again: what is there is of one moment.
    Snapshots,
    /// A server with a log crashes while clients write, and boots again: what its settings promise is there.
    Durability,
    /// A server with a log crashes while clients listen, and boots again: what they were told of changes is so.
    Told,
    /// Scripts that are suspended see one moment, lose no change, and are killed whole.
    Suspended,
}

/// Looks at what was recorded: how much it was, or what no order explains.
pub type Check = Box<dyn FnOnce() -> Result<usize, String> + Send>;

impl Proof {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::Histories,
        Self::Units,
        Self::Collections,
        Self::Transactions,
        Self::Blocking,
        Self::Moves,
        Self::Channels,
        Self::Tracking,
        Self::Events,
        Self::Rights,
        Self::Claims,
        Self::Computations,
        Self::Eviction,
        Self::Crashes,
        Self::Snapshots,
        Self::Durability,
        Self::Told,
        Self::Suspended,
    ];

    /// The name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Histories => "histories",
            Self::Units => "units",
            Self::Collections => "collections",
            Self::Transactions => "transactions",
            Self::Blocking => "blocking",
            Self::Moves => "moves",
            Self::Channels => "channels",
            Self::Tracking => "tracking",
            Self::Events => "events",
            Self::Rights => "rights",
            Self::Claims => "claims",
            Self::Computations => "computations",
            Self::Eviction => "eviction",
            Self::Crashes => "crashes",
            Self::Snapshots => "snapshots",
            Self::Durability => "durability",
            Self::Told => "told",
            Self::Suspended => "suspended",
        }
    }

    /// The proof of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn named(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|proof| proof.name() == name).ok_or_else(|| format!("no proof is named '{name}'"))
    }

    /// The virtual milliseconds for which clients load the server, unless a run says otherwise; what [`loads`] makes rounds of
    /// where a proof has those.
    #[must_use]
    pub const fn millis(self) -> u64 {
        match self {
            Self::Blocking
            | Self::Histories
            | Self::Units
            | Self::Collections
            | Self::Transactions
            | Self::Eviction
            | Self::Crashes
            | Self::Snapshots => 300,
            _ => 100,
        }
    }

    /// Whether it boots and ends its servers itself.
    const fn boots(self) -> bool {
        matches!(self, Self::Durability | Self::Snapshots | Self::Told)
    }

    /// Where the server may have its data in a scenario of a seed.
    #[must_use]
    pub const fn media(self) -> &'static [Medium] {
        match self {
            Self::Histories => &[Medium::Memory, Medium::Memory, Medium::Device, Medium::Failing, Medium::Lying],
            // The log's disk: whole, slow, and so on.
            Self::Durability => &Medium::ALL,
            Self::Units
            | Self::Collections
            | Self::Transactions
            | Self::Blocking
            | Self::Moves
            | Self::Claims
            | Self::Suspended
            | Self::Crashes
            | Self::Snapshots => &[Medium::Memory, Medium::Device],
            _ => &[Medium::Memory],
        }
    }
}

/// What of a proof was recorded in one world, and how the world ended.
pub struct Recorded {
    /// How the world ended.
    pub outcome: Outcome,
    /// By name, what the network and the server's disk did.
    pub faults: BTreeMap<&'static str, u64>,
    /// The operations that clients had, by the number of a client and theirs.
    pub operations: Vec<(usize, u64)>,
    /// None when the clients have not come to their end.
    check: Option<Check>,
}

impl Recorded {
    /// Checks what was recorded; how many operations there were.
    ///
    /// # Errors
    /// What went wrong in the world, or what no order explains.
    pub fn check(self) -> Result<usize, String> {
        if let Some(failure) = self.outcome.failure {
            return Err(format!("{}{failure}", self.outcome.last));
        }
        self.check.ok_or_else(|| "the clients have not come to their end".to_owned())?()
    }
}

/// Runs a scenario in a world of its own. What it records is checked afterwards, for that takes real time.
#[must_use]
pub fn run(scenario: &Scenario) -> Recorded {
    run_and_tell(scenario, false)
}

/// Runs a scenario as [`run`] does, and has its outcome tell all events in words, and not the last ones alone.
#[must_use]
pub fn trace(scenario: &Scenario) -> Recorded {
    run_and_tell(scenario, true)
}

/// Runs a scenario twice: both runs must be the same to the last event.
///
/// # Errors
/// The first events that are not.
pub fn repeats(scenario: &Scenario) -> Result<(), String> {
    let all = || run_and_tell(scenario, true).outcome;
    let (first, second) = (all(), all());
    if first == second {
        return Ok(());
    }
    let (first, second): (Vec<&str>, Vec<&str>) = (first.last.lines().collect(), second.last.lines().collect());
    let same = first.iter().zip(&second).take_while(|(one, other)| one == other).count();
    let around = |lines: &[&str]| lines[same.saturating_sub(8)..lines.len().min(same + 3)].join("\n");
    Err(format!("event {same} does not repeat:\n{}\n\n{}", around(&first), around(&second)))
}

fn run_and_tell(scenario: &Scenario, tells_all: bool) -> Recorded {
    let recorded: Arc<Mutex<Option<Check>>> = Arc::default();
    let choices = scenario.choices.clone();
    let plan = Plan { choices, tells_all, ..Plan::new(scenario.seed, scenario.schedule.clone()) };
    let (mut medium, mut operations) = (None, Arc::default());
    let outcome = run::run(&plan.without(&scenario.left_out), |world| {
        world.net().set_options(scenario.net());
        let (node, clients) = (world.node(), world.node());
        let disk = world.disk(node);
        medium = Some((Arc::clone(world.net()), Arc::clone(&disk)));
        drop(server::start(world, node, &server_settings(scenario)));
        if scenario.proof == Proof::Crashes {
            crashing::plan_crashes(world, node, scenario);
        }
        let (scenario, slot) = (scenario.clone(), Arc::clone(&recorded));
        let simulated = Simulated::new(node, server::address()).only(scenario.only.clone());
        let simulated = if matches!(scenario.schedule.policy, Policy::Pct { .. }) { simulated.patient() } else { simulated };
        operations = simulated.operations();
        let drive = move || {
            let mut control = reach(&simulated);
            // A disk that fails while a server starts keeps it from starting, and that is right.
            if !scenario.proof.boots() {
                disk.set_faults(scenario.disk_faults());
            }
            let check = loads::record(&scenario, &simulated).expect("the server answers");
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(check);
            match scenario.proof {
                Proof::Crashes => control = reach(&simulated),
                // It has ended its server.
                proof if proof.boots() => return,
                _ => {}
            }
            // The connection ends with the server.
            let _ = control.send(&[["SHUTDOWN", "NOSAVE"]]);
            let _ = control.receive();
        };
        drop(world.spawn(clients, "proof", drive));
    });
    let check = recorded.lock().unwrap_or_else(PoisonError::into_inner).take();
    let operations: &Mutex<Vec<(usize, u64)>> = &operations;
    let operations = operations.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let faults = medium.map(|(net, disk)| net.faults().into_iter().chain(disk.happened()).collect()).unwrap_or_default();
    Recorded { outcome, faults, operations, check }
}

/// What the server is told.
fn server_settings(scenario: &Scenario) -> Vec<String> {
    let mut words = format!("--workers {}", scenario.workers);
    // Few keys have only a small index grow.
    let mut is_small = scenario.flood < FLOOD_KEYS;
    if scenario.medium != Medium::Memory && scenario.proof != Proof::Durability {
        words += " --storage-dir pages --maxmemory 12mb --enable-debug-command yes";
        // An index that grows many times uses up what it knows of cold keys.
        is_small |= scenario.seed % 4 == 1;
    }
    words += if is_small { " --index-size 4kb" } else { "" };
    if scenario.proof != Proof::Suspended {
        // A thread that is starved may have the script whose keys others need.
        words += " --busy-reply-threshold 60000";
    }
    words += match scenario.proof {
        Proof::Events => " --notify-keyspace-events Kg$xn",
        Proof::Told => " --notify-keyspace-events Eg$e",
        Proof::Suspended => " --busy-reply-threshold 4",
        Proof::Eviction => loads::eviction_settings(scenario.seed),
        _ => "",
    };
    match scenario.proof {
        Proof::Durability => words += &durable::settings(scenario.seed, has_device(scenario)),
        Proof::Snapshots => words += &snapshots::settings(scenario.seed),
        Proof::Told => words += &told::Log::of(scenario.seed).settings(),
        // Two of three seeds have a log.
        Proof::Channels | Proof::Tracking | Proof::Events if !scenario.seed.is_multiple_of(3) => {
            words += &told::Log::of(scenario.seed).settings();
        }
        _ => {}
    }
    words.split(' ').map(str::to_owned).collect()
}

/// Whether a server with a log has a device, too.
fn has_device(scenario: &Scenario) -> bool {
    durable::has_device(scenario.seed, scenario.medium == Medium::Device)
}

/// A client of a server that may be about to start.
fn reach(server: &Simulated) -> Client<Connection> {
    loop {
        match Client::of(server) {
            Ok(client) => return client,
            Err(_) => server.sleep(Duration::from_millis(1)),
        }
    }
}
