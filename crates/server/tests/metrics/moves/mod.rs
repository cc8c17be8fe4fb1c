//! Each family moves when what it counts happens. A family without a row of [`table::MOVES`], or a reason to have none, fails.
//!
//! The page is looked at all the while, so that figures that pass are seen, too.

mod clients;
mod data;
mod failures;
mod objects;
mod persistence;
mod table;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use almandine_console::{FAMILIES, FamilyKind};
use almandine_testkit::{Client, Server, s3};

use super::http::{Page, page, samples_of, sum, try_page};
use table::MOVES;

/// Something that happens, and what moves for it.
struct Move {
    what: &'static str,
    flags: &'static [&'static str],
    /// What is done before the first look.
    before: &'static [&'static str],
    /// What is done then.
    happens: Happens,
    families: &'static [&'static str],
}

#[derive(Clone, Copy)]
enum Happens {
    /// One client says these lines; errors are answers, too.
    Lines(&'static [&'static str]),
    /// Returns the clients that stay until the last look.
    Scene(fn(&Server) -> Vec<Client>),
    /// Done until all families have moved: what passes quickly, or takes chance.
    Again(fn(&Server)),
    /// Done once; what moves for it takes minutes, so that it is only looked at with `ALMANDINE_TEST_FULL=1`.
    Minutes(fn(&Server)),
    /// The server is killed and starts again.
    Restart(fn(&mut Server)),
    /// Above an object store, which answers again behind the scene; only with the feature `object-store`.
    Objects(fn(&Server, &s3::Server)),
}

const fn when(what: &'static str, happens: Happens, families: &'static [&'static str]) -> Move {
    Move { what, flags: &[], before: &[], happens, families }
}

/// Families that cannot move here, by the reason.
const STILL: &[(&str, &[&str])] = &[
    ("always 1: a server that is not up has no page", &["redis_up"]),
    ("the machine has what it has", &["redis_total_system_memory_bytes"]),
    ("nothing to count until there are replicas and clusters", &["redis_cluster_enabled", "redis_connected_slaves"]),
    (
        "nothing to count until the server starts a child process; as long as it starts none, 0 is what the kernel says",
        &["redis_cpu_sys_children_seconds_total", "redis_cpu_user_children_seconds_total"],
    ),
    ("needs a backup that is copied slowly beside bases, which `backup` has", &["almandine_storage_leased_bytes"]),
];

/// How long a family may take to move behind what happens.
const WITHIN: Duration = Duration::from_secs(30);
/// And what passes quickly, so that a look may miss it again and again.
const AGAIN: Duration = Duration::from_secs(120);
const LONG: Duration = Duration::from_secs(600);

#[test]
fn each_family_has_a_test_or_a_reason() {
    let tested: Vec<&str> = MOVES.iter().flat_map(|row| row.families.iter().copied()).collect();
    let still: Vec<&str> = STILL.iter().flat_map(|(_, families)| families.iter().copied()).collect();
    for family in FAMILIES {
        let (is_tested, is_still) = (tested.contains(&family.name), still.contains(&family.name));
        assert!(is_tested != is_still, "{}: tested {is_tested}, with a reason to be still {is_still}", family.name);
    }
    for name in tested.iter().chain(&still) {
        assert!(FAMILIES.iter().any(|family| family.name == *name), "there is no {name}");
    }
}

#[test]
fn each_family_moves_when_what_it_counts_happens() {
    let mut problems = Vec::new();
    for row in MOVES {
        problems.extend(missed(row).into_iter().map(|name| format!("{name} when {}", row.what)));
    }
    assert!(problems.is_empty(), "these stand still: {problems:#?}");
}

/// The families of a row that have not moved.
fn missed(row: &Move) -> Vec<&'static str> {
    let is_full = std::env::var("ALMANDINE_TEST_FULL").is_ok_and(|value| value == "1");
    let within = match row.happens {
        Happens::Objects(_) if !cfg!(feature = "object-store") => return Vec::new(),
        Happens::Minutes(_) if !is_full => return Vec::new(),
        Happens::Minutes(_) => LONG,
        Happens::Again(_) => AGAIN,
        _ => WITHIN,
    };
    let store = matches!(row.happens, Happens::Objects(_)).then(s3::Server::start);
    let environment = store.as_ref().map(s3::Server::environment).unwrap_or_default();
    let (mut server, console) = super::start_with(&[&["--workers", "2", "--save", ""], row.flags].concat(), &environment);
    // No client is left of what comes before, so that those of the scene are the first ones.
    run(&server, row.before);
    let before = page(console);
    let is_over = AtomicBool::new(false);
    thread::scope(|threads| {
        let looking = threads.spawn(|| still_after(console, &before, row.families, (&is_over, within)));
        let over = Over(&is_over);
        let clients = match row.happens {
            Happens::Lines(lines) => {
                run(&server, lines);
                Vec::new()
            }
            Happens::Scene(play) => play(&server),
            Happens::Again(play) => {
                let end = Instant::now() + AGAIN;
                while !looking.is_finished() && Instant::now() < end {
                    play(&server);
                }
                Vec::new()
            }
            Happens::Minutes(play) => {
                play(&server);
                Vec::new()
            }
            Happens::Restart(play) => {
                play(&mut server);
                Vec::new()
            }
            Happens::Objects(play) => {
                if let Some(store) = &store {
                    play(&server, store);
                }
                Vec::new()
            }
        };
        drop(over);
        let left = looking.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause));
        if let Some(store) = &store {
            store.refuse(false);
        }
        drop(clients);
        left
    })
}

/// Says that nothing more happens, also when a scene panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn run(server: &Server, lines: &[&str]) {
    if lines.is_empty() {
        return;
    }
    let mut client = server.client();
    for line in lines {
        if *line == "FUNCTION LOAD FUNCTION" {
            let library = "#!lua name=l\nredis.register_function('f', function() return 1 end)";
            assert_eq!(client.call(&["FUNCTION", "LOAD", library]).unwrap().to_string(), "$\"l\"");
        } else {
            client.line(line);
        }
    }
    client.end();
}

/// Looks until all families have moved, or for some time behind what happens. Those that have not.
fn still_after(
    console: SocketAddr,
    before: &Page,
    families: &[&'static str],
    (is_over, within): (&AtomicBool, Duration),
) -> Vec<&'static str> {
    let mut left: Vec<(&str, FamilyKind)> = families.iter().map(|name| (*name, kind_of(name))).collect();
    let mut end = None;
    while !left.is_empty() && end.is_none_or(|end| Instant::now() < end) {
        // There is none while a server starts again.
        if let Ok(now) = try_page(console) {
            left.retain(|(name, kind)| !has_moved(name, *kind, before, &now));
        }
        if is_over.load(Ordering::Relaxed) {
            end = end.or(Some(Instant::now() + within));
        }
        thread::sleep(Duration::from_millis(5));
    }
    left.into_iter().map(|(name, _)| name).collect()
}

fn kind_of(name: &str) -> FamilyKind {
    FAMILIES.iter().find(|family| family.name == name).unwrap_or_else(|| panic!("there is no {name}")).kind()
}

/// Whether a family counts more than before; of a gauge, whether anything of it is otherwise.
fn has_moved(name: &str, kind: FamilyKind, before: &Page, now: &Page) -> bool {
    match kind {
        FamilyKind::Gauge | FamilyKind::Info => samples_of(before, name) != samples_of(now, name),
        FamilyKind::Counter | FamilyKind::Histogram => {
            let (first, last) = (sum(before, name), sum(now, name));
            assert!(last >= first, "{name} went from {first:?} to {last:?}");
            last > first
        }
    }
}
