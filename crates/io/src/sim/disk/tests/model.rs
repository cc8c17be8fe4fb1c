//! Random operations and crashes against a model that knows of each sector which versions a crash may leave.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::sim::choice::Subsystem;

const NAMES: [&str; 3] = ["/d/a", "/d/b", "/d/c"];
const BYTES: u64 = 4 * 4096;

/// What a file may hold after a crash.
#[derive(Clone, Debug, Default)]
struct ModelFile {
    now: Vec<u8>,
    /// Other versions of a unit that was written since the last sync.
    others: BTreeMap<usize, Vec<Vec<u8>>>,
    lengths: BTreeSet<usize>,
}

impl ModelFile {
    fn unit_of(bytes: &[u8], unit: usize, number: usize) -> Vec<u8> {
        let mut version = vec![0; unit];
        let at = (number * unit).min(bytes.len());
        let end = (at + unit).min(bytes.len());
        version[..end - at].copy_from_slice(&bytes[at..end]);
        version
    }

    /// The file may become this one.
    fn may_become(&mut self, next: &[u8], unit: usize) {
        self.lengths.extend([self.now.len(), next.len()]);
        for number in 0..self.now.len().max(next.len()).div_ceil(unit) {
            let (old, new) = (Self::unit_of(&self.now, unit, number), Self::unit_of(next, unit, number));
            if old != new {
                self.others.entry(number).or_default().extend([old, new]);
            }
        }
    }

    /// All of it is as it is now.
    fn settle(&mut self) {
        self.others.clear();
        self.lengths = BTreeSet::from([self.now.len()]);
    }

    fn check(&self, found: &[u8], unit: usize) {
        assert!(self.lengths.contains(&found.len()), "{} bytes, {:?} may be", found.len(), self.lengths);
        for number in 0..found.len().div_ceil(unit) {
            let shown = &found[number * unit..found.len().min((number + 1) * unit)];
            let none = Vec::new();
            let others = self.others.get(&number).unwrap_or(&none);
            let now = Self::unit_of(&self.now, unit, number);
            assert!(others.iter().chain([&now]).any(|version| version[..shown.len()] == *shown), "unit {number}");
        }
    }
}

#[derive(Debug, Default)]
struct Model {
    /// Bytes that a crash keeps or not together.
    unit: usize,
    names: BTreeMap<&'static str, u64>,
    /// What else each name may name after a crash; 0 is nothing.
    others: BTreeMap<&'static str, BTreeSet<u64>>,
    files: BTreeMap<u64, ModelFile>,
    /// A file is being made under this name.
    making: Option<&'static str>,
}

type Shared = Arc<Mutex<Model>>;

fn below(limit: u64) -> u64 {
    turn::simulation().unwrap().below(Subsystem::Clients, limit)
}

/// One random operation, of which the model is told before and after.
fn operate(model: &Shared, direct: bool) {
    let model = || model.lock().unwrap();
    let (name, other) = (NAMES[below(3) as usize], NAMES[below(3) as usize]);
    let number = |name: &str| files::identity(name).map_or(0, |identity| identity.1);
    let may_name = |name, number| {
        let old = model().names.get(name).copied().unwrap_or(0);
        model().others.entry(name).or_default().extend([old, number]);
    };
    let existed = number(name);
    match below(10) {
        0 if existed != 0 => {
            may_name(name, 0);
            files::remove(name).unwrap();
            model().names.remove(name);
        }
        1 if existed != 0 && name != other => {
            may_name(name, 0);
            may_name(other, existed);
            files::rename(name, other).unwrap();
            model().names.remove(name);
            model().names.insert(other, existed);
        }
        2 => {
            files::sync_directory("/d").unwrap();
            let mut model = model();
            let names = model.names.clone();
            model.others = NAMES.map(|name| (name, BTreeSet::from([names.get(name).copied().unwrap_or(0)]))).into();
        }
        _ => {
            model().making = (existed == 0).then_some(name);
            let file = open(name, direct);
            let own = number(name);
            may_name(name, own);
            model().names.insert(name, own);
            model().making = None;
            if existed == 0 {
                let empty = ModelFile { lengths: BTreeSet::from([0]), ..ModelFile::default() };
                model().files.insert(own, empty);
            }
            change(&file, &model, own);
        }
    }
}

