//! A server with `appendonly yes` that crashes while clients write, in each way and at any time, and boots again: what the settings
//! promise is there.
//!
//! What a run may do is what its settings promise to survive. Rings in shared memory end with a container, so the server is told
//! there by `ring-dir none` to have none. A disk that fails is whole again when the server boots. One that lies may lose what it
//! has lost, but then the start is refused, or what is there is still that up to one moment. A device has a disk of its own
//! (`device.rs`).

mod device;
mod switch;

use std::sync::Arc;
use std::time::Duration;

use almandine_base::sometimes;
use almandine_io::sim::disk::DiskFaults;
use almandine_io::sim::world::CrashKind;
use almandine_testkit::promises::durability::{self, Load, Promise, Seen, Writer};
use almandine_testkit::promises::values::Keeper;
use almandine_testkit::{Client, Runtime, Value};

use self::device::Device;
pub(super) use self::device::{Harm, is_there as has_device};
use super::machine::{AWAY, Machine};
use crate::runtime::{Connection, Simulated};

/// Times that the server crashes.
const CRASHES: u64 = 3;
/// What `everysec` may lose: a second, and what one sync takes on a disk that may be slow.
const LOST_NS: u64 = 1_000_000_000 + 1_000_000_000;
/// The shortest life of a server.
const SHORTEST_NS: u64 = 5_000_000;
/// Changes of the disk among which one is replaced by the crash, while clients write and while the server starts.
const CHANGES: u64 = 60;
const CHANGES_OF_START: u64 = 30;
const CHANGES_OF_HEALING: u64 = 20 * CHANGES;

/// Seconds for which no server lives while its log is broken.
const PATIENT_S: u64 = 20;
/// What a reply takes at least that has waited for a log that tries once a second to go on.
const HEALED_NS: u64 = 900_000_000;
/// The rest behind data that did not leave memory.
const COOLED: Duration = Duration::from_millis(500);

/// How the log is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Always,
    EverySecond,
    Never,
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
    /// What the device does, if there is one.
    pub(super) device: Option<DiskFaults>,
    /// No thread is kept from its processor for long.
    pub(super) is_prompt: bool,
}

/// Where the rings of the log lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rings {
    InMemory,
    WithLog,
    None,
}

/// What a seed means for the log.
#[derive(Clone, Copy, Debug)]
struct Log {
    mode: Mode,
    rings: Rings,
    /// Microseconds that a base takes for each key; 0 in most seeds.
    key_us: u64,
    /// Seconds for which replies wait until a log is healed that broke.
    heal_wait_s: u64,
    /// It is turned off and on while units are done.
    switches: bool,
}

impl Log {
    fn of(seed: u64) -> Self {
        let mode = [Mode::Always, Mode::EverySecond, Mode::Never][(seed % 3) as usize];
        let key_us = if (seed / 9) % 3 == 1 { 1_000 << (seed / 27 % 4) } else { 0 };
        let rings = match (seed / 3 % 3, seed / 9 % 2) {
            (0, _) => Rings::None,
            (2, 0) => Rings::WithLog,
            _ => Rings::InMemory,
        };
        let heal_wait_s = [PATIENT_S, 0, PATIENT_S, 1][(seed / 10 % 4) as usize];
        Self { mode, rings, key_us, heal_wait_s, switches: (seed / 5) % 4 == 3 }
    }

    /// Whether replies wait until the log is healed, however long that takes in a life.
    fn is_patient(self) -> bool {
        self.heal_wait_s == PATIENT_S
    }

    /// For how long a server lives at most, when most live for `millis`, and the time between two units of a writer: what is lost
    /// of a second shows behind some seconds only, and databases are emptied twice while a slow base is made. `heals`: the disk
    /// fails in it, and is sound again.
    fn life(self, millis: u64, heals: bool) -> (u64, Duration) {
        let (times, pause_us) = match self.mode {
            Mode::EverySecond => (10, 20_000),
            // The log tries once a second to go on.
            _ if heals => (60, 60_000),
            _ if self.key_us > 0 => (4, 2_000),
            _ => (1, 2_000),
        };
        (times * millis, Duration::from_micros(pause_us))
    }

    /// Kinds of crashes that it survives.
    fn kinds(self) -> &'static [CrashKind] {
        match self.rings {
            Rings::InMemory => &[CrashKind::Process, CrashKind::Machine],
            Rings::None | Rings::WithLog => &[CrashKind::Process, CrashKind::Container, CrashKind::Machine],
        }
    }
}

