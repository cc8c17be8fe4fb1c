//! Tiers: what goes where, what is forgotten, and what happens when a tier fails or is slow.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use almandine_device::{
    BLOCK_BYTES, Device, FaultPlan, FaultyDevice, FileDevice, FileOptions, MemoryDevice, OpenMode, Source, Tier, TierOptions,
    TieredDevice,
};
use almandine_io::storage::Buffer;

use crate::conformance::{self, BLOCK, expect, expect_nothing, filled, read_source};
use crate::scratch::Scratch;

const LONG: Duration = Duration::from_secs(20);

fn memory() -> Arc<dyn Device> {
    Arc::new(MemoryDevice::new())
}

fn tiered(tiers: Vec<Tier>, commit: usize) -> TieredDevice {
    TieredDevice::new(tiers, TierOptions { commit, ..TierOptions::default() }).unwrap()
}

fn faulty(plan: FaultPlan) -> Arc<FaultyDevice> {
    Arc::new(FaultyDevice::new(memory(), 1, plan))
}

fn failing() -> FaultPlan {
    FaultPlan { write_errors: 1_000_000, ..FaultPlan::default() }
}

/// Writes blocks one by one.
fn write_blocks(device: &dyn Device, blocks: std::ops::Range<u64>) {
    for i in blocks {
        device.write(i * BLOCK, &filled(i * BLOCK, BLOCK, 0)).unwrap();
    }
}

#[test]
fn tiers_conform() {
    for commit in 0..2 {
        conformance::all(BLOCK, || tiered(vec![Tier::new(memory()), Tier::new(memory())], commit));
    }
    conformance::all(BLOCK, || tiered(vec![Tier::new(memory())], 0));
}

#[test]
fn tiers_that_forget_conform() {
    let scratch = Scratch::new();
    for commit in 0..3 {
        conformance::all(BLOCK, || {
            let options = FileOptions { segment_bytes: 16 * BLOCK, ..FileOptions::default() };
            let file = FileDevice::open(scratch.fresh(), &options).unwrap();
            let small = Tier::new(memory()).with_capacity(256 * BLOCK);
            let middle = Tier::new(memory()).with_capacity(300 * BLOCK);
            tiered(vec![small, middle, Tier::new(Arc::new(file))], commit)
        });
    }
}

#[test]
fn the_commit_tier_has_it_when_a_write_returns() {
    let slow = || faulty(FaultPlan { delays: 1_000_000, delay_max: Duration::from_millis(200), ..FaultPlan::default() });
    let (first, second, third) = (memory(), memory(), slow());
    let device = tiered(vec![Tier::new(Arc::clone(&first)), Tier::new(Arc::clone(&second)), Tier::new(Arc::clone(&third) as _)], 1);
    write_blocks(&device, 0..8);
    assert_eq!((first.used_bytes(), second.used_bytes()), (8 * BLOCK, 8 * BLOCK));
    assert!(device.drain(LONG));
    assert_eq!(third.used_bytes(), 8 * BLOCK);
    expect(&*third, 0, 8 * BLOCK, 0);
}

#[test]
fn a_small_tier_forgets_its_oldest_and_the_next_answers() {
    let (first, second) = (memory(), memory());
    let device = tiered(vec![Tier::new(Arc::clone(&first)).with_capacity(8 * BLOCK), Tier::new(Arc::clone(&second))], 0);
    write_blocks(&device, 0..100);
    assert!(device.drain(LONG));
    assert_eq!((first.used_bytes(), second.used_bytes(), device.used_bytes()), (8 * BLOCK, 100 * BLOCK, 100 * BLOCK));
    expect_nothing(&*first, 0, 92 * BLOCK);
    expect(&*first, 92 * BLOCK, 8 * BLOCK, 0);
    expect(&device, 0, 100 * BLOCK, 0);
    let report = device.report();
    assert_eq!((report[0].forgotten_bytes, report[0].held_bytes, report[1].held_bytes), (92 * BLOCK, 8 * BLOCK, 100 * BLOCK));
}

