//! Finished requests, ready to be sent: batches of a fixed number of commands in one long buffer.
//!
//! Sending is then one `send` of a slice. The pool is cycled. Where it is too small to name enough different keys (large
//! values, or a sequential walk), keys are *fresh*: each use of a batch rewrites the digits of its keys in place, a few
//! nanoseconds per command.

use super::key::{Chooser, Distribution, write_digits};
use super::random::Random;
use super::template::Hole;
use crate::workload::Workload;

/// Most commands a pool holds.
const COMMANDS_MAX: usize = 4 << 20;
/// A uniform pool with this many commands is as good as an endless one: their records exceed every CPU cache.
const KEYS_ENOUGH: u64 = 1 << 20;

/// What a pool is made for.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Commands per batch.
    pub pipeline: usize,
    /// Upper bound of the buffer in bytes, exceeded by at most one batch.
    pub bytes_max: usize,
    /// Always rewrite keys.
    pub fresh: bool,
    /// Keep the operation of every command, for `--verify`.
    pub operations: bool,
    /// The seed of all threads.
    pub seed: u64,
    /// This thread.
    pub thread: usize,
    /// Number of threads.
    pub threads: usize,
}

/// Batches of finished requests.
#[derive(Debug)]
pub struct Pool {
    bytes: Vec<u8>,
    /// End of batch `i` in `bytes` and in `keys`.
    ends: Vec<(usize, usize)>,
    /// Where each key ends, kept for fresh keys only.
    keys: Vec<usize>,
    operations: Vec<u8>,
    pipeline: usize,
    fresh: Option<(Chooser, usize, Random)>,
    next: usize,
}

/// One batch of a pool.
#[derive(Debug, Clone, Copy)]
pub struct Batch {
    /// First byte.
    pub start: usize,
    /// Past the last byte.
    pub end: usize,
    index: usize,
}

impl Pool {
    /// Generates the pool.
    pub fn new(workload: &Workload, plan: Plan) -> Self {
        let mut random = Random::new(plan.seed, plan.thread as u64);
        let mut scopes: Vec<_> = workload.operations.iter().map(|o| workload.scope(o.data, plan.thread, plan.threads)).collect();
        let weights: u64 = workload.operations.iter().map(|o| u64::from(o.weight)).sum();
        let sequential = workload.shape.distribution == Distribution::Sequential;
        let has = |hole| workload.operations.iter().any(|o| o.template.has(hole));
        let keyed = has(Hole::Key);
        let places = workload.shape.keys.saturating_mul(if has(Hole::Member) { workload.shape.members } else { 1 });
        let wanted = if keyed { places.saturating_mul(2).clamp(1 << 14, COMMANDS_MAX as u64) } else { 1 << 12 };
        let batches_min = 4;
        let mut pool = Self {
            bytes: Vec::new(),
            ends: Vec::new(),
            keys: Vec::new(),
            operations: Vec::new(),
            pipeline: plan.pipeline.max(1),
            fresh: None,
            next: 0,
        };
        let mut commands = 0;
        while pool.ends.len() < batches_min || (commands < wanted && pool.bytes.len() < plan.bytes_max) {
            for _ in 0..pool.pipeline {
                let operation = pick(workload, random.below(weights));
                if plan.operations {
                    pool.operations.push(operation as u8);
                }
                let template = &workload.operations[operation].template;
                template.encode(&mut scopes[operation], &mut random, &mut pool.bytes, &mut pool.keys);
            }
            pool.ends.push((pool.bytes.len(), pool.keys.len()));
            commands += pool.pipeline as u64;
        }
        if keyed && (plan.fresh || sequential || (pool.keys.len() as u64) < workload.shape.keys.min(KEYS_ENOUGH)) {
            let (chooser, digits) = workload.fresh_keys(plan.thread, plan.threads);
            pool.fresh = Some((chooser, digits, random));
        } else {
            pool.keys = Vec::new();
        }
        pool
    }

    /// The next batch, its keys renewed where they are fresh.
    pub fn next_batch(&mut self) -> Batch {
        let index = self.next;
        self.next = if index + 1 == self.ends.len() { 0 } else { index + 1 };
        let (start, keys_from) = if index == 0 { (0, 0) } else { self.ends[index - 1] };
        let (end, keys_to) = self.ends[index];
        if let Some((chooser, digits, random)) = &mut self.fresh {
            for &at in &self.keys[keys_from..keys_to] {
                write_digits(&mut self.bytes[at - *digits..at], chooser.choose(random));
            }
        }
        Batch { start, end, index }
    }

