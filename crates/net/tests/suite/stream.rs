//! Replies that are made while they are sent.

use std::io::Write;
use std::sync::atomic::Ordering;

use crate::common::{Ask, Server, UNREADABLE, frame};
use crate::rig::each;

fn request(count: u32) -> Vec<u8> {
    [&b"STREAM"[..], &count.to_le_bytes()].concat()
}

fn is_counting(reply: &[u8]) -> bool {
    reply.iter().enumerate().all(|(place, &byte)| byte == place as u8)
}

#[test]
fn streams_of_all_lengths_are_whole_and_in_order() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        let mut client = server.connect();
        let counts = [0, 1, 65_535, 65_536, 65_537, 300_000, 5_000_000, 2, 262_144, 262_145];
        let mut pipeline = Vec::new();
        for count in counts {
            frame(&mut pipeline, b"before");
            frame(&mut pipeline, &request(count));
            frame(&mut pipeline, b"BIG");
        }
        client.stream.write_all(&pipeline).unwrap();
        for count in counts {
            assert_eq!(client.receive(), b"before");
            let reply = client.receive();
            assert!(reply.len() == count as usize && is_counting(&reply), "{count}");
            assert_eq!(client.receive(), vec![7; 300_000]);
        }
    });
}

#[test]
fn a_stream_to_a_slow_reader_takes_little_memory_and_holds_nobody_up() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        let (mut slow, mut other) = (server.connect(), server.connect());
        let id = slow.id();
        let executed = server.executed.load(Ordering::SeqCst);
        slow.send(&request(40_000_000));
        slow.send(b"behind");
        server.until("the stream's beginning", |server| server.streams.load(Ordering::SeqCst) == 1);
        for round in 0..100 {
            assert_eq!(other.call(b"hello"), b"hello");
            if round == 50 {
                // What is pushed comes behind the reply that is being sent.
                server.handle.send(0, Ask::Push(id, b"pushed".to_vec()));
            }
            assert!(server.handle.sum(|counters| &counters.output_memory_bytes) < 256 * 1024);
        }
        assert_eq!(server.executed.load(Ordering::SeqCst), executed + 101, "the command behind waits");
        let reply = slow.receive();
        assert!(reply.len() == 40_000_000 && is_counting(&reply));
        let mut last = [slow.receive(), slow.receive()];
        last.sort();
        assert_eq!(last, [b"behind".to_vec(), b"pushed".to_vec()]);
    });
}

#[test]
fn a_stream_ends_with_its_connection() {
    each(|kind| {
        let server = Server::tcp(kind, 1);
        let mut killed = server.connect();
        let id = killed.id();
        killed.send(&request(40_000_000));
        let mut gone = server.connect();
        gone.send(&request(40_000_000));
        server.until("both streams", |server| server.streams.load(Ordering::SeqCst) == 2);
        server.handle.send(0, Ask::Kill(id, false));
        drop(gone);
        server.until("the end of both", |server| server.streams.load(Ordering::SeqCst) == 0);
        // One that cannot go on closes its connection: what was announced will not come.
        let mut broken = server.connect();
        broken.send(&request(UNREADABLE + 1));
        let sent = broken.rest();
        assert!(sent.len() <= 4 + UNREADABLE as usize && is_counting(&sent[4..]), "{}", sent.len());
    });
}
