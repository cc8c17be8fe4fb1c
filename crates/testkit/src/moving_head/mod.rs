//! Writes to keys whose pages are just leaving memory, with every reply checked.
//!
//! A *block* of keys is written, waits until its pages are the oldest in memory, and is then raced: two connections, which the
//! server gives to different workers, send pipelines of increments, overwrites, appends, deletes, expiries and FLUSHDB on the
//! same keys at the same time. Meanwhile other connections overwrite enough to keep pages leaving. Each key is touched by its
//! two connections only and each value written is unique, so that the few orders in which its operations can have run are tried
//! one by one ([`explain`]): one of them must account for every reply and for what is there afterwards. Later, when the keys
//! are cold, they must be as they were; most are deleted and must not come back; at the end DBSIZE must be the number of keys
//! that are left.

mod aim;
mod block;
mod churn;
mod explain;
mod linger;
mod op;
mod pair;
mod report;
mod script;

pub use explain::{Asked, KeyHistory, explain};
pub use op::{Op, State, Text};
pub use report::Report;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Server, Value};
use aim::Aim;
use pair::Pair;

/// How to load the server.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Pairs of racing connections, each driven by one thread. The last one empties its database now and then.
    pub pairs: usize,
    /// Bytes per second that others overwrite.
    pub churn_bytes: usize,
    /// For how long keys are raced; looking at them again takes some seconds more.
    pub duration: Duration,
    /// For the choice of operations; the interleaving is the machine's.
    pub seed: u64,
}

/// Runs the races and the churn, and looks at everything again.
///
/// # Panics
/// When the server does not answer or a thread panics.
#[must_use]
pub fn run(server: &Server, settings: Settings) -> Report {
    let stop = AtomicBool::new(false);
    let aim = Aim::new(server);
    // One after the other: the server gives a new connection to the worker that has the fewest, so that those of a pair differ.
    let pairs: Vec<Pair<'_>> = (0..settings.pairs).map(|number| Pair::new(server, &aim, number, settings)).collect();
    let deadline = Instant::now() + settings.duration;
    let (mut report, churned) = thread::scope(|scope| {
        scope.spawn(|| aim.follow(server, &stop));
        let churn = scope.spawn(|| churn::run(server, settings, &stop));
        let pairs: Vec<_> = pairs.into_iter().map(|pair| scope.spawn(move || pair.run(deadline))).collect();
        let mut report = Report::default();
        for pair in pairs {
            report.add(pair.join().expect("a pair of clients"));
        }
        stop.store(true, Ordering::Relaxed);
        (report, churn.join().expect("the churn"))
    });
    report.churned_bytes = churned.bytes;
    report.keys_left.extend(churned.keys);
    count_keys(server, &mut report);
    report
}

/// How long the server may take to reap what has expired and to find out what it has overwritten unseen.
const REST: Duration = Duration::from_secs(15);

/// At rest DBSIZE is the number of keys.
fn count_keys(server: &Server, report: &mut Report) {
    let mut client = server.client();
    let deadline = Instant::now() + REST;
    for (database, keys) in report.keys_left.clone() {
        assert_eq!(client.line(&format!("SELECT {database}")), Value::ok());
        let mut size = client.line("DBSIZE").integer();
        while size != Some(keys) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(50));
            size = client.line("DBSIZE").integer();
        }
        if size != Some(keys) {
            report.sizes.push(format!("DBSIZE of database {database} is {size:?}, and {keys} keys are there"));
        }
    }
}
