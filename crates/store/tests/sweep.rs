//! Emptying a small namespace costs what it holds, whatever lies beside it: counted in buckets looked at and bytes read.

#![cfg(not(loom))]

use almandine_device::MemoryDevice;
use almandine_store::{Options, Put, Session, Storage, Store};
use std::sync::Arc;

const NOW_MS: i64 = 1_000_000;
const SMALL: u64 = 10;

fn set(session: &mut Session, namespace: u16, number: u64, value: &[u8]) {
    session.enter(NOW_MS);
    let name = format!("key:{number}");
    let key = session.key(namespace, name.as_bytes());
    // A new key whose tag is that of one on the device is left out.
    let _ = session.upsert(key, value, Put::default());
    session.cold().take_wanted();
    session.leave();
}

/// Buckets and bytes of the device that the sweep of a namespace of ten keys looks at, beside two others that have `keys` keys.
fn sweep_beside(keys: u64, storage: Option<Storage>) -> (u64, u64) {
    let tiered = storage.is_some();
    let options = Options { memory_bytes_max: 1 << 30, storage, background: false, ..Options::default() };
    let store = Store::open(options).expect("a store");
    if tiered {
        store.settings().set_budget(16 << 20);
        store.settings().set_compaction(0.99, 1 << 40);
    }
    let mut session = store.session().expect("a session");
    let [small, large, other] = [(); 3].map(|()| store.allocate_namespace().expect("a namespace"));
    for number in 0..keys {
        set(&mut session, if number % 2 == 0 { large } else { other }, number, &[7; 500]);
        if number % (keys / SMALL) == 0 {
            set(&mut session, small, number, b"small");
        }
        if number % 50 == 0 {
            store.maintain(NOW_MS);
        }
    }
    (0..200).for_each(|_| store.maintain(NOW_MS));
    let held = store.figures().namespace_len(small).0;
    assert!(held >= SMALL - 2, "{held}");
    let read = || store.figures().tier().map_or(0, |tier| tier.read_bytes);
    let before = (store.figures().work().buckets_swept, read());
    let others = store.figures().namespace_len(large).0 + store.figures().namespace_len(other).0;
    store.drop_namespace(small);
    for _ in 0..100_000 {
        if store.figures().work().namespaces_swept == 1 {
            break;
        }
        store.maintain(NOW_MS);
    }
    assert_eq!((store.figures().work().namespaces_swept, store.figures().namespace_len(small)), (1, (0, 0)));
    assert_eq!(store.figures().totals().live as u64, others, "the others keep theirs");
    assert_eq!(store.allocate_namespace(), Ok(small), "INV-NS-1: it is used again");
    (store.figures().work().buckets_swept - before.0, read() - before.1)
}

#[test]
fn a_small_namespace_in_memory_is_swept_by_its_own_keys() {
    for keys in [100_000, 200_000] {
        let (buckets, _) = sweep_beside(keys, None);
        assert!((1..=2 * SMALL).contains(&buckets), "{buckets} buckets for {SMALL} keys beside {keys}");
    }
}

#[test]
fn a_small_namespace_on_the_device_is_swept_by_its_own_keys() {
    for keys in [80_000, 160_000] {
        let device = || Arc::new(MemoryDevice::new());
        let (buckets, bytes) = sweep_beside(keys, Some(Storage { pages: device(), values: device(), ciphers: Arc::default() }));
        assert!((1..=2 * SMALL).contains(&buckets), "{buckets} buckets for {SMALL} keys beside {keys}");
        // The entries of these buckets, a block or two for each.
        assert!(bytes <= buckets * 10 * 8192, "{bytes} bytes read for {SMALL} keys beside {keys}");
    }
}
