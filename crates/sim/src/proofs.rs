//! Proofs of `testkit` that run in a world: their clients are threads of one machine, the server is a node on another.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use almandine_io::sim::net::NetOptions;
use almandine_testkit::history::units::{self, Features};
use almandine_testkit::history::{self, History};
use almandine_testkit::{Client, Runtime, blocking, transactions};

use crate::run::{self, Outcome, Plan};
use crate::runtime::{Connection, Simulated};
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
}

/// Looks at what was recorded: how much it was, or what no order explains.
pub type Check = Box<dyn FnOnce() -> Result<usize, String> + Send>;

impl Proof {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Histories, Self::Units, Self::Collections, Self::Transactions, Self::Blocking];

    /// The name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Histories => "histories",
            Self::Units => "units",
            Self::Collections => "collections",
            Self::Transactions => "transactions",
            Self::Blocking => "blocking",
        }
    }

    /// The virtual time for which clients load the server, unless a run says otherwise. Histories of waiters take long to check.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_millis(if matches!(self, Self::Blocking) { 60 } else { 300 })
    }

    /// Lets clients load the server for some virtual time, in a thread of the clients' machine. The check is made outside of the
    /// world, for it takes real time.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn record(self, server: &Simulated, seed: u64, duration: Duration) -> io::Result<Check> {
        match self {
            Self::Histories => histories(server, seed, duration),
            Self::Units => units_of(server, seed, duration, None),
            Self::Collections => {
                let kinds = units::Kind::ALL;
                units_of(server, seed, duration, Some(kinds[(seed % kinds.len() as u64) as usize]))
            }
            Self::Transactions => transactions(server, seed, duration),
            Self::Blocking => blocking(server, seed, duration),
        }
    }
}

fn histories(server: &Simulated, seed: u64, duration: Duration) -> io::Result<Check> {
    let (groups, pipeline) = if seed.is_multiple_of(2) { (1, 1) } else { (4, 4) };
    let settings = history::Settings { clients: 6, groups, pipeline, duration, seed };
    let recorded: Vec<History> = history::record(server.clone(), settings)?;
    Ok(Box::new(move || recorded.iter().map(history::check).sum()))
}

fn units_of(server: &Simulated, seed: u64, duration: Duration, collections: Option<units::Kind>) -> io::Result<Check> {
    let features = Features { hashes: true, expiry: true, collections };
    let settings = units::Settings { clients: 5, groups: 2, duration, features, seed };
    let recorded = units::record(server.clone(), settings)?;
    Ok(Box::new(move || recorded.iter().map(units::check).sum()))
}

fn transactions(server: &Simulated, seed: u64, duration: Duration) -> io::Result<Check> {
    let settings = transactions::Settings { duration, threads: 1, churn_bytes: 0, seed };
    let report = transactions::run(server.clone(), settings)?;
    Ok(Box::new(move || if report.breaches.is_empty() { Ok(report.executed as usize) } else { Err(report.to_string()) }))
}

fn blocking(server: &Simulated, seed: u64, duration: Duration) -> io::Result<Check> {
    let aligned = seed % 2 == 1;
    let settings = blocking::Settings { clients: 5, groups: 2, duration, aligned, moves: true, seed };
    let recorded = blocking::record(server.clone(), settings)?;
    Ok(Box::new(move || recorded.iter().map(|entries| blocking::check(entries)).sum()))
}

/// What of a proof was recorded in one world, and how the world ended.
pub struct Recorded {
    /// How the world ended.
    pub outcome: Outcome,
    /// By name, what the network did.
    pub happened: BTreeMap<&'static str, u64>,
    /// None when the clients have not come to their end.
    pub check: Option<Check>,
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

/// Runs a proof against a server with these settings for some virtual time, in a world of its own.
pub fn run(proof: Proof, plan: &Plan, settings: &[&str], net: NetOptions, duration: Duration) -> Recorded {
    let recorded: Arc<Mutex<Option<Check>>> = Arc::default();
    let mut network = None;
    let outcome = run::run(plan, |world| {
        world.net().set_options(net);
        network = Some(Arc::clone(world.net()));
        let (server, clients) = (world.node(), world.node());
        drop(server::start(world, server, settings));
        let (seed, slot) = (plan.seed, Arc::clone(&recorded));
        let simulated = Simulated::new(server, server::address());
        let drive = move || {
            let mut control = reach(&simulated);
            let check = proof.record(&simulated, seed, duration).expect("the server answers");
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(check);
            // The connection ends with the server.
            let _ = control.send(&[["SHUTDOWN", "NOSAVE"]]);
            let _ = control.receive();
        };
        drop(world.spawn(clients, "proof", drive));
    });
    let check = recorded.lock().unwrap_or_else(PoisonError::into_inner).take();
    let happened = network.map(|net| net.faults()).unwrap_or_default();
    Recorded { outcome, happened, check }
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
