//! What a peer cannot break: memory, other connections, the number of connections.

use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use almandine_io::sync::channel;

use crate::common::{Ask, Client, Server, frame};
use crate::rig::{Stopwatch, each, sleep_ms, spawn};

#[test]
fn a_slow_reader_is_not_executed_further() {
    const FRAMES: usize = 40_000;
    each(|kind| {
        let server = Server::tcp(kind, 1);
        server.limits.output_pause_bytes.store(100_000, Ordering::SeqCst);
        let mut client = server.connect();
        let payload = vec![9; 2000];
        let mut bytes = Vec::new();
        for _ in 0..FRAMES {
            frame(&mut bytes, &payload);
        }
        let mut writer = client.stream.try_clone().unwrap();
        let thread = spawn("writer", move || writer.write_all(&bytes).unwrap());
        // The client reads nothing: after the kernel's buffers are full the server stops.
        let mut before = usize::MAX;
        server.until("the server stops", |server| {
            sleep_ms(100);
            let executed = server.executed.load(Ordering::SeqCst);
            executed > 0 && executed == std::mem::replace(&mut before, executed)
        });
        assert!(before < FRAMES, "{before} were executed");
        let pending = server.handle.sum(|counters| &counters.output_pending_bytes);
        // Sixty-four times the limit, for there is as much input; one batch of the service may exceed it.
        assert!(pending > 0 && pending < 64 * 100_000 + 300_000, "{pending} bytes are pending");
        let input = server.handle.sum(|counters| &counters.input_buffer_bytes);
        // Sixty-four times the limit and a quarter, in a buffer that doubles.
        assert!(input < 5 * 64 / 2 * 100_000 + (1 << 20), "{input} bytes of input are kept");

        // Others are served meanwhile.
        let mut other = server.connect();
        assert_eq!(other.call(b"hello"), b"hello");

        for _ in 0..FRAMES {
            assert_eq!(client.receive(), payload);
        }
        thread.join().unwrap();
        assert_eq!(client.call(b"done"), b"done");
    });
}

#[test]
fn large_values_to_a_slow_reader_do_not_pile_up() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        server.limits.output_pause_bytes.store(1 << 20, Ordering::SeqCst);
        let mut client = server.connect();
        for _ in 0..200 {
            client.send(b"BIG");
        }
        // The values are the service's: what the connection itself keeps is small.
        let sum = |counter: fn(&almandine_net::Counters) -> &almandine_net::counters::Counter| server.handle.sum(counter);
        server.until("they wait", |_| sum(|counters| &counters.output_pending_bytes) > 300_000);
        sleep_ms(200);
        assert!(server.executed.load(Ordering::SeqCst) < 200);
        assert!(sum(|counters| &counters.output_memory_bytes) < 10_000);
        for _ in 0..200 {
            assert_eq!(client.receive().len(), 300_000);
        }
    });
}

/// Pushes until the server closes the only connection, or `bytes_max` are pushed. Returns how much that was.
fn push_until_closed(server: &Server, id: u64, bytes_max: usize) -> usize {
    let start = Stopwatch::start();
    let mut pushed = 0;
    while server.open.load(Ordering::SeqCst) == 1 && pushed < bytes_max {
        assert!(start.elapsed() < Duration::from_secs(60));
        server.handle.push(0, id, Ask::Push(id, vec![1; 100_000]), 100_000);
        pushed += 100_000;
        server.until("the worker has it", |server| server.handle.pushed_bytes(0) == 0);
    }
    pushed
}

