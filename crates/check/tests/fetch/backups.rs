//! Backups that go to object storage: several are kept, and each is what was sealed, whatever happens to the server and the store.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use almandine_testkit::{Client, s3};

use super::*;

const URL: &str = "s3://bucket/backups";
const FLAGS: &[&str] = &["--appendonly", "yes", "--appendfsync", "always", "--ring-dir", "{dir}", "--backup-object-url", URL];
const PATIENCE: Duration = Duration::from_secs(60);

fn start(objects: &s3::Server, flags: &[&str]) -> Server {
    Server::start_with(&Program::Almandine, &[FLAGS, flags].concat(), &objects.environment())
}

fn check(objects: &s3::Server, args: &[&OsStr]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_almandine-check")).args(args).envs(objects.environment()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

/// A field of BACKUP STATUS.
fn status(client: &mut Client, field: &str) -> String {
    let Value::Array(words) = client.line("BACKUP STATUS") else { panic!("no status") };
    let text = |word| match word {
        Value::Bulk(text) => String::from_utf8(text).unwrap(),
        other => panic!("no text: {other}"),
    };
    let words: Vec<String> = words.into_iter().map(text).collect();
    let at = words.iter().position(|word| word == field).unwrap_or_else(|| panic!("{words:?}"));
    words[at + 1].clone()
}

fn await_status(server: &Server, field: &str, value: &str) {
    let (until, mut client) = (Instant::now() + PATIENCE, server.client());
    while status(&mut client, field) != value {
        assert!(Instant::now() < until, "{field} is {}, not {value}: {}", status(&mut client, field), server.log());
        sleep(Duration::from_millis(10));
    }
}

fn begin(server: &Server) {
    assert_eq!(server.client().line("BACKUP START"), ok(), "{}", server.log());
    await_status(server, "state", "incrementing");
}

fn fill(server: &Server, keys: u32) {
    // Of more than one object.
    let value = |key: u32| (0..1_000_u32).map(|at| char::from(b'a' + (key.wrapping_mul(at + 7) % 26) as u8)).collect::<String>();
    let sets: Vec<[String; 3]> = (0..keys).map(|key| ["SET".into(), format!("key:{key}"), value(key)]).collect();
    sets.chunks(500).for_each(|sets| _ = server.client().pipeline(sets).unwrap());
}

fn counter(client: &mut Client) -> u64 {
    match client.line("GET count") {
        Value::Bulk(number) => String::from_utf8(number).unwrap().parse().unwrap(),
        Value::NullBulk => 0,
        other => panic!("{other}"),
    }
}

/// A client that counts until it is told to end, or its server is gone.
fn count(server: &Server) -> (Arc<AtomicBool>, JoinHandle<()>) {
    let (done, mut client) = (Arc::<AtomicBool>::default(), server.client());
    let own = Arc::clone(&done);
    let thread = std::thread::spawn(move || {
        while !own.load(Ordering::Relaxed) && matches!(client.call(&["INCR", "count"]), Ok(Value::Integer(_))) {}
    });
    (done, thread)
}

/// Names of the backups that count, the oldest first.
fn list(objects: &s3::Server) -> Vec<String> {
    let (_, text) = check(objects, &["fetch".as_ref(), URL.as_ref(), "--list".as_ref()]);
    text.lines().filter(|line| line.contains(", from ")).map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

/// Fetches a backup, verifies it, and starts a server from it.
fn restore(objects: &s3::Server, at: &Path, choice: &[&str], cut: Option<f64>, flags: &[&str]) -> Server {
    let (log, storage) = (at.join("appendonlydir"), at.join("storage"));
    let mut args: Vec<&OsStr> = vec!["fetch".as_ref(), URL.as_ref(), log.as_ref(), "--storage-dir".as_ref(), storage.as_ref()];
    args.extend(choice.iter().map(OsStr::new));
    let (code, text) = check(objects, &args);
    assert!(code == Some(0) && text.contains("each with its sum"), "{choice:?} {code:?} {text}");
    let mut args: Vec<&OsStr> = vec!["verify".as_ref(), log.as_ref()];
    if storage.exists() {
        args.extend(["--storage-dir".as_ref(), storage.as_os_str()]);
    }
    let (code, text) = check(objects, &args);
    assert_eq!(code, Some(0), "{text}");
    if let Some(time) = cut {
        let time = format!("{time:.3}");
        let (code, text) = check(objects, &["cut".as_ref(), log.as_ref(), "--at-time".as_ref(), time.as_ref(), "--yes".as_ref()]);
        assert_eq!(code, Some(0), "{text}");
    }
    let (dir, storage) = (at.display().to_string(), storage.display().to_string());
    let mut all = vec!["--appendonly", "yes", "--ring-dir", "none", "--dir", &dir];
    if storage_is_used(flags) {
        all.extend(["--storage-dir", &storage]);
    }
    Server::start(&Program::Almandine, &[&all, flags].concat())
}

fn storage_is_used(flags: &[&str]) -> bool {
    flags.contains(&"--maxmemory")
}

fn now() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64()
}

fn place(server: &Server, name: &str) -> PathBuf {
    server.directory().join(name)
}

#[test]
fn several_are_kept_and_each_is_of_its_moment() {
    let objects = s3::Server::start();
    let server = start(&objects, &["--backup-object-keep", "2"]);
    fill(&server, 20_000);
    objects.fail_each(7);
    let (done, counting) = count(&server);
    let (mut known, mut moment) = (Vec::new(), (0.0, 0));
    for _ in 0..4 {
        begin(&server);
        sleep(Duration::from_millis(1_200));
        moment.1 = counter(&mut server.client());
        sleep(Duration::from_millis(5));
        moment.0 = now();
        sleep(Duration::from_millis(1_200));
        let before = counter(&mut server.client());
        assert_eq!(server.client().line("BACKUP SEAL"), ok(), "{}", server.log());
        let after = counter(&mut server.client());
        await_status(&server, "upload_state", "shipped");
        known.push((status(&mut server.client(), "upload_name"), before, after));
        assert_eq!(server.client().line("BACKUP CLEANUP"), ok());
    }
    done.store(true, Ordering::Relaxed);
    counting.join().unwrap();
    objects.fail_each(0);
    let until = Instant::now() + PATIENCE;
    let names: Vec<&String> = known[2..].iter().map(|(name, ..)| name).collect();
    while list(&objects).iter().collect::<Vec<_>>() != names {
        assert!(Instant::now() < until, "{:?} {names:?} {}", list(&objects), server.log());
        sleep(Duration::from_millis(100));
    }
    for (choice, (_, before, after)) in [(vec!["--backup", names[0].as_str()], &known[2]), (vec![], &known[3])] {
        let to = place(&server, &format!("restored{}", choice.len()));
        let restored = restore(&objects, &to, &choice, None, &[]);
        let found = counter(&mut restored.client());
        assert!((*before..=*after).contains(&found), "{found} of {before} to {after}");
        assert_eq!(restored.client().line("DBSIZE"), Value::Integer(20_001));
    }
    // A moment between the base and the end of one.
    let (time, least) = moment;
    let seconds = (time as u64).to_string();
    let restored = restore(&objects, &place(&server, "covering"), &["--covering", &seconds], Some(time), &[]);
    let found = counter(&mut restored.client());
    assert!((least..known[3].1).contains(&found), "{found} of {least}, and before {}", known[3].1);
    // Times and names of which there is none.
    for choice in [["--before", "5"], ["--covering", "9999999999"], ["--backup", "x"]] {
        let to = place(&server, "none");
        let args = ["fetch".as_ref(), URL.as_ref(), to.as_os_str(), choice[0].as_ref(), choice[1].as_ref()];
        let (code, text) = check(&objects, &args);
        assert!(code == Some(3) && text.contains("--list tells"), "{choice:?} {code:?} {text}");
    }
}

#[test]
fn a_server_that_is_killed_at_any_moment_goes_on() {
    let objects = s3::Server::start();
    let mut server = start(&objects, &["--backup-object-keep", "3"]);
    fill(&server, 20_000);
    let mut shipped = Vec::new();
    for round in 0..6_u64 {
        begin(&server);
        assert_eq!(server.client().line(&format!("SET round {round}")), ok());
        objects.delay(Duration::from_millis(30));
        // Not always does it answer.
        let is_awaited = round % 3 != 2;
        let mut client = server.client();
        client.send(&[["BACKUP", "SEAL"]]).unwrap();
        if is_awaited {
            assert_eq!(client.receive().unwrap(), ok());
        }
        sleep(Duration::from_millis(round * 37 % 200));
        server.kill();
        objects.delay(Duration::ZERO);
        server.start_again();
        if is_awaited || status(&mut server.client(), "state") == "sealed" {
            await_status(&server, "upload_state", "shipped");
            assert_eq!(status(&mut server.client(), "state"), "sealed");
            let Value::Array(files) = server.client().line("BACKUP LIST") else { panic!("no list") };
            assert!(files.len() > 3, "{files:?}");
            shipped.push((status(&mut server.client(), "upload_name"), round));
        }
        assert_eq!(server.client().line("BACKUP CLEANUP"), ok(), "{}", server.log());
    }
    let newest = shipped.last().unwrap();
    assert!(list(&objects).contains(&newest.0));
    for (name, round) in shipped.iter().rev().take(3) {
        let restored = restore(&objects, &place(&server, name), &["--backup", name], None, &[]);
        assert_eq!(restored.client().line("GET round"), Value::Bulk(round.to_string().into_bytes()));
        assert_eq!(restored.client().line("DBSIZE"), Value::Integer(20_001));
    }
    // A piece that is not what was shipped.
    let piece = objects.objects().into_iter().map(|(name, _)| name).filter(|name| name.contains(&format!("piece-{}", newest.0)));
    objects.put(&piece.max().unwrap());
    let to = place(&server, "damaged");
    let (code, text) = check(&objects, &["fetch".as_ref(), URL.as_ref(), to.as_ref()]);
    assert!(code == Some(1) && text.contains("does not have its sum"), "{code:?} {text}");
}

#[test]
fn a_store_that_is_away_is_awaited_or_given_up() {
    let objects = s3::Server::start();
    let server = start(&objects, &["--backup-sealed-ttl", "1"]);
    fill(&server, 20_000);
    let seal = || {
        begin(&server);
        assert_eq!(server.client().line("BACKUP SEAL"), ok());
    };
    objects.refuse(true);
    seal();
    await_status(&server, "upload_state", "failing");
    for line in ["BACKUP CLEANUP", "BACKUP START"] {
        let refused = server.client().line(line).to_string();
        assert!(refused.contains("BACKUP ABORT gives that up"), "{line}: {refused}");
    }
    // Its time in the directory is over, and its files are needed.
    sleep(Duration::from_millis(2_500));
    assert_eq!(status(&mut server.client(), "state"), "sealed");
    objects.refuse(false);
    await_status(&server, "state", "idle");
    assert_eq!(list(&objects).len(), 1, "{}", server.log());
    // Some of the next one is there, whose files stay when it is given up.
    assert_eq!(server.client().line("CONFIG SET backup-sealed-ttl 0"), ok());
    objects.delay(Duration::from_millis(200));
    seal();
    await_status(&server, "upload_state", "shipping");
    sleep(Duration::from_millis(700));
    assert_eq!(server.client().line("BACKUP ABORT"), ok());
    assert_eq!(status(&mut server.client(), "upload_state"), "given-up");
    objects.delay(Duration::ZERO);
    let own = |name: &str| name.contains(&list(&objects)[0]);
    let until = Instant::now() + PATIENCE;
    while !objects.objects().iter().all(|(name, _)| own(name)) {
        assert!(Instant::now() < until, "{:?} {}", objects.objects(), server.log());
        sleep(Duration::from_millis(100));
    }
    assert!(restore(&objects, &place(&server, "restored"), &[], None, &[]).client().line("DBSIZE") == Value::Integer(20_000));
}

#[test]
fn pages_of_the_storage_are_shipped_too_and_servers_share_an_address() {
    let objects = s3::Server::start();
    let memory = ["--maxmemory", "16mb"];
    let server = start(&objects, &[&memory[..], &["--storage-dir", "{dir}/s"]].concat());
    fill(&server, 40_000);
    let other = start(&objects, &["--backup-object-keep", "1"]);
    let seal = |server: &Server| {
        begin(server);
        assert_eq!(server.client().line("BACKUP SEAL"), ok());
        await_status(server, "upload_state", "shipped");
        assert_eq!(server.client().line("BACKUP CLEANUP"), ok());
        list(&objects).len()
    };
    assert_eq!(seal(&server), 1);
    let owner = list(&objects)[0].split('-').nth(2).unwrap().to_owned();
    assert_eq!((seal(&other), seal(&other)), (2, 2));
    let to = place(&server, "restored");
    let (code, text) = check(&objects, &["fetch".as_ref(), URL.as_ref(), to.as_ref()]);
    assert!(code == Some(3) && text.contains("several servers"), "{code:?} {text}");
    let owner = owner.as_str();
    let (code, text) = check(&objects, &["fetch".as_ref(), URL.as_ref(), to.as_ref(), "--owner".as_ref(), owner.as_ref()]);
    assert!(code == Some(3) && text.contains("its base names data in storage-dir"), "{code:?} {text}");
    let restored = restore(&objects, &place(&server, "pages"), &["--owner", owner], None, &memory);
    assert_eq!(restored.client().line("DBSIZE"), Value::Integer(40_000), "{}", restored.log());
    for key in (0..40_000).step_by(997) {
        let get = format!("GET key:{key}");
        assert_eq!(restored.client().line(&get), server.client().line(&get), "{key}");
    }
}
