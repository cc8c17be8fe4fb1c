//! Stripes over several devices.

use std::path::PathBuf;
use std::sync::Arc;

use almandine_device::file::begun_label;
use almandine_device::sharded::STRIPE_BYTES;
use almandine_device::{Device, FileOptions, MemoryDevice, OpenMode, ShardedDevice, Source};

use crate::conformance::{self, BLOCK, expect, filled};
use crate::scratch::Scratch;

fn memories(count: usize) -> Vec<Arc<dyn Device>> {
    (0..count).map(|_| Arc::new(MemoryDevice::new()) as Arc<dyn Device>).collect()
}

#[test]
fn stripes_over_memory_conform() {
    for (devices, stripe_blocks) in [(1, 1), (2, 1), (3, 4), (5, 64)] {
        conformance::all(BLOCK, || ShardedDevice::new(memories(devices), stripe_blocks * BLOCK).unwrap());
    }
}

#[test]
fn stripes_over_directories_conform() {
    let scratch = Scratch::new();
    let options = FileOptions { segment_bytes: 4 << 20, ..FileOptions::default() };
    conformance::all(BLOCK, || ShardedDevice::open(&[scratch.fresh(), scratch.fresh(), scratch.fresh()], &options).unwrap());
}

#[test]
fn pages_go_round() {
    let devices = memories(3);
    let device = ShardedDevice::new(devices.clone(), STRIPE_BYTES).unwrap();
    for i in 0..7 {
        device.write(i * STRIPE_BYTES, &filled(i * STRIPE_BYTES, STRIPE_BYTES, 0)).unwrap();
    }
    let used: Vec<u64> = devices.iter().map(|d| d.used_bytes() / STRIPE_BYTES).collect();
    assert_eq!(used, [3, 2, 2]);
    device.discard(STRIPE_BYTES / 2, 3 * STRIPE_BYTES).unwrap();
    let used: Vec<u64> = devices.iter().map(|d| d.used_bytes() * 2 / STRIPE_BYTES).collect();
    assert_eq!(used, [4, 2, 2]);
    expect(&device, STRIPE_BYTES * 7 / 2, STRIPE_BYTES * 7 / 2, 0);
}

#[test]
fn a_page_is_read_from_its_file() {
    let scratch = Scratch::new();
    let device = ShardedDevice::open(&[scratch.fresh(), scratch.fresh()], &FileOptions::default()).unwrap();
    device.write(0, &filled(0, 2 * STRIPE_BYTES, 0)).unwrap();
    let is_file = |offset| matches!(device.source(offset, 8192).unwrap(), Source::File { .. });
    assert!(is_file(0) && is_file(STRIPE_BYTES) && is_file(2 * STRIPE_BYTES - 8192));
    assert!(!is_file(STRIPE_BYTES - 4096), "two files at once");
}

#[test]
fn kept_directories_must_be_in_order() {
    let scratch = Scratch::new();
    let directories: Vec<PathBuf> = vec![scratch.fresh(), scratch.fresh()];
    let device = ShardedDevice::open(&directories, &FileOptions::default()).unwrap();
    device.write(0, &filled(0, 2 * STRIPE_BYTES, 0)).unwrap();
    device.sync().unwrap();
    drop(device);
    let keep = FileOptions { mode: OpenMode::Keep, ..FileOptions::default() };
    let turned: Vec<PathBuf> = directories.iter().rev().cloned().collect();
    for wrong in [&turned[..], &directories[..1]] {
        let error = ShardedDevice::open(wrong, &keep).err().unwrap();
        assert!(error.to_string().contains("shard 1 of 2"), "{error}");
    }
    let device = ShardedDevice::open(&directories, &keep).unwrap();
    assert_eq!(device.used_bytes(), 2 * STRIPE_BYTES);
    expect(&device, 0, 2 * STRIPE_BYTES, 0);
    // Each is the same shard of another whole.
    device.relabel(&begun_label(3, "log a")).unwrap();
    drop(device);
    let of_log = |base| FileOptions { label: "log a".to_owned(), counts: Some(("log a".to_owned(), base)), ..keep.clone() };
    assert!(ShardedDevice::open(&directories, &of_log(2)).is_err() && ShardedDevice::open(&turned, &of_log(3)).is_err());
    ShardedDevice::open(&directories, &of_log(3)).unwrap().relabel("log a").unwrap();
    expect(&ShardedDevice::open(&directories, &of_log(1)).unwrap(), 0, 2 * STRIPE_BYTES, 0);
}

#[test]
fn nonsense_is_refused() {
    assert!(ShardedDevice::new(Vec::new(), STRIPE_BYTES).is_err());
    assert!(ShardedDevice::new(memories(1), 1000).is_err());
    assert!(ShardedDevice::open(&[], &FileOptions::default()).is_err());
}
