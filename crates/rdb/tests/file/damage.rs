//! Damaged files are refused, or say what they said before.

use almandine_rdb::file::{ReadOptions, WriteOptions, WriteVersion};

use super::contents::{Contents, read, read_bytes};
use super::golden::sample;

const OPTIONS: WriteOptions = WriteOptions { version: WriteVersion::Redis11, checksum: true, compression: true };

#[test]
fn every_prefix_is_refused() {
    for options in [OPTIONS, WriteOptions { checksum: false, compression: false, ..OPTIONS }] {
        let file = sample(options);
        for len in 0..file.len() {
            let error = read_bytes(&file[..len]).unwrap_err();
            assert!(error.offset <= len as u64, "{len}: {error}");
        }
    }
}

/// A flipped bit is noticed by the checksum at the latest. Without one it may change a value, but nothing panics.
#[test]
fn every_flipped_bit_is_noticed() {
    let file = sample(OPTIONS);
    let whole = read_bytes(&file).unwrap();
    let unchecked = ReadOptions { checksum: false, ..ReadOptions::default() };
    for bit in 0..file.len() * 8 {
        let mut damaged = file.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        if let Ok(contents) = read_bytes(&damaged) {
            // Files of versions before 5 have no checksum, which would notice what became of the version.
            let is_same = Contents { version: whole.version, ..contents } == whole;
            assert!(is_same, "bit {bit}");
        }
        let _ = read(&damaged[..], unchecked);
    }
}

/// What arrives behind the end is not read: an append-only file goes on there.
#[test]
fn what_follows_the_end_is_left() {
    let mut file = sample(OPTIONS);
    let whole = read_bytes(&file).unwrap();
    file.extend_from_slice(b"*1\r\n$4\r\nPING\r\n");
    assert_eq!(read_bytes(&file).unwrap(), whole);
}
