//! The head moves while a session is inside a batch: one session still has a page in memory that is on the device for the next.
//! Both use the same key, and each must see what the other has done.

#![cfg(not(loom))]

use almandine_device::{Device, FaultPlan, FaultyDevice, MemoryDevice};
use almandine_store::{Fetcher, Kind, Missing, Need, NotSet, Options, Put, Session, Slot, Stage, Storage, Store};
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const NOW_MS: i64 = 1_000_000;
const KEY: &[u8] = b"the key";

/// What [`Rig::with`] runs until nothing that it needs is missing.
type Step<'r, R> = &'r mut dyn FnMut(&mut Session, u16) -> Result<R, NotSet>;

/// A store without threads of its own and two sessions.
struct Rig {
    store: Store,
    faulty: Arc<FaultyDevice>,
    /// Inside a batch since before the head moved.
    early: Session,
    /// Begins its batches after that.
    late: Session,
    namespace: u16,
    fetcher: Fetcher,
    fillers: u64,
    live_fillers: u64,
}

impl Rig {
    fn new() -> Self {
        let memory = Arc::new(MemoryDevice::new());
        let faulty = Arc::new(FaultyDevice::new(memory as Arc<dyn Device>, 1, FaultPlan::default()));
        let storage = Storage {
            pages: Arc::clone(&faulty) as Arc<dyn Device>,
            values: Arc::new(MemoryDevice::new()),
            ciphers: Arc::default(),
        };
        let options = Options { memory_bytes_max: 1 << 30, storage: Some(storage), background: false, ..Options::default() };
        let store = Store::open(options).expect("a store");
        store.settings().set_budget(16 * MIB);
        let (early, late) = (store.session().expect("a session"), store.session().expect("a session"));
        let namespace = store.allocate_namespace().expect("a namespace");
        Self { store, faulty, early, late, namespace, fetcher: Fetcher::default(), fillers: 0, live_fillers: 0 }
    }

    fn fail_reads(&self, fail: bool) {
        self.faulty.set_plan(FaultPlan { read_errors: if fail { 1_000_000 } else { 0 }, ..FaultPlan::default() });
    }

    /// Runs something in the late session, reading what it needs from the device.
    fn late<R>(&mut self, run: Step<'_, R>) -> R {
        let mut stage = Stage::default();
        for _ in 0..100 {
            self.late.enter(NOW_MS);
            self.late.staging().attach(stage);
            let result = run(&mut self.late, self.namespace);
            stage = self.late.staging().detach();
            self.late.leave();
            let cold = self.late.cold();
            match result {
                Ok(result) => return result,
                Err(NotSet::Missing(Missing::Cold)) => cold.stage_blocking(&mut cold.take_wanted(), &mut stage, &mut self.fetcher),
                Err(refusal) => panic!("{refusal:?}"),
            }
        }
        panic!("a record moves whenever it is looked for");
    }

    /// Runs something in the early session, inside its batch, where nothing of the key is missing.
    fn early<R>(&mut self, run: Step<'_, R>) -> R {
        run(&mut self.early, self.namespace).expect("the early session has the key in memory")
    }

    /// Ends the early session's batch.
    fn end(&mut self) {
        self.early.leave();
    }

    /// Writes something, so that pages leave memory.
    fn fill(&mut self) {
        for _ in 0..200 {
            self.fillers += 1;
            let name = format!("filler:{}", self.fillers);
            self.late.enter(NOW_MS);
            let key = self.late.key(self.namespace, name.as_bytes());
            // One whose tag is that of a key on the device is left out, because it would have to be read.
            let set = self.late.upsert(key, &[b'.'; 1000], Put::default());
            self.late.cold().take_wanted();
            self.live_fillers += u64::from(set.is_ok());
            self.late.leave();
        }
        self.store.maintain(NOW_MS);
    }

    /// Whether a session has to read something before it can use the key.
    fn is_cold(session: &Session, namespace: u16) -> bool {
        let probed = session.cold().probe(session.key(namespace, KEY), Need::Read);
        session.cold().take_wanted();
        probed == Err(Missing::Cold)
    }

    /// Makes all of the key leave memory.
    fn make_cold(&mut self) {
        for _ in 0..2_000 {
            self.fill();
            self.late.enter(NOW_MS);
            let cold = Self::is_cold(&self.late, self.namespace);
            self.late.leave();
            if cold {
                return;
            }
        }
        panic!("the key does not leave memory");
    }

    /// Moves the head past the key while the early session is inside a batch. False when the key has nothing that leaves.
    fn move_head(&mut self) -> bool {
        for _ in 0..2_000 {
            self.early.enter(NOW_MS);
            for _ in 0..4 {
                self.store.maintain(NOW_MS);
            }
            self.late.enter(NOW_MS);
            let (early, late) = (Self::is_cold(&self.early, self.namespace), Self::is_cold(&self.late, self.namespace));
            self.late.leave();
            if late && !early {
                return true;
            }
            self.early.leave();
            self.fill();
        }
        self.early.enter(NOW_MS);
        false
    }

    fn set(value: &'static [u8]) -> impl FnMut(&mut Session, u16) -> Result<(), NotSet> {
        move |session, namespace| {
            let key = session.key(namespace, KEY);
            session.upsert(key, value, Put::default())
        }
    }

