//! What fails: disks, and what stands in the way of files.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use almandine_testkit::{Client, Server, Value};
use rustix::process::{Pid, Signal, kill_process};

use super::super::health::write;
use super::data::fill;

/// Data beyond memory, of which some is asked for, and replaced.
pub(super) fn unreadable(server: &Server) -> Vec<Client> {
    let mut clients = fill(server, 20_000, 1_500);
    for n in 0..2_000 {
        clients[0].line(&format!("GET key:{n}"));
    }
    clients
}

/// The same, and each second key is set or deleted, the damaged ones among them.
pub(super) fn damaged(server: &Server) -> Vec<Client> {
    let mut clients = unreadable(server);
    for n in (0..2_000).step_by(2) {
        let command = if n % 4 == 0 { format!("SET key:{n} new") } else { format!("DEL key:{n}") };
        clients[0].line(&command);
    }
    clients
}

/// Most of the data is replaced, so that pages with little life are collected, and cannot be read.
pub(super) fn damaged_for_long(server: &Server) {
    let mut clients = fill(server, 20_000, 1_500);
    let value = "w".repeat(1_500);
    for first in (0..20_000).step_by(1000) {
        let keys = (first..first + 1000).filter(|n| n % 4 != 0);
        let commands: Vec<[String; 3]> = keys.map(|n| ["SET".into(), format!("key:{n}"), value.clone()]).collect();
        clients[0].pipeline(&commands).unwrap();
    }
}

pub(super) fn unwritable(server: &Server) -> Vec<Client> {
    fill(server, 30_000, 1_500)
}

/// The directory of the log is gone: what it has open is written, but there is no next file, and no base.
pub(super) fn log_without_directory(server: &Server) -> Vec<Client> {
    let directory = server.directory();
    fs::rename(directory.join("appendonlydir"), directory.join("away")).unwrap();
    let mut client = server.client();
    client.line("BGREWRITEAOF");
    for round in 0..200 {
        if write(server, &mut client, round).is_some() {
            break;
        }
    }
    vec![client]
}

/// A directory stands where the snapshot is to be.
pub(super) fn snapshot_without_place(server: &Server) -> Vec<Client> {
    fs::create_dir_all(server.directory().join("dump.rdb/full")).unwrap();
    let mut client = server.client();
    assert!(matches!(client.line("BGSAVE"), Value::Simple(_)));
    vec![client]
}

/// The machine stands still for more than a second, with luck while it waits for the disk.
pub(super) fn halted_while_syncing(server: &Server) {
    let is_over = AtomicBool::new(false);
    let process = Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
    thread::scope(|threads| {
        threads.spawn(|| {
            let mut client = server.client();
            while !is_over.load(Ordering::Relaxed) {
                client.line("SET a 1");
            }
        });
        thread::sleep(Duration::from_millis(100));
        kill_process(process, Signal::STOP).unwrap();
        thread::sleep(Duration::from_millis(1_200));
        kill_process(process, Signal::CONT).unwrap();
        is_over.store(true, Ordering::Relaxed);
    });
}