#[test]
fn what_is_pushed_to_an_ordinary_client_is_limited_and_its_replies_are_not() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        server.limits.output_subscriber.set(100_000, 0, 0);
        let mut client = server.connect();
        let id = client.id();
        // Much more than the limit is pending, none of it pushed but a little.
        for _ in 0..30 {
            client.send(b"BIG");
        }
        let pending = |server: &Server| server.handle.sum(|counters| &counters.output_pending_bytes);
        server.until("output is pending", |server| pending(server) > 1_000_000);
        server.handle.push(0, id, Ask::Push(id, vec![1; 10]), 10);
        server.until("the worker has it", |server| server.handle.pushed_bytes(0) == 0);
        let lengths: Vec<usize> = (0..31).map(|_| client.receive().len()).collect();
        assert_eq!(lengths.iter().filter(|len| **len == 300_000).count(), 30);
        assert_eq!(lengths.iter().filter(|len| **len == 10).count(), 1);

        // With nothing but pushes the limit holds: the kernel's buffers are full before.
        let pushed = push_until_closed(&server, id, 100 << 20);
        assert!(pushed < 100 << 20, "a client that does not read its pushes stays");
        assert_eq!(server.handle.sum(|counters| &counters.closed_by.output_limit), 1);

        // The operator's own limit for ordinary clients goes first.
        server.limits.output_subscriber.set(0, 0, 0);
        server.limits.output_normal.set(1 << 20, 0, 0);
        let mut client = server.connect();
        let id = client.id();
        assert!(push_until_closed(&server, id, 100 << 20) < 100 << 20);
        assert_eq!(server.handle.sum(|counters| &counters.closed_by.output_limit), 2);
    });
}

#[test]
fn a_client_that_has_not_authenticated_pins_no_output() {
    const FRAMES: usize = 100_000;
    each(|kind| {
        let server = Server::tcp(kind, 1);
        let mut client = server.connect();
        client.send(b"LOGOUT");
        let mut bytes = Vec::new();
        for _ in 0..FRAMES {
            frame(&mut bytes, &[7; 500]);
        }
        // Nothing is read, so the write fails when the server has closed.
        let _ = client.stream.write_all(&bytes);
        server.until("it is closed", |server| server.open.load(Ordering::SeqCst) == 0);
        assert_eq!(server.handle.sum(|counters| &counters.closed_by.output_limit), 1);
        assert!(server.executed.load(Ordering::SeqCst) < FRAMES);
        // One that reads is served.
        let mut client = server.connect();
        client.send(b"LOGOUT");
        for _ in 0..100 {
            assert_eq!(client.call(&[8; 500]), [8; 500]);
        }
    });
}

#[test]
fn a_busy_worker_is_not_pushed_more_than_it_may_hold() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        let (mut flooded, mut other) = (server.connect(), server.connect());
        let (id, other_id) = (flooded.id(), other.id());
        let (release, until) = channel();
        server.handle.send(0, Ask::Block(until));
        server.handle.push(0, other_id, Ask::Push(other_id, b"before".to_vec()), 6);
        for _ in 0..1000 {
            server.handle.push(0, id, Ask::Push(id, vec![1; 100_000]), 100_000);
            assert!(server.handle.pushed_bytes(0) < (32 << 20) + 100_200);
        }
        assert!(server.handle.pushed_bytes(0) > 16 << 20);
        drop(release);
        server.until("the flooded connection is closed", |server| server.open.load(Ordering::SeqCst) == 1);
        assert_eq!(server.handle.pushed_bytes(0), 0, "what waited is gone");
        assert_eq!(other.receive(), b"before");
        assert_eq!(other.call(b"still here"), b"still here");
    });
}

#[test]
fn nothing_is_sent_of_a_reply_beyond_the_limit_however_fast_its_reader_is() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        server.limits.output_normal.set(100_000, 0, 0);
        let mut client = server.connect();
        // What has been answered before, and is not sent yet, is lost with it, as in Redis.
        let mut bytes = Vec::new();
        [&[8; 500][..], b"BIG"].iter().for_each(|payload| frame(&mut bytes, payload));
        client.stream.write_all(&bytes).unwrap();
        let mut received = Vec::new();
        let _ = client.stream.read_to_end(&mut received);
        assert_eq!(received.len(), 0);
        assert_eq!(server.handle.sum(|counters| &counters.closed_by.output_limit), 1);
        // The limit of one class is not that of another.
        let mut subscriber = server.connect();
        subscriber.send(b"SUBSCRIBE");
        subscriber.send(b"BIG");
        assert_eq!(subscriber.receive().len(), 300_000);
    });
}

