//! Filling the server before a run: every key exactly once, in order, pipelined.
//!
//! Threads take the next batch of key numbers from one cursor, so that the keys loaded so far are always nearly a prefix
//! of all keys. An interrupted load resumes a little before the first key that is missing; keys of other programs do not count.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::net::{RecvFlags, SendFlags};

use crate::control::Target;
use crate::generate::random::Random;
use crate::generate::table::DataType;
use crate::generate::template::{Scope, Template};
use crate::link::{Buffers, Link};
use crate::reply::{Counter, Tally};
use crate::system::affinity;
use crate::workload::Workload;

/// Requests are gathered up to about this many bytes.
const BATCH_BYTES: usize = 32 << 10;
/// And up to this many keys.
const BATCH_KEYS: u64 = 256;

/// What is filled and how.
#[derive(Debug, Clone)]
pub struct Preload<'w> {
    /// The server.
    pub target: Target,
    /// Its keys and data types are filled.
    pub workload: &'w Workload,
    /// First key number and one past the last.
    pub range: (u64, u64),
    /// Replaces the data types' own fill command.
    pub template: Option<Template>,
    /// Connections per thread, each with one batch in flight.
    pub connections: usize,
    /// Threads.
    pub threads: usize,
    /// Cores of the threads.
    pub cores: Vec<usize>,
}

impl<'w> Preload<'w> {
    /// All keys of the workload, four connections on one thread.
    pub fn new(target: Target, workload: &'w Workload) -> Self {
        let range = (0, workload.shape.keys);
        Self { target, workload, range, template: None, connections: 4, threads: 1, cores: Vec::new() }
    }

    /// Skips what an earlier load has left, judged by which of the load's own keys are there.
    pub fn resume(&mut self) -> Result<(), String> {
        let mut control = self.target.control()?;
        let window = (self.connections * self.threads) as u64 * BATCH_KEYS;
        let (first, end) = self.range;
        let mut start = end;
        for data in self.workload.data_types().filter(|data| data.fill().is_some()) {
            let scope = self.workload.scope(data, 0, 1);
            let mut key = Vec::new();
            let mut is_there = |number: u64| {
                key.clear();
                scope.format.write(number, &mut key);
                Ok::<bool, String>(control.integer(&["EXISTS", &String::from_utf8_lossy(&key)])? == 1)
            };
            let found = resume_at((first, end), window, &mut is_there)?;
            start = start.min(found);
        }
        self.range.0 = start;
        Ok(())
    }
}

/// Keys of the part that is skipped that are asked for before it is believed to be whole.
const SAMPLES: u64 = 256;

/// Where a load goes on: a window before the first key that is missing, or at the beginning where keys are missing before that.
fn resume_at((first, end): (u64, u64), window: u64, is_there: &mut dyn FnMut(u64) -> Result<bool, String>) -> Result<u64, String> {
    let (mut present, mut missing) = (first, end);
    while present < missing {
        let middle = present + (missing - present) / 2;
        if is_there(middle)? {
            present = middle + 1;
        } else {
            missing = middle;
        }
    }
    let start = if present == end { end } else { present.saturating_sub(window).max(first) };
    let skipped = start - first;
    let step = (skipped / SAMPLES).max(1);
    let mut random = Random::new(0x7265_7375, skipped);
    for from in (first..start).step_by(step as usize) {
        let number = from + random.below(step.min(start - from));
        if !is_there(number)? {
            return Ok(first);
        }
    }
    Ok(start)
}

/// Loads the keys and returns how many commands that took. `progress` receives the share that is done.
pub fn preload(plan: &Preload<'_>, progress: &(dyn Fn(f64) + Sync)) -> Result<u64, String> {
    let mut commands = 0;
    let types: Vec<DataType> = plan.workload.data_types().filter(|data| data.fill().is_some()).collect();
    for (done, &data) in types.iter().enumerate() {
        let template = match (&plan.template, data.fill()) {
            (Some(template), _) => template.clone(),
            (None, Some(fill)) => Template::parse(fill)?,
            (None, None) => continue,
        };
        let prepare = data.prepare().filter(|_| plan.template.is_none()).map(Template::parse).transpose()?;
        let templates = (prepare.as_ref(), &template);
        let shared = Shared { cursor: AtomicU64::new(plan.range.0), failed: AtomicBool::new(false) };
        let report = |share: f64| progress((done as f64 + share) / types.len() as f64);
        commands += std::thread::scope(|scope| {
            let threads: Vec<_> = (0..plan.threads.max(1))
                .map(|thread| {
                    let (shared, report) = (&shared, &report);
                    scope.spawn(move || {
                        let result = fill(plan, data, templates, thread, shared, report);
                        shared.failed.fetch_or(result.is_err(), Ordering::Relaxed);
                        result
                    })
                })
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<u64, String>>| {
                thread.join().map_err(|_| "a loading thread panicked; this is a bug of the benchmark".to_owned())?
            };
            threads.into_iter().map(join).sum::<Result<u64, String>>()
        })?;
    }
    Ok(commands)
}

