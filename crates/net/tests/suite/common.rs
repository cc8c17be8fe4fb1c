//! An echo server in frames, and a client for it.
//!
//! A frame is its payload's length in four little-endian bytes and the payload. Most are echoed; a few payloads are commands.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use almandine_base::Output;
use almandine_base::output::{Broken, Stream};
use almandine_io::reactor::Kind;
use almandine_io::socket::{Address, Listener, bind};
use almandine_io::sync::Receiver;
use almandine_io::thread::JoinHandle;
use almandine_net::{
    ConnectionId, Control, Endpoint, Handle, Limits, Next, Options, OutputClass, Peer, Progress, Service, TransportFactory,
};
use bytes::Bytes;

use crate::rig::{Pipe, Stopwatch, sleep_ms, spawn};

/// What a test asks of a worker.
pub(crate) enum Ask {
    Push(ConnectionId, Vec<u8>),
    Kill(ConnectionId, bool),
    Resume(ConnectionId),
    /// Keeps the worker busy until the other end is dropped.
    Block(Receiver<()>),
}

pub(crate) struct Session {
    id: ConnectionId,
    class: OutputClass,
}

/// Makes `count` bytes, each its place; cannot make the one numbered [`UNREADABLE`].
struct Counting {
    next: u32,
    count: u32,
    streams: Arc<AtomicUsize>,
}

/// The byte that no stream can make.
pub(crate) const UNREADABLE: u32 = 50_000_000;

impl Stream for Counting {
    fn next(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<bool, Broken> {
        let end = self.count.min(self.next.saturating_add(limit.min(1 << 20) as u32));
        if (self.next..end).contains(&UNREADABLE) {
            return Err(Broken);
        }
        out.extend((self.next..end).map(|place| place as u8));
        self.next = end;
        Ok(end < self.count)
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.streams.fetch_sub(1, Ordering::SeqCst);
    }
}

/// One worker's echo service.
pub(crate) struct Echo {
    pub(crate) worker: usize,
    pub(crate) open: Arc<AtomicUsize>,
    pub(crate) executed: Arc<AtomicUsize>,
    pub(crate) value: Bytes,
    /// Streams that are not at their end.
    pub(crate) streams: Arc<AtomicUsize>,
}

impl Service for Echo {
    type Connection = Session;
    type Message = Ask;

    fn open(&mut self, id: ConnectionId, _peer: &Peer, _out: &mut Output) -> Option<Session> {
        self.open.fetch_add(1, Ordering::SeqCst);
        Some(Session { id, class: OutputClass::Normal })
    }

    fn receive(&mut self, session: &mut Session, input: &[u8], out: &mut Output) -> Progress {
        let mut progress = Progress { consumed: 0, needed: 0, next: Next::Continue, holds: false };
        // At most 100 frames a call, as a batch limit would do.
        for _ in 0..100 {
            let rest = &input[progress.consumed..];
            let Some(head) = rest.first_chunk::<4>() else { return progress };
            let total = 4 + u32::from_le_bytes(*head) as usize;
            if rest.len() < total {
                progress.needed = total;
                return progress;
            }
            progress.consumed += total;
            self.executed.fetch_add(1, Ordering::SeqCst);
            let payload = &rest[4..total];
            match payload {
                b"QUIT" => progress.next = Next::CloseAfterFlush,
                b"DROP" => progress.next = Next::Close,
                b"PAUSE" => progress.next = Next::Pause,
                b"SUBSCRIBE" => session.class = OutputClass::Subscriber,
                b"LOGOUT" => session.class = OutputClass::Unauthenticated,
                b"ID" => frame(&mut out.bytes, &session.id.to_le_bytes()),
                b"WORKER" => frame(&mut out.bytes, &[self.worker as u8]),
                b"BIG" => {
                    out.bytes.extend_from_slice(&(self.value.len() as u32).to_le_bytes());
                    out.attach(self.value.clone());
                }
                [b'S', b'T', b'R', b'E', b'A', b'M', count @ ..] => {
                    let count = u32::from_le_bytes(count.try_into().unwrap());
                    out.bytes.extend_from_slice(&count.to_le_bytes());
                    self.streams.fetch_add(1, Ordering::SeqCst);
                    out.end_with(Box::new(Counting { next: 0, count, streams: Arc::clone(&self.streams) }));
                    return progress;
                }
                _ => frame(&mut out.bytes, payload),
            }
            if payload == b"QUIT" {
                frame(&mut out.bytes, b"BYE");
            }
            if progress.next != Next::Continue || out.len() > 256 * 1024 {
                return progress;
            }
        }
        progress
    }