#[test]
fn output_limits_close_a_subscriber_that_does_not_read() {
    each(|kind| {
        for (hard, soft, soft_s) in [(4 << 20, 0, 0), (0, 1 << 20, 1)] {
            let server = Server::tcp(kind, 1);
            server.limits.output_subscriber.set(hard, soft, soft_s);
            let mut client = server.connect();
            client.send(b"SUBSCRIBE");
            let id = client.id();
            let start = Stopwatch::start();
            while server.open.load(Ordering::SeqCst) == 1 {
                assert!(start.elapsed() < Duration::from_secs(20));
                server.handle.send(0, Ask::Push(id, vec![1; 100_000]));
                sleep_ms(1);
            }
            assert_eq!(server.handle.sum(|counters| &counters.closed_by.output_limit), 1);
            assert_eq!(server.handle.sum(|counters| &counters.output_pending_bytes), 0);
        }
    });
}

#[test]
fn the_input_limit_closes() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        server.limits.input_bytes_max.store(1 << 20, Ordering::SeqCst);
        let mut client = server.connect();
        let sent =
            client.stream.write_all(&(u32::MAX / 2).to_le_bytes()).and_then(|()| client.stream.write_all(&vec![0; 16 << 20]));
        let closed = sent.is_err() || client.stream.read(&mut [0; 1]).map_or(true, |count| count == 0);
        assert!(closed);
        server.until("it is closed", |server| server.open.load(Ordering::SeqCst) == 0);
        assert_eq!(server.handle.sum(|counters| &counters.closed_by.input_limit), 1);
    });
}

#[test]
fn an_announced_value_that_does_not_come_costs_little() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        let mut client = server.connect();
        client.stream.write_all(&(512_u32 << 20).to_le_bytes()).unwrap();
        client.stream.write_all(b"0123456789").unwrap();
        server.until("it is kept", |server| server.handle.sum(|counters| &counters.input_buffer_bytes) > 0);
        assert!(server.handle.sum(|counters| &counters.input_buffer_bytes) <= 64 * 1024);
    });
}

#[test]
fn too_many_connections_are_told_so() {
    each(|kind| {
        let server = Server::tcp(kind, 2);
        server.limits.connections_max.store(2, Ordering::SeqCst);
        let mut first = server.connect();
        let mut second = server.connect();
        assert_eq!((first.call(b"1"), second.call(b"2")), (b"1".to_vec(), b"2".to_vec()));
        let mut third = server.connect();
        assert_eq!(third.rest(), b"-ERR max number of clients reached\r\n");
        assert_eq!(server.handle.sum(|counters| &counters.rejected), 1);
        drop(first);
        server.until("one is gone", |server| server.open.load(Ordering::SeqCst) == 1);
        assert_eq!(server.connect().call(b"3"), b"3");
    });
}

#[test]
fn idle_connections_are_closed_and_paused_ones_are_not() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        server.limits.idle_timeout_s.store(1, Ordering::SeqCst);
        let mut paused = server.connect();
        paused.call(b"a");
        paused.send(b"PAUSE");
        let mut idle = server.connect();
        // Before its last call, so that the time is not less for being looked at late.
        let start = Stopwatch::start();
        idle.call(b"b");
        assert!(idle.rest().is_empty());
        assert!(start.elapsed() > Duration::from_millis(900));
        assert_eq!(server.open.load(Ordering::SeqCst), 1);
        assert_eq!(server.handle.sum(|counters| &counters.closed_by.timeout), 1);
    });
}

