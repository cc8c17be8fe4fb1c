//! Backups of a server without a log: one of their own has what is written until they are sealed.

use super::*;

fn start(folder: &Folder, rings: &str, more: &[&str]) -> Server {
    let flags = ["--dir", folder.0.to_str().unwrap(), "--ring-dir", rings, "--save", "", "--enable-debug-command", "yes"];
    Server::start(&Program::Almandine, &[&flags, more].concat())
}

fn restored(elsewhere: &Folder, files: &[PathBuf]) -> Server {
    elsewhere.restore(files);
    start(elsewhere, "none", &["--appendonly", "yes"])
}

fn begin(client: &mut Client) {
    assert_eq!(client.line("BACKUP START"), Value::ok());
    await_state(client, "incrementing");
}

fn enabled(client: &mut Client) -> (String, String) {
    let info = client.line("INFO persistence").to_string();
    let enabled = info.split("aof_enabled:").nth(1).unwrap()[..1].to_owned();
    (enabled, client.line("CONFIG GET appendonly").to_string())
}

/// Waits until the log of a backup that has ended is gone.
fn await_removal(folder: &Folder) {
    let began = Instant::now();
    while folder.0.join("backupdir.log").exists() {
        assert!(began.elapsed() < PATIENCE, "the log of the backup stays");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_backup_without_a_log_is_of_the_moment_of_its_seal() {
    for rings in ["none", "log", "auto"] {
        let (home, elsewhere) = (Folder::new("plain-home"), Folder::new("plain-elsewhere"));
        let server = start(&home, rings, &["--appendfsync", "always"]);
        let mut client = server.client();
        let off = enabled(&mut client);
        let writer = Writer::start(&server);
        writer.await_more(300);
        for round in 0..2 {
            begin(&mut client);
            assert_eq!(enabled(&mut client), off, "no log is turned on");
            assert!(client.line("WAITAOF 1 0 100").is_error() && client.line("COMMITAOF").is_error(), "nothing is promised");
            assert_eq!(client.line("CONFIG SET appendfsync everysec"), Value::ok());
            assert!(error(&client.line("CONFIG SET appendonly yes")).contains("BACKUP SEAL or BACKUP ABORT"));
            writer.await_more(300);
            let before = writer.count();
            assert_eq!(client.line("BACKUP SEAL"), Value::ok());
            let after = writer.count() + 1;
            await_removal(&home);
            writer.await_more(300);
            let mut copy = restored(&elsewhere, &list(&mut client));
            let last = has_a_prefix(&mut copy.client());
            assert!((before..=after).contains(&last), "round {round}: {last} of {before} to {after}");
            copy.kill();
            fs::remove_dir_all(elsewhere.0.join("appendonlydir")).unwrap();
            assert_eq!(client.line("BACKUP CLEANUP"), Value::ok());
        }
        // A log that is turned on later is one as ever.
        assert_eq!(client.line("CONFIG SET appendonly yes"), Value::ok());
        let began = Instant::now();
        while !client.line("INFO persistence").to_string().contains("aof_rewrite_in_progress:0") {
            assert!(began.elapsed() < PATIENCE);
            thread::sleep(Duration::from_millis(5));
        }
        writer.await_more(100);
        let written = writer.end();
        drop(server);
        let server = start(&home, rings, &["--appendonly", "yes"]);
        let found = has_a_prefix(&mut server.client());
        assert!(found == written, "{found} of {written} with rings {rings}");
    }
}

/// What was in the log's directory before is what a start finds there, whatever becomes of the server.
#[test]
fn a_backup_without_a_log_leaves_the_one_before_as_it_was() {
    for rings in ["none", "log", "auto"] {
        let home = Folder::new("plain-former");
        let mut server = start(&home, rings, &["--appendonly", "yes"]);
        let mut client = server.client();
        assert_eq!(client.line("SET old 1"), Value::ok());
        assert_eq!(client.line("CONFIG SET appendonly no"), Value::ok());
        assert_eq!(client.line("SET new 1"), Value::ok());
        begin(&mut client);
        assert_eq!(client.line("SET newer 1"), Value::ok());
        assert!(home.0.join("backupdir.log").exists());
        server.kill();
        server.start_again_with(&["--appendonly", "no"]);
        let mut client = server.client();
        await_removal(&home);
        assert_eq!(client.line("DBSIZE"), Value::Integer(0), "it begins with what a snapshot has, and there is none");
        // Its base is still there, as a file of another process.
        assert!(error_of_start(&mut client).contains("it has to be empty"));
        assert_eq!(client.line("BACKUP CLEANUP"), Value::ok());
        begin(&mut client);
        assert_eq!(client.line("BACKUP ABORT"), Value::ok());
        await_removal(&home);
        server.kill();
        server.start_again_with(&["--appendonly", "yes"]);
        let mut client = server.client();
        let there = ["old", "new", "newer"].map(|key| client.line(&format!("EXISTS {key}")));
        assert_eq!(there, [1, 0, 0].map(Value::Integer), "with rings {rings}: {}", server.log());
    }
}

/// A server that ends gives the backup up, as one with a log does, and leaves nothing but its base.
#[test]
fn a_server_that_ends_leaves_no_log_of_a_backup() {
    let (home, rings) = (Folder::new("plain-end"), Folder::new("plain-rings"));
    let mut server = start(&home, rings.0.to_str().unwrap(), &["--rdb-key-save-delay", "100000"]);
    let mut client = server.client();
    for key in 0..500 {
        client.line(&format!("SET key:{key} 1"));
    }
    // One that writes its base, which would take a minute, ends as soon as one that has it.
    assert_eq!(client.line("BACKUP START"), Value::ok());
    await_state(&mut client, "snapshotting");
    client.line("SHUTDOWN");
    assert!(server.await_exit(PATIENCE).is_some_and(|status| status.success()), "{}", server.log());
    assert!(!home.0.join("backupdir.log").exists(), "{}", server.log());
    assert_eq!(fs::read_dir(&rings.0).unwrap().count(), 0, "its rings are gone");
    // One that is killed leaves them to the next one, which has no use for them.
    server.start_again();
    begin(&mut server.client());
    assert_eq!(server.client().line("SET key 1"), Value::ok());
    assert_eq!(fs::read_dir(&rings.0).unwrap().count(), 1);
    server.kill();
    server.start_again_with(&["--appendonly", "yes", "--ring-dir", "none"]);
    await_removal(&home);
    assert_eq!(server.client().line("DBSIZE"), Value::Integer(0), "{}", server.log());
    assert_eq!(fs::read_dir(&rings.0).unwrap().count(), 0, "its rings are gone");
}

/// A client that has asked for Redis' file has it, though the log of a backup gets its base at the same time.
#[test]
fn a_backup_without_a_log_does_not_take_the_place_of_a_file_of_redis() {
    let home = Folder::new("plain-redis");
    let server = start(&home, "none", &["--rdb-key-save-delay", "100000"]);
    let mut client = server.client();
    for key in 0..500 {
        client.line(&format!("SET key:{key} 1"));
    }
    // Both wait for the snapshot.
    assert!(!client.line("BGSAVE").is_error());
    assert_eq!(client.line("BACKUP START"), Value::ok());
    assert!(!client.line("BGREWRITEAOF").is_error());
    assert_eq!(status(&mut client)[0], "pending");
    // A snapshot that runs goes by what was set when it began.
    assert_eq!(client.line("CONFIG SET rdb-key-save-delay 0"), Value::ok());
    assert!(!client.line("BGSAVE CANCEL").is_error());
    await_state(&mut client, "incrementing");
    assert!(home.0.join("appendonlydir/appendonly.aof.manifest").exists(), "{}", server.log());
    assert_eq!(client.line("BACKUP ABORT"), Value::ok());
    await_removal(&home);
}
