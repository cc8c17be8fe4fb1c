//! The device of a server with a log, on a disk of its own that fails or lies, and the keepers whose values lie there.
//!
//! What fails says so: commands are refused and have changed nothing, and the server serves by itself when the device is sound.
//! What lies gives errors, never other bytes; keys may be given up then. A start on such a device is refused with the page or the
//! file, or goes on, and the next one on a sound device has all that the settings promise.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use almandine_io::sim::disk::{Disk, DiskFaults};
use almandine_testkit::promises::durability::Promise;
use almandine_testkit::promises::values::{Keeper, Load, Medium};
use almandine_testkit::{Client, Runtime, Value};

use super::super::machine::{AWAY, Machine};
use crate::runtime::{Connection, Simulated};

/// Where it is.
const DIRECTORY: &str = "/data/pages";
/// Keepers, and the keys of each.
const KEEPERS: usize = 3;
const KEYS: usize = 40;
/// How long a server may take to serve again once its disks are sound.
const HEALS: Duration = Duration::from_secs(120);
/// What a disk hides.
const LIES: [&str; 4] = ["a bit is flipped", "a write is lost", "a write is misdirected", "a page becomes unreadable"];

/// What the disk does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    /// Nothing that could be lost by it.
    None,
    /// It says that it fails.
    Said,
    /// It lies.
    Hidden,
}

/// Whether data goes to a device, too: in half of the seeds, but for a medium that is one.
pub(crate) fn is_there(seed: u64, is_device: bool) -> bool {
    is_device || (seed / 5) % 2 == 1
}

/// What the server is told of it. What is dead there is compacted soon, so that bases meet that.
pub(super) fn settings(seed: u64) -> String {
    let recovers = if seed % 7 < 3 { "yes" } else { "no" };
    format!(
        " --storage-dir pages --maxmemory 12mb --storage-garbage-max 10 --enable-debug-command yes --recover-damaged {recovers}"
    )
}

/// See the module.
pub(super) struct Device {
    disk: Arc<Disk>,
    faults: DiskFaults,
    harm: Harm,
    /// What the log's disk does.
    log_harm: Harm,
    /// Syncs that had failed when the server booted last.
    failed_syncs: AtomicU64,
}

impl Device {
    /// The one of a server whose device does this.
    pub(super) fn new(machine: &Machine, faults: DiskFaults, log_harm: Harm) -> Self {
        let harm = if faults.unreadable_pages + faults.flipped_bits + faults.lost_writes + faults.misdirected_writes > 0 {
            Harm::Hidden
        } else if faults.read_errors + faults.write_errors + faults.sync_errors + faults.punch_errors > 0
            || faults.full_at_bytes.is_some()
        {
            Harm::Said
        } else {
            Harm::None
        };
        let device = Self { disk: machine.disk(), faults, harm, log_harm, failed_syncs: AtomicU64::new(0) };
        device.end_faults();
        device
    }

    pub(super) fn fails(&self) -> bool {
        self.harm != Harm::None
    }

    /// Whether units of several commands are never done in part: a command that needs a record which the device does not give, or
    /// has lost with a sync that failed, fails by itself.
    pub(super) fn gives_all(&self) -> bool {
        let fails_to_give = self.faults.read_errors + self.faults.sync_errors > 0;
        self.harm != Harm::Hidden && !fails_to_give && self.log_harm == Harm::None
    }

    pub(super) fn begin_faults(&self) {
        self.disk.set_faults_of(DIRECTORY, self.faults.clone());
    }

    pub(super) fn end_faults(&self) {
        self.disk.set_faults_of(DIRECTORY, DiskFaults::default());
    }

    /// Has all reads, all writes or all syncs of the device fail for a part of a life.
    pub(super) fn plan_outage(&self, machine: &Machine, time_ns: u64) {
        const ALL: u32 = 1_000_000;
        let begun_ns = machine.world.turn().now_ns();
        let from_ns = begun_ns + machine.draw(time_ns);
        let until_ns = (from_ns + machine.draw(time_ns)).min(begun_ns + time_ns);
        let mut faults = self.faults.clone();
        match machine.draw(4) {
            0 if !self.gives_all() => faults.read_errors = ALL,
            1 if !self.gives_all() => faults.sync_errors = ALL,
            2 => faults.punch_errors = ALL,
            _ => faults.write_errors = ALL,
        }
        for (at_ns, faults) in [(from_ns, faults), (until_ns, self.faults.clone())] {
            let disk = Arc::downgrade(&self.disk);
            machine.world.turn().at(at_ns, move || {
                if let Some(disk) = disk.upgrade() {
                    disk.set_faults_of(DIRECTORY, faults);
                }
            });
        }
    }

    /// The server begins anew: what it does not have in memory it takes from the log.
    pub(super) fn boots(&self) {
        self.failed_syncs.store(failed_syncs(&self.disk), Ordering::Relaxed);
    }

    /// Whether a sync has failed since the server booted. Then none succeeds before it boots again, and what was written may be
    /// gone until then.
    fn has_failed_syncs(&self) -> bool {
        failed_syncs(&self.disk) > self.failed_syncs.load(Ordering::Relaxed)
    }

