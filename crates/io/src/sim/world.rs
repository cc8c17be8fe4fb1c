//! A world: nodes that boot, crash and boot again, in one simulation.
//!
//! What survives which crash: shared mappings survive that of a process; the boot id stays until the machine boots again; of
//! files see [`super::disk`].

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::choice::Choices;
use super::clock::WallClock;
use super::disk::Disk;
use super::net::{BlockingClient, Net};
pub use super::node::{CrashKind, NodeId};
use super::turn::{self, Point, Schedule, SimThread, Turn};
use crate::socket::Address;

/// What the monotonic clock shows when a process of a machine that has just booted can begin.
const BOOTED_NS: u64 = 1_000_000_000;

/// See the module.
pub struct World {
    turn: Arc<Turn>,
    net: Arc<Net>,
    nodes: Mutex<Vec<Node>>,
}

struct Node {
    boots: u64,
    /// When the machine booted last, in virtual time.
    boot_ns: u64,
    clock: WallClock,
    disk: Arc<Disk>,
    mappings: BTreeMap<String, Arc<[AtomicU64]>>,
}

/// Ends the threads of a world, whatever happens.
struct Ending(Arc<World>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.turn.end_all();
    }
}

/// The world and the node in which the calling thread runs. None when the caller is no simulated thread.
#[must_use]
pub fn current() -> Option<(Arc<World>, NodeId)> {
    let turn = turn::simulation()?;
    let node = turn::node()?;
    let world = turn.world.get()?.upgrade()?;
    Some((world.downcast().ok()?, NodeId(node)))
}

/// The disk that the calling thread uses; none when the caller is no simulated thread.
pub(crate) fn current_disk() -> Option<Arc<Disk>> {
    let (world, node) = current()?;
    Some(world.disk(node))
}

/// Connects the calling thread from its node to an address of another node, or of its own; see [`BlockingClient::connect`].
///
/// # Errors
/// As there, and when the caller is no simulated thread.
pub fn connect(to: NodeId, address: &Address, timeout: Duration) -> io::Result<BlockingClient> {
    let (world, from) = current().ok_or_else(|| io::Error::other("the caller is no simulated thread"))?;
    BlockingClient::connect(&world.net, from, to, address, timeout)
}

/// The monotonic clock of the caller's node; of a machine that has booted at the beginning of time, when the caller is an event.
/// None outside of a simulation.
pub(crate) fn monotonic_ns() -> Option<u64> {
    let turn = turn::simulation()?;
    turn::point(Point::Inner("reads the clock"));
    let boot_ns = current().map_or(0, |(world, node)| world.boot_ns(node));
    Some(turn.now_ns() - boot_ns + BOOTED_NS)
}

/// The wall clock of the caller's node in nanoseconds since the Unix epoch; one that is right, when the caller is an event. None
/// outside of a simulation.
pub(crate) fn unix_ns() -> Option<u64> {
    let turn = turn::simulation()?;
    turn::point(Point::Inner("reads the clock"));
    let unix_ns = match current() {
        Some((world, node)) => world.unix_ns(node),
        None => WallClock::default().unix_ns(turn.now_ns()),
    };
    Some(u64::try_from(unix_ns).unwrap_or(0))
}

impl World {
    /// Makes a world and hands it to `body`, which drives it; all threads of the world have ended when this returns.
    pub fn enter<T>(choices: Choices, schedule: Schedule, body: impl FnOnce(&Arc<Self>) -> T) -> T {
        let turn = Turn::new(choices, schedule);
        let world = Arc::new(Self { net: Net::new(&turn), turn, nodes: Mutex::new(Vec::new()) });
        let itself: Arc<dyn Any + Send + Sync> = Arc::clone(&world) as _;
        let _ = world.turn.world.set(Arc::downgrade(&itself));
        drop(itself);
        let ending = Ending(world);
        body(&ending.0)
    }

    /// The threads, the time, the choices and the trace.
    #[must_use]
    pub fn turn(&self) -> &Arc<Turn> {
        &self.turn
    }

    /// The network between the nodes.
    #[must_use]
    pub fn net(&self) -> &Arc<Net> {
        &self.net
    }

