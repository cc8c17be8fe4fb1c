//! Object storage: against a server that speaks S3, in memory, and in a directory.

use std::io::ErrorKind;

use almandine_device::{BLOCK_BYTES, Device, ObjectDevice, ObjectOptions, OpenMode};
use almandine_io::storage::Buffer;
use almandine_testkit::s3::Server;
use object_store::memory::InMemory;
use object_store::path::Path;

use crate::conformance::{self, BLOCK, expect, expect_nothing, filled};
use crate::scratch::Scratch;

const OBJECT: u64 = 8 * BLOCK;

fn options(mode: OpenMode) -> ObjectOptions {
    ObjectOptions { mode, object_bytes: OBJECT, ..ObjectOptions::default() }
}

fn s3(server: &Server, mode: OpenMode) -> std::io::Result<ObjectDevice> {
    let settings = server.environment().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    ObjectDevice::open("s3://bucket/folder", &ObjectOptions { settings, ..options(mode) })
}

#[test]
fn objects_of_a_server_conform() {
    let server = Server::start();
    conformance::all(OBJECT, || s3(&server, OpenMode::Empty).unwrap());
    assert!(server.requests() > 1000);
}

#[test]
fn objects_in_memory_conform() {
    let memory = || ObjectDevice::over(Box::new(InMemory::new()), Path::default(), "memory".to_owned(), &options(OpenMode::Empty));
    conformance::all(OBJECT, || memory().unwrap());
}

#[test]
fn objects_in_a_directory_conform() {
    let scratch = Scratch::new();
    let open = |mode| {
        let address = format!("file://{}/folder", scratch.path().display());
        ObjectDevice::open(&address, &ObjectOptions { object_bytes: 64 * BLOCK, ..options(mode) }).unwrap()
    };
    conformance::all(64 * BLOCK, || open(OpenMode::Empty));
    drop(open(OpenMode::Empty));
    open(OpenMode::Keep).write(0, &filled(0, 65 * BLOCK, 0)).unwrap();
    let device = open(OpenMode::Keep);
    assert_eq!(device.used_bytes(), 65 * BLOCK);
    expect(&device, 0, 65 * BLOCK, 0);
}

#[test]
fn a_page_is_an_object_and_kept_objects_are_found() {
    let server = Server::start();
    let device = s3(&server, OpenMode::Empty).unwrap();
    // More than one page of a listing.
    device.write(0, &filled(0, 13 * OBJECT, 0)).unwrap();
    device.discard(3 * OBJECT, OBJECT).unwrap();
    assert_eq!(server.objects()[0], (format!("bucket/folder/almandine-{OBJECT}-000000000000"), OBJECT as usize));
    assert_eq!(server.objects().len(), 12);
    let before = server.requests();
    device.read(5 * OBJECT + BLOCK, &mut Buffer::new(BLOCK_BYTES)).unwrap();
    assert_eq!(server.requests(), before + 1, "one read, one request");
    drop(device);

    let device = s3(&server, OpenMode::Keep).unwrap();
    assert_eq!(device.used_bytes(), 12 * OBJECT);
    expect(&device, 4 * OBJECT, 9 * OBJECT, 0);
    expect_nothing(&device, 3 * OBJECT, OBJECT);
    drop(device);

    let device = s3(&server, OpenMode::Empty).unwrap();
    assert_eq!((device.used_bytes(), server.objects().len()), (0, 0));
}

#[test]
fn gathered_objects_conform() {
    let gathering = |mode| ObjectOptions { gather: true, ..options(mode) };
    let memory =
        || ObjectDevice::over(Box::new(InMemory::new()), Path::default(), "memory".to_owned(), &gathering(OpenMode::Empty));
    conformance::all(OBJECT, || memory().unwrap());
}

