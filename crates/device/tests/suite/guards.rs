//! Devices around others that bound their space and watch their writes.

use std::io::ErrorKind;
use std::sync::Arc;

use almandine_device::watched::{DeviceState, Health};
use almandine_device::{Device, FaultPlan, FaultyDevice, MemoryDevice, Quota, WatchedDevice};

use crate::conformance::{self, BLOCK, expect, filled};

const ALWAYS: u32 = 1_000_000;

#[test]
fn guards_conform() {
    conformance::all(BLOCK, || {
        let limited = Quota::new(u64::MAX).limit(Arc::new(MemoryDevice::new()));
        WatchedDevice::new(Arc::new(limited), Arc::default())
    });
}

#[test]
fn a_quota_is_shared_and_space_given_back_counts() {
    let quota = Quota::new(3 * BLOCK);
    let (one, two) = (quota.limit(Arc::new(MemoryDevice::new())), quota.limit(Arc::new(MemoryDevice::new())));
    one.write(0, &filled(0, 2 * BLOCK, 1)).unwrap();
    two.write(0, &filled(0, BLOCK, 1)).unwrap();
    let refused = one.write(2 * BLOCK, &filled(0, BLOCK, 1)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StorageFull);
    assert!(refused.to_string().contains("12288 of 12288 bytes"), "{refused}");
    two.discard(0, BLOCK).unwrap();
    one.write(2 * BLOCK, &filled(2 * BLOCK, BLOCK, 1)).unwrap();
    expect(&one, 0, 3 * BLOCK, 1);
}

#[test]
fn a_device_that_was_full_is_sound_when_it_has_room_again() {
    let (quota, health) = (Quota::new(2 * BLOCK), Arc::<Health>::default());
    let faulty = Arc::new(FaultyDevice::new(Arc::new(MemoryDevice::new()), 1, FaultPlan::default()));
    let device = WatchedDevice::new(Arc::new(quota.limit(Arc::clone(&faulty) as _)), Arc::clone(&health));
    device.write(0, &filled(0, 2 * BLOCK, 0)).unwrap();
    device.write(2 * BLOCK, &filled(2 * BLOCK, BLOCK, 0)).unwrap_err();
    assert_eq!(health.state(), DeviceState::Full);
    // What holds nothing gives nothing back.
    device.discard(4 * BLOCK, BLOCK).unwrap();
    assert_eq!(health.state(), DeviceState::Full);
    device.discard(0, BLOCK).unwrap();
    assert_eq!(health.state(), DeviceState::Sound);
    // Another error stays until a write succeeds.
    faulty.set_plan(FaultPlan { write_errors: ALWAYS, ..FaultPlan::default() });
    device.write(2 * BLOCK, &filled(2 * BLOCK, BLOCK, 0)).unwrap_err();
    device.discard(BLOCK, BLOCK).unwrap();
    assert_eq!(health.state(), DeviceState::Failing);
}

#[test]
fn the_state_follows_the_last_write() {
    let health = Arc::new(Health::default());
    let faulty = Arc::new(FaultyDevice::new(Arc::new(MemoryDevice::new()), 1, FaultPlan::default()));
    let device = WatchedDevice::new(Arc::clone(&faulty) as _, Arc::clone(&health));
    let write = || device.write(0, &filled(0, BLOCK, 1));
    write().unwrap();
    assert_eq!((health.state(), health.write_errors()), (DeviceState::Sound, 0));
    faulty.set_plan(FaultPlan { full_at: Some(0), ..FaultPlan::default() });
    assert!(write().is_err() && health.state() == DeviceState::Full);
    faulty.set_plan(FaultPlan { write_errors: ALWAYS, ..FaultPlan::default() });
    assert!(write().is_err() && health.state() == DeviceState::Failing);
    assert!(health.last_error().contains("injected: failed write"), "{}", health.last_error());
    faulty.set_plan(FaultPlan::default());
    write().unwrap();
    assert_eq!((health.state(), health.write_errors()), (DeviceState::Sound, 2));
}
