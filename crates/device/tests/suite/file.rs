//! The device of files: conformance, and what only directories have.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::conformance::{self, BLOCK, expect, expect_nothing, filled};
use crate::scratch::Scratch;
use almandine_device::file::begun_label;
use almandine_device::{Device, FileDevice, FileOptions, OpenMode};

fn options(mode: OpenMode, segment_bytes: u64) -> FileOptions {
    FileOptions { mode, segment_bytes, ..FileOptions::default() }
}

fn segments(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".segment")).collect();
    names.sort();
    names
}

#[test]
fn files_conform() {
    let scratch = Scratch::new();
    conformance::all(BLOCK, || FileDevice::open(scratch.fresh(), &FileOptions::default()).unwrap());
}

#[test]
fn files_of_many_small_segments_conform() {
    let scratch = Scratch::new();
    for segment_blocks in [1, 3, 64] {
        let options = options(OpenMode::Empty, segment_blocks * BLOCK);
        conformance::all(BLOCK, || FileDevice::open(scratch.fresh(), &options).unwrap());
    }
}

#[test]
fn files_through_the_page_cache_conform() {
    let scratch = Scratch::new();
    let options = FileOptions { direct: false, segment_bytes: 16 * BLOCK, ..FileOptions::default() };
    conformance::all(BLOCK, || {
        let device = FileDevice::open(scratch.fresh(), &options).unwrap();
        assert!(!device.direct());
        device
    });
}

#[test]
fn segments_come_and_go() {
    let scratch = Scratch::new();
    let device = FileDevice::open(scratch.path(), &options(OpenMode::Empty, 4 * BLOCK)).unwrap();
    assert!(segments(scratch.path()).is_empty(), "made lazily");
    for i in [9, 0, 5] {
        device.write(i * 4 * BLOCK, &filled(i * 4 * BLOCK, 4 * BLOCK, 0)).unwrap();
    }
    assert_eq!(segments(scratch.path()), ["000000000000.segment", "000000000005.segment", "000000000009.segment"]);
    assert_eq!(device.held(), [(0, 4 * BLOCK), (20 * BLOCK, 24 * BLOCK), (36 * BLOCK, 40 * BLOCK)]);
    device.discard(20 * BLOCK, 3 * BLOCK).unwrap();
    assert_eq!(device.used_bytes(), 9 * BLOCK);
    assert_eq!(segments(scratch.path()).len(), 3, "one block of it is still held");
    // A reader that has its source already still reads from a deleted segment.
    let source = device.source(23 * BLOCK, 4096).unwrap();
    device.discard(23 * BLOCK, BLOCK).unwrap();
    assert_eq!(segments(scratch.path()), ["000000000000.segment", "000000000009.segment"]);
    let almandine_device::Source::File { file, offset } = source else { panic!("a file's source is the file") };
    let mut buffer = almandine_io::storage::Buffer::new(4096);
    file.read_exact_at(&mut buffer, offset).unwrap();
    assert!(buffer[..] == filled(23 * BLOCK, BLOCK, 0)[..]);
    expect_nothing(&device, 23 * BLOCK, BLOCK);
}

#[test]
fn holes_give_space_back_to_the_file_system() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new();
    let device = FileDevice::open(scratch.path(), &FileOptions::default()).unwrap();
    device.write(0, &filled(0, 256 * BLOCK, 0)).unwrap();
    device.sync().unwrap();
    let allocated = || fs::metadata(scratch.path().join("000000000000.segment")).unwrap().blocks() * 512;
    assert!(allocated() >= 256 * BLOCK);
    device.discard(64 * BLOCK, 128 * BLOCK).unwrap();
    assert!(allocated() <= 140 * BLOCK, "{}", allocated());
    expect(&device, 0, 64 * BLOCK, 0);
    expect(&device, 192 * BLOCK, 64 * BLOCK, 0);
}

#[test]
fn a_kept_directory_is_as_it_was() {
    let scratch = Scratch::new();
    let device = FileDevice::open(scratch.path(), &options(OpenMode::Empty, 8 * BLOCK)).unwrap();
    device.write(0, &filled(0, 64 * BLOCK, 0)).unwrap();
    device.discard(3 * BLOCK, BLOCK).unwrap();
    device.discard(10 * BLOCK, 20 * BLOCK).unwrap();
    device.sync().unwrap();
    let held = device.held();
    assert_eq!(device.used_bytes(), 43 * BLOCK);
    drop(device);

    let device = FileDevice::open(scratch.path(), &options(OpenMode::Keep, 256 << 20)).unwrap();
    assert_eq!(device.segment_bytes(), 8 * BLOCK, "as it was made");
    assert_eq!((device.used_bytes(), device.held()), (43 * BLOCK, held));
    expect(&device, 0, 3 * BLOCK, 0);
    expect(&device, 4 * BLOCK, 6 * BLOCK, 0);
    expect(&device, 30 * BLOCK, 34 * BLOCK, 0);
    expect_nothing(&device, 3 * BLOCK, BLOCK);
    device.write(64 * BLOCK, &filled(64 * BLOCK, BLOCK, 0)).unwrap();
    expect(&device, 60 * BLOCK, 5 * BLOCK, 0);
    drop(device);

    let error =
        FileDevice::open(scratch.path(), &FileOptions { label: "shard 1 of 2".to_owned(), ..options(OpenMode::Keep, 8 * BLOCK) })
            .unwrap_err();
    assert!(error.to_string().contains("give the directories as before"), "{error}");

    let device = FileDevice::open(scratch.path(), &options(OpenMode::Empty, 16 * BLOCK)).unwrap();
    assert_eq!((device.used_bytes(), device.segment_bytes()), (0, 16 * BLOCK));
    assert!(segments(scratch.path()).is_empty());
    expect_nothing(&device, 0, BLOCK);
}

