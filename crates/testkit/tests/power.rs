//! Power cuts on real file systems: what the mode of the log promises is there after the restart, and the server starts.
//!
//! Only root can run it, with loop devices. With `ALMANDINE_GOLDEN_SERVER=redis` the proof runs against redis-server.

use std::path::Path;
use std::time::Duration;

use almandine_testkit::crash::{FileSystem, Machine, Plan, Promise, Seen, prove, reason_against};
use almandine_testkit::server::{almandine_path, mutants_path};
use almandine_testkit::{Program, full, seed};

/// Has data leave memory for a device, and bases name it there.
const COOL: &str = "DEBUG STORAGE EVICT|BGREWRITEAOF|DEBUG STORAGE EVICT";

/// One proof.
struct Cuts<'c> {
    file_system: FileSystem,
    mode: &'c str,
    mutant: Option<&'c str>,
    beside: Option<&'c str>,
    rounds: u32,
}

impl Cuts<'_> {
    fn prove(&self) -> Result<Seen, String> {
        if let Some(reason) = reason_against() {
            panic!("power cannot be cut here: {reason}");
        }
        let redis = std::env::var("ALMANDINE_GOLDEN_SERVER").is_ok_and(|name| name == "redis");
        let path = if self.mutant.is_some() { mutants_path() } else { almandine_path() };
        let machine = Machine::new(self.file_system, if redis { Path::new("redis-server") } else { &path });
        let program = if redis { Program::Redis } else { machine.program() };
        let mut place = machine.flags();
        if self.file_system == FileSystem::Xfs {
            // What is left of rings that lie on the disk is of another boot.
            "log".clone_into(&mut place[3]);
        }
        let place = place.iter().map(String::as_str).take(if redis { 2 } else { 4 });
        let mode = ["--appendonly", "yes", "--appendfsync", self.mode];
        // Bases take their time, so that a cut often meets one; those of a mutant end soon, before the log is synced.
        let delay = ["--rdb-key-save-delay", if self.mutant.is_some() { "30" } else { "300" }];
        let slow = if self.beside.is_some() { &delay[..] } else { &[] };
        let pages = machine.disk().join("pages").display().to_string();
        let device =
            ["--storage-dir", &pages, "--maxmemory", "16mb", "--storage-garbage-max", "10", "--enable-debug-command", "yes"];
        let device = if self.beside == Some(COOL) { &device[..] } else { &[] };
        let flags: Vec<&str> = place.chain(mode).chain(slow.iter().copied()).chain(device.iter().copied()).collect();
        let (promise, life_ms) = match self.mode {
            "always" => (Promise::All, 5..400),
            "everysec" if self.mutant.is_some() => (Promise::AllButLastSecond, 50..900),
            "everysec" => (Promise::AllButLastSecond, 100..3_500),
            _ => (Promise::Prefix, 100..3_500),
        };
        prove(Plan {
            mutant: self.mutant,
            beside: self.beside,
            // Bases get on beside clients that rest, also on a busy machine.
            rest: Duration::from_millis(15),
            life_ms,
            machine: Some(&machine),
            // It may notice, and must promise nothing more.
            after_cut: Duration::from_millis(50),
            promise,
            ..Plan::of(&program, &flags, self.rounds, seed())
        })
    }
}

fn survives(file_system: FileSystem, mode: &str, beside: Option<&str>) {
    let rounds = if full() { 100 } else { 4 };
    let mut acknowledged = 0;
    // On a busy machine little is done until a cut.
    for _ in 0..5 {
        match (Cuts { file_system, mode, mutant: None, beside, rounds }).prove() {
            Ok(seen) => {
                println!("{file_system:?}, {mode}, {beside:?}: {seen:?}");
                acknowledged += seen.acknowledged;
            }
            Err(report) => panic!("{file_system:?}, {mode}: {report}"),
        }
        if acknowledged > 500 {
            return;
        }
    }
    panic!("{file_system:?}, {mode}: the proof has seen too little: {acknowledged} acknowledged commands");
}

#[test]
fn what_is_acknowledged_after_the_sync_survives_power_cuts_on_ext4() {
    survives(FileSystem::Ext4, "always", None);
}

#[test]
fn what_is_acknowledged_after_the_sync_survives_power_cuts_on_xfs() {
    survives(FileSystem::Xfs, "always", None);
}

#[test]
fn what_is_older_than_a_second_survives_power_cuts_on_ext4() {
    survives(FileSystem::Ext4, "everysec", None);
}

#[test]
fn what_is_older_than_a_second_survives_power_cuts_on_xfs() {
    survives(FileSystem::Xfs, "everysec", None);
}

#[test]
fn power_cuts_without_syncs_leave_a_state_that_was() {
    survives(FileSystem::Ext4, "no", None);
}

#[test]
fn what_is_acknowledged_after_the_sync_survives_power_cuts_while_the_log_is_rewritten() {
    survives(FileSystem::Ext4, "always", Some("BGREWRITEAOF"));
}

#[test]
fn what_is_older_than_a_second_survives_power_cuts_while_the_log_is_rewritten() {
    survives(FileSystem::Xfs, "everysec", Some("BGREWRITEAOF"));
}

#[test]
fn what_is_acknowledged_after_the_sync_survives_power_cuts_while_data_lies_on_a_device() {
    survives(FileSystem::Ext4, "always", Some(COOL));
}

/// Cuts the power of a server that leaves a step out, until that is noticed.
fn is_noticed(file_system: FileSystem, mode: &str, mutant: &str, beside: Option<&str>) {
    let cuts = Cuts { file_system, mode, mutant: Some(mutant), beside, rounds: 100 };
    match std::panic::catch_unwind(|| cuts.prove()) {
        Ok(Ok(seen)) => panic!("{mutant} was not noticed: {seen:?}"),
        Ok(Err(report)) => println!("{mutant}: {}", report.lines().next().unwrap_or_default()),
        Err(_) => println!("{mutant}: the server does not start again"),
    }
}

/// INV-OPLOG-1: replies that leave before the sync acknowledge what a power cut takes.
#[test]
fn replies_that_do_not_wait_for_the_sync_are_noticed() {
    is_noticed(FileSystem::Ext4, "always", "HoldReplies", None);
}

/// INV-BASE-1.
#[test]
fn a_base_that_is_named_before_the_end_of_its_walk_is_durable_is_noticed() {
    is_noticed(FileSystem::Ext4, "everysec", "SyncThrough", Some("BGREWRITEAOF"));
}
