//! A point in time of object storage alone: of an archive that keeps former bases each recorded moment is restored, whatever became
//! of the server since.

use std::ffi::OsStr;
use std::path::PathBuf;

use almandine_testkit::{Client, s3};

use super::*;

const URL: &str = "s3://bucket/folder";
const FLAGS: &[&str] = &[
    "--appendonly",
    "yes",
    "--appendfsync",
    "always",
    "--commit-tier",
    "object-store",
    "--ring-dir",
    "{dir}",
    "--log-object-url",
    URL,
    "--log-object-keep",
    "48",
    "--log-segment-size",
    "4mb",
    "--enable-debug-command",
    "yes",
];
const PATIENCE: Duration = Duration::from_secs(60);
/// So long apart bases are kept, all of them: an eighth of the time.
const APART: Duration = Duration::from_millis(6_100);

/// What a server had at a time.
struct Moment {
    time: f64,
    digest: Value,
}

/// A run whose moments are recorded.
struct Run {
    objects: s3::Server,
    server: Server,
    flags: Vec<&'static str>,
    moments: Vec<Moment>,
    writes: u64,
    last_base: Instant,
}

fn info(client: &mut Client, section: &str, field: &str) -> String {
    let Value::Bulk(text) = client.line(&format!("INFO {section}")) else { panic!("no INFO") };
    let text = String::from_utf8(text).unwrap();
    text.lines().find_map(|line| line.strip_prefix(&format!("{field}:")).map(str::to_owned)).unwrap_or_default()
}

fn now() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64()
}