/// What the loading threads share: the next key that no thread has taken, and whether one of them gave up.
struct Shared {
    cursor: AtomicU64,
    failed: AtomicBool,
}

/// One loading connection.
struct Line {
    link: Link,
    counter: Counter,
    awaited: u64,
}

fn fill(
    plan: &Preload<'_>,
    data: DataType,
    (prepare, template): (Option<&Template>, &Template),
    thread: usize,
    shared: &Shared,
    report: &(dyn Fn(f64) + Sync),
) -> Result<u64, String> {
    if let Some(&core) = plan.cores.get(thread % plan.cores.len().max(1)) {
        affinity::pin_this_thread(&[core])?;
    }
    let mut lines = (0..plan.connections.max(1))
        .map(|_| Ok(Line { link: plan.target.link()?, counter: Counter::default(), awaited: 0 }))
        .collect::<Result<Vec<_>, String>>()?;
    let (mut scope, mut random) = (plan.workload.scope(data, thread, 1), Random::new(0x6c6f_6164, thread as u64));
    let (mut request, mut buffers, mut tally) = (Vec::new(), Buffers::new(64 << 10), Tally::default());
    let total = plan.range.1.saturating_sub(plan.range.0).max(1);
    let (mut turn, mut commands, mut batches) = (0, 0, 0u64);
    let step = batch_keys(&scope, data);
    loop {
        let from = shared.cursor.fetch_add(step, Ordering::Relaxed);
        if from >= plan.range.1 || shared.failed.load(Ordering::Relaxed) {
            break;
        }
        let done = from - plan.range.0;
        let line = &mut lines[turn];
        turn = if turn + 1 == plan.connections.max(1) { 0 } else { turn + 1 };
        receive_all(line, &mut buffers, &mut tally)?;
        request.clear();
        let repeats = if data.fills_by_member() { scope.members } else { 1 };
        for number in from..(from + step).min(plan.range.1) {
            if let Some(prepare) = prepare {
                line.awaited += prepare.encode_fill(&mut scope, &mut random, number, &mut request);
            }
            line.awaited += (0..repeats).map(|_| template.encode_fill(&mut scope, &mut random, number, &mut request)).sum::<u64>();
        }
        commands += line.awaited;
        send_all(line, &request)?;
        batches += 1;
        if batches % 64 == 0 {
            report(done as f64 / total as f64);
        }
    }
    for line in &mut lines {
        receive_all(line, &mut buffers, &mut tally)?;
    }
    match tally.first_error {
        Some(error) => Err(format!("loading {} keys failed: the server answered {error:?}", data.name())),
        None => Ok(commands),
    }
}

/// Keys per batch, so that a batch stays near its size in bytes.
fn batch_keys(scope: &Scope<'_>, data: DataType) -> u64 {
    let element = scope.member_len as f64 + scope.lengths.mean() + 20.0;
    let elements = if data.prefix().is_empty() { 1 } else { scope.members };
    let bytes = scope.format.len() as f64 + 40.0 + element * elements as f64;
    ((BATCH_BYTES as f64 / bytes) as u64).clamp(1, BATCH_KEYS)
}

fn send_all(line: &mut Line, mut bytes: &[u8]) -> Result<(), String> {
    while !bytes.is_empty() || !line.link.is_flushed() {
        match line.link.send(bytes, SendFlags::empty()) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("loading failed: {error}; did the server exit?")),
        }
    }
    Ok(())
}

fn receive_all(line: &mut Line, buffers: &mut Buffers, tally: &mut Tally) -> Result<(), String> {
    while line.awaited > 0 {
        match line.link.receive(buffers, RecvFlags::empty()) {
            Ok(None) => return Err("the server closed the connection while keys were loaded".into()),
            Ok(Some(received)) => line.awaited -= line.counter.consume(received, tally)?.min(line.awaited),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("loading failed: {error}; did the server exit or stall for a minute?")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resumed(there: impl Fn(u64) -> bool) -> u64 {
        resume_at((0, 10_000), 100, &mut |number| Ok(there(number))).unwrap()
    }

    #[test]
    fn a_load_goes_on_before_the_first_of_its_keys_that_is_missing() {
        assert_eq!(resumed(|_| false), 0);
        assert_eq!(resumed(|_| true), 10_000);
        assert_eq!(resumed(|number| number < 6_000), 5_900);
        assert_eq!(resumed(|number| number < 50), 0);
        assert_eq!(resumed(|number| number < 9_999), 9_899);
    }

    #[test]
    fn keys_that_were_deleted_are_loaded_again() {
        assert_eq!(resumed(|number| number % 10 != 3), 0, "a tenth is missing everywhere");
        assert_eq!(resumed(|number| !(2_000..3_000).contains(&number)), 0, "a part is missing");
    }
}
