//! A real server with a log on a file system that is full: writes are refused before they are executed, reads go on, what was
//! acknowledged is there, and writes are taken again when there is room, without a restart.
//!
//! Only root can run it, with loop devices.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use almandine_testkit::crash::{FileSystem, Filler, Machine, reason_against};
use almandine_testkit::server::almandine_path;
use almandine_testkit::{Client, Value};

const PATIENCE: Duration = Duration::from_secs(120);
/// Bytes of a value, so that some hundred of them fill a segment.
const VALUE_BYTES: usize = 200 << 10;

fn info(client: &mut Client) -> String {
    let Value::Bulk(text) = client.line("INFO persistence") else { panic!("no INFO") };
    String::from_utf8(text).expect("text")
}

fn value(key: usize) -> String {
    let mut value = format!("{key:08}").repeat(VALUE_BYTES / 8);
    value.truncate(VALUE_BYTES);
    value
}

fn set(client: &mut Client, key: usize) -> std::io::Result<Value> {
    client.call(&["SET", &format!("key:{key}"), &value(key)])
}

fn all_there(client: &mut Client, keys: usize) {
    for key in 0..keys {
        assert_eq!(client.line(&format!("GET key:{key}")), Value::Bulk(value(key).into_bytes()), "key {key} of {keys}");
    }
}

fn survives(mode: &str) {
    if let Some(reason) = reason_against() {
        println!("a file system cannot be filled here: {reason}");
        return;
    }
    let machine = Machine::new(FileSystem::Ext4, &almandine_path());
    let flags = ["--appendonly", "yes", "--appendfsync", mode, "--save", "", "--auto-aof-rewrite-percentage", "0"];
    let mut server = machine.start(&flags);
    let mut client = server.client();
    // More than a segment that is there before it is needed, and less than three.
    let filler = Filler::leave(&machine.disk(), 100 << 20);
    let (mut keys, began) = (0, Instant::now());
    // The one that meets the full disk is answered when there is room, where answers wait for the disk.
    let mut waiting = None;
    let refused = loop {
        assert!(began.elapsed() < PATIENCE, "{keys} keys are taken, and the disk is not full: {}", server.log());
        client.set_read_timeout(Duration::from_secs(10)).expect("a socket");
        match set(&mut client, keys) {
            Ok(Value::Error(text)) => break String::from_utf8_lossy(&text).into_owned(),
            Ok(reply) => assert_eq!(reply, Value::ok(), "key {keys}"),
            Err(error) => {
                assert!(mode == "always" && waiting.is_none(), "key {keys}: {error}, {}", server.log());
                waiting = Some(std::mem::replace(&mut client, server.client()));
            }
        }
        keys += 1;
    };
    println!("{mode}: {keys} keys, then {refused}");
    assert!(refused.starts_with("MISCONF Errors writing to the AOF file"), "{refused}");
    assert!(keys > 50, "{keys}");
    assert!(server.log().contains("disk is full"), "{}", server.log());
    assert!(info(&mut client).contains("aof_last_write_status:err"), "{}", info(&mut client));
    // It was refused before it was executed, and so is the next one; what reads or frees memory is not.
    assert_eq!(client.line(&format!("EXISTS key:{keys}")), Value::Integer(0));
    assert!(matches!(client.line("INCR other"), Value::Error(_)));
    assert_eq!(client.line("EXISTS other"), Value::Integer(0));
    assert_eq!(client.line("GET key:0"), Value::Bulk(value(0).into_bytes()));
    // A base finds no room either, says so, and leaves nothing behind.
    assert!(matches!(client.line("BGREWRITEAOF"), Value::Simple(_)));
    while info(&mut client).contains("aof_rewrite_in_progress:1") {
        assert!(began.elapsed() < PATIENCE, "{}", server.log());
        thread::sleep(Duration::from_millis(10));
    }
    let names = fs::read_dir(machine.disk().join("appendonlydir")).expect("a log");
    let names: Vec<String> = names.map(|entry| entry.expect("a name").file_name().to_string_lossy().into_owned()).collect();
    assert!(!names.iter().any(|name| name.ends_with(".tmp")), "{names:?}");
    filler.remove();
    // By itself.
    while set(&mut client, keys).expect("an answer") != Value::ok() {
        assert!(began.elapsed() < PATIENCE, "there is room again: {}", server.log());
        thread::sleep(Duration::from_millis(20));
    }
    keys += 1;
    if let Some(mut waiting) = waiting {
        assert_eq!(waiting.receive().expect("an answer"), Value::ok());
    }
    while !info(&mut client).contains("aof_last_write_status:ok") {
        assert!(began.elapsed() < PATIENCE, "{}", info(&mut client));
    }
    all_there(&mut client, keys);
    server.kill();
    server.start_again();
    all_there(&mut server.client(), keys);
}

#[test]
fn a_full_disk_loses_nothing_and_is_over_when_there_is_room_with_always() {
    survives("always");
}

#[test]
fn a_full_disk_loses_nothing_and_is_over_when_there_is_room_with_everysec() {
    survives("everysec");
}