impl Run {
    fn start(flags: &[&'static str]) -> Self {
        let objects = s3::Server::start();
        let flags = [FLAGS, flags].concat();
        let server = Server::start_with(&Program::Almandine, &flags, &objects.environment());
        Self { objects, server, flags, moments: Vec::new(), writes: 0, last_base: Instant::now() }
    }

    fn until(&self, what: &str, holds: impl Fn(&mut Client) -> bool) {
        let (until, mut client) = (Instant::now() + PATIENCE, self.server.client());
        while !holds(&mut client) {
            assert!(Instant::now() < until, "{what}: {}", self.server.log());
            sleep(Duration::from_millis(20));
        }
    }

    /// Writes of several types, strings of `bytes` each.
    fn write(&mut self, count: u64, bytes: usize) {
        let value = |n: u64| format!("{n}:").repeat(bytes / 5 + 1);
        let command = |n: u64| match n % 5 {
            0 | 1 => vec!["SET".to_owned(), format!("key:{}", n * 31 % 9_000), value(n)],
            2 => vec!["HSET".to_owned(), format!("hash:{}", n % 50), format!("f{}", n % 40), n.to_string()],
            3 => vec!["ZADD".to_owned(), "sorted".to_owned(), n.to_string(), format!("m{}", n % 300)],
            _ => vec!["DEL".to_owned(), format!("key:{}", n * 17 % 9_000)],
        };
        let all: Vec<Vec<String>> = (self.writes..self.writes + count).map(command).collect();
        for some in all.chunks(250) {
            // Where the disk is slow, memory may be full for a moment.
            self.until("writes are taken", |client| {
                let replies = client.pipeline(some).unwrap();
                !replies.iter().any(|reply| matches!(reply, Value::Error(_)))
            });
        }
        self.writes += count;
    }

    /// Nothing is done around the time that is recorded: to the millisecond the log knows when something was.
    fn record(&mut self) {
        sleep(Duration::from_millis(3));
        let mut client = self.server.client();
        let marked = format!("SET moment {}", self.moments.len());
        self.until("a write is taken", |client| !matches!(client.line(&marked), Value::Error(_)));
        sleep(Duration::from_millis(3));
        let (time, digest) = (now(), client.line("DEBUG DIGEST"));
        assert_eq!(client.line("DEBUG DIGEST"), digest);
        sleep(Duration::from_millis(3));
        self.moments.push(Moment { time, digest });
    }

    /// A base is written, and the archive has it.
    fn rewrite(&mut self) {
        sleep(APART.saturating_sub(self.last_base.elapsed()));
        self.begin_rewrite();
        self.until("the base is in the archive", |client| {
            info(client, "storage", "log_archive_behind_bytes") == "0" && info(client, "storage", "log_archive_left_pages") == "0"
        });
        self.last_base = Instant::now();
    }

    fn begin_rewrite(&self) {
        self.server.client().line("BGREWRITEAOF");
        self.until("a base", |client| info(client, "persistence", "aof_rewrite_in_progress") == "0");
    }

    /// What was written last is known to be durable by what comes behind it: else the next start writes it again, with its time.
    fn prove(&self) {
        for n in 0..3 {
            self.until("a write is taken", |client| !matches!(client.line(&format!("SET proof {n}")), Value::Error(_)));
        }
    }

    fn kill_and_start(&mut self) {
        self.prove();
        self.server.kill();
        self.server.start_again();
    }

    /// Another machine goes on with the archive.
    fn move_on(&mut self) {
        self.prove();
        self.server.kill();
        self.server = Server::start_with(&Program::Almandine, &self.flags, &self.objects.environment());
        assert!(self.server.log().contains("is fetched from"), "{}", self.server.log());
    }

    fn check(&self, args: &[&OsStr]) -> (Option<i32>, String) {
        let output =
            Command::new(env!("CARGO_BIN_EXE_almandine-check")).args(args).envs(self.objects.environment()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }

    fn list(&self) -> String {
        let (code, text) = self.check(&["fetch".as_ref(), URL.as_ref(), "--list".as_ref()]);
        assert_eq!(code, Some(0), "{text}");
        text
    }

    fn bases(&self) -> usize {
        self.list().lines().filter(|line| line.starts_with("base ")).count()
    }

    /// Fetches a moment to a directory; with a place for pages and with keys, where the server has these.
    fn fetch(&self, name: &str, time: f64) -> (PathBuf, Option<i32>, String) {
        let at = self.server.directory().join(name);
        let (log, storage, time) = (at.join("appendonlydir"), at.join("storage"), format!("{time:.6}"));
        let mut args: Vec<&OsStr> = vec!["fetch".as_ref(), URL.as_ref(), log.as_ref(), "--at-time".as_ref(), time.as_ref()];
        if self.flags.contains(&"--storage-dir") {
            args.extend(["--storage-dir".as_ref(), storage.as_os_str()]);
        }
        if let Some(at) = self.flags.iter().position(|flag| *flag == "--log-key-file") {
            args.extend(["--key-file".as_ref(), OsStr::new(self.flags[at + 1])]);
        }
        let (code, text) = self.check(&args);
        (at, code, text)
    }

    /// From when on each moment can be had.
    fn since(&self) -> f64 {
        let list = self.list();
        let since = list.lines().find_map(|line| line.strip_prefix("Each moment from ")).and_then(|rest| rest.split(' ').next());
        since.unwrap_or_else(|| panic!("{list}")).parse().unwrap()
    }

    /// Each of the moments is what it was; on a machine that was slow, of those that are kept.
    fn compare(&self, name: &str) {
        let since = self.since();
        let kept = self.moments.iter().enumerate().filter(|(_, moment)| moment.time > since);
        assert!(kept.clone().count() > 0, "{}", self.list());
        for (number, Moment { time, digest }) in kept {
            let (at, code, text) = self.fetch(&format!("{name}-{number}"), *time);
            assert_eq!(code, Some(0), "moment {number} at {time}: {text}\n{}\n{}", self.list(), self.server.log());
            let (dir, storage) = (at.display().to_string(), at.join("storage").display().to_string());
            let mut flags = vec!["--appendonly", "yes", "--ring-dir", "none", "--enable-debug-command", "yes", "--dir", &dir];
            for (flag, value) in [("--storage-dir", storage.as_str()), ("--maxmemory", "16mb")] {
                if self.flags.contains(&flag) {
                    flags.extend([flag, value]);
                }
            }
            if let Some(at) = self.flags.iter().position(|flag| *flag == "--log-key-file") {
                flags.extend(["--log-key-file", self.flags[at + 1]]);
            }
            let restored = Server::start(&Program::Almandine, &flags);
            assert_eq!(
                restored.client().line("GET moment"),
                Value::Bulk(number.to_string().into_bytes()),
                "{text}\n{}",
                self.list()
            );
            let found = restored.client().line("DEBUG DIGEST");
            assert_eq!(found, *digest, "moment {number} at {time}: {text}\n{}\n{}", self.list(), restored.log());
            drop(restored);
            std::fs::remove_dir_all(at).unwrap();
        }
    }
}

#[test]
fn dozens_of_moments_are_restored_of_objects_alone() {
    let mut run = Run::start(&[]);
    run.write(2_000, 100);
    for round in 0..24 {
        run.objects.fail_each([0, 0, 9][round % 3]);
        run.write(37 + round as u64 * 11, 100);
        run.record();
        match round {
            3 | 7 | 15 | 20 => run.rewrite(),
            // What the next base finds is shipped by another process, or a takeover.
            5 | 18 => run.kill_and_start(),
            11 => run.move_on(),
            13 => {
                run.begin_rewrite();
                run.kill_and_start();
            }
            _ => {}
        }
    }
    run.objects.fail_each(0);
    run.rewrite();
    run.write(1_000, 100);
    run.compare("restored");
    // A time before the first base.
    let (to, code, text) = run.fetch("early", 1.0);
    assert!(code == Some(1) && text.contains("is younger than that"), "{code:?} {text}");
    // What was fetched for it is no log, and is fetched over.
    let flags = ["--appendonly", "yes", "--ring-dir", "none", "--dir", &to.display().to_string()];
    let refused = Server::try_start(&Program::Almandine, &flags, &[]).err().unwrap_or_default();
    assert!(refused.contains("FETCHING"), "{refused}");
    let (_, code, text) = run.fetch("early", run.moments.last().unwrap().time);
    assert_eq!(code, Some(0), "{text}");
    assert!(run.bases() > 2 && info(&mut run.server.client(), "storage", "log_archive_since_time") != "0");
    // Nothing of it is kept any more behind the next base.
    run.server.client().line("CONFIG SET log-object-keep 0");
    run.rewrite();
    run.until("they are gone", |client| info(client, "storage", "log_archive_bases") == "1");
    assert_eq!(run.bases(), 1);
    let (_, code, text) = run.fetch("gone", run.moments[4].time);
    assert!(code == Some(1) && text.contains("is younger than that"), "{code:?} {text}");
}

#[test]
fn a_server_that_is_killed_between_naming_and_deleting_leaves_nothing_behind() {
    let mut run = Run::start(&[]);
    run.write(3_000, 100);
    for round in 0..6_u64 {
        // At each second base nothing of what was is kept.
        let keep = if round % 2 == 0 { "CONFIG SET log-object-keep 3600" } else { "CONFIG SET log-object-keep 0" };
        run.server.client().line(keep);
        run.write(100, 100);
        run.record();
        run.objects.delay(Duration::from_millis(25));
        run.begin_rewrite();
        sleep(Duration::from_millis(round * 53 % 240));
        run.server.kill();
        run.objects.delay(Duration::ZERO);
        // Whatever it has come to, what is listed can be had.
        let last = run.moments.last().unwrap();
        let (at, code, text) = run.fetch("killed", last.time);
        let (listed, whole) = (run.list(), code == Some(0) || text.contains("is younger than that"));
        assert!(whole, "{round} {code:?} {text} {listed}");
        std::fs::remove_dir_all(at).unwrap();
        run.server.start_again();
    }
    run.server.client().line("CONFIG SET log-object-keep 0");
    run.rewrite();
    run.rewrite();
    let is_of_log = |name: &str| name.contains("base-") || name.contains("log-") || name.contains("inventory-");
    run.until("only the newest base is left", |_| {
        let names: Vec<String> = run.objects.objects().into_iter().map(|(name, _)| name).filter(|name| is_of_log(name)).collect();
        names.iter().filter(|name| name.contains("base-")).count() == 1 && names.len() < 6
    });
}

#[test]
fn moments_with_data_many_times_the_memory_come_with_their_pages() {
    let mut run = Run::start(&["--maxmemory", "16mb", "--storage-dir", "{dir}/s"]);
    run.write(9_000, 6_000);
    run.rewrite();
    for round in 0..8 {
        run.write(1_500, 6_000);
        run.record();
        match round {
            1 | 3 | 5 => run.rewrite(),
            2 => run.kill_and_start(),
            4 => run.move_on(),
            _ => {}
        }
    }
    run.rewrite();
    run.write(3_000, 6_000);
    run.compare("restored");
    let pages = |run: &Run| run.objects.objects().into_iter().filter(|(name, _)| name.contains("page-")).count();
    let (kept, of_all) = (run.bases(), pages(&run));
    assert!(kept > 2 && run.objects.objects().iter().any(|(name, _)| name.contains("inventory-")), "{}", run.list());
    run.server.client().line("CONFIG SET log-object-keep 0");
    run.rewrite();
    run.until("pages of former bases are deleted", |_| pages(&run) < of_all);
    assert_eq!(run.bases(), 1);
}

#[test]
fn moments_of_an_encrypted_log_need_its_keys() {
    let keys = std::env::temp_dir().join(format!("almandine-past-{}.keys", std::process::id()));
    std::fs::write(&keys, format!("one {}\n", "5a".repeat(32))).unwrap();
    std::fs::set_permissions(&keys, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let path: &'static str = Box::leak(keys.display().to_string().into_boxed_str());
    let mut run = Run::start(&["--log-key-file", path, "--maxmemory", "16mb", "--storage-dir", "{dir}/s"]);
    run.write(6_000, 6_000);
    for round in 0..4 {
        run.write(300, 6_000);
        run.record();
        if round % 2 == 0 {
            run.rewrite();
        }
    }
    run.rewrite();
    run.compare("restored");
    std::fs::remove_file(keys).unwrap();
}