/// What the server is told of its log, and of the device.
pub(super) fn settings(seed: u64, has_device: bool) -> String {
    let Log { mode, rings, key_us, heal_wait_s, .. } = Log::of(seed);
    let mode = match mode {
        Mode::Always => "always",
        Mode::EverySecond => "everysec",
        Mode::Never => "no",
    };
    let rings = match rings {
        Rings::InMemory => "auto",
        Rings::WithLog => "log",
        Rings::None => "none",
    };
    let device = if has_device { device::settings(seed) } else { String::new() };
    let log = format!(" --appendonly yes --appendfsync {mode} --ring-dir {rings} --log-heal-wait {heal_wait_s}");
    format!("{log} --rdb-key-save-delay {key_us}{device}")
}

/// The proof, as it goes on.
struct Proof {
    machine: Machine,
    plan: Plan,
    log: Log,
    device: Option<Device>,
}

impl Proof {
    /// Has the disk refuse all writes, and in half of the lives all syncs, for a part of a life, so that the log breaks while units
    /// are done, and may heal.
    /// `heals`: it is sound again for most of the life, or that ends before. How long the life is then.
    fn plan_failure(&self, time_ns: u64, heals: bool) -> u64 {
        let (begun_ns, part) = (self.machine.world.turn().now_ns(), if heals { 4 } else { 1 });
        let from_ns = begun_ns + self.machine.draw(time_ns / part);
        let until_ns = (from_ns + self.machine.draw(time_ns / part)).min(begun_ns + time_ns);
        let usual = self.plan.faults.clone();
        // Behind a sync of a directory that has failed only a base heals the log.
        let sync_errors = 1_000_000 * u32::try_from(self.machine.draw(2)).unwrap_or(1);
        let all = DiskFaults { write_errors: 1_000_000, sync_errors, ..usual.clone() };
        let ends_broken = heals && self.machine.draw(2) == 1;
        let life_ns =
            if ends_broken { (from_ns + self.machine.draw(until_ns - from_ns + 1) - begun_ns).max(SHORTEST_NS) } else { time_ns };
        // Behind a life the disk is sound until the next one.
        for (at_ns, faults) in [(from_ns, all), (until_ns, usual)].into_iter().filter(|(at_ns, _)| *at_ns <= begun_ns + life_ns) {
            let (world, node) = (Arc::downgrade(&self.machine.world), self.machine.node);
            self.machine.world.turn().at(at_ns, move || {
                if let Some(world) = world.upgrade() {
                    world.disk(node).set_faults(faults);
                }
            });
        }
        life_ns
    }

    /// What must be there after a crash. A sync that has failed may drop what was written before, as a machine does.
    fn promise(&self, life: &Life) -> Promise {
        let Life { kind, has_failed, last_told_ns, .. } = *life;
        match self.log.mode {
            _ if self.plan.harm == Harm::Hidden => Promise::Nothing,
            // What is there is the log before, or nothing of it.
            _ if !life.counts => Promise::Found,
            Mode::Always => Promise::All,
            _ if kind != CrashKind::Machine && !has_failed => Promise::All,
            // The thread that syncs may be kept from its processor.
            Mode::EverySecond if !self.plan.is_prompt => Promise::Found,
            Mode::EverySecond => Promise::Until(last_told_ns.saturating_sub(LOST_NS)),
            Mode::Never => Promise::Found,
        }
    }
}

/// Has clients load the server in each of its lives, and looks what is there behind each crash. How many units and values there
/// were.
///
/// # Errors
/// Why the server has refused to start.
pub(super) fn record(plan: Plan, server: &Simulated) -> Result<usize, String> {
    let machine = Machine::of(server, plan.settings.clone());
    let device = plan.device.clone().map(|faults| Device::new(&machine, faults, plan.harm));
    let proof = Proof { machine, log: Log::of(plan.seed), device, plan };
    let Proof { machine, plan, device, .. } = &proof;
    let writers = if proof.has_units() { plan.writers } else { 0 };
    let mut clients = Clients {
        writers: (0..writers).map(|number| Writer::new(number, plan.seed)).collect(),
        keepers: device.iter().flat_map(|device| device.keepers(plan.seed)).collect(),
    };
    let (mut checked, mut counts) = (0, true);
    drop(machine.reach(server));
    proof.begin_faults();
    for _ in 0..CRASHES {
        let life = proof.live(server, &mut clients);
        counts = life.counts;
        let Some(mut control) = proof.boot(server, life.kind) else { break };
        checked += proof.check(server, &mut control, &mut clients, &life);
        proof.begin_faults();
    }
    match machine.refused() {
        None => end(&proof, server, &mut clients),
        Some(_) if plan.harm == Harm::Hidden => {}
        // The device belongs to no log while it is off.
        Some(text) if !counts && device.is_some() && text.contains(switch::BELONGS_TO_NONE) => {}
        Some(text) => return Err(format!("the start is refused: {text}")),
    }
    Ok(usize::try_from(checked).unwrap_or(usize::MAX))
}

