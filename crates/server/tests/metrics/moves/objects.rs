//! Object storage that is slow, and that is away.

use std::thread;
use std::time::{Duration, Instant};

use almandine_testkit::storage::Figures;
use almandine_testkit::{Server, s3};

use super::data::fill;

/// More data than memory and directory take.
pub(super) fn beyond_directory(server: &Server, store: &s3::Server) {
    store.delay(Duration::from_millis(100));
    fill(server, 12_000, 2_000);
    assert!(server.make_cold());
    store.delay(Duration::ZERO);
}

/// The store answers nothing when data is read, written and deleted.
pub(super) fn away(server: &Server, store: &s3::Server) {
    fill(server, 12_000, 2_000);
    assert!(server.make_cold());
    let end = Instant::now() + Duration::from_secs(60);
    while Figures::of(server).get("storage_object_backlog_bytes") > 0 {
        assert!(Instant::now() < end, "{}", server.log());
        thread::sleep(Duration::from_millis(20));
    }
    store.refuse(true);
    let mut client = server.client();
    for n in 0..4_000 {
        client.line(&format!("GET key:{n}"));
    }
    // More than memory takes: the client that writes it waits for the store.
    let mut writer = server.client();
    writer.stream().set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    let value = "v".repeat(2_000);
    let sets: Vec<[String; 3]> = (0..12_000).map(|n| ["SET".into(), format!("more:{n}"), value.clone()]).collect();
    let _ = writer.send(&sets);
    client.line("FLUSHALL");
}

/// The log goes on without its archive.
pub(super) fn archive_away(server: &Server, store: &s3::Server) {
    store.refuse(true);
    fill(server, 1_000, 100);
}

/// A base names pages, and the store takes its time with them; the base before it is kept.
pub(super) fn archive_of_pages(server: &Server, store: &s3::Server) {
    let bases = |bases: u64, end: Instant| {
        while Figures::of(server).get("log_archive_bases") < bases {
            assert!(Instant::now() < end, "{}", server.log());
            thread::sleep(Duration::from_millis(20));
        }
    };
    server.client().line("CONFIG SET log-object-keep 3600");
    bases(1, Instant::now() + Duration::from_secs(60));
    fill(server, 12_000, 2_000);
    assert!(server.make_cold());
    store.delay(Duration::from_millis(100));
    server.client().line("BGREWRITEAOF");
    let end = Instant::now() + Duration::from_secs(60);
    while Figures::of(server).get("log_archive_shipped_pages") == 0 {
        assert!(Instant::now() < end, "{}", server.log());
        thread::sleep(Duration::from_millis(20));
    }
    store.delay(Duration::ZERO);
    bases(2, end);
}

/// A backup is sealed while the store is away.
pub(super) fn backup(server: &Server, store: &s3::Server) {
    fill(server, 1_000, 100);
    let mut client = server.client();
    client.line("BACKUP START");
    let end = Instant::now() + Duration::from_secs(60);
    while !client.line("BACKUP STATUS").to_string().contains("incrementing") {
        assert!(Instant::now() < end, "{}", server.log());
        thread::sleep(Duration::from_millis(20));
    }
    store.refuse(true);
    client.line("BACKUP SEAL");
    while Figures::of(server).get("backup_upload_errors") == 0 {
        assert!(Instant::now() < end, "{}", server.log());
        thread::sleep(Duration::from_millis(20));
    }
    store.delay(Duration::from_millis(100));
    store.refuse(false);
    while Figures::of(server).get("backup_upload_kept") == 0 {
        assert!(Instant::now() < end, "{}", server.log());
        thread::sleep(Duration::from_millis(20));
    }
}