fn change<'a>(file: &File, model: &impl Fn() -> MutexGuard<'a, Model>, own: u64) {
    let step = if model().unit == 512 { 100 } else { 4096 };
    let (offset, count) = (below(BYTES / step) * step, (1 + below(3)) * step);
    let byte = 1 + below(255) as u8;
    let unit = model().unit;
    let mut next = model().files[&own].now.clone();
    let tell = |next: &[u8]| model().files.get_mut(&own).unwrap().may_become(next, unit);
    let end = (offset + count) as usize;
    match below(6) {
        0 => {
            next.resize(offset as usize, 0);
            tell(&next);
            file.set_len(offset).unwrap();
        }
        1 if unit == 4096 => {
            let until = next.len().min(end);
            if offset < until as u64 {
                next[offset as usize..until].fill(0);
            }
            tell(&next);
            file.punch_hole(offset, count).unwrap();
        }
        2 => {
            file.sync_data().unwrap();
            model().files.get_mut(&own).unwrap().settle();
        }
        _ => {
            next.resize(next.len().max(end), 0);
            next[offset as usize..end].fill(byte);
            tell(&next);
            let old = model().files[&own].now.len();
            let parts = (0..=count / step).map(|part| old.max((offset + part * step) as usize));
            model().files.get_mut(&own).unwrap().lengths.extend(parts);
            file.write_all_at(&buffer(count as usize, byte)[..count as usize], offset).unwrap();
        }
    }
    model().files.get_mut(&own).unwrap().now = next;
}

/// Finds what is there after a crash, and goes on from it.
fn recover(model: &Shared, kind: CrashKind) {
    let mut found = BTreeMap::new();
    for name in NAMES {
        if let Ok((_, number)) = files::identity(name) {
            found.insert(name, (number, files::read(name).unwrap()));
        }
    }
    let mut model = model.lock().unwrap();
    let numbers: BTreeSet<u64> = found.values().map(|(number, _)| *number).collect();
    assert_eq!(numbers.len(), found.len(), "a file has one name");
    for name in NAMES {
        let number = found.get(name).map_or(0, |(number, _)| *number);
        let own = model.names.get(name).copied().unwrap_or(0);
        let may_be = model.others.get(name).is_some_and(|others| others.contains(&number)) || model.making == Some(name);
        assert!(number == own || may_be, "{name} is {number}, was {own}: {:?}", model.others);
    }
    for (number, bytes) in found.values() {
        let unit = model.unit;
        let file = model.files.entry(*number).or_insert_with(|| ModelFile { lengths: [0].into(), ..ModelFile::default() });
        file.check(bytes, unit);
        file.now.clone_from(bytes);
        if kind == CrashKind::Machine {
            file.settle();
        }
    }
    model.names = found.iter().map(|(name, (number, _))| (*name, *number)).collect();
    if kind == CrashKind::Machine {
        model.others = NAMES.map(|name| (name, BTreeSet::from([model.names.get(name).copied().unwrap_or(0)]))).into();
    }
    model.making = None;
}

fn run(seed: u64) -> [u64; 2] {
    let direct = seed % 2 == 1;
    One::enter(seed, |one| {
        one.disk.put("/d/made", b"").unwrap();
        one.disk.set_faults(DiskFaults { short_writes: 0, short_reads: 0, ..DiskFaults::harmless(100_000) });
        let model = Shared::new(Mutex::new(Model { unit: if direct { 4096 } else { 512 }, ..Model::default() }));
        for _ in 0..6 {
            let kinds = [CrashKind::Process, CrashKind::Machine, CrashKind::Container, CrashKind::Machine];
            let kind = kinds[one.world.turn().below(Subsystem::Clients, 4) as usize];
            one.disk.crash_at(one.disk.changes() + one.world.turn().below(Subsystem::Clients, 60), kind);
            let own = Arc::clone(&model);
            let ended = one.run(move || (0..40).for_each(|_| operate(&own, direct)));
            if ended.is_some() {
                one.disk.crash_at(u64::MAX, kind);
                one.crash(kind);
            }
            // Writes under way arrive before the next process looks.
            one.run(|| turn::sleep(1_000_000_000)).unwrap();
            let own = Arc::clone(&model);
            one.run(move || recover(&own, kind)).unwrap();
        }
        let (hash, events) = one.world.turn().trace_hash();
        [hash, events]
    })
}

#[test]
fn crashes_leave_what_the_model_allows() {
    let first = run(1);
    assert_eq!(run(1), first);
    for seed in 0..300 {
        run(seed);
    }
}