#[test]
fn a_write_above_the_capacity_goes_through_and_the_capacity_can_change() {
    let (first, second) = (memory(), memory());
    let device = tiered(vec![Tier::new(Arc::clone(&first)).with_capacity(4 * BLOCK + 100), Tier::new(second)], 0);
    write_blocks(&device, 0..4);
    device.write(4 * BLOCK, &filled(4 * BLOCK, 10 * BLOCK, 0)).unwrap();
    assert!(device.drain(LONG));
    write_blocks(&device, 14..15);
    assert_eq!(first.used_bytes(), 4 * BLOCK);
    device.set_capacity(0, 9 * BLOCK);
    write_blocks(&device, 15..40);
    assert!(device.drain(LONG));
    write_blocks(&device, 40..41);
    assert_eq!(first.used_bytes(), 9 * BLOCK);
    assert!(device.drain(LONG));
    device.set_capacity(0, 2 * BLOCK);
    assert_eq!(first.used_bytes(), 2 * BLOCK);
    write_blocks(&device, 41..42);
    assert_eq!(first.used_bytes(), 2 * BLOCK);
    expect(&device, 0, 42 * BLOCK, 0);
}

#[test]
fn what_need_not_outlive_a_device_is_dropped_when_it_closes() {
    let second = faulty(FaultPlan { delays: 1_000_000, delay_max: Duration::from_millis(200), ..FaultPlan::default() });
    let options = TierOptions { finish: false, ..TierOptions::default() };
    let device = TieredDevice::new(vec![Tier::new(memory()), Tier::new(Arc::clone(&second) as _)], options).unwrap();
    write_blocks(&device, 0..500);
    drop(device);
    assert!(second.used_bytes() < 400 * BLOCK);
}

#[test]
fn what_only_a_file_has_is_read_from_the_file() {
    let scratch = Scratch::new();
    let file: Arc<dyn Device> = Arc::new(FileDevice::open(scratch.path(), &FileOptions::default()).unwrap());
    let device = tiered(vec![Tier::new(memory()).with_capacity(8 * BLOCK), Tier::new(file)], 1);
    write_blocks(&device, 0..16);
    assert!(matches!(device.source(0, 4096).unwrap(), Source::File { .. }));
    assert!(matches!(device.source(15 * BLOCK, 4096).unwrap(), Source::Blocking { .. }), "may be forgotten meanwhile");
    expect(&device, 0, 16 * BLOCK, 0);
}

