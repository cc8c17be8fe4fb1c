//! Reads of devices between a connection's commands: order is kept, other connections go on, and no event meanwhile mixes up
//! two connections.
//!
//! The service answers lines. `N` reads block N of a file and answers it, `gate N` reads a source that waits until the test
//! opens it, `fail` reads one that fails, anything else is echoed. All reads of a batch of lines are under way together. There
//! are two ways to wait: *again*, where the lines stay in the input and are answered when they are received again, and
//! *straight*, where they are consumed and answered from where the reads end.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use almandine_base::Output;
use almandine_io::file::File;
use almandine_io::files;
use almandine_io::reactor::Kind;
use almandine_io::socket::{Address, bind};
use almandine_io::storage::{BlockingSource, BufferPool, ReadDone, ReadRequest, Source};
use almandine_io::thread::JoinHandle;
use almandine_net::{ConnectionId, Control, Endpoint, Handle, Limits, Next, Options, Peer, Progress, Service};

use crate::rig::{KINDS, Pipe, Stopwatch, each, each_calmly, sleep_ms, spawn};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 1000;
/// Lines per batch.
const BATCH: usize = 128;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Again,
    Straight,
}

/// A source that answers once it is opened.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

impl BlockingSource for Gate {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let _open = self.opened.wait_while(self.open.lock().unwrap(), |open| !*open).unwrap();
        buffer.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&offset.to_le_bytes()));
        Ok(())
    }
}

struct Failing;

impl BlockingSource for Failing {
    fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
        Err(io::Error::other("it is broken"))
    }
}

struct Session {
    id: ConnectionId,
    /// The lines of the current batch, and the answers of those that have one.
    batch: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    missing: usize,
}

struct Lines {
    way: Way,
    file: Arc<File>,
    gate: Arc<Gate>,
    open: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
    pool: BufferPool,
    wanted: Vec<ReadRequest>,
    /// Waits for a token: connection and line.
    askers: HashMap<u64, (ConnectionId, usize)>,
    next_token: u64,
}

impl Lines {
    fn ask(&mut self, id: ConnectionId, line: usize, source: Source) {
        self.next_token += 1;
        self.askers.insert(self.next_token, (id, line));
        self.wanted.push(ReadRequest { token: self.next_token, source, buffer: self.pool.take(BLOCK as usize) });
    }

    fn source(&self, line: &[u8]) -> Option<Source> {
        let text = std::str::from_utf8(line).unwrap();
        if text == "fail" {
            Some(Source::Blocking { source: Arc::new(Failing), offset: 0 })
        } else if let Some(number) = text.strip_prefix("gate ") {
            Some(Source::Blocking { source: Arc::clone(&self.gate) as _, offset: number.parse().unwrap() })
        } else {
            let block: u64 = text.parse().ok()?;
            Some(Source::File { file: Arc::clone(&self.file), offset: block * BLOCK })
        }
    }
}

fn answer(out: &mut Output, batch: &mut Vec<(Vec<u8>, Option<Vec<u8>>)>) {
    for (line, answer) in batch.drain(..) {
        out.bytes.extend_from_slice(&answer.unwrap_or(line));
        out.bytes.push(b'\n');
    }
}

impl Lines {
    fn done(&mut self, done: ReadDone, control: &mut dyn Control<Session>) {
        self.ended.fetch_add(1, Ordering::SeqCst);
        let (id, line) = self.askers.remove(&done.token).unwrap();
        let text = match &done.result {
            Ok(()) => {
                let number = u64::from_le_bytes(done.buffer[..8].try_into().unwrap());
                assert!(done.buffer.chunks(8).all(|word| word == number.to_le_bytes()));
                format!("block {number}")
            }
            Err(error) => format!("error {error}"),
        };
        self.pool.give(done.buffer);
        let Some((session, out)) = control.connection(id) else { return };
        session.batch[line].1 = Some(text.into_bytes());
        session.missing -= 1;
        if session.missing == 0 {
            if self.way == Way::Straight {
                answer(out, &mut session.batch);
            }
            control.resume(id);
        }
    }
}

impl Service for Lines {
    type Connection = Session;
    type Message = ();

    fn open(&mut self, id: ConnectionId, _: &Peer, _: &mut Output) -> Option<Session> {
        self.open.fetch_add(1, Ordering::SeqCst);
        Some(Session { id, batch: Vec::new(), missing: 0 })
    }

