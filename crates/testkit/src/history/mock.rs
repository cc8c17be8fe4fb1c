//! A tiny server inside the test process, right or deliberately wrong: the control that shows that the checker can fail.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use crate::client::decode;

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Nothing.
    None,
    /// GET now and then answers the value before the last one.
    StaleRead,
    /// INCR and APPEND read and write without holding the lock between.
    LostUpdate,
    /// SET now and then answers OK and does nothing.
    LostWrite,
    /// MSET lets others in between its keys.
    TornMset,
    /// MGET lets others in between its keys.
    TornMget,
    /// RENAME removes the source, lets others in, then writes the destination.
    TornRename,
    /// What is evicted to the device now and then comes back as it was before its last change.
    StaleWhenCold,
    /// What is evicted to the device now and then does not come back.
    LostWhenCold,
    /// SET now and then answers that the device cannot be read, but sets the value.
    ErrorThatWrote,
}

#[derive(Default)]
struct Keys {
    now: HashMap<Vec<u8>, Vec<u8>>,
    before: HashMap<Vec<u8>, Vec<u8>>,
    count: u64,
}

impl Keys {
    fn set(&mut self, key: &[u8], value: Vec<u8>) {
        if let Some(old) = self.now.insert(key.to_vec(), value) {
            self.before.insert(key.to_vec(), old);
        }
    }

    /// True in one of `n` calls.
    fn rarely(&mut self, n: u64) -> bool {
        self.count += 1;
        self.count.is_multiple_of(n)
    }
}

/// Starts the server; its threads end with the test process.
///
/// # Panics
/// When it cannot listen.
#[must_use]
pub fn start(bug: Bug) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("its address");
    let keys = Arc::new(Mutex::new(Keys::default()));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let keys = Arc::clone(&keys);
            thread::spawn(move || serve(stream, &keys, bug));
        }
    });
    address
}

fn serve(mut stream: TcpStream, keys: &Mutex<Keys>, bug: Bug) {
    let mut input = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut chunk) {
        input.extend_from_slice(&chunk[..n]);
        let mut output = Vec::new();
        while let Ok(Some((command, used))) = decode(&input) {
            let args: Vec<Vec<u8>> =
                command.elements().unwrap_or_default().iter().filter_map(|v| v.bytes().map(<[u8]>::to_vec)).collect();
            output.extend_from_slice(&execute(&args, keys, bug));
            input.drain(..used);
        }
        if stream.write_all(&output).is_err() {
            return;
        }
    }
}

fn lock(keys: &Mutex<Keys>) -> MutexGuard<'_, Keys> {
    keys.lock().expect("no panic under the lock")
}

fn let_others_in() {
    thread::sleep(Duration::from_micros(100));
}

fn execute(args: &[Vec<u8>], shared: &Mutex<Keys>, bug: Bug) -> Vec<u8> {
    let mut keys = lock(shared);
    let ok = || b"+OK\r\n".to_vec();
    let int = |n: i64| format!(":{n}\r\n").into_bytes();
    match args[0].as_slice() {
        b"GET" if bug == Bug::StaleRead && keys.rarely(50) => bulk(keys.before.get(&args[1])),
        b"GET" => bulk(keys.now.get(&args[1])),
        b"SET" if bug == Bug::LostWrite && keys.rarely(50) => ok(),
        b"SET" if bug == Bug::ErrorThatWrote && keys.rarely(50) => {
            keys.set(&args[1], args[2].clone());
            [b"-", crate::storage::UNREADABLE, b"\r\n"].concat()
        }
        b"SET" => {
            keys.set(&args[1], args[2].clone());
            ok()
        }
        b"SETNX" => {
            let vacant = !keys.now.contains_key(&args[1]);
            if vacant {
                keys.set(&args[1], args[2].clone());
            }
            int(vacant.into())
        }
        b"GETSET" => {
            let old = bulk(keys.now.get(&args[1]));
            keys.set(&args[1], args[2].clone());
            old
        }
        b"GETDEL" => bulk(keys.now.remove(&args[1]).as_ref()),
        b"DEL" => int(args[1..].iter().filter(|k| keys.now.remove(*k).is_some()).count() as i64),
        b"INCR" | b"APPEND" => {
            let old = keys.now.get(&args[1]).cloned();
            if bug == Bug::LostUpdate {
                drop(keys);
                let_others_in();
                keys = lock(shared);
            }
            if args[0] == b"APPEND" {
                let mut value = old.unwrap_or_default();
                value.extend_from_slice(&args[2]);
                let len = value.len() as i64;
                keys.set(&args[1], value);
                return int(len);
            }
            let old = String::from_utf8(old.unwrap_or_else(|| b"0".to_vec())).unwrap_or_default();
            let Ok(old) = old.parse::<i64>() else { return b"-ERR value is not an integer or out of range\r\n".to_vec() };
            keys.set(&args[1], (old + 1).to_string().into_bytes());
            int(old + 1)
        }
        b"MGET" => {
            let mut reply = format!("*{}\r\n", args.len() - 1).into_bytes();
            for key in &args[1..] {
                reply.extend_from_slice(&bulk(keys.now.get(key)));
                if bug == Bug::TornMget {
                    drop(keys);
                    let_others_in();
                    keys = lock(shared);
                }
            }
            reply
        }
        b"MSET" => {
            for pair in args[1..].chunks(2) {
                keys.set(&pair[0], pair[1].clone());
                if bug == Bug::TornMset {
                    drop(keys);
                    let_others_in();
                    keys = lock(shared);
                }
            }
            ok()
        }
        b"MSETNX" => {
            let vacant = args[1..].chunks(2).all(|pair| !keys.now.contains_key(&pair[0]));
            for pair in args[1..].chunks(2).filter(|_| vacant) {
                keys.set(&pair[0], pair[1].clone());
            }
            int(vacant.into())
        }
        b"RENAME" => {
            let Some(value) = keys.now.remove(&args[1]) else { return b"-ERR no such key\r\n".to_vec() };
            if bug == Bug::TornRename {
                drop(keys);
                let_others_in();
                keys = lock(shared);
            }
            keys.set(&args[2], value);
            ok()
        }
        b"COPY" => {
            let found = keys.now.get(&args[1]).cloned();
            let copied = found.is_some();
            if let Some(value) = found {
                keys.set(&args[2], value);
            }
            int(copied.into())
        }
        b"DEBUG" => {
            let chosen = keys.now.keys().find(|key| key.starts_with(b"history:")).cloned();
            if let (Some(key), true) = (chosen, matches!(bug, Bug::StaleWhenCold | Bug::LostWhenCold)) {
                match keys.before.get(&key).cloned().filter(|_| bug == Bug::StaleWhenCold) {
                    Some(before) => keys.now.insert(key, before),
                    None => keys.now.remove(&key),
                };
            }
            ok()
        }
        _ => b"-ERR unknown command\r\n".to_vec(),
    }
}

fn bulk(value: Option<&Vec<u8>>) -> Vec<u8> {
    match value {
        None => b"$-1\r\n".to_vec(),
        Some(value) => [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat(),
    }
}
