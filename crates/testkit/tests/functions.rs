//! Libraries of functions that change while they are called.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use almandine_testkit::{Client, Program, Server, Value, full};

/// A library that counts its calls; its function says which one it is.
fn library(number: usize) -> String {
    format!(
        "#!lua name=one\nlocal calls = 0
         redis.register_function('count', function(keys, args)
             calls = calls + 1
             return {{{number}, calls}}
         end)
         redis.register_function('other{number}', function() return calls, '{}' end)",
        number.to_string().repeat(2_000)
    )
}

/// What the function of the library of a number has answered: the number, and how often that library was called.
fn counted(value: &Value) -> Option<(i64, i64)> {
    match value {
        Value::Array(items) => match items[..] {
            [Value::Integer(number), Value::Integer(calls)] => Some((number, calls)),
            _ => panic!("{value:?}"),
        },
        Value::Error(text) if text.starts_with(b"ERR Function not found") => None,
        other => panic!("{other:?}"),
    }
}

/// A call of a function meets the library that there is: it counts from one, and never is one that has gone.
#[test]
fn a_library_that_is_replaced_while_it_is_called_is_met_whole() {
    let server = Server::start(&Program::Almandine, &["--workers", "4"]);
    let (rounds, is_over) = (if full() { 20_000 } else { 2_000 }, AtomicBool::new(false));
    let is_over = &is_over;
    let clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
    let mut changes = server.client();
    thread::scope(|scope| {
        let callers: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                scope.spawn(move || {
                    let (mut last, mut met) = ((0, 0), 0);
                    while !is_over.load(Relaxed) {
                        if let Some(now) = counted(&client.call(&["FCALL", "count", "0"]).expect("a reply")) {
                            assert!(now > last, "{now:?} behind {last:?}");
                            (last, met) = (now, met + 1);
                        }
                    }
                    met
                })
            })
            .collect();
        for number in 1..=rounds {
            if number % 3 == 0 {
                assert_eq!(changes.call(&["FUNCTION", "FLUSH"]).expect("a reply"), Value::Simple(b"OK".to_vec()));
            }
            let loaded = changes.call(&["FUNCTION", "LOAD", "REPLACE", &library(number)]).expect("a reply");
            assert_eq!(loaded, Value::Bulk(b"one".to_vec()));
            let now = counted(&changes.call(&["FCALL", "count", "0"]).expect("a reply"));
            assert!(now.is_some_and(|(known, _)| known == number as i64), "{now:?}");
        }
        is_over.store(true, Relaxed);
        for caller in callers {
            assert!(caller.join().expect("it has not failed") > 0, "it has met a library");
        }
    });
}

/// Bytes that the machine of the libraries takes, and the process.
fn memory(client: &mut Client) -> [usize; 2] {
    let Ok(Value::Bulk(text)) = client.call(&["INFO", "memory"]) else { panic!("no INFO") };
    let text = String::from_utf8_lossy(&text).into_owned();
    ["used_memory_vm_functions:", "used_memory_rss:"].map(|name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|number| number.trim().parse().ok()).expect("a number")
    })
}

#[track_caller]
fn has_not_grown(before: [usize; 2], behind: [usize; 2]) {
    assert!(behind[0] <= before[0] + (256 << 10), "the machine has {} bytes, then {}", before[0], behind[0]);
    assert!(behind[1] <= before[1] + (6 << 20), "the process has {} bytes, then {}", before[1], behind[1]);
}

/// A server whose libraries are replaced, deleted and flushed again and again takes no more memory for it.
#[test]
fn a_server_does_not_grow_by_libraries_that_have_gone() {
    let server = Server::start(&Program::Almandine, &["--workers", "2", "--save", ""]);
    let mut client = server.client();
    let n = if full() { 10_000 } else { 1_000 };
    let mut most = [[0; 2]; 2];
    for (part, most) in most.iter_mut().enumerate() {
        for number in part * n..(part + 1) * n {
            client.call(&["FUNCTION", "LOAD", "REPLACE", &library(number)]).expect("a reply");
            let beside = library(number).replace("name=one", "name=two").replace("'count'", "'beside'").replace("'other", "'more");
            // What keeps nothing is loaded by the worker, too.
            let beside = beside.replace("calls = calls + 1", "").replace("local calls = 0", "");
            let beside = beside.replace("calls}", "keys[1]}").replace("return calls,", "return 1,");
            client.call(&["FUNCTION", "LOAD", "REPLACE", &beside]).expect("a reply");
            assert!(counted(&client.call(&["FCALL", "count", "0"]).expect("a reply")).is_some());
            assert!(matches!(client.call(&["FCALL", "beside", "1", "k"]), Ok(Value::Array(_))));
            if number % 5 == 0 {
                client.call(&["FUNCTION", "DELETE", "two"]).expect("a reply");
            }
            let now = memory(&mut client);
            *most = [now[0].max(most[0]), now[1].max(most[1])];
        }
    }
    has_not_grown(most[0], most[1]);
    for number in 0..n {
        client.call(&["FUNCTION", "FLUSH"]).expect("a reply");
        client.call(&["FUNCTION", "LOAD", &library(number)]).expect("a reply");
    }
    has_not_grown(most[1], memory(&mut client));
}
