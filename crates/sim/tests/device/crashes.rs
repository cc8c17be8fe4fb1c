//! A crash at each change of the disk: what was synced is there, and nothing else than the old or the new.

use almandine_device::{Device, FileDevice, FileOptions, OpenMode};
use almandine_io::sim::choice::Choices;
use almandine_io::sim::disk::{Disk, DiskFaults};
use almandine_io::sim::turn::Schedule;
use almandine_io::sim::world::{CrashKind, NodeId, World};
use std::sync::Arc;

use crate::model::{Model, Step};

const PATH: &str = "/var/lib/almandine";
pub(crate) const SEGMENT_BLOCKS: u64 = 4;
const HOUR_NS: u64 = 3_600_000_000_000;

/// Three segments that are made, written across their boundary, written again, discarded in part and whole, and made again.
const PLAN: [Step; 14] = [
    Step::Write(0, 3),
    Step::Sync,
    Step::Write(3, 6),
    Step::Write(1, 1),
    Step::Sync,
    Step::Discard(2, 2),
    Step::Write(2, 1),
    Step::Discard(4, 4),
    Step::Sync,
    Step::Write(5, 2),
    Step::Discard(8, 1),
    Step::Write(8, 2),
    Step::Sync,
    Step::Discard(0, 10),
];

pub(crate) fn options(mode: OpenMode) -> FileOptions {
    FileOptions { mode, segment_bytes: SEGMENT_BLOCKS * 4096, ..FileOptions::default() }
}

pub(crate) fn open(mode: OpenMode) -> FileDevice {
    FileDevice::open(PATH, &options(mode)).unwrap()
}

/// One node with a disk.
pub(crate) struct One {
    world: Arc<World>,
    node: NodeId,
    pub(crate) disk: Arc<Disk>,
}

impl One {
    pub(crate) fn enter<T>(seed: u64, body: impl FnOnce(&Self) -> T) -> T {
        World::enter(Choices::from_seed(seed), Schedule::default(), |world| {
            let node = world.node();
            let disk = world.disk(node);
            body(&Self { world: Arc::clone(world), node, disk })
        })
    }

    /// Runs a process to its end; none when the node crashed before.
    pub(crate) fn run<T: Send + 'static>(&self, body: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let thread = self.world.spawn(self.node, "main", body);
        self.world.run(HOUR_NS).unwrap_or_else(|error| panic!("{error}\n{}", self.world.turn().trace_words()));
        thread.join()
    }

    pub(crate) fn crash(&self, kind: CrashKind) {
        self.world.crash(self.node, kind);
    }
}

/// How many changes of the disk `body` makes.
fn changes(body: impl FnOnce() + Send + 'static) -> u64 {
    One::enter(0, |one| {
        one.run(body).unwrap();
        one.disk.changes()
    })
}

fn write_plan(model: &Model) {
    let device = open(OpenMode::Keep);
    PLAN.iter().for_each(|step| model.execute(&device, *step).unwrap());
}

/// The next process: opens the directory, finds what may be there, makes it durable and goes on.
fn go_on(model: &Model) {
    let device = open(OpenMode::Keep);
    model.check(&device);
    device.sync().unwrap();
    model.settle();
    for step in [Step::Write(2, 4), Step::Sync] {
        model.execute(&device, step).unwrap();
    }
    model.check(&device);
}

#[test]
fn what_was_synced_survives_a_crash_at_each_change() {
    let model = Model::default();
    let changes = changes(move || write_plan(&model));
    assert!((40..100).contains(&changes), "{changes}");
    for kind in [CrashKind::Process, CrashKind::Container, CrashKind::Machine] {
        for (change, seed) in (0..=changes).flat_map(|change| (0..8).map(move |seed| (change, seed))) {
            One::enter(seed, |one| {
                one.disk.set_faults(DiskFaults { written_back: 200_000, ..DiskFaults::default() });
                one.disk.crash_at(change, kind);
                let model = Model::default();
                let own = model.clone();
                if one.run(move || write_plan(&own)).is_some() {
                    one.disk.crash_at(u64::MAX, kind);
                    one.crash(kind);
                }
                // Writes that were under way arrive before the next process looks.
                one.run(|| almandine_io::thread::sleep(std::time::Duration::from_secs(1))).unwrap();
                for crash in [CrashKind::Machine, CrashKind::Process, CrashKind::Machine] {
                    let own = model.clone();
                    one.run(move || go_on(&own)).unwrap();
                    one.crash(crash);
                }
                let own = model.clone();
                one.run(move || own.check(&open(OpenMode::Keep))).unwrap();
            });
        }
    }
}

/// A process empties a directory and gives it segments of another size.
fn empty() {
    let options = FileOptions { segment_bytes: 2 * SEGMENT_BLOCKS * 4096, ..options(OpenMode::Empty) };
    let device = FileDevice::open(PATH, &options).unwrap();
    assert!(device.used_bytes() == 0 && device.held().is_empty());
}

#[test]
fn a_crash_while_a_directory_is_emptied_leaves_old_segments_of_their_size_or_none() {
    let fill = |model: &Model| {
        let device = open(OpenMode::Keep);
        [Step::Write(0, 11), Step::Sync].iter().for_each(|step| model.execute(&device, *step).unwrap());
    };
    let model = Model::default();
    let before = changes(move || fill(&model));
    let model = Model::default();
    let all = changes(move || {
        fill(&model);
        empty();
    });
    for (change, seed) in (before..=all).flat_map(|change| (0..40).map(move |seed| (change, seed))) {
        One::enter(seed, |one| {
            let model = Model::default();
            let own = model.clone();
            one.run(move || fill(&own)).unwrap();
            model.may_lose(0, 11);
            one.disk.crash_at(change, CrashKind::Machine);
            if one.run(empty).is_some() {
                one.disk.crash_at(u64::MAX, CrashKind::Machine);
                one.crash(CrashKind::Machine);
            }
            one.run(move || {
                let device = open(OpenMode::Keep);
                if device.segment_bytes() == SEGMENT_BLOCKS * 4096 {
                    model.check(&device);
                } else {
                    assert_eq!(device.held(), [], "old segments have another size");
                }
            })
            .unwrap();
        });
    }
}