    fn close(&mut self, _session: Session) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    fn message(&mut self, ask: Ask, control: &mut dyn Control<Session>) {
        match ask {
            Ask::Push(id, payload) => {
                if let Some((_, out)) = control.connection(id) {
                    frame(&mut out.bytes, &payload);
                }
            }
            Ask::Kill(id, after_flush) => _ = control.kill(id, after_flush),
            Ask::Resume(id) => control.resume(id),
            Ask::Block(until) => _ = until.receive(),
        }
    }

    fn tick(&mut self, _now_ms: u64, _control: &mut dyn Control<Session>) {}

    fn idle(&mut self) {}

    fn output_class(&self, session: &Session) -> OutputClass {
        session.class
    }
}

pub(crate) fn frame(out: &mut Vec<u8>, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(payload);
}

/// A running server; dropping it stops the workers and checks that nothing is left over.
pub(crate) struct Server {
    pub(crate) handle: Handle<Ask>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) address: Address,
    pub(crate) open: Arc<AtomicUsize>,
    pub(crate) executed: Arc<AtomicUsize>,
    pub(crate) streams: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn tcp(kind: Kind, workers: usize) -> Self {
        Self::on(kind, workers, bind(&["127.0.0.1"], 0, 511).unwrap().remove(0), None)
    }

    pub(crate) fn on(kind: Kind, workers: usize, listener: Listener, transport: Option<TransportFactory>) -> Self {
        let address = listener.address().clone();
        let limits = Arc::new(Limits::default());
        let endpoints = vec![Arc::new(Endpoint { listener: Arc::new(listener), transport })];
        let options = Options { workers, active: workers, reactor: kind, endpoints, limits: Arc::clone(&limits) };
        let (handle, workers) = almandine_net::open(options).unwrap();
        let open = Arc::new(AtomicUsize::new(0));
        let executed = Arc::new(AtomicUsize::new(0));
        let streams = Arc::new(AtomicUsize::new(0));
        let threads = workers
            .into_iter()
            .map(|worker| {
                let (open, executed, streams) = (Arc::clone(&open), Arc::clone(&executed), Arc::clone(&streams));
                spawn("worker", move || {
                    let value = Bytes::from(vec![7; 300_000]);
                    let echo = Echo { worker: worker.index(), open, executed, value, streams };
                    worker.run(echo).map(drop).unwrap();
                })
            })
            .collect();
        Self { handle, limits, address, open, executed, streams, threads }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(&self.address)
    }

    /// Waits until `condition` holds.
    pub(crate) fn until(&self, what: &str, mut condition: impl FnMut(&Self) -> bool) {
        let start = Stopwatch::start();
        while !condition(self) {
            assert!(start.elapsed() < Duration::from_secs(20), "{what} did not happen");
            sleep_ms(2);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.handle.stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() && !std::thread::panicking() {
                panic!("a worker failed");
            }
        }
        if std::thread::panicking() {
            return;
        }
        assert_eq!(self.open.load(Ordering::SeqCst), 0, "every session is closed");
        assert_eq!(self.streams.load(Ordering::SeqCst), 0, "every stream has ended or was given up");
        assert_eq!(self.handle.sum(|counters| &counters.output_pending_bytes), 0);
        assert_eq!(self.handle.sum(|counters| &counters.output_memory_bytes), 0);
        assert_eq!(self.handle.sum(|counters| &counters.input_buffer_bytes), 0);
        assert_eq!((0..self.handle.workers()).map(|worker| self.handle.connections(worker)).sum::<usize>(), 0);
    }
}

pub(crate) struct Client {
    pub(crate) stream: Pipe,
}

impl Client {
    pub(crate) fn connect(address: &Address) -> Self {
        Self { stream: Pipe::connect(address).unwrap() }
    }

    pub(crate) fn send(&mut self, payload: &[u8]) {
        let mut bytes = Vec::new();
        frame(&mut bytes, payload);
        self.stream.write_all(&bytes).unwrap();
    }

    pub(crate) fn receive(&mut self) -> Vec<u8> {
        let mut head = [0; 4];
        self.stream.read_exact(&mut head).unwrap();
        let mut payload = vec![0; u32::from_le_bytes(head) as usize];
        self.stream.read_exact(&mut payload).unwrap();
        payload
    }

    pub(crate) fn call(&mut self, payload: &[u8]) -> Vec<u8> {
        self.send(payload);
        self.receive()
    }

    pub(crate) fn id(&mut self) -> ConnectionId {
        u64::from_le_bytes(self.call(b"ID").try_into().unwrap())
    }

    /// The rest of the stream.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).unwrap();
        rest
    }
}