    /// Bytes `from..to` of the pool.
    pub fn bytes(&self, from: usize, to: usize) -> &[u8] {
        &self.bytes[from..to]
    }

    /// The operation numbers of a batch's commands; empty unless they are kept.
    pub fn operations(&self, batch: Batch) -> &[u8] {
        let from = batch.index * self.pipeline;
        self.operations.get(from..from + self.pipeline).unwrap_or_default()
    }

    /// Size of the buffer.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is nothing to send: never.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

fn pick(workload: &Workload, mut at: u64) -> usize {
    for (index, operation) in workload.operations.iter().enumerate() {
        if at < u64::from(operation.weight) {
            return index;
        }
        at -= u64::from(operation.weight);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::value::Lengths;
    use crate::workload::{Operation, Shape};

    const PLAN: Plan = Plan { pipeline: 4, bytes_max: 1 << 20, fresh: false, operations: true, seed: 1, thread: 0, threads: 1 };

    fn pool(mix: &str, shape: Shape, plan: Plan) -> Pool {
        Pool::new(&Workload::new(Operation::mix(mix).unwrap(), shape).unwrap(), plan)
    }

    #[test]
    fn batches_hold_whole_commands_in_the_asked_proportion() {
        let shape = Shape { keys: 1000, ..Shape::default() };
        let mut pool = pool("get=80,set=20", shape, PLAN);
        assert!(pool.fresh.is_none());
        let (mut gets, mut all) = (0, 0);
        for _ in 0..1000 {
            let batch = pool.next_batch();
            let bytes = pool.bytes(batch.start, batch.end);
            assert!(bytes.starts_with(b"*") && bytes.ends_with(b"\r\n"));
            assert_eq!(bytes.iter().filter(|&&b| b == b'*').count(), 4);
            gets += pool.operations(batch).iter().filter(|&&o| o == 0).count();
            all += 4;
        }
        assert!((0.76..0.84).contains(&(gets as f64 / all as f64)));
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let shape = Shape { keys: 1000, ..Shape::default() };
        let (a, b) = (pool("get", shape.clone(), PLAN), pool("get", shape.clone(), PLAN));
        assert_eq!(a.bytes, b.bytes);
        assert_ne!(a.bytes, pool("get", shape, Plan { thread: 1, ..PLAN }).bytes);
    }

    #[test]
    fn a_small_pool_renews_its_keys() {
        let shape = Shape { keys: 1_000_000, lengths: Lengths::fixed(1000), ..Shape::default() };
        let mut pool = pool("set", shape, Plan { bytes_max: 1 << 16, ..PLAN });
        assert!(pool.fresh.is_some() && pool.len() < 1 << 17);
        let first = pool.next_batch();
        let before = pool.bytes(first.start, first.end).to_vec();
        for _ in 1..pool.ends.len() {
            pool.next_batch();
        }
        let again = pool.next_batch();
        assert_eq!((first.start, first.end), (again.start, again.end));
        assert_ne!(before, pool.bytes(again.start, again.end));
    }

    #[test]
    fn few_keys_of_many_members_are_all_named() {
        let shape = Shape { keys: 10, members: 10_000, ..Shape::default() };
        let pool = pool("hget", shape, Plan { bytes_max: 64 << 20, ..PLAN });
        let text = String::from_utf8(pool.bytes.clone()).unwrap();
        let named: std::collections::HashSet<&str> = text.split("*3").collect();
        assert!(named.len() > 80_000, "{}", named.len());
    }

    #[test]
    fn sequential_names_every_key_in_turn() {
        let shape = Shape { keys: 100_000, distribution: Distribution::Sequential, ..Shape::default() };
        let mut pool = pool("get", shape, PLAN);
        let mut seen = Vec::new();
        for _ in 0..3 {
            let batch = pool.next_batch();
            seen.extend_from_slice(pool.bytes(batch.start, batch.end));
        }
        let text = String::from_utf8(seen).unwrap();
        for number in 0..12 {
            assert!(text.contains(&format!("key:{number:012}")));
        }
    }
}
