//! What every device must do, whatever it is made of. Each device's test calls [`all`] with a way to make an empty one.
//!
//! Blocks are filled with words made of their offset and a generation, so that a block that is read says where it came from.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use almandine_device::{BLOCK_BYTES, Device, Source};
use almandine_io::storage::Buffer;

/// The block size as an offset.
pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;

/// Runs everything, each part on an empty device. `granule` is the smallest range whose discard frees space.
pub(crate) fn all<D: Device>(granule: u64, make: impl Fn() -> D) {
    unaligned_is_refused(&make());
    what_is_written_is_read(&make());
    overwriting_takes_no_more_space(&make());
    discards_in_any_order(&make(), granule);
    readers_and_a_writer(&make(), granule);
}

/// Memory with the blocks of a range in a generation.
pub(crate) fn filled(offset: u64, bytes: u64, generation: u64) -> Buffer {
    let mut buffer = Buffer::new(usize::try_from(bytes).unwrap());
    for (i, word) in buffer.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&expected(offset + i as u64 * 8, generation).to_le_bytes());
    }
    buffer
}

fn expected(offset: u64, generation: u64) -> u64 {
    (offset + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) ^ generation.wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// Reads a range in both ways and compares it.
pub(crate) fn expect(device: &dyn Device, offset: u64, bytes: u64, generation: u64) {
    let wanted = filled(offset, bytes, generation);
    let mut buffer = Buffer::new(wanted.len());
    device.read(offset, &mut buffer).unwrap();
    assert!(buffer[..] == wanted[..], "read of {bytes} bytes at {offset}");
    buffer.fill(0xEE);
    read_source(device, offset, &mut buffer).unwrap();
    assert!(buffer[..] == wanted[..], "source of {bytes} bytes at {offset}");
}

/// Reads as a worker does.
pub(crate) fn read_source(device: &dyn Device, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
    match device.source(offset, buffer.len())? {
        Source::File { file, offset } => file.read_exact_at(buffer, offset),
        Source::Blocking { source, offset } => source.read_at(offset, buffer),
    }
}

/// Discarded bytes are an error or zeroes, in both ways of reading.
pub(crate) fn expect_nothing(device: &dyn Device, offset: u64, bytes: u64) {
    let mut buffer = Buffer::new(usize::try_from(bytes).unwrap());
    buffer.fill(0xEE);
    if device.read(offset, &mut buffer).is_ok() {
        assert!(buffer.iter().all(|byte| *byte == 0), "discarded bytes at {offset}");
    }
    buffer.fill(0xEE);
    if read_source(device, offset, &mut buffer).is_ok() {
        assert!(buffer.iter().all(|byte| *byte == 0), "discarded bytes at {offset}");
    }
}

/// Offsets, lengths and memory.
pub(crate) fn unaligned_is_refused(device: &dyn Device) {
    let mut buffer = Buffer::new(4 * BLOCK_BYTES);
    let refused = |result: std::io::Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(device.block_bytes(), BLOCK_BYTES);
    refused(device.write(512, &buffer[..BLOCK_BYTES]));
    refused(device.write(0, &buffer[..1000]));
    refused(device.write(0, &buffer[8..8 + BLOCK_BYTES]));
    refused(device.write(u64::MAX - BLOCK + 1, &buffer[..BLOCK_BYTES]));
    refused(device.read(1, &mut buffer[..BLOCK_BYTES]));
    refused(device.read(0, &mut buffer[..100]));
    refused(device.read(0, &mut buffer[512..512 + BLOCK_BYTES]));
    refused(device.discard(0, 100));
    refused(device.discard(100, BLOCK));
    assert_eq!(device.source(7, BLOCK_BYTES).err().unwrap().kind(), ErrorKind::InvalidInput);
    assert_eq!(device.used_bytes(), 0);
}

fn what_is_written_is_read(device: &dyn Device) {
    expect_nothing(device, 0, BLOCK);
    // Pages, as a log writes them, over many segments, stripes or objects.
    let page = 64 * BLOCK;
    for i in 0..24 {
        device.write(i * page, &filled(i * page, page, 0)).unwrap();
    }
    assert_eq!(device.used_bytes(), 24 * page);
    device.sync().unwrap();
    for i in 0..24 {
        expect(device, i * page, page, 0);
    }
    // Anywhere, and across the borders of pages.
    for i in 0..100 {
        let offset = i * 7919 % (23 * 64) * BLOCK;
        expect(device, offset, (1 + i % 16) * BLOCK, 0);
    }
    // Beyond the end nothing is there.
    expect_nothing(device, 24 * page, BLOCK);
    expect_nothing(device, 1 << 40, BLOCK);
    // A log that has been running for long begins far away.
    device.write(5 << 40, &filled(5 << 40, page, 0)).unwrap();
    expect(device, 5 << 40, page, 0);
    assert_eq!(device.used_bytes(), 25 * page);
    // Everything at once.
    device.discard(0, 1 << 60).unwrap();
    assert_eq!(device.used_bytes(), 0);
    expect_nothing(device, 0, page);
}

fn overwriting_takes_no_more_space(device: &dyn Device) {
    device.write(0, &filled(0, 256 * BLOCK, 1)).unwrap();
    device.write(3 * BLOCK, &filled(3 * BLOCK, BLOCK, 2)).unwrap();
    device.write(60 * BLOCK, &filled(60 * BLOCK, 8 * BLOCK, 3)).unwrap();
    assert_eq!(device.used_bytes(), 256 * BLOCK);
    expect(device, 0, 3 * BLOCK, 1);
    expect(device, 3 * BLOCK, BLOCK, 2);
    expect(device, 4 * BLOCK, 56 * BLOCK, 1);
    expect(device, 60 * BLOCK, 8 * BLOCK, 3);
    expect(device, 68 * BLOCK, 188 * BLOCK, 1);
}

fn discards_in_any_order(device: &dyn Device, granule: u64) {
    let count = 96;
    let mut order: Vec<u64> = (0..count).collect();
    for i in 0..order.len() {
        order.swap(i, (i * 7 + 5) * 31 % 96);
    }
    for i in 0..count {
        device.write(i * granule, &filled(i * granule, granule, 1)).unwrap();
    }
    for (done, i) in order.iter().enumerate() {
        device.discard(i * granule, granule).unwrap();
        assert_eq!(device.used_bytes(), (count - 1 - done as u64) * granule);
        expect_nothing(device, i * granule, BLOCK);
        // Twice is as once.
        device.discard(i * granule, granule).unwrap();
        for kept in order[done + 1..].iter().take(3) {
            expect(device, kept * granule, granule, 1);
        }
    }
    // What was discarded can be written again.
    device.write(0, &filled(0, 4 * granule, 2)).unwrap();
    assert_eq!(device.used_bytes(), 4 * granule);
    expect(device, 0, 4 * granule, 2);
    // A discard of more than is there, and of parts of what is.
    device.discard(3 * granule, 50 * granule).unwrap();
    assert_eq!(device.used_bytes(), 3 * granule);
    expect(device, 0, 3 * granule, 2);
}

/// A writer appends and discards behind itself while readers check what lies between.
fn readers_and_a_writer(device: &dyn Device, granule: u64) {
    let (begin, end, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let read = AtomicU64::new(0);
    thread::scope(|scope| {
        for reader in 0..3_u64 {
            let (begin, end, stop, read) = (&begin, &end, &stop, &read);
            scope.spawn(move || {
                let mut step = reader;
                let mut buffer = Buffer::new(BLOCK_BYTES);
                while !stop.load(Ordering::Acquire) {
                    let (first, last) = (begin.load(Ordering::Acquire), end.load(Ordering::Acquire));
                    if first + granule >= last {
                        thread::yield_now();
                        continue;
                    }
                    step += 1;
                    let offset = first + step * 37 % ((last - first) / BLOCK) * BLOCK;
                    let result = read_source(device, offset, &mut buffer);
                    // What has been discarded meanwhile may be gone, all other bytes must be right.
                    if offset >= begin.load(Ordering::Acquire) {
                        result.unwrap();
                        assert!(buffer[..] == filled(offset, BLOCK, 9)[..], "read at {offset} beside a writer");
                        read.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for i in 0..256_u64 {
            device.write(i * granule, &filled(i * granule, granule, 9)).unwrap();
            end.store((i + 1) * granule, Ordering::Release);
            if i >= 32 {
                begin.store((i - 31) * granule, Ordering::Release);
                device.discard((i - 32) * granule, granule).unwrap();
            }
        }
        while read.load(Ordering::Relaxed) < 100 {
            thread::yield_now();
        }
        stop.store(true, Ordering::Release);
    });
    assert_eq!(device.used_bytes(), 32 * granule);
}
