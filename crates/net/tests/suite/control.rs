//! What a service can do to its connections: close, pause, resume, push, kill.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{Ask, Server, frame};
use crate::rig::{Stopwatch, each, each_calmly, sleep_ms, spawn};

#[test]
fn close_after_flush_sends_everything_first() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        // Small and large output before the end, and input behind it that is ignored.
        for values in [0, 1, 50] {
            let mut client = server.connect();
            let mut bytes = Vec::new();
            frame(&mut bytes, b"first");
            (0..values).for_each(|_| frame(&mut bytes, b"BIG"));
            frame(&mut bytes, b"QUIT");
            (0..1000).for_each(|_| frame(&mut bytes, b"ignored"));
            client.stream.write_all(&bytes).unwrap();
            assert_eq!(client.receive(), b"first");
            for _ in 0..values {
                assert_eq!(client.receive().len(), 300_000);
            }
            assert_eq!(client.receive(), b"BYE");
            assert!(client.rest().is_empty());
        }
        server.until("all are closed", |server| server.open.load(Ordering::SeqCst) == 0);
    });
}

#[test]
fn close_drops_the_connection() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        let mut client = server.connect();
        client.call(b"here");
        client.send(b"DROP");
        assert!(client.rest().is_empty());
    });
}

#[test]
fn pause_holds_the_pipeline_until_resume() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        let mut client = server.connect();
        let id = client.id();
        let mut bytes = Vec::new();
        frame(&mut bytes, b"before");
        frame(&mut bytes, b"PAUSE");
        frame(&mut bytes, b"after");
        // Enough that reading ahead stops.
        (0..100).for_each(|_| frame(&mut bytes, &[5; 10_000]));
        let mut writer = client.stream.try_clone().unwrap();
        let thread = spawn("writer", move || writer.write_all(&bytes).unwrap());
        assert_eq!(client.receive(), b"before");
        sleep_ms(30);
        assert_eq!(server.executed.load(Ordering::SeqCst), 3);
        server.handle.send(0, Ask::Push(id, b"pushed".to_vec()));
        assert_eq!(client.receive(), b"pushed");
        server.handle.send(0, Ask::Resume(id));
        assert_eq!(client.receive(), b"after");
        for _ in 0..100 {
            assert_eq!(client.receive(), [5; 10_000]);
        }
        thread.join().unwrap();
    });
}

#[test]
fn messages_wake_a_sleeping_worker() {
    each_calmly(|kind| {
        let server = Server::tcp(kind, 2);
        let mut clients = [server.connect(), server.connect()];
        let ids = clients.each_mut().map(|client| client.id());
        let mut late = 0;
        for number in 0..200_u32 {
            almandine_io::thread::sleep(Duration::from_micros(200));
            let start = Stopwatch::start();
            for worker in 0..2 {
                ids.iter().for_each(|id| server.handle.send(worker, Ask::Push(*id, number.to_le_bytes().to_vec())));
            }
            for client in &mut clients {
                assert_eq!(client.receive(), number.to_le_bytes());
            }
            late += usize::from(start.elapsed() >= Duration::from_millis(90));
        }
        // A lost wake would wait for the tick. A busy machine may hold some up; nothing does in a simulation.
        let is_real = crate::rig::KINDS.contains(&kind);
        assert!(late == 0 || is_real && late < 20, "{late} of 200 rounds were late");
    });
}

/// Messages that come while the worker is about to wait do not wait for the tick.
#[test]
fn messages_at_any_moment_wake_a_worker() {
    each_calmly(|kind| {
        let server = Server::tcp(kind, 1);
        let mut client = server.connect();
        let (id, handle) = (client.id(), server.handle.clone());
        let sender = spawn("sender", move || {
            for number in 0..500_u64 {
                let now_ns = almandine_io::clock::monotonic_ns();
                handle.send(0, Ask::Push(id, now_ns.to_le_bytes().to_vec()));
                almandine_io::thread::sleep(Duration::from_micros(number % 30));
            }
        });
        let mut late = 0;
        for _ in 0..500 {
            let sent_ns = u64::from_le_bytes(client.receive().try_into().unwrap());
            late += usize::from(almandine_io::clock::monotonic_ns() - sent_ns > 50_000_000);
        }
        sender.join().unwrap();
        // A busy machine may hold some up; nothing does in a simulation.
        let is_real = crate::rig::KINDS.contains(&kind);
        assert!(late == 0 || is_real, "{late} messages waited");
    });
}

#[test]
fn pushes_keep_their_order_under_pressure() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        let mut client = server.connect();
        let id = client.id();
        for number in 0..20_000_u32 {
            let mut payload = number.to_le_bytes().to_vec();
            payload.resize(4 + number as usize % 300, 1);
            server.handle.send(0, Ask::Push(id, payload));
            if number % 1000 == 0 {
                client.send(b"echo");
            }
        }
        let mut next = 0_u32;
        let mut echoes = 0;
        while next < 20_000 || echoes < 20 {
            let payload = client.receive();
            if payload == b"echo" {
                echoes += 1;
            } else {
                assert_eq!(payload[..4], next.to_le_bytes());
                next += 1;
            }
        }
    });
}

#[test]
fn kill_closes_from_any_thread() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        for after_flush in [false, true] {
            let mut client = server.connect();
            let id = client.id();
            if after_flush {
                server.handle.send(0, Ask::Push(id, b"last words".to_vec()));
            }
            server.handle.send(0, Ask::Kill(id, after_flush));
            if after_flush {
                assert_eq!(client.receive(), b"last words");
            }
            assert!(client.rest().is_empty());
            server.until("it is closed", |server| server.open.load(Ordering::SeqCst) == 0);
        }
    });
}

#[test]
fn slots_are_used_again_without_confusion() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        let mut last = 0;
        for number in 0..2000_u32 {
            let mut client = server.connect();
            let id = client.id();
            assert!(id > last);
            last = id;
            client.send(&number.to_le_bytes());
            if number % 3 == 0 {
                continue;
            }
            assert_eq!(client.receive(), number.to_le_bytes());
        }
        server.until("all are closed", |server| server.open.load(Ordering::SeqCst) == 0);
    });
}
