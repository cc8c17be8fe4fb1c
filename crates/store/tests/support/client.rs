//! A store on a device, and a thread's way to use it.

use almandine_store::{Fetcher, KeptDevice, Kind, Missing, Need, Options, Put, Session, Slot, Stage, Storage, Store};
use std::sync::Arc;
use std::time::Duration;

const BUDGET: u64 = 16 << 20;
pub(crate) const NOW_MS: i64 = 1_000_000;

pub(crate) fn open(storage: &Storage, kept: Option<KeptDevice>) -> Store {
    let options = Options { memory_bytes_max: 1 << 30, storage: Some(storage.clone()), kept, ..Options::default() };
    let store = Store::open(options).expect("a store");
    store.settings().set_budget(BUDGET);
    store.settings().hold_expiry(true);
    store
}

/// A thread's way to use cold keys: it blocks on the device.
pub(crate) struct Client {
    pub(crate) store: Arc<Store>,
    pub(crate) session: Session,
    pub(crate) fetcher: Fetcher,
}

impl Client {
    pub(crate) fn new(store: &Arc<Store>) -> Self {
        Self { store: Arc::clone(store), session: store.session().expect("a session"), fetcher: Fetcher::default() }
    }

    fn change<R>(&mut self, namespace: u16, key: &[u8], run: impl FnOnce(Slot<'_>) -> R) -> R {
        while self.store.is_stalled() {
            std::thread::sleep(Duration::from_micros(200));
        }
        let mut stage = Stage::default();
        loop {
            self.session.enter(NOW_MS);
            self.session.staging().attach(stage);
            let key = self.session.key(namespace, key);
            self.session.plan().lock_all(&[key.hash], true);
            let probed = self.session.cold().probe(key, Need::Read);
            assert_ne!(probed, Err(Missing::Unreadable), "the device gave an error");
            if probed.is_ok() {
                let result = run(self.session.entry(key).expect("what was probed is at hand"));
                self.session.plan().unlock_all();
                self.session.staging().detach();
                self.session.leave();
                return result;
            }
            self.session.plan().unlock_all();
            stage = self.session.staging().detach();
            self.session.leave();
            let cold = self.session.cold();
            cold.stage_blocking(&mut cold.take_wanted(), &mut stage, &mut self.fetcher);
        }
    }

    pub(crate) fn set(&mut self, namespace: u16, key: &[u8], value: &[u8], put: Put) {
        self.change(namespace, key, |slot| match slot {
            Slot::Occupied(mut entry) => entry.replace(Kind::String, value, put).expect("room"),
            Slot::Vacant(vacant) => vacant.insert(Kind::String, value, put).expect("room"),
        });
    }

    pub(crate) fn delete(&mut self, namespace: u16, key: &[u8]) {
        self.change(namespace, key, |slot| match slot {
            Slot::Occupied(entry) => entry.remove(),
            Slot::Vacant(_) => {}
        });
    }

    pub(crate) fn get(&mut self, namespace: u16, key: &[u8]) -> Option<(Vec<u8>, Option<i64>)> {
        self.change(namespace, key, |slot| match slot {
            Slot::Occupied(entry) => {
                let value = entry.shared().map_or_else(|| entry.value().to_vec(), |shared| (*shared).as_ref().to_vec());
                Some((value, entry.expiry_ms()))
            }
            Slot::Vacant(_) => None,
        })
    }
}
