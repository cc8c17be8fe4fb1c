//! A slow device: only a thread that needs it waits for it.

#![cfg(not(loom))]

use almandine_device::{Device, MemoryDevice, Source};
use almandine_store::{Options, Put, Session, Storage, Store};
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A device of which whole pages are read only while its gate is open.
#[derive(Default)]
struct Gated {
    device: MemoryDevice,
    /// Whether the gate is closed, and how many wait in front of it.
    gate: Mutex<(bool, usize)>,
    moved: Condvar,
}

impl Gated {
    fn set_closed(&self, closed: bool) {
        self.gate.lock().expect("the gate").0 = closed;
        self.moved.notify_all();
    }

    fn waiting(&self) -> usize {
        self.gate.lock().expect("the gate").1
    }
}

impl Device for Gated {
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.device.write(offset, data)
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut gate = self.gate.lock().expect("the gate");
        gate.1 += 1;
        while gate.0 {
            gate = self.moved.wait(gate).expect("the gate");
        }
        gate.1 -= 1;
        drop(gate);
        self.device.read(offset, buffer)
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.device.discard(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.device.sync()
    }

    fn source(&self, offset: u64, bytes: usize) -> io::Result<Source> {
        self.device.source(offset, bytes)
    }

    fn used_bytes(&self) -> u64 {
        self.device.used_bytes()
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "not in 20 s: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn set(store: &Store, session: &mut Session, namespace: u16, number: u64, expiry_ms: Option<i64>) {
    wait_until("the device takes what leaves memory", || !store.is_stalled());
    session.enter(almandine_io::clock::unix_ms());
    let name = number.to_le_bytes();
    let key = session.key(namespace, &name);
    // A new key whose tag is that of one on the device is left out.
    let _ = session.upsert(key, &[b'.'; 900], Put { expiry_ms, ..Put::default() });
    session.cold().take_wanted();
    session.leave();
}

/// INV-NS-1: pages of several namespaces are read when one of them is emptied; keys expire meanwhile, and the namespace is free
/// in the end.
#[test]
fn a_sweep_that_waits_for_the_device_holds_nobody_up() {
    let device = Arc::new(Gated::default());
    let storage =
        Storage { pages: Arc::clone(&device) as Arc<dyn Device>, values: Arc::new(MemoryDevice::new()), ciphers: Arc::default() };
    let store = Store::open(Options { memory_bytes_max: 1 << 30, storage: Some(storage), ..Options::default() }).expect("a store");
    store.settings().set_budget(16 << 20);
    // Compaction reads nothing.
    store.settings().set_compaction(0.99, 1 << 30);
    let namespaces = [(); 2].map(|()| store.allocate_namespace().expect("a namespace"));
    let mut session = store.session().expect("a session");
    for number in 0..40_000 {
        set(&store, &mut session, namespaces[number as usize % 2], number, None);
    }
    wait_until("pages have left memory", || store.figures().tier().expect("a device").pages_evicted > 5);
    device.set_closed(true);
    store.drop_namespace(namespaces[0]);
    wait_until("the sweep waits for the device", || device.waiting() != 0);
    let expired = store.figures().totals().expired;
    set(&store, &mut session, namespaces[1], 100_000, Some(almandine_io::clock::unix_ms() + 100));
    wait_until("a key expires meanwhile", || store.figures().totals().expired > expired);
    assert_eq!((device.waiting(), store.figures().work().namespaces_swept), (1, 0));
    device.set_closed(false);
    wait_until("the namespace is swept", || store.figures().work().namespaces_swept == 1);
    assert_eq!(store.figures().namespace_len(namespaces[0]), (0, 0));
}
