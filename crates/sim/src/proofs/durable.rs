//! A server with `appendonly yes` that crashes while clients write, in each way and at any time, and boots again: what the settings
//! promise is there.
//!
//! What a run may do is what its settings promise to survive. Rings in shared memory end with a container, so the server is told
//! there by `ring-dir none` to have none. A disk that fails is whole again when the server boots. One that lies may lose what it
//! has lost, but then the start is refused, or what is there is still that up to one moment.

use std::sync::Arc;
use std::time::Duration;

use almandine_io::sim::disk::DiskFaults;
use almandine_io::sim::world::CrashKind;
use almandine_testkit::promises::durability::{self, Load, Promise, Seen, Writer};
use almandine_testkit::{Client, Runtime, Value};

use super::machine::{AWAY, Machine};
use crate::runtime::Simulated;

/// Times that the server crashes.
const CRASHES: u64 = 3;
/// What `everysec` may lose: a second, and what one sync takes on a disk that may be slow.
const LOST_NS: u64 = 1_000_000_000 + 1_000_000_000;
/// Changes of the disk among which one is replaced by the crash, while clients write and while the server starts.
const CHANGES: u64 = 60;
const CHANGES_OF_START: u64 = 30;

/// How the log is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Always,
    EverySecond,
    Never,
}

/// What the disk does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    /// Nothing that could be lost by it.
    None,
    /// It says that it fails.
    Said,
    /// It lies.
    Hidden,
}

/// What a run follows from.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Chooses how the log is made durable, and what writers do.
    pub(super) seed: u64,
    /// The longest life of a server, in milliseconds.
    pub(super) millis: u64,
    pub(super) writers: usize,
    /// All that the server is told.
    pub(super) settings: Vec<String>,
    pub(super) harm: Harm,
    pub(super) faults: DiskFaults,
    /// No thread is kept from its processor for long.
    pub(super) is_prompt: bool,
}

/// What a seed means for the log.
#[derive(Clone, Copy, Debug)]
struct Log {
    mode: Mode,
    has_rings: bool,
    /// Microseconds that a base takes for each key; 0 in most seeds.
    key_us: u64,
}

impl Log {
    fn of(seed: u64) -> Self {
        let mode = [Mode::Always, Mode::EverySecond, Mode::Never][(seed % 3) as usize];
        let key_us = if (seed / 9) % 3 == 1 { 1_000 << (seed / 27 % 4) } else { 0 };
        Self { mode, has_rings: !(seed / 3).is_multiple_of(3), key_us }
    }

    /// For how long a server lives at most, when most live for `millis`, and the time between two units of a writer: what is lost
    /// of a second shows behind some seconds only, and databases are emptied twice while a slow base is made.
    fn life(self, millis: u64) -> (u64, Duration) {
        let (times, pause_us) = match self.mode {
            Mode::EverySecond => (10, 20_000),
            _ if self.key_us > 0 => (4, 2_000),
            _ => (1, 2_000),
        };
        (times * millis, Duration::from_micros(pause_us))
    }

    /// Kinds of crashes that it survives.
    fn kinds(self) -> &'static [CrashKind] {
        match self.has_rings {
            true => &[CrashKind::Process, CrashKind::Machine],
            false => &[CrashKind::Process, CrashKind::Container, CrashKind::Machine],
        }
    }
}

/// Whether data goes to a device too, in half of the seeds, where the disk does not fail.
fn has_device(seed: u64, is_sound: bool) -> bool {
    is_sound && (seed / 5) % 2 == 1
}

/// What the server is told of its log, and of the device.
pub(super) fn settings(seed: u64, is_sound: bool) -> String {
    let Log { mode, has_rings, key_us } = Log::of(seed);
    let mode = match mode {
        Mode::Always => "always",
        Mode::EverySecond => "everysec",
        Mode::Never => "no",
    };
    let rings = if has_rings { "auto" } else { "none" };
    // What is dead of the device is compacted soon, so that bases meet that.
    let device = " --storage-dir pages --maxmemory 12mb --storage-garbage-max 10 --enable-debug-command yes";
    let device = if has_device(seed, is_sound) { device } else { "" };
    format!(" --appendonly yes --appendfsync {mode} --ring-dir {rings} --rdb-key-save-delay {key_us}{device}")
}