/// Those that know what must be there.
struct Clients {
    /// Of units, where these are never done in part.
    writers: Vec<Writer>,
    /// Of values on the device.
    keepers: Vec<Keeper>,
}

/// A life of the server that is over.
struct Life {
    kind: CrashKind,
    /// The log's disk has refused all for a part of it.
    has_failed: bool,
    /// The last time at which a writer was told anything.
    last_told_ns: u64,
    /// The log was on, and had its base, when the server crashed.
    counts: bool,
    seen: Vec<Seen>,
}

impl Proof {
    fn has_units(&self) -> bool {
        self.device.as_ref().is_none_or(Device::gives_all)
    }

    fn begin_faults(&self) {
        self.machine.disk().set_faults(self.plan.faults.clone());
        self.device.iter().for_each(Device::begin_faults);
    }

    /// The disks are sound.
    fn end_faults(&self) {
        let disk = self.machine.disk();
        disk.heal();
        disk.set_faults(DiskFaults::default());
        self.device.iter().for_each(Device::end_faults);
    }

    /// Clients load the server until it has crashed.
    fn live(&self, server: &Simulated, clients: &mut Clients) -> Life {
        let Self { machine, plan, log, device } = self;
        let kinds = log.kinds();
        let kind = kinds[machine.draw(kinds.len() as u64) as usize];
        let has_failed = plan.harm == Harm::Said && machine.draw(2) == 1;
        let may_heal = has_failed && log.heal_wait_s > 0 && log.mode == Mode::Always;
        let (longest_ms, mut pause) = log.life(plan.millis, may_heal);
        let mut time_ns = SHORTEST_NS + machine.draw(longest_ms * 1_000_000);
        if has_failed {
            let life_ns = time_ns;
            time_ns = self.plan_failure(life_ns, may_heal);
            if time_ns < life_ns {
                // Dense work, so that a unit is what cannot be written.
                pause = Duration::from_millis(5);
            }
        }
        // In some lives of a device it crashes when it has served again on sound disks.
        let heals = device.as_ref().filter(|_| machine.draw(3) == 2);
        if heals.is_none() {
            machine.plan_crash(kind, time_ns, if may_heal { CHANGES_OF_HEALING } else { CHANGES });
        }
        if let Some(device) = device.as_ref().filter(|device| device.fails() && machine.draw(2) == 1) {
            device.plan_outage(machine, time_ns);
        }
        let is_harmless = plan.harm == Harm::None;
        let may_be_refused = !is_harmless || device.as_ref().is_some_and(Device::fails);
        let load = Load { until_ns: server.now_ns() + time_ns, pause, depth: if may_be_refused { 1 } else { 4 }, may_be_refused };
        let write = |mut writer: Writer| {
            let own = server.clone();
            server.spawn("writer", move || {
                writer.write(&own, load);
                writer
            })
        };
        // While the log is off that would write an append-only file of Redis, beside which no log goes on.
        let rewrites = ((machine.draw(2) == 1 || log.key_us > 0) && !log.switches).then(|| {
            let (own, first_ns) = (server.clone(), machine.draw(time_ns / if log.key_us > 0 { 4 } else { 1 }));
            server.spawn("rewrites", move || rewrite(&own, load.until_ns, first_ns))
        });
        // A log that is given up keeps nothing from being read, but no unit is told of that it may lack.
        let is_read = is_harmless || plan.harm == Harm::Said && log.mode == Mode::Always && log.is_patient();
        let looks = (is_read && self.has_units()).then(|| {
            let own = server.clone();
            server.spawn("looks", move || Seen::look(&own, load.until_ns))
        });
        let listens = (plan.harm != Harm::Hidden && self.has_units()).then(|| {
            let own = server.clone();
            server.spawn("listens", move || Seen::listen(&own, load.until_ns))
        });
        let switches = log.switches.then(|| {
            let (own, first_ns) = (server.clone(), machine.draw(time_ns / 2));
            server.spawn("switches", move || switch::go_on(&own, load.until_ns, first_ns))
        });
        let cools = device.is_some().then(|| {
            let (own, most_ns) = (server.clone(), machine.draw(time_ns / 4));
            server.spawn("cools", move || cool(&own, load.until_ns, most_ns))
        });
        let keep = |device: &Device| {
            let keepers = clients.keepers.drain(..);
            keepers.map(|keeper| device.work(server, (load.until_ns, pause / 4), keeper)).collect::<Vec<_>>()
        };
        let keepers = device.as_ref().map(keep).unwrap_or_default();
        let threads: Vec<_> = clients.writers.drain(..).map(write).collect();
        clients.writers = threads.into_iter().map(|thread| thread.join()).collect();
        clients.keepers = keepers.into_iter().map(|thread| thread.join()).collect();
        let seen: Vec<Seen> = looks.into_iter().chain(listens).map(|thread| thread.join()).collect();
        rewrites.into_iter().chain(cools).for_each(|thread| thread.join());
        if log.mode == Mode::Always && clients.writers.iter().any(|writer| writer.longest_ns() > HEALED_NS) {
            sometimes!("a reply waits until a broken log is healed");
        }
        let mut counts = switches.is_none_or(|thread| thread.join());
        let told = clients.keepers.iter().map(Keeper::last_told_ns);
        let last_told_ns = told.chain([durability::last_told_ns(&clients.writers)]).max().unwrap_or(0);
        if let Some(device) = heals {
            server.sleep(Duration::from_nanos((load.until_ns + 1_000_000).saturating_sub(server.now_ns())));
            self.end_faults();
            if log.switches {
                counts = switch::turn_on(server);
            }
            device.heals(machine, server, &mut clients.keepers);
            machine.crash(kind);
        }
        server.sleep(Duration::from_nanos((load.until_ns + 1_000_000).saturating_sub(server.now_ns())) + AWAY);
        Life { kind, has_failed, last_told_ns, counts, seen }
    }