    /// A new machine.
    pub fn node(self: &Arc<Self>) -> NodeId {
        let mut nodes = self.nodes();
        let node = NodeId(u32::try_from(nodes.len()).unwrap_or(u32::MAX));
        let world = Arc::downgrade(self);
        let crash = move |kind| world.upgrade().into_iter().for_each(|world| world.crash(node, kind));
        let disk = Disk::new(&self.turn, node, Box::new(crash));
        let boot_ns = self.turn.now_ns();
        nodes.push(Node { boots: 1, boot_ns, clock: WallClock::default(), disk, mappings: BTreeMap::new() });
        node
    }

    /// Starts a thread on a node; after a crash of the node, in its new process.
    pub fn spawn<T: Send + 'static>(&self, node: NodeId, name: &str, body: impl FnOnce() -> T + Send + 'static) -> SimThread<T> {
        self.turn.spawn(name, node.0, body)
    }

    /// Runs for some virtual time, or until nothing is left to do. See [`Turn::run`] for errors.
    pub fn run(&self, time_ns: u64) -> Result<(), String> {
        let until_ns = self.turn.now_ns().saturating_add(time_ns);
        self.turn.run(until_ns)
    }

    /// The process of a node ends, and what does not survive this kind of crash is gone.
    pub fn crash(&self, node: NodeId, kind: CrashKind) {
        self.turn.crash(node.0);
        self.net.crash(node, kind);
        let mut nodes = self.nodes();
        let own = &mut nodes[node.0 as usize];
        if kind != CrashKind::Process {
            own.mappings.retain(|path, _| is_on_disk(path));
        }
        if kind == CrashKind::Machine {
            own.mappings.values().for_each(|words| lose_pages(words));
        }
        if kind == CrashKind::Machine {
            own.boots += 1;
            own.boot_ns = self.turn.now_ns();
        }
        let disk = Arc::clone(&own.disk);
        drop(nodes);
        disk.crash(kind);
    }

    /// The disk of a node.
    #[must_use]
    pub fn disk(&self, node: NodeId) -> Arc<Disk> {
        Arc::clone(&self.nodes()[node.0 as usize].disk)
    }

    /// Changes with each boot of the machine, and is of no other one.
    #[must_use]
    pub fn boot_id(&self, node: NodeId) -> u128 {
        u128::from(node.0) << 64 | u128::from(self.nodes()[node.0 as usize].boots)
    }

    /// When the machine booted last, in virtual time.
    fn boot_ns(&self, node: NodeId) -> u64 {
        self.nodes()[node.0 as usize].boot_ns
    }

    /// The mapping of this name, made of zeroes when there is none; it keeps the size that it has.
    #[must_use]
    pub fn mapping(&self, node: NodeId, name: &str, words: usize) -> Arc<[AtomicU64]> {
        let mut nodes = self.nodes();
        let mappings = &mut nodes[node.0 as usize].mappings;
        let made = || (0..words).map(|_| AtomicU64::new(0)).collect();
        Arc::clone(mappings.entry(name.to_owned()).or_insert_with(made))
    }

    /// A new mapping of zeroes; none when there is one of this name.
    pub(crate) fn make_mapping(&self, node: NodeId, name: &str, words: usize) -> Option<Arc<[AtomicU64]>> {
        let is_new = self.find_mapping(node, name).is_none();
        is_new.then(|| self.mapping(node, name, words))
    }

    /// The mapping of this name.
    pub(crate) fn find_mapping(&self, node: NodeId, name: &str) -> Option<Arc<[AtomicU64]>> {
        self.nodes()[node.0 as usize].mappings.get(name).map(Arc::clone)
    }

    /// Takes the name of a mapping away; false when there is none.
    pub(crate) fn remove_mapping(&self, node: NodeId, name: &str) -> bool {
        self.nodes()[node.0 as usize].mappings.remove(name).is_some()
    }

    /// The names of all mappings of a node.
    pub(crate) fn mappings(&self, node: NodeId) -> Vec<String> {
        self.nodes()[node.0 as usize].mappings.keys().cloned().collect()
    }

    /// Sets the wall clock of a node.
    pub fn set_clock(&self, node: NodeId, clock: WallClock) {
        self.nodes()[node.0 as usize].clock = clock;
    }

    /// What the wall clock of a node shows: nanoseconds since the Unix epoch.
    #[must_use]
    pub fn unix_ns(&self, node: NodeId) -> i64 {
        let now_ns = self.turn.now_ns();
        self.nodes()[node.0 as usize].clock.unix_ns(now_ns)
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a mapping lies on the disk of its node, and not in memory.
fn is_on_disk(path: &str) -> bool {
    path.starts_with('/') && !path.starts_with("/dev/shm/")
}

/// Of a mapping on a disk, the system has written some pages back and others not.
fn lose_pages(words: &[AtomicU64]) {
    const PAGE_WORDS: usize = 512;
    words.chunks(PAGE_WORDS).skip(1).step_by(2).flatten().for_each(|word| word.store(0, Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_and_boot_ids_survive_what_they_should() {
        World::enter(Choices::from_seed(1), Schedule::default(), |world| {
            let (one, other) = (world.node(), world.node());
            let write = |value| world.mapping(one, "ring", 4)[2].store(value, Ordering::Relaxed);
            let read = || world.mapping(one, "ring", 4)[2].load(Ordering::Relaxed);
            let boot = world.boot_id(one);
            assert_ne!(boot, world.boot_id(other));
            let mut before = [0, 0];
            for (kind, mapping_left, boot_left) in
                [(CrashKind::Process, true, true), (CrashKind::Container, false, true), (CrashKind::Machine, false, false)]
            {
                let boot = world.boot_id(one);
                write(7);
                world.crash(one, kind);
                assert_eq!((read() == 7, world.boot_id(one) == boot), (mapping_left, boot_left), "{kind:?}");
                let on_disk = world.mapping(one, "/data/ring", 1024);
                assert_eq!([3, 600].map(|at| on_disk[at].swap(7, Ordering::Relaxed)), before, "{kind:?}");
                before = if kind == CrashKind::Container { [7, 0] } else { [7, 7] };
            }
        });
    }

    #[test]
    fn a_crash_unwinds_the_threads_of_its_node_only() {
        World::enter(Choices::from_seed(1), Schedule::default(), |world| {
            let dropped = Arc::new(AtomicU64::new(0));
            struct Held(Arc<AtomicU64>);
            impl Drop for Held {
                fn drop(&mut self) {
                    // What unwinds does not wait.
                    turn::sleep(1_000_000_000);
                    self.0.fetch_add(1, Ordering::Relaxed);
                }
            }
            let (one, other) = (world.node(), world.node());
            let held = Held(Arc::clone(&dropped));
            let crashed = world.spawn(one, "crashed", move || {
                let _held = held;
                turn::sleep(3_600_000_000_000);
            });
            let waits = world.spawn(other, "waits", move || (crashed.join(), turn::simulation().unwrap().now_ns()));
            let weak = Arc::downgrade(world);
            world.turn().at(5_000_000_000, move || weak.upgrade().unwrap().crash(one, CrashKind::Process));
            let told = world.spawn(other, "told", move || waits.join());
            let again = world.spawn(other, "asks", move || told.join());
            let out = Arc::new(Mutex::new(None));
            let slot = Arc::clone(&out);
            let _ = world.spawn(other, "last", move || *slot.lock().unwrap() = again.join());
            world.run(7_200_000_000_000).unwrap();
            let (crashed, at_ns) = out.lock().unwrap().take().flatten().flatten().unwrap();
            assert_eq!((crashed, dropped.load(Ordering::Relaxed)), (None, 1));
            assert!((5_000_000_000..5_100_000_000).contains(&at_ns), "{at_ns}");
            // The node boots again.
            let restarted = Arc::clone(&dropped);
            let _ = world.spawn(one, "again", move || restarted.fetch_add(10, Ordering::Relaxed));
            world.run(1_000_000_000).unwrap();
            assert_eq!(dropped.load(Ordering::Relaxed), 11);
        });
    }

    #[test]
    fn a_thread_knows_its_node() {
        World::enter(Choices::from_seed(1), Schedule::default(), |world| {
            let (_, other) = (world.node(), world.node());
            let seen = Arc::new(Mutex::new(None));
            let slot = Arc::clone(&seen);
            let _ = world.spawn(other, "asks", move || *slot.lock().unwrap() = current().map(|(_, node)| node));
            world.run(1_000_000_000).unwrap();
            assert_eq!((*seen.lock().unwrap(), current().is_none()), (Some(other), true));
        });
    }

    #[test]
    fn wall_clocks_of_nodes_differ() {
        World::enter(Choices::from_seed(1), Schedule::default(), |world| {
            let (one, other) = (world.node(), world.node());
            world.set_clock(one, WallClock { offset_ns: -3_000_000_000, drift_ppm: 0 });
            assert_eq!(world.unix_ns(other) - world.unix_ns(one), 3_000_000_000);
        });
    }
}