    fn append(value: &'static [u8]) -> impl FnMut(&mut Session, u16) -> Result<(), NotSet> {
        move |session, namespace| {
            let key = session.key(namespace, KEY);
            Ok(match session.entry(key)? {
                Slot::Occupied(mut entry) => entry.append(value),
                Slot::Vacant(vacant) => vacant.insert(Kind::String, value, Put::EDITED),
            }?)
        }
    }

    fn delete(session: &mut Session, namespace: u16) -> Result<bool, NotSet> {
        let key = session.key(namespace, KEY);
        Ok(session.delete(key)?)
    }

    fn get(session: &mut Session, namespace: u16) -> Result<Option<Vec<u8>>, NotSet> {
        let key = session.key(namespace, KEY);
        let mut value = Vec::new();
        let found = session.read(key, |view| {
            value.clear();
            view.append_to(&mut value);
        })?;
        Ok(found.map(|()| value))
    }

    /// The key is this for everybody, now and when all has settled, and it counts once.
    fn expect(&mut self, value: Option<&[u8]>) {
        let others = self.live_fillers;
        for _ in 0..3 {
            assert_eq!(self.late(&mut Self::get).as_deref(), value);
            for _ in 0..200 {
                self.store.maintain(NOW_MS);
            }
        }
        let live = self.store.figures().namespace_len(self.namespace).0;
        assert_eq!(live, others + u64::from(value.is_some()), "INV-TIER-2: each key counts once");
    }
}

/// A key that is about to leave memory, at the first move of the head or at a later one.
fn about_to_leave(first: bool) -> Rig {
    let mut rig = Rig::new();
    if !first {
        rig.late(&mut Rig::set(b"before"));
        rig.make_cold();
    }
    rig.late(&mut Rig::set(b"old"));
    assert!(rig.move_head(), "the key leaves memory");
    assert_eq!(rig.early.cold().is_possible(), !first);
    rig
}

fn no_update_is_lost(first: bool) {
    let mut rig = about_to_leave(first);
    rig.late(&mut Rig::set(b"new"));
    assert_eq!(rig.early(&mut Rig::get).as_deref(), Some(&b"new"[..]));
    rig.early(&mut Rig::append(b" and more"));
    rig.end();
    rig.expect(Some(b"new and more"));
}

#[test]
fn no_update_is_lost_when_the_head_moves() {
    no_update_is_lost(false);
}

#[test]
fn no_update_is_lost_when_the_head_first_moves() {
    no_update_is_lost(true);
}

fn nothing_comes_back(first: bool) {
    let mut rig = about_to_leave(first);
    rig.late(&mut Rig::set(b"new"));
    assert!(rig.early(&mut Rig::delete));
    rig.end();
    rig.expect(None);
}

#[test]
fn nothing_deleted_comes_back_when_the_head_moves() {
    nothing_comes_back(false);
}

#[test]
fn nothing_deleted_comes_back_when_the_head_first_moves() {
    nothing_comes_back(true);
}

/// The same the other way round: the early session changes the key, and the late one has read what it was before.
#[test]
fn what_was_read_before_the_key_changed_is_not_used() {
    for removed in [false, true] {
        let mut rig = about_to_leave(false);
        let mut stage = Stage::default();
        rig.late.enter(NOW_MS);
        let key = rig.late.key(rig.namespace, KEY);
        assert_eq!(rig.late.cold().probe(key, Need::Read), Err(Missing::Cold));
        rig.late.leave();
        let cold = rig.late.cold();
        cold.stage_blocking(&mut cold.take_wanted(), &mut stage, &mut rig.fetcher);
        if removed {
            assert!(rig.early(&mut Rig::delete));
        } else {
            rig.early(&mut Rig::set(b"new"));
        }
        rig.late.enter(NOW_MS);
        rig.late.staging().attach(stage);
        let found = Rig::get(&mut rig.late, rig.namespace).expect("at hand");
        Rig::append(b"!")(&mut rig.late, rig.namespace).expect("at hand");
        rig.late.staging().detach();
        rig.late.leave();
        rig.end();
        assert_eq!(found.as_deref(), (!removed).then_some(&b"new"[..]));
        rig.expect(Some(if removed { b"!" } else { b"new!" }));
    }
}

/// A key that was overwritten and deleted; what says so is about to leave memory.
fn deleted_before() -> Rig {
    let mut rig = Rig::new();
    rig.late(&mut Rig::set(b"old"));
    rig.make_cold();
    rig.late(&mut Rig::set(b"newer"));
    assert!(rig.late(&mut Rig::delete));
    // Nothing can be tidied up behind the scenes meanwhile.
    rig.fail_reads(true);
    rig.move_head();
    rig.fail_reads(false);
    rig
}

#[test]
fn a_key_set_after_its_removal_stays() {
    let mut rig = deleted_before();
    rig.late(&mut Rig::set(b"again"));
    assert_eq!(rig.early(&mut Rig::get).as_deref(), Some(&b"again"[..]));
    rig.early(&mut Rig::append(b" and more"));
    rig.end();
    rig.expect(Some(b"again and more"));
}

#[test]
fn a_key_removed_twice_stays_away() {
    let mut rig = deleted_before();
    rig.early(&mut Rig::set(b"again"));
    assert!(rig.late(&mut Rig::delete));
    assert_eq!(rig.early(&mut Rig::get), None);
    rig.end();
    rig.expect(None);
}