    /// Boots the server, on sound disks or a device that still fails; none where it refuses to start on sound ones.
    fn boot(&self, server: &Simulated, kind: CrashKind) -> Option<Client<Connection>> {
        let Self { machine, device, .. } = self;
        let stays = device.as_ref().filter(|device| device.fails() && self.plan.harm == Harm::None && machine.draw(2) == 1);
        if stays.is_none() {
            self.end_faults();
        }
        machine.boot();
        // It may crash again while it starts, in the same way; what is there must still be.
        let again_ns = 1 + machine.draw(100_000_000);
        if machine.draw(3) == 2 {
            machine.plan_crash(kind, again_ns, CHANGES_OF_START);
            server.sleep(Duration::from_nanos(again_ns) + AWAY);
            if stays.is_some() {
                machine.forget_refusal();
            }
            machine.boot();
        }
        let mut control = machine.reach(server);
        if let (Some(device), None) = (stays, &control) {
            control = device.start_again(machine, server);
        }
        self.end_faults();
        device.iter().for_each(Device::boots);
        control
    }

    /// What is there behind a crash is what was promised; how much it is.
    fn check(&self, server: &Simulated, control: &mut Client<Connection>, clients: &mut Clients, life: &Life) -> u64 {
        let promise = self.promise(life);
        self.check_all(server, control, clients, (life, promise))
    }

    fn check_all(
        &self,
        server: &Simulated,
        control: &mut Client<Connection>,
        clients: &mut Clients,
        (life, promise): (&Life, Promise),
    ) -> u64 {
        let Life { kind, ref seen, .. } = *life;
        let units = if self.has_units() { durability::check(control, &mut clients.writers, promise, seen) } else { Ok(0) };
        let values = |device: &Device| device.check(server, control, &mut clients.keepers, promise);
        let checked = units.and_then(|units| Ok(units + self.device.as_ref().map_or(Ok(0), values)?));
        checked.unwrap_or_else(|breach| panic!("after a crash of the {kind:?} with {:?}: {breach}", self.log.mode))
    }
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
            Ok(Value::Simple(_)) => {}
            // The device takes nothing, and the command has waited for it.
            Ok(Value::Error(_)) => server.sleep(COOLED),
            _ => return,
        }
    }
}

/// Ends the server, and looks what is there when it has started again.
fn end(proof: &Proof, server: &Simulated, clients: &mut Clients) {
    let Proof { machine, plan, .. } = proof;
    proof.end_faults();
    for boots in [true, false] {
        let Some(mut control) = machine.reach(server) else {
            assert!(plan.harm == Harm::Hidden, "the start is refused: {:?}", machine.refused());
            return;
        };
        let life = Life { kind: CrashKind::Process, has_failed: false, last_told_ns: 0, counts: true, seen: Vec::new() };
        proof.check_all(server, &mut control, clients, (&life, Promise::Found));
        machine.shut_down(&mut control);
        if boots {
            machine.boot();
        }
    }
}
