//! Connections with a transport.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use almandine_io::reactor::Kind;
use almandine_io::socket::bind;
use almandine_net::transport::Broken;
use almandine_net::{Stage, Transport};

use crate::common::{Ask, Client, Server, frame};
use crate::rig::{Pipe, each};

/// Adds to each byte its number in the stream, so that what is lost, doubled or moved is seen; and greets.
struct Numbering {
    stage: Stage,
    kept: Vec<u8>,
    decoded: u8,
    encoded: u8,
}

/// Bytes by their numbers.
fn numbered(bytes: &[u8], next: &mut u8, change: fn(u8, u8) -> u8) -> Vec<u8> {
    let numbered = |byte: &u8| {
        let number = *next;
        *next = next.wrapping_add(1);
        change(*byte, number)
    };
    bytes.iter().map(numbered).collect()
}

impl Transport for Numbering {
    fn decode(&mut self, wire: &mut [u8], plain: &mut Vec<u8>, reply: &mut Vec<u8>) -> Result<(), Broken> {
        let mut wire = [std::mem::take(&mut self.kept), wire.to_vec()].concat();
        if self.stage == Stage::Handshake && !wire.is_empty() {
            if wire.remove(0) != b'?' {
                reply.extend_from_slice(b"who?");
                return Err(Broken);
            }
            reply.push(b'!');
            self.stage = Stage::Open;
        }
        plain.extend(numbered(&wire, &mut self.decoded, u8::wrapping_sub));
        Ok(())
    }

    fn keep(&mut self, wire: &[u8]) -> bool {
        let fits = self.kept.len() + wire.len() < 1000;
        self.kept.extend_from_slice(if fits { wire } else { &[] });
        fits
    }

    fn encode(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), Broken> {
        wire.extend(numbered(plain, &mut self.encoded, u8::wrapping_add));
        Ok(())
    }

    fn end(&mut self, wire: &mut Vec<u8>) {
        wire.push(b'.');
    }

    fn stage(&self) -> Stage {
        self.stage
    }

    fn names(&self) -> Vec<Box<str>> {
        Vec::new()
    }

    fn memory_bytes(&self) -> usize {
        self.kept.capacity()
    }
}

fn start(kind: Kind) -> Server {
    let listener = bind(&["127.0.0.1"], 0, 1024).unwrap().remove(0);
    let make = |_: &_| {
        let transport = Numbering { stage: Stage::Handshake, kept: Vec::new(), decoded: 0, encoded: 0 };
        Some(Box::new(transport) as Box<dyn Transport>)
    };
    Server::on(kind, 1, listener, Some(Arc::new(make)))
}

/// A peer that has been greeted.
struct Numbered {
    pipe: Pipe,
    sent: u8,
    received: u8,
}

impl Numbered {
    fn connect(server: &Server) -> Self {
        let mut pipe = Pipe::connect(&server.address).unwrap();
        pipe.write_all(b"?").unwrap();
        let mut greeting = [0];
        pipe.read_exact(&mut greeting).unwrap();
        assert_eq!(greeting, *b"!");
        Self { pipe, sent: 0, received: 0 }
    }

    fn send(&mut self, payloads: &[&[u8]]) {
        let mut bytes = Vec::new();
        payloads.iter().for_each(|payload| frame(&mut bytes, payload));
        self.pipe.write_all(&numbered(&bytes, &mut self.sent, u8::wrapping_add)).unwrap();
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut read = |len| {
            let mut bytes = vec![0; len];
            self.pipe.read_exact(&mut bytes).unwrap();
            numbered(&bytes, &mut self.received, u8::wrapping_sub)
        };
        let len = u32::from_le_bytes(read(4).try_into().unwrap());
        read(len as usize)
    }

    /// What comes before the end, as it is on the wire.
    fn rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.pipe.read_to_end(&mut rest).unwrap();
        rest
    }
}

#[test]
fn a_transport_sits_between_socket_and_service() {
    each(|kind| {
        let server = start(kind);
        let mut peer = Numbered::connect(&server);
        for payload in [&b"hidden"[..], b"", &[9; 100_000], &[8; 1]] {
            peer.send(&[payload]);
            assert_eq!(peer.receive(), payload);
        }
        peer.send(&[b"QUIT"]);
        assert_eq!(peer.receive(), b"BYE");
        assert_eq!(peer.rest(), b".", "the peer is told of the end");

        let mut rude: Client = server.connect();
        rude.stream.write_all(b"hello").unwrap();
        assert_eq!(rude.rest(), b"who?.");
        server.until("the service never saw it", |server| server.open.load(Ordering::SeqCst) == 0);
    });
}

#[test]
fn values_streams_and_messages_are_whole_and_in_order_whoever_waits() {
    each(|kind| {
        let server = start(kind);
        let mut peer = Numbered::connect(&server);
        peer.send(&[b"ID"]);
        let id = u64::from_le_bytes(peer.receive().try_into().unwrap());
        let stream = |count: u32| [&b"STREAM"[..], &count.to_le_bytes()].concat();
        let counts = [0, 1, 65_536, 40_000_000, 2, 300_000];
        for count in counts {
            peer.send(&[b"before", &stream(count), b"BIG", &[3; 20_000]]);
        }
        // Nothing is read yet, and what waits for the peer is as it would be without a transport.
        server.until("the first command", |server| server.executed.load(Ordering::SeqCst) > 1);
        for number in 0..100_u8 {
            server.handle.send(0, Ask::Push(id, [&b"pushed"[..], &[number]].concat()));
        }
        assert!(server.handle.sum(|counters| &counters.output_memory_bytes) < 512 * 1024);
        let (mut replies, mut pushed) = (Vec::new(), Vec::new());
        while replies.len() < 4 * counts.len() || pushed.len() < 100 {
            let reply = peer.receive();
            if reply.starts_with(b"pushed") {
                assert_eq!(reply[6..], [pushed.len() as u8]);
                pushed.push(reply);
            } else {
                replies.push(reply);
            }
        }
        for (replies, count) in replies.chunks(4).zip(counts) {
            let counting = replies[1].iter().enumerate().all(|(place, &byte)| byte == place as u8);
            assert!(replies[0] == b"before" && replies[1].len() == count as usize && counting, "{count}");
            assert!(replies[2] == [7; 300_000] && replies[3] == [3; 20_000], "{count}");
        }
    });
}

#[test]
fn handshakes_take_turns_and_those_that_stop_make_room() {
    each(|kind| {
        let server = start(kind);
        let mut silent = Pipe::connect(&server.address).unwrap();
        let mut peers: Vec<Pipe> = (0..40).map(|_| Pipe::connect(&server.address).unwrap()).collect();
        // What comes behind a handshake may be more than is kept while it waits for its turn.
        let mut pipeline = Vec::new();
        (0..100).for_each(|_| frame(&mut pipeline, &[5; 1000]));
        let pipeline = [&b"?"[..], &numbered(&pipeline, &mut 0, u8::wrapping_add)].concat();
        peers.iter_mut().for_each(|peer| peer.write_all(&pipeline).unwrap());
        for peer in &mut peers {
            let mut answer = vec![0; pipeline.len()];
            peer.read_exact(&mut answer).unwrap();
            assert!(answer[0] == b'!' && answer[1..] == pipeline[1..]);
        }
        drop(peers);
        // The silent one is closed for those behind it, whatever they do.
        for _ in 0..512 {
            drop(Pipe::connect(&server.address).unwrap());
        }
        let _ = silent.read_to_end(&mut Vec::new());
        assert_eq!(server.open.load(Ordering::SeqCst), 0);
        Numbered::connect(&server);
    });
}
