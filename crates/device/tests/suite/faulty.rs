//! The device that fails on purpose fails as planned, and only so.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use almandine_device::{BLOCK_BYTES, Device, FaultPlan, FaultyDevice, MemoryDevice};
use almandine_io::storage::Buffer;

use crate::conformance::{self, BLOCK, expect, filled, read_source};

const ALWAYS: u32 = 1_000_000;

fn faulty(plan: FaultPlan) -> FaultyDevice {
    FaultyDevice::new(Arc::new(MemoryDevice::new()), 7, plan)
}

/// A device with 16 blocks of generation 1, and then this plan.
fn with_data(plan: FaultPlan) -> FaultyDevice {
    let device = faulty(FaultPlan::default());
    device.write(0, &filled(0, 16 * BLOCK, 1)).unwrap();
    device.set_plan(plan);
    device
}

/// How many of the 16 blocks are of generation 2; all others must be of generation 1.
fn new_blocks(device: &FaultyDevice) -> Vec<u64> {
    device.set_plan(FaultPlan::default());
    let mut buffer = Buffer::new(BLOCK_BYTES);
    let mut new = Vec::new();
    for i in 0..16 {
        device.read(i * BLOCK, &mut buffer).unwrap();
        if buffer[..] == filled(i * BLOCK, BLOCK, 2)[..] {
            new.push(i);
        } else {
            assert!(buffer[..] == filled(i * BLOCK, BLOCK, 1)[..]);
        }
    }
    new
}

#[test]
fn without_faults_it_conforms() {
    conformance::all(BLOCK, || faulty(FaultPlan::default()));
}

#[test]
fn delays_change_nothing_else() {
    let plan = FaultPlan { delays: 20_000, delay_max: Duration::from_millis(1), ..FaultPlan::default() };
    conformance::all(BLOCK, || faulty(plan.clone()));
    let device = faulty(FaultPlan { delays: ALWAYS, delay_max: Duration::from_millis(40), ..FaultPlan::default() });
    let began = Instant::now();
    for _ in 0..8 {
        device.write(0, &filled(0, BLOCK, 0)).unwrap();
    }
    assert!(began.elapsed() >= Duration::from_millis(20), "8 delays of 20 ms on average");
    assert_eq!(device.counts().delays, 8);
}

#[test]
fn reads_fail_for_workers_too() {
    let device = with_data(FaultPlan { read_errors: ALWAYS, ..FaultPlan::default() });
    let mut buffer = Buffer::new(BLOCK_BYTES);
    assert!(device.read(0, &mut buffer).unwrap_err().to_string().contains("injected"));
    assert!(read_source(&device, 0, &mut buffer).is_err());
    device.set_plan(FaultPlan { short_reads: ALWAYS, ..FaultPlan::default() });
    assert_eq!(read_source(&device, 0, &mut buffer).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(device.counts().reads, 3);
    device.set_plan(FaultPlan::default());
    expect(&device, 0, 16 * BLOCK, 1);
}

#[test]
fn one_bit_flips() {
    let device = with_data(FaultPlan { flipped_bits: ALWAYS, ..FaultPlan::default() });
    let wanted = filled(0, 16 * BLOCK, 1);
    let mut buffer = Buffer::new(wanted.len());
    for _ in 0..20 {
        read_source(&device, 0, &mut buffer).unwrap();
        let wrong: u32 = buffer.iter().zip(&wanted[..]).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!(wrong, 1);
    }
    assert_eq!(device.counts().flipped, 20);
}

#[test]
fn writes_fail_in_their_ways() {
    let new = filled(0, 16 * BLOCK, 2);
    let device = with_data(FaultPlan { write_errors: ALWAYS, ..FaultPlan::default() });
    assert!(device.write(0, &new).is_err());
    assert!(new_blocks(&device).is_empty());

    let device = with_data(FaultPlan { short_writes: ALWAYS, ..FaultPlan::default() });
    assert_eq!(device.write(0, &new).unwrap_err().kind(), ErrorKind::WriteZero);
    let written = new_blocks(&device);
    assert!(written.len() < 16 && written == (0..written.len() as u64).collect::<Vec<_>>());

    let device = with_data(FaultPlan { torn_writes: ALWAYS, ..FaultPlan::default() });
    assert!(device.write(0, &new).is_err());
    assert!((1..16).contains(&new_blocks(&device).len()));
    assert_eq!(device.counts().writes, 1);

    let device = with_data(FaultPlan { lost_writes: ALWAYS, ..FaultPlan::default() });
    device.write(0, &new).unwrap();
    assert!((1..16).contains(&new_blocks(&device).len()));
    assert_eq!((device.counts().lost, device.counts().writes), (1, 0));
}

#[test]
fn it_fills_up_and_empties() {
    let device = with_data(FaultPlan { full_at: Some(17 * BLOCK), ..FaultPlan::default() });
    device.write(16 * BLOCK, &filled(16 * BLOCK, BLOCK, 1)).unwrap();
    assert_eq!(device.write(17 * BLOCK, &filled(17 * BLOCK, BLOCK, 1)).unwrap_err().kind(), ErrorKind::StorageFull);
    device.discard(0, 2 * BLOCK).unwrap();
    device.write(17 * BLOCK, &filled(17 * BLOCK, BLOCK, 1)).unwrap();
    expect(&device, 2 * BLOCK, 16 * BLOCK, 1);
}

#[test]
fn discards_and_syncs_fail() {
    let device = with_data(FaultPlan { discard_errors: ALWAYS, sync_errors: ALWAYS, ..FaultPlan::default() });
    assert!(device.discard(0, BLOCK).is_err());
    assert!(device.sync().is_err());
    assert_eq!((device.used_bytes(), device.counts().others), (16 * BLOCK, 2));
    // What failed once is never certain again, even if the fault is gone.
    device.set_plan(FaultPlan::default());
    assert!(device.sync().is_err() && device.write(0, &filled(0, BLOCK, 2)).is_ok());
}

#[test]
fn a_seed_repeats_its_faults() {
    let plan = FaultPlan { write_errors: 300_000, short_writes: 300_000, ..FaultPlan::default() };
    let run = |seed| {
        let device = FaultyDevice::new(Arc::new(MemoryDevice::new()), seed, plan.clone());
        (0..64).map(|i| device.write(i * BLOCK, &filled(0, BLOCK, 0)).map_err(|e| e.kind())).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    let failed = run(3).iter().filter(|result| result.is_err()).count();
    assert!((20..50).contains(&failed), "{failed} of 64 at 51 %");
}
