//! A server with `appendonly yes` that crashes while clients write, in each way and at any time, and boots again: what the settings
//! promise is there.
//!
//! What a run may do is what its settings promise to survive. Rings in shared memory end with a container, so the server is told
//! there by `ring-dir none` to have none. A disk that fails is whole again when the server boots. One that lies may lose what it
//! has lost, but then the start is refused, or what is there is still that up to one moment.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use almandine_io::sim::choice::Subsystem;
use almandine_io::sim::disk::DiskFaults;
use almandine_io::sim::turn::SimThread;
use almandine_io::sim::world::{self, CrashKind, NodeId, World};
use almandine_testkit::promises::durability::{self, Load, Promise, Writer};
use almandine_testkit::{Client, Runtime, Value};

use crate::runtime::{Connection, Simulated};
use crate::server::{self, Refused};

/// Times that the server crashes.
const CRASHES: u64 = 3;
/// How long it is away.
const AWAY: Duration = Duration::from_millis(200);
/// How long a start may take, with a disk that is slow and threads that are starved.
const START_MAX: Duration = Duration::from_secs(120);
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
}

impl Log {
    fn of(seed: u64) -> Self {
        let mode = [Mode::Always, Mode::EverySecond, Mode::Never][(seed % 3) as usize];
        Self { mode, has_rings: !(seed / 3).is_multiple_of(3) }
    }

    /// Kinds of crashes that it survives.
    fn kinds(self) -> &'static [CrashKind] {
        match self.has_rings {
            true => &[CrashKind::Process, CrashKind::Machine],
            false => &[CrashKind::Process, CrashKind::Container, CrashKind::Machine],
        }
    }
}

/// What the server is told of its log.
pub(super) fn settings(seed: u64) -> String {
    let Log { mode, has_rings } = Log::of(seed);
    let mode = match mode {
        Mode::Always => "always",
        Mode::EverySecond => "everysec",
        Mode::Never => "no",
    };
    format!(" --appendonly yes --appendfsync {mode} --ring-dir {}", if has_rings { "auto" } else { "none" })
}

/// The machine of the server, as the proof drives it.
struct Machine {
    world: Arc<World>,
    node: NodeId,
    plan: Plan,
    log: Log,
    refused: Refused,
    /// The server that was booted last.
    running: Mutex<Option<SimThread<()>>>,
}

impl Machine {
    fn draw(&self, limit: u64) -> u64 {
        self.world.turn().below(Subsystem::Clients, limit)
    }

    /// Has the server crash after some time, or at a change of its disk before.
    fn plan_crash(&self, kind: CrashKind, time_ns: u64, changes: u64) {
        let disk = self.world.disk(self.node);
        if self.draw(2) == 1 {
            disk.crash_at(disk.changes() + self.draw(changes), kind);
        }
        let (world, node) = (Arc::downgrade(&self.world), self.node);
        let crash = move || {
            let Some(world) = world.upgrade() else { return };
            world.disk(node).crash_at(u64::MAX, kind);
            world.crash(node, kind);
        };
        self.world.turn().at(self.world.turn().now_ns() + time_ns, crash);
    }

    fn boot(&self) {
        let running = server::start_or_tell(&self.world, self.node, &self.plan.settings, &self.refused);
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
    }

    /// Waits for the end of the server.
    fn wait(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        running.into_iter().for_each(|server| _ = server.join());
    }

    fn refused(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A client of the server when it has read its log; none when it has refused to start.
    fn reach(&self, server: &Simulated) -> Option<Client<Connection>> {
        let begun_ns = server.now_ns();
        while self.refused().is_none() {
            let ready = |client: &mut Client<Connection>| client.call(&["DBSIZE"]).is_ok_and(|reply| reply.integer().is_some());
            if let Some(client) = Client::of(server).ok().and_then(|mut client| ready(&mut client).then_some(client)) {
                return Some(client);
            }
            assert!(server.now_ns() - begun_ns < START_MAX.as_nanos() as u64, "the server does not serve after {START_MAX:?}");
            server.sleep(Duration::from_millis(5));
        }
        None
    }

    /// What must be there after a crash.
    fn promise(&self, kind: CrashKind, last_told_ns: u64) -> Promise {
        match self.log.mode {
            _ if self.plan.harm == Harm::Hidden => Promise::Nothing,
            Mode::Always => Promise::All,
            _ if kind != CrashKind::Machine => Promise::All,
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
    let (world, _) = world::current().expect("a proof runs in a simulated thread");
    let (node, log) = (server.server(), Log::of(plan.seed));
    let machine = Machine { world, node, plan, log, refused: Refused::default(), running: Mutex::default() };
    let plan = &machine.plan;
    let disk = machine.world.disk(node);
    let is_harmless = plan.harm == Harm::None;
    let mut writers: Vec<Writer> = (0..plan.writers).map(|number| Writer::new(number, plan.seed)).collect();
    let mut checked = 0;
    drop(machine.reach(server));
    disk.set_faults(plan.faults.clone());
    for _ in 0..CRASHES {
        let kinds = log.kinds();
        let kind = kinds[machine.draw(kinds.len() as u64) as usize];
        // What is lost of a second shows behind some seconds only.
        let (longest_ms, pause_us) = if log.mode == Mode::EverySecond { (10 * plan.millis, 20_000) } else { (plan.millis, 2_000) };
        let time_ns = 5_000_000 + machine.draw(longest_ms * 1_000_000);
        machine.plan_crash(kind, time_ns, CHANGES);
        let may_be_refused = !is_harmless;
        let load = Load {
            until_ns: server.now_ns() + time_ns,
            pause: Duration::from_micros(pause_us),
            depth: if may_be_refused { 1 } else { 4 },
            may_be_refused,
        };
        let write = |mut writer: Writer| {
            let own = server.clone();
            server.spawn("writer", move || {
                writer.write(&own, load);
                writer
            })
        };
        let rewrites = (machine.draw(2) == 1).then(|| {
            let (own, first_ns) = (server.clone(), machine.draw(time_ns));
            server.spawn("rewrites", move || rewrite(&own, load.until_ns, first_ns))
        });
        let threads: Vec<_> = writers.drain(..).map(write).collect();
        writers = threads.into_iter().map(|thread| thread.join()).collect();
        rewrites.into_iter().for_each(|thread| thread.join());
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
        checked += durability::check(&mut control, &mut writers, machine.promise(kind, last_told_ns))
            .unwrap_or_else(|breach| panic!("after a crash of the {kind:?} with {:?}: {breach}", log.mode));
        disk.set_faults(plan.faults.clone());
    }
    match machine.refused() {
        None => end(&machine, server, &mut writers),
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

/// Ends the server, and looks what is there when it has started again.
fn end(machine: &Machine, server: &Simulated, writers: &mut [Writer]) {
    let disk = machine.world.disk(machine.node);
    disk.heal();
    disk.set_faults(DiskFaults::default());
    for boots in [true, false] {
        let Some(mut control) = machine.reach(server) else {
            assert!(machine.plan.harm == Harm::Hidden, "the start is refused: {:?}", machine.refused());
            return;
        };
        durability::check(&mut control, writers, Promise::Found).unwrap_or_else(|breach| panic!("after a clean end: {breach}"));
        // The connection ends with the server.
        let _ = control.send(&[["SHUTDOWN", "NOSAVE"]]);
        let _ = control.receive();
        machine.wait();
        if boots {
            machine.boot();
        }
    }
}