#[test]
fn vanished_peers_are_noticed() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        let mut clients: Vec<_> = (0..50).map(|_| server.connect()).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            client.call(b"here");
            match number % 5 {
                0 => client.send(b"PAUSE"),
                1 => client.stream.write_all(&1000_u32.to_le_bytes()).unwrap(),
                // A reset instead of an orderly end.
                2 => client.stream.reset_when_closed(),
                // Output is pending, and input is not read.
                3 => (0..100).for_each(|_| client.send(b"BIG")),
                // Much input behind a pause; the end is noticed as long as it fits the window.
                _ => {
                    client.send(b"PAUSE");
                    client.send(&[0; 100_000]);
                }
            }
        }
        sleep_ms(50);
        assert_eq!(server.open.load(Ordering::SeqCst), 50);
        drop(clients);
        server.until("all are closed", |server| server.open.load(Ordering::SeqCst) == 0);
    });
}

#[test]
fn ten_thousand_idle_connections_own_no_buffers() {
    // Client and server are one process here, which may not have descriptors for more.
    const CONNECTIONS: usize = 2000;
    each(|kind| {
        let server = Server::tcp(kind, 2);
        let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| server.connect()).collect();
        for client in &mut clients {
            // In two parts, so that a buffer was needed once.
            client.stream.write_all(&5_u32.to_le_bytes()).unwrap();
        }
        for client in &mut clients {
            client.stream.write_all(b"hello").unwrap();
            assert_eq!(client.receive(), b"hello");
        }
        server.until("no buffers", |server| server.handle.sum(|counters| &counters.input_buffer_bytes) == 0);
        assert_eq!(server.handle.sum(|counters| &counters.output_pending_bytes), 0);
    });
}

/// Many clients send all of a pipeline and read then: more than the kernel's buffers take in either direction.
#[test]
fn a_pipeline_may_be_sent_whole_before_its_replies_are_read() {
    each(|kind| {
        // With the lower limit, more input comes than is kept.
        [1 << 20, 300_000].into_iter().for_each(|pause| pipeline(kind, pause));
    });
}

fn pipeline(kind: almandine_io::reactor::Kind, pause: usize) {
    const FRAMES: usize = 500;
    let server = Server::tcp(kind, 1);
    server.limits.output_pause_bytes.store(pause, Ordering::SeqCst);
    let mut client = server.connect();
    let payload = vec![9; 60_000];
    let mut bytes = Vec::new();
    for _ in 0..FRAMES {
        frame(&mut bytes, &payload);
    }
    client.stream.set_write_timeout(Duration::from_secs(20));
    client.stream.write_all(&bytes).expect("the server takes what is sent");
    assert!(server.executed.load(Ordering::SeqCst) < FRAMES);
    for _ in 0..FRAMES {
        assert_eq!(client.receive(), payload);
    }
}

/// Behind the limits in both directions it waits for the peer to read, and the peer perhaps for it: that ends.
#[test]
fn a_client_that_writes_on_and_never_reads_is_closed() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        server.limits.output_pause_bytes.store(20_000, Ordering::SeqCst);
        server.limits.unread_s_max.store(1, Ordering::SeqCst);
        let mut client = server.connect();
        let mut bytes = Vec::new();
        (0..100).for_each(|_| frame(&mut bytes, &[9; 10_000]));
        client.stream.set_write_timeout(Duration::from_secs(120));
        let mut written = 0_usize;
        let error = loop {
            match client.stream.write(&bytes[written % bytes.len()..]) {
                Ok(count) => written += count,
                Err(error) => break error.kind(),
            }
        };
        assert!(matches!(error, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error:?} after {written} bytes");
        assert_eq!(server.handle.sum(|counters| &counters.closed_by.output_limit), 1);
        server.until("nothing of it is kept", |server| server.handle.sum(|counters| &counters.output_pending_bytes) == 0);
        assert_eq!(server.connect().call(b"hello"), b"hello");
    });
}