    /// What keepers may be answered.
    fn medium(&self) -> Medium {
        medium(&self.disk, self.fails() || self.log_harm != Harm::None, self.failed_syncs.load(Ordering::Relaxed))
    }

    pub(super) fn keepers(&self, seed: u64) -> Vec<Keeper> {
        (0..KEEPERS).map(|number| Keeper::new(number, KEYS, seed)).collect()
    }

    /// Has a keeper work, in a thread of its own.
    pub(super) fn work(
        &self,
        server: &Simulated,
        (until_ns, pause): (u64, Duration),
        mut keeper: Keeper,
    ) -> almandine_testkit::runtime::Joiner<Keeper> {
        let (own, disk, may_fail) = (server.clone(), Arc::clone(&self.disk), self.medium().may_fail);
        let failed_syncs = self.failed_syncs.load(Ordering::Relaxed);
        let load = Load { until_ns, pause, is_large: self.faults.full_at_bytes.is_some() };
        server.spawn("keeper", move || {
            keeper.work(&own, load, &|| medium(&disk, may_fail, failed_syncs));
            keeper
        })
    }

    /// What keepers have is there.
    pub(super) fn check(
        &self,
        server: &Simulated,
        control: &mut Client<Connection>,
        keepers: &mut [Keeper],
        promise: Promise,
    ) -> Result<u64, String> {
        let medium = self.medium();
        keepers.iter_mut().map(|keeper| keeper.check(server, control, promise, medium)).sum()
    }

    /// The disks are sound: writes are taken, all that keepers have is there, and a base succeeds. Where a sync of the device has
    /// failed, that takes a restart.
    pub(super) fn heals(&self, machine: &Machine, server: &Simulated, keepers: &mut [Keeper]) {
        let mut control = machine.reach(server).expect("a server that runs is not refused");
        let is_sound = !self.has_failed_syncs();
        // A log that broke may need a base.
        if is_sound || self.log_harm == Harm::None {
            await_answer(server, &mut control, &["SET", "probe", "1"], &|reply| *reply == Value::ok());
        }
        if !is_sound {
            return;
        }
        self.check(server, &mut control, keepers, Promise::All).unwrap_or_else(|breach| panic!("on sound disks: {breach}"));
        let until_ns = server.now_ns() + HEALS.as_nanos() as u64;
        // Whether there is room for a file is looked at once a second.
        while !makes_base(server, &mut control) {
            assert!(server.now_ns() < until_ns, "the disks are sound for {HEALS:?}, and no base is made");
        }
    }

    /// Why a start was refused names what is wrong; the next one is on sound disks.
    pub(super) fn start_again(&self, machine: &Machine, server: &Simulated) -> Option<Client<Connection>> {
        let text = machine.forget_refusal().unwrap_or_default();
        assert!(self.fails(), "the start on a sound device is refused: {text}");
        assert!(text.contains("of the storage") || text.contains(DIRECTORY), "the start is refused without what is wrong: {text}");
        self.disk.heal();
        self.end_faults();
        machine.crash(almandine_io::sim::world::CrashKind::Process);
        server.sleep(AWAY);
        machine.boot();
        machine.reach(server)
    }
}

/// Whether a base that is asked for succeeds.
fn makes_base(server: &Simulated, control: &mut Client<Connection>) -> bool {
    await_answer(server, control, &["BGREWRITEAOF"], &|reply| !reply.is_error());
    let holds = |reply: &Value, words: &[&str]| words.iter().all(|word| reply.to_string().contains(word));
    let info = ["INFO", "persistence"];
    await_answer(server, control, &info, &|reply| holds(reply, &["aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"]));
    control.call(&info).is_ok_and(|reply| holds(&reply, &["aof_last_bgrewrite_status:ok"]))
}

/// Syncs of the device that have failed so far.
fn failed_syncs(disk: &Disk) -> u64 {
    disk.happened().get("apart: a sync fails").copied().unwrap_or(0)
}

fn medium(disk: &Disk, may_fail: bool, failed_before: u64) -> Medium {
    let is_lie = |what: &&str| LIES.contains(&what.strip_prefix("apart: ").unwrap_or(what));
    let has_lied = disk.happened().keys().any(is_lie) || failed_syncs(disk) > failed_before;
    Medium { may_fail, has_lied }
}

/// Asks until the answer is right.
fn await_answer(server: &Simulated, control: &mut Client<Connection>, words: &[&str], is_right: &dyn Fn(&Value) -> bool) {
    let until_ns = server.now_ns() + HEALS.as_nanos() as u64;
    loop {
        let reply = control.call(words);
        if reply.as_ref().is_ok_and(is_right) {
            return;
        }
        assert!(server.now_ns() < until_ns, "the disks are sound for {HEALS:?}, and {words:?} is answered {reply:?}");
        // Connections that wait for a log that is given up are closed.
        let is_closed = reply.is_err() || reply.is_ok_and(|reply| reply == Value::Closed);
        if let Some(client) = is_closed.then(|| Client::of(server).ok()).flatten() {
            *control = client;
        }
        server.sleep(Duration::from_millis(50));
    }
}