#[test]
fn what_is_smaller_than_an_object_is_gathered() {
    let server = Server::start();
    let open = |mode| {
        let settings = server.environment().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        ObjectDevice::open("s3://bucket/folder", &ObjectOptions { settings, gather: true, ..options(mode) }).unwrap()
    };
    let write = |device: &ObjectDevice, at: u64| device.write(at * BLOCK, &filled(at * BLOCK, BLOCK, 0));
    let device = open(OpenMode::Empty);
    let before = server.requests();
    (0..20).for_each(|at| write(&device, at).unwrap());
    assert_eq!((server.requests() - before, server.objects().len()), (2, 2), "each full object is one request");
    assert_eq!(device.used_bytes(), 20 * BLOCK);
    expect(&device, 14 * BLOCK, 6 * BLOCK, 0);
    // A write that goes on elsewhere, as after one that failed, leaves a hole and an object that is not full.
    write(&device, 27).unwrap();
    assert_eq!(server.objects()[2].1, 4 * BLOCK as usize);
    write(&device, 31).unwrap();
    expect(&device, 27 * BLOCK, BLOCK, 0);
    expect(&device, 16 * BLOCK, 4 * BLOCK, 0);
    // What is discarded before it was full never was in the store.
    write(&device, 40).unwrap();
    device.discard(40 * BLOCK, BLOCK).unwrap();
    expect_nothing(&device, 40 * BLOCK, BLOCK);
    assert_eq!((server.objects().len(), device.used_bytes()), (4, 28 * BLOCK));
    // Objects that left memory can be changed still.
    device.write(3 * BLOCK, &filled(3 * BLOCK, BLOCK, 7)).unwrap();
    expect(&device, 3 * BLOCK, BLOCK, 7);
    expect(&device, 4 * BLOCK, BLOCK, 0);
    // Bytes that the store refuses stay readable, and go there when it lets them.
    write(&device, 48).unwrap();
    server.refuse(true);
    assert_eq!(device.sync().unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert!(write(&device, 56).is_err());
    let report = device.report();
    assert_eq!((report.write_errors, report.read_errors, report.delete_errors), (2, 0, 0));
    assert!(report.last_error.unwrap().contains("cannot write"));
    expect(&device, 48 * BLOCK, BLOCK, 0);
    server.refuse(false);
    device.sync().unwrap();
    write(&device, 49).unwrap();
    device.sync().unwrap();
    let used = device.used_bytes();
    drop(device);
    let device = open(OpenMode::Keep);
    assert_eq!(device.used_bytes(), used);
    expect(&device, 48 * BLOCK, 2 * BLOCK, 0);
}

#[test]
fn foreign_objects_are_not_touched() {
    let server = Server::start();
    server.put("bucket/folder/holiday.jpg");
    server.put("bucket/other");
    for mode in [OpenMode::Empty, OpenMode::Keep] {
        let error = s3(&server, mode).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert!(error.to_string().contains("holiday.jpg"), "{error}");
    }
    assert_eq!(server.objects().len(), 2);
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path().join("folder/photos")).unwrap();
    std::fs::write(scratch.path().join("folder/photos/1.jpg"), "x").unwrap();
    let address = format!("file://{}/folder", scratch.path().display());
    let error = ObjectDevice::open(&address, &options(OpenMode::Empty)).err().unwrap();
    assert!(error.to_string().contains("photos"), "{error}");
}

#[test]
fn a_server_that_stumbles_is_asked_again_and_one_that_refuses_is_reported() {
    let server = Server::start();
    let device = s3(&server, OpenMode::Empty).unwrap();
    server.fail_each(4);
    device.write(0, &filled(0, 6 * OBJECT, 0)).unwrap();
    expect(&device, 0, 6 * OBJECT, 0);
    server.fail_each(0);
    server.refuse(true);
    let error = device.write(6 * OBJECT, &filled(6 * OBJECT, OBJECT, 0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("s3://bucket/folder") && error.to_string().contains("right to"), "{error}");
    assert!(device.read(0, &mut Buffer::new(BLOCK_BYTES)).is_err());
    assert!(device.discard(0, OBJECT).is_err());
    server.refuse(false);
    // What could not be deleted is still counted, and can be discarded again.
    assert_eq!(device.used_bytes(), 6 * OBJECT);
    device.discard(0, OBJECT).unwrap();
    assert_eq!(device.used_bytes(), 5 * OBJECT);
    expect(&device, OBJECT, 5 * OBJECT, 0);
}

#[test]
fn nonsense_is_refused() {
    for address in ["", "bucket", "nfs://x/y"] {
        let error = ObjectDevice::open(address, &ObjectOptions::default()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("s3://bucket/folder"), "{error}");
    }
    let odd = ObjectOptions { object_bytes: 1000, ..ObjectOptions::default() };
    assert!(ObjectDevice::open("s3://bucket", &ObjectOptions { settings: vec![], ..odd }).is_err());
}
