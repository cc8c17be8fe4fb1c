//! Both reactors carry bytes faithfully: pipelines, any fragmentation, large messages, every kind of socket.

use std::io::Write;
use std::sync::atomic::Ordering;

use crate::common::{Client, Server, frame};
use crate::rig::{each, spawn};
use almandine_io::socket::{Listener, bind};

#[test]
fn a_pipeline_is_answered_in_order() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        let mut client = server.connect();
        let mut bytes = Vec::new();
        for number in 0..50_000_u32 {
            frame(&mut bytes, &number.to_le_bytes());
        }
        let mut writer = client.stream.try_clone().unwrap();
        let thread = spawn("writer", move || writer.write_all(&bytes).unwrap());
        for number in 0..50_000_u32 {
            assert_eq!(client.receive(), number.to_le_bytes());
        }
        thread.join().unwrap();
    });
}

#[test]
fn input_may_be_cut_anywhere() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        let mut client = server.connect();
        let mut bytes = Vec::new();
        for len in [0, 1, 3, 4, 600, 2000, 70_000, 5, 0] {
            frame(&mut bytes, &vec![len as u8; len]);
        }
        for cut in [1, 2, 3, 5, 7, 511, 517, 4096, 32 * 1024 + 1] {
            for piece in bytes.chunks(cut).take(100) {
                client.stream.write_all(piece).unwrap();
                if cut < 600 {
                    almandine_io::thread::yield_now();
                }
            }
            client.stream.write_all(&bytes[(cut * 100).min(bytes.len())..]).unwrap();
            for len in [0, 1, 3, 4, 600, 2000, 70_000, 5, 0] {
                assert_eq!(client.receive(), vec![len as u8; len], "pieces of {cut}");
            }
        }
        server.until("buffers are free", |server| server.handle.sum(|counters| &counters.input_buffer_bytes) == 0);
    });
}

#[test]
fn a_large_message_is_buffered_once_and_freed() {
    const BYTES: usize = 64 << 20;
    each(|kind| {
        let server = Server::tcp(kind, 1);
        let mut client = server.connect();
        let message: Vec<u8> = (0..BYTES).map(|index| ((index * 31) >> 3) as u8).collect();
        let copy = message.clone();
        let mut writer = Client { stream: client.stream.try_clone().unwrap() };
        let thread = spawn("writer", move || {
            writer.send(&copy);
            writer.send(b"after");
        });
        assert!(client.receive() == message);
        assert_eq!(client.receive(), b"after");
        thread.join().unwrap();
        server.until("the buffer is free", |server| server.handle.sum(|counters| &counters.input_buffer_bytes) == 0);
    });
}

#[test]
fn large_values_are_sent_by_reference() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        let mut client = server.connect();
        for _ in 0..20 {
            client.send(b"a");
            client.send(b"BIG");
            client.send(b"b");
        }
        for _ in 0..20 {
            assert_eq!(client.receive(), b"a");
            assert_eq!(client.receive(), vec![7; 300_000]);
            assert_eq!(client.receive(), b"b");
        }
    });
}

#[test]
fn a_thousand_connections_over_two_workers_are_balanced() {
    each(|kind| {
        let server = Server::tcp(kind, 2);
        let mut clients: Vec<_> = (0..1000).map(|_| server.connect()).collect();
        for round in 0..3_u32 {
            for client in &mut clients {
                client.send(&round.to_le_bytes());
            }
            for client in &mut clients {
                assert_eq!(client.receive(), round.to_le_bytes());
            }
        }
        let on_first = clients.iter_mut().map(|client| client.call(b"WORKER")).filter(|worker| *worker == [0]).count();
        assert_eq!(on_first, 500);
        assert_eq!((server.handle.connections(0), server.handle.connections(1)), (500, 500));
        drop(clients);
        server.until("all are closed", |server| server.open.load(Ordering::SeqCst) == 0);
    });
}

#[test]
fn unix_sockets_and_ipv6_work_too() {
    each(|kind| {
        let path = std::env::temp_dir().join(format!("almandine-net-{}-{}.sock", kind.name(), std::process::id()));
        let server = Server::on(kind, 1, Listener::unix(&path, Some(0o600), 16).unwrap(), None);
        let mut client = server.connect();
        assert_eq!(client.call(b"over a path"), b"over a path");
        drop(client);
        drop(server);
        // None in the simulation.
        let _ = std::fs::remove_file(&path);

        let Ok(mut listeners) = bind(&["-::1"], 0, 16) else { return };
        let server = Server::on(kind, 1, listeners.remove(0), None);
        assert_eq!(server.connect().call(b"over v6"), b"over v6");
    });
}

#[test]
fn a_half_closed_peer_gets_its_answers() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        let mut client = server.connect();
        for number in 0..1000_u32 {
            client.send(&number.to_le_bytes());
        }
        client.stream.finish();
        for number in 0..1000_u32 {
            assert_eq!(client.receive(), number.to_le_bytes());
        }
        assert!(client.rest().is_empty());
    });
}
