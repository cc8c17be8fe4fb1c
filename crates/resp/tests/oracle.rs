//! The same damaged streams to this parser and to a real Redis: it must answer as many commands, and end with the same error.

mod client;
mod common;

use almandine_resp::Limits;
use almandine_testkit::redis_server;
use client::{Decoder, Value};
use common::{Random, parse};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::Duration;

/// The connection is said to be in step when this comes back.
const SENTINEL: &[u8] = b"in-step-3141592653";

struct Redis {
    process: Child,
    socket: std::path::PathBuf,
}

impl Redis {
    fn start() -> Self {
        let socket = std::env::temp_dir().join(format!("almandine-resp-oracle-{}.sock", std::process::id()));
        let process = redis_server()
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server can be started");
        // Its name is there before it listens.
        let listens = || UnixStream::connect(&socket).is_ok();
        (0..1000).take_while(|_| !listens()).for_each(|_| std::thread::sleep(Duration::from_millis(20)));
        Self { process, socket }
    }

    /// Sends `stream` in two pieces and a sentinel behind it when the stream ends with a complete command.
    fn exchange(&self, stream: &[u8], cut: usize, complete: bool, replies: usize) -> Vec<Value> {
        let mut connection = UnixStream::connect(&self.socket).expect("redis listens");
        let mut rest = stream[cut..].to_vec();
        if complete {
            client::encode(&mut rest, &[&b"ECHO"[..], SENTINEL]);
        }
        // Writing fails when Redis has already hung up over the first piece.
        let _ = connection.write_all(&stream[..cut]).and_then(|()| connection.write_all(&rest));
        let (mut values, mut pending, mut decoder) = (Vec::new(), Vec::new(), Decoder::new());
        let mut chunk = [0; 4096];
        loop {
            // What has to come may take its time on a busy machine; what must not come is not awaited for long.
            let is_awaited = complete || values.len() < replies;
            let patience = if is_awaited { Duration::from_secs(20) } else { Duration::from_millis(30) };
            connection.set_read_timeout(Some(patience)).expect("a valid time");
            match connection.read(&mut chunk) {
                Ok(0) => return values,
                Ok(len) => pending.extend_from_slice(&chunk[..len]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionReset) => return values,
                Err(error) => panic!("{error}"),
            }
            while let (consumed, Some(value)) = decoder.decode(&pending).expect("RESP from redis") {
                pending.drain(..consumed);
                if value == Value::Bulk(SENTINEL.to_vec()) && values.len() >= replies {
                    return values;
                }
                values.push(value);
            }
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

#[test]
fn redis_sees_the_same_commands_and_the_same_error() {
    let redis = Redis::start();
    let limits = Limits::default();
    let mut random = Random(0x0_0A_C1_E5);
    let (mut failures, mut silences) = (0, 0);
    for _ in 0..6000 {
        let stream = random.stream();
        let cut = random.below(stream.len() + 1);
        let outcome = parse(&stream, &[], &limits, usize::MAX);
        let complete = outcome.end == Ok(stream.len());
        if outcome.end.is_ok() && !complete {
            silences += 1;
            // Waiting for an answer that must not come takes its time.
            if silences % 10 > 0 {
                continue;
            }
        }
        let values = redis.exchange(&stream, cut, complete || outcome.end.is_err(), outcome.commands.len());
        let shown = stream.escape_ascii();
        match &outcome.end {
            Ok(_) => assert_eq!(values.len(), outcome.commands.len(), "{shown}: {values:?}"),
            Err(text) => {
                failures += 1;
                assert_eq!(values.len(), outcome.commands.len() + 1, "{shown}: {values:?}");
                let Some(Value::Error(last)) = values.last() else { panic!("{shown}: {values:?}") };
                assert_eq!(String::from_utf8_lossy(last), format!("ERR {text}"), "{shown}");
            }
        }
    }
    assert!(failures > 500, "too few of the streams were damaged: {failures}");
}
