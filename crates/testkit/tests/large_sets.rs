//! Large sets: what is computed beside others is of one moment, comes in order, and is the same in a transaction; whatever the
//! device.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use almandine_testkit::{Client, Program, Server, Value, full};

/// Members of the largest sets.
fn len() -> usize {
    if full() { 1_000_000 } else { 60_000 }
}

fn devices() -> [&'static [&'static str]; 2] {
    [&["--workers", "2"], &["--workers", "2", "--storage-dir", "{dir}/s", "--maxmemory", "1gb"]]
}

fn member(number: usize) -> Vec<u8> {
    format!("member:{number}").into_bytes()
}

fn add(client: &mut Client, key: &str, numbers: impl Iterator<Item = usize>) {
    let all: Vec<Vec<u8>> = numbers.map(member).collect();
    for some in all.chunks(5_000) {
        let words: Vec<&[u8]> = [b"SADD", key.as_bytes()].into_iter().chain(some.iter().map(Vec::as_slice)).collect();
        assert_eq!(client.call(&words).expect("a reply"), Value::Integer(some.len() as i64));
    }
}

fn members(reply: &Value) -> BTreeSet<Vec<u8>> {
    let all = reply.elements().unwrap_or_else(|| panic!("{reply}"));
    let members: BTreeSet<Vec<u8>> = all.iter().filter_map(|member| member.bytes().map(<[u8]>::to_vec)).collect();
    assert_eq!(members.len(), all.len(), "a member comes once");
    members
}

fn numbers(numbers: impl Iterator<Item = usize>) -> BTreeSet<Vec<u8>> {
    numbers.map(member).collect()
}

#[test]
fn results_are_right_alone_in_pipelines_and_in_transactions() {
    let len = len();
    for flags in devices() {
        let server = Server::start(&Program::Almandine, flags);
        let mut client = server.client();
        add(&mut client, "a", 0..len);
        add(&mut client, "b", len / 2..len + len / 2);
        add(&mut client, "few", (0..len).step_by(len / 40));
        let commands = [
            &["PING"][..],
            &["SMEMBERS", "a"],
            &["SUNION", "a", "b", "few"],
            &["SINTER", "a", "b"],
            &["SDIFF", "a", "b", "few"],
            &["SUNIONCARD", "2", "a", "b"],
            &["SUNIONCARD", "2", "a", "b", "LIMIT", "70"],
            &["SINTERCARD", "2", "a", "b"],
            &["SDIFFCARD", "3", "a", "b", "few"],
            &["SUNIONCARD", "2", "a", "b", "APPROX"],
            &["SINTERSTORE", "stored", "a", "b"],
            &["SUNIONSTORE", "stored", "b", "few"],
            &["SDIFFSTORE", "stored", "stored", "a"],
            &["SMEMBERS", "stored"],
            &["ECHO", "last"],
        ];
        let alone = client.pipeline(&commands).expect("replies");
        let transaction: Vec<&[&str]> = [&["MULTI"][..]].into_iter().chain(commands).chain([&["EXEC"][..]]).collect();
        let replies = client.pipeline(&transaction).expect("replies");
        let within = replies.last().and_then(Value::elements).expect("all replies").to_vec();
        for replies in [alone, within] {
            assert_eq!(members(&replies[1]), numbers(0..len));
            assert_eq!(members(&replies[2]), numbers(0..len + len / 2));
            assert_eq!(members(&replies[3]), numbers(len / 2..len));
            assert_eq!(members(&replies[4]), numbers((0..len / 2).filter(|number| number % (len / 40) != 0)));
            let halves = [len + len / 2, 70, len / 2, len / 2 - 20].map(|number| Value::Integer(number as i64));
            assert_eq!(replies[5..9], halves);
            let Value::Integer(estimate) = replies[9] else { panic!("{}", replies[9]) };
            assert!((estimate - (len + len / 2) as i64).unsigned_abs() < len as u64 / 20, "{estimate}");
            assert_eq!(replies[10], Value::Integer((len / 2) as i64));
            assert_eq!(replies[11], Value::Integer((len + 20) as i64));
            assert_eq!(members(&replies[13]), numbers(len..len + len / 2));
            assert_eq!(replies[14].bytes(), Some(&b"last"[..]));
        }
    }
}

/// A member is always in one of two sets, so a union that lacks it, or an intersection that has it, mixes two moments.
#[test]
fn a_result_is_of_one_moment_whoever_changes_its_sources() {
    let server = Server::start(&Program::Almandine, &["--workers", "2"]);
    let (mut client, len, done) = (server.client(), len() / 2, AtomicBool::new(false));
    add(&mut client, "a", 0..len);
    add(&mut client, "b", len..2 * len);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut mover = server.client();
            for (from, to) in [(&b"a"[..], &b"b"[..]), (b"b", b"a")].into_iter().cycle() {
                for number in 0..100 {
                    let moved = mover.call(&[&b"SMOVE"[..], from, to, &member(number)]).expect("a reply");
                    assert_eq!(moved, Value::Integer(1));
                }
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for round in 0..15 {
            let command = [["SUNIONCARD", "2", "a", "b"], ["SUNIONSTORE", "c", "a", "b"]][round % 2];
            assert_eq!(client.call(&command).expect("a reply"), Value::Integer(2 * len as i64));
            assert_eq!(client.call(&["SINTERCARD", "2", "a", "b"]).expect("a reply"), Value::Integer(0));
            assert_eq!(members(&client.call(&["SUNION", "a", "b"]).expect("a reply")).len(), 2 * len);
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn all_of_a_large_set_is_popped_while_it_is_sent() {
    let server = Server::start(&Program::Almandine, &["--workers", "1"]);
    let mut client = server.client();
    add(&mut client, "a", 0..len());
    let some = members(&client.call(&["SPOP", "a", "1000"]).expect("a reply"));
    assert_eq!(client.call(&["SCARD", "a"]).expect("a reply"), Value::Integer(len() as i64 - 1000));
    let rest = members(&client.call(&["SPOP", "a", "100000000"]).expect("a reply"));
    assert_eq!(client.call(&["EXISTS", "a"]).expect("a reply"), Value::Integer(0));
    assert!(some.is_disjoint(&rest) && some.len() + rest.len() == len());
}
