//! What a device may hold after a crash, block by block.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use almandine_device::{BLOCK_BYTES, Device, FileDevice};
use almandine_io::storage::Buffer;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// What a block holds: the number of its write, 0 for nothing.
type Version = u64;

#[derive(Debug, Default)]
struct Block {
    /// What it holds; several versions after an operation that failed.
    now: BTreeSet<Version>,
    /// What a crash may leave instead, now included.
    versions: BTreeSet<Version>,
}

impl Block {
    fn empty() -> Self {
        Self { now: BTreeSet::from([0]), versions: BTreeSet::from([0]) }
    }
}

/// One step of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// First block and number of blocks.
    Write(u64, u64),
    Discard(u64, u64),
    Sync,
}

/// See the module. Shared by the thread that writes and the test that looks at what the thread left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    blocks: BTreeMap<u64, Block>,
    writes: u64,
}

/// A block of this write: each of its words says where it belongs and which write it is of.
fn fill(buffer: &mut [u8], first: u64, write: u64) {
    for (number, block) in (first..).zip(buffer.chunks_exact_mut(BLOCK_BYTES)) {
        block.chunks_exact_mut(16).for_each(|words| {
            words[..8].copy_from_slice(&number.to_le_bytes());
            words[8..].copy_from_slice(&write.to_le_bytes());
        });
    }
}

impl Model {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Executes a step. After an error the blocks hold the old or the new, and this goes on.
    pub(crate) fn execute(&self, device: &dyn Device, step: Step) -> std::io::Result<()> {
        match step {
            Step::Write(first, count) => {
                let write = self.may_become(first, count, None);
                let mut buffer = Buffer::new((count * BLOCK) as usize);
                fill(&mut buffer, first, write);
                device.write(first * BLOCK, &buffer)?;
                self.becomes(first, count, write);
            }
            Step::Discard(first, count) => {
                self.may_become(first, count, Some(0));
                device.discard(first * BLOCK, count * BLOCK)?;
                self.becomes(first, count, 0);
            }
            Step::Sync => {
                device.sync()?;
                self.settle();
            }
        }
        Ok(())
    }

    fn may_become(&self, first: u64, count: u64, version: Option<Version>) -> Version {
        let mut state = self.state();
        state.writes += 1;
        let version = version.unwrap_or(state.writes);
        for number in first..first + count {
            let block = state.blocks.entry(number).or_insert_with(Block::empty);
            block.versions.insert(version);
            block.now.insert(version);
        }
        version
    }

    fn becomes(&self, first: u64, count: u64, version: Version) {
        let mut state = self.state();
        state.blocks.range_mut(first..first + count).for_each(|(_, block)| block.now = BTreeSet::from([version]));
    }

    /// These blocks may be as they are or gone.
    pub(crate) fn may_lose(&self, first: u64, count: u64) {
        self.may_become(first, count, Some(0));
    }

    /// All is durable as it is now.
    pub(crate) fn settle(&self) {
        self.state().blocks.values_mut().for_each(|block| block.versions.clone_from(&block.now));
    }

    /// What a device holds is what it may hold, and it says so; from now on that is what it holds.
    pub(crate) fn check(&self, device: &FileDevice) {
        let held = device.held();
        assert_eq!(held.iter().map(|(begin, end)| end - begin).sum::<u64>(), device.used_bytes(), "D1");
        let is_held = |number: u64| held.iter().any(|(begin, end)| (*begin..*end).contains(&(number * BLOCK)));
        let mut state = self.state();
        for (number, block) in &mut state.blocks {
            let mut buffer = Buffer::new(BLOCK_BYTES);
            let is_there = device.read(number * BLOCK, &mut buffer).is_ok() && buffer.iter().any(|byte| *byte != 0);
            let found = if is_there { u64::from_le_bytes(buffer[8..16].try_into().unwrap()) } else { 0 };
            let mut expected = Buffer::new(BLOCK_BYTES);
            if is_there {
                fill(&mut expected, *number, found);
            }
            assert!(!is_there || buffer[..] == expected[..], "block {number} is torn");
            assert!(block.versions.contains(&found), "block {number} holds {found}, may hold {:?}", block.versions);
            assert!(!is_there || is_held(*number), "block {number} holds {found} and is not held");
            block.now = BTreeSet::from([found]);
        }
        let known: BTreeSet<u64> = state.blocks.keys().copied().collect();
        let strange = held.iter().flat_map(|(begin, end)| begin / BLOCK..end / BLOCK).find(|number| !known.contains(number));
        assert_eq!(strange, None, "a block is held that was never written");
    }
}