/// The proof, as it goes on.
struct Proof {
    machine: Machine,
    plan: Plan,
    log: Log,
}

impl Proof {
    /// Has the disk refuse all writes and syncs for a part of a life, so that the log breaks while units are done, and may heal.
    fn plan_failure(&self, time_ns: u64) {
        let begun_ns = self.machine.world.turn().now_ns();
        let from_ns = begun_ns + self.machine.draw(time_ns);
        let until_ns = (from_ns + self.machine.draw(time_ns)).min(begun_ns + time_ns);
        let usual = self.plan.faults.clone();
        let all = DiskFaults { write_errors: 1_000_000, sync_errors: 1_000_000, ..usual.clone() };
        for (at_ns, faults) in [(from_ns, all), (until_ns, usual)] {
            let (world, node) = (Arc::downgrade(&self.machine.world), self.machine.node);
            self.machine.world.turn().at(at_ns, move || {
                if let Some(world) = world.upgrade() {
                    world.disk(node).set_faults(faults);
                }
            });
        }
    }

    /// What must be there after a crash. A sync that has failed may drop what was written before, as a machine does.
    fn promise(&self, kind: CrashKind, has_failed: bool, last_told_ns: u64) -> Promise {
        match self.log.mode {
            _ if self.plan.harm == Harm::Hidden => Promise::Nothing,
            Mode::Always => Promise::All,
            _ if kind != CrashKind::Machine && !has_failed => Promise::All,
            // The thread that syncs may be kept from its processor.
            Mode::EverySecond if !self.plan.is_prompt => Promise::Found,
            Mode::EverySecond => Promise::Until(last_told_ns.saturating_sub(LOST_NS)),
            Mode::Never => Promise::Found,
        }
    }
}

