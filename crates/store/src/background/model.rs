//! Two sessions and the flusher under the model checker: one key, which leaves memory while both use it (INV-TIER-2).
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p almandine-store --lib model`
//!
//! Everything here is the real thing: sessions look the key up, stage its record, change it and add its entry by
//! `Session::upsert`, `Session::entry` and `Session::delete`; the flusher's own steps close, flush and evict its page. What the
//! checker explores are the latch, the index, the head and the epoch; records' words are ordinary atomics.
//!
//! Each mutant leaves out one step of that code ([`Mutant`]) and must fail with the report that belongs to it.

use super::flush::{self, FlushPhase};
use crate::shared::Shared;
use crate::tier::read::stage::Stage;
use crate::{Kind, Missing, NotSet, Options, Put, Session, Slot, Storage};
use almandine_base::mutants::{self, Mutant};
use almandine_device::MemoryDevice;
use almandine_epoch::{Progress, Run};
use almandine_io::storage::{Buffer, Source};
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const KEY: &[u8] = b"key";
const LOST: &str = "an overwrite was lost";
const TWICE: &str = "a key has two entries";
const ONE: &str = "INV-TIER-2: a key has one entry";
const MISCOUNTED: &str = "INV-TIER-2: each key counts once";
const WRONG: &str = "a session met what was never there";

/// A store with a key whose page is on the device and still in memory: the next steps of the flusher evict it.
struct Rig {
    store: Arc<Shared>,
    namespace: u16,
    flush: Run<FlushPhase>,
}

impl Rig {
    fn new() -> Self {
        let device = || Arc::new(MemoryDevice::new());
        let storage = Some(Storage { pages: device(), values: device(), ciphers: Arc::default() });
        let options = Options { sessions_max: 2, memory_bytes_max: 1 << 24, storage, background: false, ..Options::default() };
        let store = Shared::new(options).expect("a small store");
        let namespace = store.namespaces.allocate().expect("a namespace");
        let mut rig = Self { flush: flush::start(&store).expect("a session"), store, namespace };
        let mut session = rig.session();
        session.enter(0);
        let key = session.key(namespace, KEY);
        session.upsert(key, b"old", Put::default()).expect("room");
        session.leave();
        drop(session);
        let tier = rig.store.tier.as_ref().expect("a tier");
        tier.emptying.ask(rig.store.log.tail_page() + 1);
        for _ in 0..8 {
            if tier.statistics().pages_flushed == 0 {
                let _ = rig.flush.poll();
            }
        }
        assert!(tier.statistics().pages_flushed == 1 && rig.store.log.head() == 0);
        rig
    }

    fn session(&self) -> Session {
        Session::open(&self.store).expect("a session")
    }

    /// Entries of the key's bucket: there are no others.
    fn entries(&self) -> usize {
        let mut entries = Vec::new();
        self.store.index.collect(0, &mut entries);
        entries.len()
    }

    /// Moves the head past the page.
    fn shift_head(&mut self) {
        for _ in 0..8 {
            if self.store.log.head() == 0 {
                let _ = self.flush.poll();
            }
        }
        assert!(self.store.log.head() != 0, "the page is being evicted");
    }

    /// Gives the page's memory back, once the session beside has ended if it has to wait for that.
    fn release(&mut self, beside: thread::JoinHandle<Session>) -> Session {
        let mut beside = Ok(beside);
        for _ in 0..4 {
            if self.flush.phase() == FlushPhase::Evicting && matches!(self.flush.poll(), Progress::Waiting) {
                beside = beside.map_or_else(Err, |thread| Err(thread.join().expect("a session")));
            }
        }
        assert!(self.flush.phase() == FlushPhase::Rest, "the page has been evicted");
        beside.map_or_else(|session| session, |thread| thread.join().expect("a session"))
    }
}

/// Runs a command in batches of its own until nothing that it needs is missing. `during` runs inside the last one.
fn run<R>(session: &mut Session, mut command: impl FnMut(&mut Session) -> Result<R, NotSet>) -> R {
    let (mut stage, mut fetches) = (Stage::default(), Vec::new());
    for _ in 0..4 {
        session.enter(0);
        session.staging().attach(stage);
        let result = command(session);
        stage = session.staging().detach();
        session.leave();
        match result {
            Ok(result) => return result,
            Err(NotSet::Missing(Missing::Cold)) => session.cold().plan(&mut session.cold().take_wanted(), &mut stage, &mut fetches),
            Err(refusal) => panic!("{refusal:?}: the device does not fail"),
        }
        while let Some(fetch) = fetches.pop() {
            let mut buffer = Buffer::new(fetch.bytes);
            let result = match &fetch.source {
                Source::Blocking { source, offset } => source.read_at(*offset, &mut buffer),
                Source::File { .. } => panic!("the device is memory"),
            };
            session.cold().accept(&mut stage, fetch, buffer, result, &mut fetches);
        }
    }
    panic!("a record moves whenever it is looked for");
}

fn set(session: &mut Session, namespace: u16) {
    run(session, |session| {
        let key = session.key(namespace, KEY);
        session.upsert(key, b"new", Put::default())
    });
}

fn append(session: &mut Session, namespace: u16) {
    run(session, |session| {
        let key = session.key(namespace, KEY);
        Ok(match session.entry(key)? {
            Slot::Occupied(mut entry) => entry.append(b"+"),
            Slot::Vacant(vacant) => vacant.insert(Kind::String, b"+", Put::EDITED),
        }?)
    });
}

fn delete(session: &mut Session, namespace: u16) {
    let removed = run(session, |session| {
        let key = session.key(namespace, KEY);
        Ok(session.delete(key)?)
    });
    assert!(removed, "{WRONG}: the key is there until it is deleted");
}

fn get(session: &mut Session, namespace: u16) -> Option<Vec<u8>> {
    run(session, |session| {
        let (key, mut value) = (session.key(namespace, KEY), Vec::new());
        let found = session.read(key, |view| {
            value.clear();
            view.append_to(&mut value);
        })?;
        Ok(found.map(|()| value))
    })
}

/// Two sessions use the key: one while the head moves past its page, the other after that, in the flusher's thread. In the end
/// the key must be one of `outcomes`.
fn beside(early: fn(&mut Session, u16), late: fn(&mut Session, u16), outcomes: &'static [Option<&'static [u8]>]) {
    let mut rig = Rig::new();
    let namespace = rig.namespace;
    let (mut their_session, mut session) = (rig.session(), rig.session());
    let thread = thread::spawn(move || {
        early(&mut their_session, namespace);
        their_session
    });
    rig.shift_head();
    late(&mut session, namespace);
    let their_session = rig.release(thread);
    let value = get(&mut session, namespace);
    assert_eq!(rig.entries(), usize::from(value.is_some()), "{TWICE}");
    assert!(outcomes.contains(&value.as_deref()), "{LOST}: {value:?}");
    assert_eq!(rig.store.counters.totals().live, i64::from(value.is_some()), "{MISCOUNTED}");
    drop((session, their_session));
}

fn append_then_set() {
    beside(append, set, &[Some(b"new"), Some(b"new+")]);
}

fn set_then_append() {
    beside(set, append, &[Some(b"new"), Some(b"new+")]);
}

fn delete_then_set() {
    beside(delete, set, &[None, Some(b"new")]);
}

fn set_then_delete() {
    beside(set, delete, &[None, Some(b"new")]);
}

fn read(session: &mut Session, namespace: u16) {
    let value = get(session, namespace);
    assert!(matches!(value.as_deref(), Some(b"old" | b"new")), "{WRONG}: {value:?}");
}

fn read_then_set() {
    beside(read, set, &[Some(b"new")]);
}

fn read_then_read() {
    beside(read, read, &[Some(b"old")]);
}

fn explore(scenario: fn(), mutant: Option<Mutant>) {
    mutants::choose(mutant);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(scenario);
}

/// The mutant is caught, and for one of the reasons that it is made for.
fn explore_fails(scenario: fn(), mutant: Mutant, reasons: &[&str]) {
    let outcome = catch_unwind(AssertUnwindSafe(|| explore(scenario, Some(mutant))));
    let Err(report) = outcome else { panic!("the checker does not notice {mutant:?}") };
    let text = report.downcast_ref::<String>().map(String::as_str).or(report.downcast_ref::<&str>().copied()).unwrap_or("");
    assert!(reasons.iter().any(|reason| text.contains(reason)), "{mutant:?} is caught, but for another reason: {text}");
}

#[test]
fn a_key_that_leaves_memory_is_set_and_changed_in_some_order() {
    explore(append_then_set, None);
    explore(set_then_append, None);
}

#[test]
fn a_key_that_leaves_memory_is_set_and_deleted_in_some_order() {
    explore(delete_then_set, None);
    explore(set_then_delete, None);
}

#[test]
fn a_key_that_leaves_memory_is_read_as_it_was_or_is() {
    explore(read_then_set, None);
    explore(read_then_read, None);
}

#[test]
fn mutants_of_using_a_key_that_leaves_memory_are_caught() {
    explore_fails(append_then_set, Mutant::CompareWithAll, &[ONE, TWICE, LOST]);
    explore_fails(delete_then_set, Mutant::CompareWithAll, &[ONE, TWICE, LOST]);
    explore_fails(append_then_set, Mutant::LookUnderLatch, &[ONE, TWICE, LOST, MISCOUNTED]);
    explore_fails(set_then_delete, Mutant::LookUnderLatch, &[ONE, TWICE, LOST, WRONG, MISCOUNTED]);
    explore_fails(read_then_read, Mutant::HeadInEpoch, &[WRONG]);
}