    fn receive(&mut self, session: &mut Session, input: &[u8], out: &mut Output) -> Progress {
        assert_eq!(session.missing, 0, "called while it waits");
        let lines: Vec<&[u8]> =
            input.split_inclusive(|byte| *byte == b'\n').take(BATCH).filter(|line| line.ends_with(b"\n")).collect();
        let bytes = lines.iter().map(|line| line.len()).sum();
        if !session.batch.is_empty() {
            // The same bytes again, perhaps with more behind them.
            let count = session.batch.len();
            assert!(session.batch.iter().zip(&lines).all(|((known, _), line)| *known == line[..line.len() - 1]));
            answer(out, &mut session.batch);
            return Progress {
                consumed: lines[..count].iter().map(|line| line.len()).sum(),
                needed: 0,
                next: Next::Continue,
                holds: false,
            };
        }
        for (index, line) in lines.iter().enumerate() {
            let line = &line[..line.len() - 1];
            session.batch.push((line.to_vec(), None));
            if let Some(source) = self.source(line) {
                self.ask(session.id, index, source);
                session.missing += 1;
            }
        }
        if session.missing == 0 {
            answer(out, &mut session.batch);
            return Progress { consumed: bytes, needed: 0, next: Next::Continue, holds: false };
        }
        Progress { consumed: if self.way == Way::Straight { bytes } else { 0 }, needed: 0, next: Next::Await, holds: false }
    }

    fn take_reads(&mut self, requests: &mut Vec<ReadRequest>) {
        requests.append(&mut self.wanted);
    }

    fn reads_done(&mut self, done: &mut Vec<ReadDone>, control: &mut dyn Control<Session>) {
        done.drain(..).for_each(|done| self.done(done, control));
    }

    fn close(&mut self, _: Session) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    fn message(&mut self, (): (), _: &mut dyn Control<Session>) {}
    fn tick(&mut self, _: u64, _: &mut dyn Control<Session>) {}
    fn idle(&mut self) {}
}