#[test]
fn a_tier_that_fails_catches_up_and_nothing_is_forgotten_meanwhile() {
    let (first, second) = (memory(), faulty(failing()));
    let tiers = vec![Tier::new(Arc::clone(&first)).with_capacity(8 * BLOCK), Tier::new(Arc::clone(&second) as _)];
    let options = TierOptions { wait_max: Duration::from_millis(50), ..TierOptions::default() };
    let device = TieredDevice::new(tiers, options).unwrap();
    write_blocks(&device, 0..8);
    // Its thread may not have tried yet, and then there is no error to be named.
    let began = std::time::Instant::now();
    while device.report()[1].write_errors == 0 {
        assert!(began.elapsed() < LONG, "the tier has not tried");
        std::thread::sleep(Duration::from_millis(1));
    }
    let error = device.write(8 * BLOCK, &filled(8 * BLOCK, BLOCK, 0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(error.to_string().contains("tier 1 is behind by 32768 bytes") && error.to_string().contains("injected"), "{error}");
    expect(&device, 0, 8 * BLOCK, 0);
    second.set_plan(FaultPlan::default());
    assert!(device.drain(LONG));
    write_blocks(&device, 8..40);
    expect(&device, 0, 40 * BLOCK, 0);
    assert!(device.drain(LONG));
    expect(&*second, 0, 40 * BLOCK, 0);
}

#[test]
fn the_backlog_is_bounded() {
    let second = faulty(failing());
    let tiers = vec![Tier::new(memory()), Tier::new(Arc::clone(&second) as _)];
    let options = TierOptions { backlog_bytes: 4 * BLOCK, wait_max: Duration::from_millis(50), ..TierOptions::default() };
    let device = TieredDevice::new(tiers, options).unwrap();
    write_blocks(&device, 0..4);
    assert_eq!(device.write(4 * BLOCK, &filled(4 * BLOCK, BLOCK, 0)).unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(device.report()[1].backlog_bytes, 4 * BLOCK);
    assert!(!device.drain(Duration::from_millis(20)));
    // What is discarded need not be written any more.
    device.discard(0, 4 * BLOCK).unwrap();
    assert!(device.drain(LONG));
    device.write(4 * BLOCK, &filled(4 * BLOCK, BLOCK, 0)).unwrap();
    second.set_plan(FaultPlan::default());
    assert!(device.drain(LONG));
    assert_eq!(second.used_bytes(), BLOCK);
    expect(&*second, 4 * BLOCK, BLOCK, 0);
}

#[test]
fn a_read_error_is_answered_by_the_next_tier() {
    let (first, second) = (faulty(FaultPlan::default()), memory());
    let device = tiered(vec![Tier::new(Arc::clone(&first) as _).with_capacity(64 * BLOCK), Tier::new(second)], 1);
    write_blocks(&device, 0..8);
    first.set_plan(FaultPlan { read_errors: 1_000_000, ..FaultPlan::default() });
    expect(&device, 0, 8 * BLOCK, 0);
    assert!(device.report()[0].read_errors > 0);
}

#[test]
fn old_bytes_on_their_way_are_never_read() {
    let second = faulty(FaultPlan { delays: 1_000_000, delay_max: Duration::from_millis(2), ..FaultPlan::default() });
    let small = Tier::new(memory()).with_capacity(4 * BLOCK);
    let device = tiered(vec![small, Tier::new(Arc::clone(&second) as _)], 0);
    for generation in 0..200 {
        // Two blocks over and over, and others that push them out of the first tier.
        let hot = generation % 2 * BLOCK;
        device.write(hot, &filled(hot, BLOCK, generation)).unwrap();
        let other = (2 + generation % 5) * BLOCK;
        device.write(other, &filled(other, BLOCK, generation)).unwrap();
        expect(&device, hot, BLOCK, generation);
        if generation > 0 {
            expect(&device, (generation - 1) % 2 * BLOCK, BLOCK, generation - 1);
        }
        if generation % 10 == 9 {
            device.discard(other, BLOCK).unwrap();
        }
    }
    assert!(device.drain(LONG));
    assert_eq!(second.used_bytes(), device.used_bytes(), "discarded while on its way");
}

#[test]
fn readers_do_not_notice_what_is_forgotten() {
    let device = tiered(vec![Tier::new(memory()).with_capacity(8 * BLOCK), Tier::new(memory())], 0);
    let written = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut buffer = Buffer::new(BLOCK_BYTES);
                let mut step = 0;
                loop {
                    let end = written.load(std::sync::atomic::Ordering::Acquire);
                    if end == 2000 {
                        break;
                    }
                    step += 1;
                    // Mostly around the place where the first tier forgets.
                    let Some(i) = end.checked_sub(1 + step % 16) else { continue };
                    read_source(&device, i * BLOCK, &mut buffer).unwrap();
                    assert!(buffer[..] == filled(i * BLOCK, BLOCK, 0)[..]);
                }
            });
        }
        for i in 0..2000 {
            write_blocks(&device, i..i + 1);
            written.store(i + 1, std::sync::atomic::Ordering::Release);
        }
    });
}

#[test]
fn closing_writes_what_is_queued_and_a_kept_tier_has_it() {
    let scratch = Scratch::new();
    let file: Arc<dyn Device> = Arc::new(FileDevice::open(scratch.path(), &FileOptions::default()).unwrap());
    let device = tiered(vec![Tier::new(memory()), Tier::new(file)], 0);
    write_blocks(&device, 0..50);
    drop(device);
    let file = FileDevice::open(scratch.path(), &FileOptions { mode: OpenMode::Keep, ..FileOptions::default() }).unwrap();
    let held = file.held();
    assert_eq!(held, [(0, 50 * BLOCK)]);
    let device = tiered(vec![Tier::new(memory()), Tier { held, ..Tier::new(Arc::new(file)) }], 0);
    expect(&device, 0, 50 * BLOCK, 0);
    assert_eq!(device.used_bytes(), 50 * BLOCK);
}

#[test]
fn a_tier_that_fails_does_not_keep_closing_waiting() {
    let device = tiered(vec![Tier::new(memory()), Tier::new(faulty(failing()) as _)], 0);
    write_blocks(&device, 0..4);
    let began = std::time::Instant::now();
    drop(device);
    assert!(began.elapsed() < LONG);
}

#[test]
fn nonsense_is_refused() {
    let refused = |tiers, commit| TieredDevice::new(tiers, TierOptions { commit, ..TierOptions::default() }).err().unwrap().kind();
    assert_eq!(refused(vec![], 0), ErrorKind::InvalidInput);
    assert_eq!(refused(vec![Tier::new(memory())], 1), ErrorKind::InvalidInput);
    assert_eq!(refused(vec![Tier::new(memory()).with_capacity(BLOCK)], 0), ErrorKind::InvalidInput);
}