/// Has writers load the server in each of its lives, and looks what is there behind each crash. How many units were there.
///
/// # Errors
/// Why the server has refused to start.
pub(super) fn record(plan: Plan, server: &Simulated) -> Result<usize, String> {
    let proof = Proof { machine: Machine::of(server, plan.settings.clone()), log: Log::of(plan.seed), plan };
    let Proof { machine, plan, log } = &proof;
    let disk = machine.disk();
    let is_harmless = plan.harm == Harm::None;
    let mut writers: Vec<Writer> = (0..plan.writers).map(|number| Writer::new(number, plan.seed)).collect();
    let mut checked = 0;
    drop(machine.reach(server));
    disk.set_faults(plan.faults.clone());
    for _ in 0..CRASHES {
        let kinds = log.kinds();
        let kind = kinds[machine.draw(kinds.len() as u64) as usize];
        let (longest_ms, pause) = log.life(plan.millis);
        let time_ns = 5_000_000 + machine.draw(longest_ms * 1_000_000);
        machine.plan_crash(kind, time_ns, CHANGES);
        let fails = plan.harm == Harm::Said && machine.draw(2) == 1;
        if fails {
            proof.plan_failure(time_ns);
        }
        let may_be_refused = !is_harmless;
        let load = Load { until_ns: server.now_ns() + time_ns, pause, depth: if may_be_refused { 1 } else { 4 }, may_be_refused };
        let write = |mut writer: Writer| {
            let own = server.clone();
            server.spawn("writer", move || {
                writer.write(&own, load);
                writer
            })
        };
        let rewrites = (machine.draw(2) == 1 || log.key_us > 0).then(|| {
            let (own, first_ns) = (server.clone(), machine.draw(time_ns / if log.key_us > 0 { 4 } else { 1 }));
            server.spawn("rewrites", move || rewrite(&own, load.until_ns, first_ns))
        });
        // A log that is broken keeps nothing from being read, but no unit is told of that it may lack.
        let looks = is_harmless.then(|| {
            let own = server.clone();
            server.spawn("looks", move || Seen::look(&own, load.until_ns))
        });
        let listens = (plan.harm != Harm::Hidden).then(|| {
            let own = server.clone();
            server.spawn("listens", move || Seen::listen(&own, load.until_ns))
        });
        let cools = has_device(plan.seed, is_harmless).then(|| {
            let (own, most_ns) = (server.clone(), machine.draw(time_ns / 4));
            server.spawn("cools", move || cool(&own, load.until_ns, most_ns))
        });
        let threads: Vec<_> = writers.drain(..).map(write).collect();
        writers = threads.into_iter().map(|thread| thread.join()).collect();
        let seen: Vec<Seen> = looks.into_iter().chain(listens).map(|thread| thread.join()).collect();
        rewrites.into_iter().chain(cools).for_each(|thread| thread.join());
        let last_told_ns = durability::last_told_ns(&writers);
        server.sleep(Duration::from_nanos((load.until_ns + 1_000_000).saturating_sub(server.now_ns())) + AWAY);
        if !is_harmless {
            disk.heal();
            disk.set_faults(DiskFaults::default());
        }
        machine.boot();
        // It may crash again while it starts, in the same way; what is there must still be.
        let again_ns = 1 + machine.draw(100_000_000);
        if machine.draw(3) == 2 {
            machine.plan_crash(kind, again_ns, CHANGES_OF_START);
            server.sleep(Duration::from_nanos(again_ns) + AWAY);
            machine.boot();
        }
        let Some(mut control) = machine.reach(server) else { break };
        checked += durability::check(&mut control, &mut writers, proof.promise(kind, fails, last_told_ns), &seen)
            .unwrap_or_else(|breach| panic!("after a crash of the {kind:?} with {:?}: {breach}", log.mode));
        disk.set_faults(plan.faults.clone());
    }
    match machine.refused() {
        None => end(&proof, server, &mut writers),
        Some(_) if plan.harm == Harm::Hidden => {}
        Some(text) => return Err(format!("the start is refused: {text}")),
    }
    Ok(usize::try_from(checked).unwrap_or(usize::MAX))
}

/// Has the server rewrite its log after some time, and again and again, until it ends.
fn rewrite(server: &Simulated, until_ns: u64, first_ns: u64) {
    let Ok(mut client) = Client::of(server) else { return };
    let mut pause = Duration::from_nanos(first_ns);
    while server.now_ns() + (pause.as_nanos() as u64) < until_ns {
        server.sleep(pause);
        pause = Duration::from_millis(3);
        // It may be refused: one may be under way, or the disk may have failed.
        match client.call(&["BGREWRITEAOF"]) {
            Ok(reply) if reply != Value::Closed => {}
            _ => return,
        }
    }
}

/// Has all data leave memory again and again.
fn cool(server: &Simulated, until_ns: u64, pause_ns: u64) {
    let Ok(mut client) = Client::of(server) else { return };
    while server.now_ns() + pause_ns < until_ns {
        server.sleep(Duration::from_nanos(pause_ns.max(1_000_000)));
        match client.call(&["DEBUG", "STORAGE", "EVICT"]) {
            Ok(Value::Simple(_) | Value::Error(_)) => {}
            _ => return,
        }
    }
}

/// Ends the server, and looks what is there when it has started again.
fn end(proof: &Proof, server: &Simulated, writers: &mut [Writer]) {
    let Proof { machine, plan, .. } = proof;
    let disk = machine.disk();
    disk.heal();
    disk.set_faults(DiskFaults::default());
    for boots in [true, false] {
        let Some(mut control) = machine.reach(server) else {
            assert!(plan.harm == Harm::Hidden, "the start is refused: {:?}", machine.refused());
            return;
        };
        durability::check(&mut control, writers, Promise::Found, &[])
            .unwrap_or_else(|breach| panic!("after a clean end: {breach}"));
        machine.shut_down(&mut control);
        if boots {
            machine.boot();
        }
    }
}
