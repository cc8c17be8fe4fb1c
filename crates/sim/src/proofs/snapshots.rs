//! A server that makes snapshots beside writers, crashes, and boots again: what is there is of one moment, and no older than the
//! last snapshot that was whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use almandine_io::sim::disk::DiskFaults;
use almandine_io::sim::world::CrashKind;
use almandine_testkit::promises::moment::{self, Found, Look};
use almandine_testkit::{Client, Runtime};

use super::machine::{AWAY, Machine};
use crate::runtime::{Connection, Simulated};

/// Lives of the server.
const LIVES: u64 = 3;
/// The shortest life.
const LIFE_NS: u64 = 20_000_000;
/// Changes of the disk among which one is replaced by a crash.
const CHANGES: u64 = 60;
/// What is evicted at once.
const EVICTED_BYTES: u64 = 20_000;

/// What a run follows from.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// The longest life of a server, in milliseconds.
    pub(super) millis: u64,
    pub(super) clients: usize,
    /// All that the server is told.
    pub(super) settings: Vec<String>,
    pub(super) faults: DiskFaults,
    /// Keys may be evicted: the server has no device.
    pub(super) evicts: bool,
}

/// What the server is told: microseconds that a snapshot takes for each key.
pub(super) fn settings(seed: u64) -> String {
    format!(" --dbfilename dump.rdb --rdb-key-save-delay {}", [0, 100, 500, 2_000][(seed % 4) as usize])
}

/// Has writers load the server in each of its lives, and looks what is there behind each crash. How many transactions were there.
///
/// # Errors
/// What is of another moment, or missing.
pub(super) fn record(plan: &Plan, server: &Simulated) -> Result<usize, String> {
    let machine = Machine::of(server, plan.settings.clone());
    let (mut whole, mut checked) = (None, 0);
    machine.disk().set_faults(plan.faults.clone());
    for life in 1..=LIVES {
        let Some(mut control) = machine.reach(server) else { break };
        let (looks, last) = live(&machine, plan, server, (&mut control, life));
        whole = last.or(whole);
        machine.boot();
        let Some(mut control) = machine.reach(server) else { break };
        let found = moment::check(&mut control, plan.clients, (life, &looks))?;
        let of = |found: Option<Found>| found.map_or((0, 0), |found| (found.life, found.count));
        if of(found) < of(whole) {
            return Err(format!("the last whole snapshot was of {whole:?} at least, and there is {found:?}"));
        }
        checked += found.map_or(0, |found| found.count);
    }
    match machine.refused() {
        Some(text) => return Err(format!("the start is refused: {text}")),
        None => machine.reach(server).into_iter().for_each(|mut control| machine.shut_down(&mut control)),
    }
    Ok(checked)
}

/// One life of the server, which ends with a crash: which keys were there that may be evicted, and what the last snapshot had at
/// least that was seen to be whole.
fn live(
    machine: &Machine,
    plan: &Plan,
    server: &Simulated,
    (control, life): (&mut Client<Connection>, u64),
) -> (Vec<Look>, Option<Found>) {
    let time_ns = LIFE_NS + machine.draw(plan.millis * 1_000_000);
    let until_ns = server.now_ns() + time_ns;
    let kinds = [CrashKind::Process, CrashKind::Container, CrashKind::Machine];
    machine.plan_crash(kinds[machine.draw(3) as usize], time_ns, CHANGES);
    // A server that has crashed by then makes no snapshot of a part of it.
    let _ = moment::prepare(control, plan.clients, life);
    let stop = Arc::new(AtomicBool::new(false));
    let writers = (0..plan.clients).map(|number| {
        let (own, stop, seed) = (server.clone(), Arc::clone(&stop), plan.seed * LIVES + life);
        server.spawn("writer", move || _ = moment::transact(&own, number, seed, &stop))
    });
    let mut threads: Vec<_> = writers.collect();
    let (own, ends) = (server.clone(), Arc::clone(&stop));
    threads.push(server.spawn("exchanger", move || moment::exchange(&own, &ends)));
    if plan.evicts && machine.draw(2) == 1 {
        let (own, time) = (server.clone(), Duration::from_nanos(time_ns / 4));
        let evict = move || {
            while own.now_ns() < until_ns
                && let Ok(mut client) = Client::of(&own)
            {
                own.sleep(time / 2);
                moment::evict(&own, &mut client, EVICTED_BYTES, time / 8);
            }
        };
        threads.push(server.spawn("evicts", evict));
    }
    let (own, ends) = (server.clone(), Arc::clone(&stop));
    let looks = server.spawn("looks", move || moment::look(&own, &ends));
    let mut whole = None;
    loop {
        server.sleep(Duration::from_nanos(machine.draw(10_000_000)));
        let Ok(count) = control.call(&["GET", "shared"]).map(|reply| reply.bytes().map(<[u8]>::to_vec)) else { break };
        let Some(count) = count.and_then(|count| String::from_utf8(count).ok()?.parse().ok()) else { break };
        if !moment::save(server, control) {
            break;
        }
        whole = Some(Found { life, count });
    }
    server.sleep(Duration::from_nanos((until_ns + 1_000_000).saturating_sub(server.now_ns())) + AWAY);
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join());
    (looks.join(), whole)
}