/// One worker; dropping it stops it and checks that nothing is left over.
struct Server {
    handle: Handle<()>,
    address: Address,
    gate: Arc<Gate>,
    open: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn new(kind: Kind, way: Way) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("almandine-net-reads-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let bytes: Vec<u8> = (0..BLOCKS).flat_map(|block| block.to_le_bytes().repeat(BLOCK as usize / 8)).collect();
        files::make_directories(std::env::temp_dir()).unwrap();
        files::write(&path, &bytes[..bytes.len() - 10]).unwrap();
        let file = Arc::new(almandine_io::file::open(&path, false).unwrap());
        let listener = bind(&["127.0.0.1"], 0, 511).unwrap().remove(0);
        let address = listener.address().clone();
        let endpoints = vec![Arc::new(Endpoint { listener: Arc::new(listener), transport: None })];
        let options = Options { workers: 1, active: 1, reactor: kind, endpoints, limits: Arc::new(Limits::default()) };
        let (handle, mut workers) = almandine_net::open(options).unwrap();
        let (gate, open, ended) = (Arc::new(Gate::default()), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let worker = workers.remove(0);
        let service = (Arc::clone(&gate), Arc::clone(&open), Arc::clone(&ended));
        let thread = spawn("worker", move || {
            let (gate, open, ended) = service;
            let pool = BufferPool::with_arenas();
            let lines = Lines { way, file, gate, open, ended, pool, wanted: Vec::new(), askers: HashMap::new(), next_token: 0 };
            worker.run(lines).map(drop).unwrap();
        });
        Self { handle, address, gate, open, ended, path, thread: Some(thread) }
    }

    fn connect(&self) -> Client {
        let stream = Pipe::connect(&self.address).unwrap();
        Client { reader: BufReader::new(stream.try_clone().unwrap()), stream }
    }

    fn in_flight(&self) -> u64 {
        self.handle.counters(0).device_reads_in_flight.value()
    }

    fn until(&self, what: &str, mut condition: impl FnMut(&Self) -> bool) {
        let start = Stopwatch::start();
        while !condition(self) {
            assert!(start.elapsed() < Duration::from_secs(20), "{what} did not happen");
            sleep_ms(2);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = files::remove(&self.path);
        self.handle.stop();
        let failed = self.thread.take().is_some_and(|thread| thread.join().is_err());
        self.gate.open();
        if std::thread::panicking() {
            return;
        }
        assert!(!failed, "the worker failed");
        assert_eq!((self.open.load(Ordering::SeqCst), self.in_flight()), (0, 0));
        assert_eq!(self.handle.sum(|counters| &counters.input_buffer_bytes), 0);
    }
}

struct Client {
    stream: Pipe,
    reader: BufReader<Pipe>,
}

impl Client {
    fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn call(&mut self, line: &str) -> String {
        self.send(&format!("{line}\n"));
        self.line()
    }
}

/// On the reactors of this kernel alone: a source that waits for the test cannot be read in an event of the simulation.
fn servers() -> impl Iterator<Item = Server> {
    KINDS.into_iter().flat_map(of_both_ways)
}

fn of_both_ways(kind: Kind) -> impl Iterator<Item = Server> {
    [Way::Again, Way::Straight].into_iter().map(move |way| Server::new(kind, way))
}

#[test]
fn pipelines_of_reads_keep_their_order() {
    each(|kind| {
        for server in of_both_ways(kind) {
            let mut clients: Vec<Client> = (0..50).map(|_| server.connect()).collect();
            for round in 0..3 {
                let block = |client: usize, line: usize| (client * 31 + line * 7 + round) % (BLOCKS as usize - 1);
                for (number, client) in clients.iter_mut().enumerate() {
                    let lines: String = (0..300)
                        .map(|line| if line % 5 == 0 { format!("echo {line}\n") } else { format!("{}\n", block(number, line)) })
                        .collect();
                    // Cut somewhere, so that a line comes in two parts.
                    let cut = lines.len() * (number + 1) / 52;
                    client.send(&lines[..cut]);
                    client.send(&lines[cut..]);
                }
                for (number, client) in clients.iter_mut().enumerate() {
                    for line in 0..300 {
                        let expected =
                            if line % 5 == 0 { format!("echo {line}") } else { format!("block {}", block(number, line)) };
                        assert_eq!(client.line(), expected, "connection {number}, line {line}");
                    }
                }
            }
            let counters = server.handle.counters(0);
            assert_eq!((counters.device_reads.value(), counters.device_reads_failed.value()), (3 * 50 * 240, 0));
            assert_eq!(server.in_flight(), 0);
        }
    });
}

#[test]
fn others_go_on_while_a_source_is_slow() {
    for server in servers() {
        let mut slow: Vec<Client> = (0..100).map(|_| server.connect()).collect();
        slow.iter_mut().for_each(|client| client.send("before\ngate 1\n5\nafter\n"));
        server.until("all are read", |server| server.in_flight() == 100);
        let mut other = server.connect();
        for block in 0..100 {
            assert_eq!(other.call(&block.to_string()), format!("block {block}"));
            assert_eq!(other.call("hello"), "hello");
        }
        assert_eq!(server.in_flight(), 100);
        for client in &slow {
            let Pipe::Tcp(stream) = &client.stream else { panic!("not a TCP client") };
            let mut stream = stream;
            stream.set_nonblocking(true).unwrap();
            assert_eq!(stream.read(&mut [0; 1]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            stream.set_nonblocking(false).unwrap();
        }
        server.gate.open();
        for client in &mut slow {
            assert_eq!([client.line(), client.line(), client.line(), client.line()], ["before", "block 1", "block 5", "after"]);
        }
    }
}

#[test]
fn a_connection_may_close_while_it_reads() {
    for server in servers() {
        for round in 0..3 {
            let mut clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
            for (number, client) in clients.iter_mut().enumerate() {
                client.send("gate 1\ngate 2\n3\nignored\n");
                if number % 2 == 0 {
                    client.stream.reset_when_closed();
                }
            }
            server.until("all are read", |server| server.in_flight() == 40 || round > 0 && server.in_flight() == 0);
            drop(clients);
            if round == 0 {
                // Those that were reset are gone at once; their slots are taken by others.
                server.until("half are gone", |server| server.open.load(Ordering::SeqCst) == 10);
                let mut others: Vec<Client> = (0..20).map(|_| server.connect()).collect();
                others.iter_mut().for_each(|client| assert_eq!(client.call("7"), "block 7"));
                server.gate.open();
                server.until("all have ended", |server| server.in_flight() == 0);
                others.iter_mut().for_each(|client| assert_eq!(client.call("8"), "block 8"));
            }
            server.until("all are closed", |server| server.open.load(Ordering::SeqCst) == 0);
        }
        server.until("all have ended", |server| server.in_flight() == 0);
        assert_eq!(server.ended.load(Ordering::SeqCst) as u64, server.handle.counters(0).device_reads.value());
    }
}

#[test]
fn a_half_closed_peer_gets_its_blocks() {
    for server in servers() {
        let mut client = server.connect();
        let lines: String = (0..500).map(|line| format!("{line}\n")).collect();
        client.send(&lines);
        client.send("gate 9\nlast\n");
        client.stream.finish();
        for line in 0..384 {
            assert_eq!(client.line(), format!("block {line}"));
        }
        sleep_ms(50);
        assert_eq!(server.in_flight(), 1);
        server.gate.open();
        for line in 384..500 {
            assert_eq!(client.line(), format!("block {line}"));
        }
        assert_eq!([client.line(), client.line(), client.line()], ["block 9", "last", ""]);
        server.until("it is closed", |server| server.open.load(Ordering::SeqCst) == 0);
    }
}

#[test]
fn input_behind_a_read_is_bounded() {
    for server in servers() {
        let mut client = server.connect();
        let mut writer = client.stream.try_clone().unwrap();
        let filler = "x".repeat(99);
        let thread = spawn("writer", move || {
            writer.write_all(b"gate 1\n").unwrap();
            let line = format!("{filler}\n");
            (0..200_000).for_each(|_| writer.write_all(line.as_bytes()).unwrap());
        });
        let mut before = 0;
        server.until("it stops", |server| {
            sleep_ms(50);
            let now = server.handle.sum(|counters| &counters.bytes_in);
            now > 7 && std::mem::replace(&mut before, now) == now
        });
        let input = server.handle.sum(|counters| &counters.input_buffer_bytes);
        assert!(input > 0 && input < 8 << 20, "{input} bytes of input are kept");
        server.gate.open();
        assert_eq!(client.line(), "block 1");
        (0..200_000).for_each(|_| assert_eq!(client.line().len(), 99));
        thread.join().unwrap();
    }
}

#[test]
fn errors_come_in_order_and_are_counted() {
    each(|kind| {
        for server in of_both_ways(kind) {
            let mut client = server.connect();
            client.send(&format!("1\nfail\n2\n{}\n{}\nend\n", BLOCKS - 1, BLOCKS + 5));
            assert_eq!([client.line(), client.line(), client.line()], ["block 1", "error it is broken", "block 2"]);
            assert!(client.line().starts_with("error "));
            assert!(client.line().starts_with("error "));
            assert_eq!(client.line(), "end");
            let counters = server.handle.counters(0);
            assert_eq!((counters.device_reads.value(), counters.device_reads_failed.value()), (5, 3));
        }
    });
}

#[test]
fn five_thousand_reads_are_in_flight() {
    for server in servers() {
        let mut clients: Vec<Client> = (0..50).map(|_| server.connect()).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            let lines: String = (0..100).map(|line| format!("gate {}\n", number * 100 + line)).collect();
            client.send(&lines);
        }
        let mut other = server.connect();
        // A batch may come in two parts, of which the second waits for the first.
        server.until("all are read", |server| server.in_flight() > 4000);
        assert_eq!(other.call("17"), "block 17");
        server.gate.open();
        for (number, client) in clients.iter_mut().enumerate() {
            (0..100).for_each(|line| assert_eq!(client.line(), format!("block {}", number * 100 + line)));
        }
        assert_eq!(server.in_flight(), 0);
    }
}

#[test]
fn finished_reads_wake_a_sleeping_worker() {
    // Of files only: the gates of other tests hold the threads of other sources.
    each_calmly(|kind| {
        for server in of_both_ways(kind) {
            let mut client = server.connect();
            let mut late = 0;
            for number in 0..200 {
                almandine_io::thread::sleep(Duration::from_micros(200));
                let start = Stopwatch::start();
                for block in [number, number + 500] {
                    assert_eq!(client.call(&block.to_string()), format!("block {block}"));
                }
                late += usize::from(start.elapsed() > Duration::from_millis(50));
            }
            // A lost wake waits for the tick; a busy machine may do that to one or two.
            assert!(late < 3, "{late} reads waited");
        }
    });
}

#[test]
fn a_worker_stops_while_it_reads() {
    for server in servers() {
        let mut clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
        clients.iter_mut().for_each(|client| client.send("1\n2\n3\ngate 1\n4\n"));
        server.until("all are read", |server| server.in_flight() >= 20);
        drop(server);
        for client in &mut clients {
            // Input that the worker left in the kernel makes it a reset.
            let end = client.reader.read(&mut [0; 1]).map_err(|error| error.kind());
            assert!(matches!(end, Ok(0) | Err(io::ErrorKind::ConnectionReset)), "{end:?}");
        }
    }
}