/// Whether a device that begins empty deletes what is there, and whether one has it that is kept with this base of the log.
fn begins_and_keeps(path: &Path, base: Option<u64>) -> (bool, bool) {
    let counts = base.map(|base| ("log a".to_owned(), base));
    let kept = FileOptions { label: "log a".to_owned(), counts: counts.clone(), ..options(OpenMode::Keep, 8 * BLOCK) };
    let keeps = FileDevice::open(path, &kept).is_ok_and(|device| device.used_bytes() != 0);
    let begun = FileDevice::open(path, &FileOptions { counts, ..options(OpenMode::Empty, 8 * BLOCK) });
    (begun.is_ok_and(|device| device.removed().files != 0), keeps)
}

#[test]
fn what_is_there_belongs_to_what_its_label_names() {
    for (label, base, expected) in [
        ("whole".to_owned(), Some(7), (true, false)),
        ("log a".to_owned(), Some(1), (false, true)),
        ("log b".to_owned(), Some(1), (false, false)),
        (begun_label(7, "log a"), Some(6), (true, false)),
        (begun_label(7, "log a"), Some(7), (false, true)),
        (begun_label(7, "log a"), Some(8), (false, true)),
        (begun_label(7, "log b"), Some(8), (true, false)),
        // It may count in a directory that is not known.
        (begun_label(7, "log b"), None, (false, false)),
    ] {
        let scratch = Scratch::new();
        let device = FileDevice::open(scratch.path(), &options(OpenMode::Empty, 8 * BLOCK)).unwrap();
        device.write(0, &filled(0, BLOCK, 0)).unwrap();
        // Twice changes nothing.
        (0..2).for_each(|_| device.relabel(&label).unwrap());
        expect(&device, 0, BLOCK, 0);
        drop(device);
        assert_eq!(begins_and_keeps(scratch.path(), base), expected, "{label} with base {base:?}");
    }
}

#[test]
fn foreign_files_are_not_touched() {
    let scratch = Scratch::new();
    for name in ["notes.txt", "1.segment", "000000000001.segment.bak"] {
        let path = scratch.path().join(name);
        fs::write(&path, "mine").unwrap();
        for mode in [OpenMode::Empty, OpenMode::Keep] {
            let error = FileDevice::open(scratch.path(), &options(mode, 8 * BLOCK)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            assert!(error.to_string().contains(name) && error.to_string().contains("move the file away"), "{error}");
        }
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1, "nothing was made beside it");
        fs::remove_file(&path).unwrap();
    }
    fs::create_dir(scratch.path().join("lost+found")).unwrap();
    FileDevice::open(scratch.path(), &FileOptions::default()).unwrap();
}

#[test]
fn a_directory_has_one_user() {
    let scratch = Scratch::new();
    let device = FileDevice::open(scratch.path(), &FileOptions::default()).unwrap();
    device.write(0, &filled(0, BLOCK, 0)).unwrap();
    let error = FileDevice::open(scratch.path(), &FileOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    expect(&device, 0, BLOCK, 0);
    drop(device);
    FileDevice::open(scratch.path(), &FileOptions::default()).unwrap();
}

#[test]
fn errors_name_the_place() {
    let scratch = Scratch::new();
    let file = scratch.path().join("file");
    fs::write(&file, "").unwrap();
    let error = FileDevice::open(file.join("below"), &FileOptions::default()).unwrap_err();
    assert!(error.to_string().contains("make directory") && error.to_string().contains("below"), "{error}");
    fs::remove_file(&file).unwrap();
    let error = FileDevice::open(scratch.path(), &options(OpenMode::Empty, 1000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    fs::write(scratch.path().join("000000000000.segment"), [1; 4096]).unwrap();
    let error = FileDevice::open(scratch.path(), &options(OpenMode::Keep, 8 * BLOCK)).unwrap_err();
    assert!(error.to_string().contains("begin empty"), "{error}");
}

#[test]
fn many_threads_write_and_discard_in_the_same_segments() {
    let scratch = Scratch::new();
    let device = FileDevice::open(scratch.path(), &options(OpenMode::Empty, 4 * BLOCK)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let device = &device;
            scope.spawn(move || {
                // Each thread has one block of every segment, so that segments empty while others write to them.
                for round in 0..400_u64 {
                    let offset = (round % 6 * 4 + thread) * BLOCK;
                    device.write(offset, &filled(offset, BLOCK, round)).unwrap();
                    expect(device, offset, BLOCK, round);
                    device.discard(offset, BLOCK).unwrap();
                }
            });
        }
    });
    assert_eq!(device.used_bytes(), 0);
    assert!(segments(scratch.path()).is_empty());
}
