//! The network and its reactor: everything arrives in order however it is cut; ends, breaks and full windows are told as by
//! io_uring; what fails is tried again; and a seed repeats it all.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use crate::reactor::{Choice, End, Event, Interest, Kind, Outbox, Reactor, Ticket, Token, select};
use crate::sim::choice::Choices;
use crate::sim::turn::{self, Schedule};
use crate::sim::world::{self, World};
use crate::socket::{Address, ListenOptions, Listener, Stream};
use crate::wake::Wake;

const HOUR_NS: u64 = 3_600_000_000_000;
const PORT: u16 = 6379;

/// A worker without a service: what it does with data is up to the test.
struct Worker {
    reactor: Reactor,
    outbox: Outbox,
    wake: Arc<Wake>,
    listener: Arc<Listener>,
    connections: BTreeMap<u32, Connection>,
    places: u32,
    accepts_failed: usize,
}

struct Connection {
    token: Token,
    stream: Stream,
    ticket: Ticket,
    /// What was not taken.
    pending: Vec<u8>,
    awaits_writable: bool,
    ended: bool,
}

/// What a worker saw in a round, without the data.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Accepted(u32),
    AcceptFailed,
    Received(u32, Vec<u8>),
    Ended(u32, End),
    Writable(u32),
}

fn address() -> Address {
    Address::Ip(SocketAddr::from(([0, 0, 0, 0], PORT)))
}

impl Worker {
    fn new() -> Self {
        let Address::Ip(all) = address() else { panic!("TCP") };
        Self::on(Arc::new(Listener::tcp(all, ListenOptions::backlog(511), &[]).unwrap()))
    }

    fn on(listener: Arc<Listener>) -> Self {
        let wake = Arc::new(Wake::new().unwrap());
        let kind = select(Choice::Auto).unwrap().kind;
        assert_eq!(kind, Kind::Sim);
        let mut reactor = Reactor::new(kind, &wake).unwrap();
        let outbox = reactor.outbox();
        reactor.listen(7, &listener).unwrap();
        Self { reactor, outbox, wake, listener, connections: BTreeMap::new(), places: 0, accepts_failed: 0 }
    }

    /// One round, in which connections are made and output goes on.
    fn round(&mut self, timeout: Duration) -> Vec<Seen> {
        self.reactor.wait(timeout, &mut self.outbox).unwrap();
        while let Some(unsent) = self.outbox.take_unsent() {
            if let Some(connection) = self.connections.get_mut(&unsent.token.place) {
                assert!(connection.pending.is_empty(), "nothing may overtake it");
                connection.pending = unsent.rest;
                connection.ended |= unsent.broken;
            }
        }
        let mut all = Vec::new();
        let mut accepted = Vec::new();
        while let Some(event) = self.reactor.next() {
            all.push(match event {
                Event::Accepted { listener, descriptor } => {
                    assert_eq!(listener, 7);
                    accepted.push(descriptor);
                    Seen::Accepted(self.places + accepted.len() as u32 - 1)
                }
                Event::AcceptFailed { listener } => {
                    assert_eq!(listener, 7);
                    Seen::AcceptFailed
                }
                Event::Received { token, data } => Seen::Received(token.place, data.to_vec()),
                Event::Ended { token, end } => Seen::Ended(token.place, end),
                Event::Writable { token } => Seen::Writable(token.place),
                Event::Read(_) => panic!("nothing is read"),
            });
        }
        for descriptor in accepted {
            let (token, stream) = (Token { place: self.places, generation: 1 }, Stream::new(descriptor));
            self.reactor.add(token, &stream).unwrap();
            let connection =
                Connection { token, stream, ticket: Ticket::default(), pending: Vec::new(), awaits_writable: false, ended: false };
            self.connections.insert(self.places, connection);
            self.places += 1;
        }
        for seen in &all {
            match seen {
                Seen::Writable(place) => {
                    let connection = self.connections.get_mut(place).unwrap();
                    assert!(std::mem::take(&mut connection.awaits_writable), "it was asked for once");
                }
                Seen::AcceptFailed => {
                    self.accepts_failed += 1;
                    let listener = Arc::clone(&self.listener);
                    turn::sleep(100_000_000);
                    self.reactor.listen(7, &listener).unwrap();
                }
                _ => {}
            }
        }
        self.go_on();
        all
    }

    fn send(&mut self, place: u32, bytes: &[u8]) {
        let connection = self.connections.get_mut(&place).unwrap();
        if !connection.pending.is_empty() {
            return connection.pending.extend_from_slice(bytes);
        }
        if !self.outbox.accepts(&connection.ticket, bytes.len()) {
            let mut queued = Vec::new();
            self.outbox.withdraw(&mut connection.ticket, &mut queued);
            queued.extend_from_slice(bytes);
            connection.pending = queued;
            return;
        }
        match self.outbox.send(connection.token, &connection.stream, bytes, &mut connection.ticket) {
            Ok(sent) => connection.pending.extend_from_slice(&bytes[sent..]),
            Err(_) => connection.ended = true,
        }
    }

    /// Sends what is pending, once it is writable.
    fn go_on(&mut self) {
        for connection in self.connections.values_mut().filter(|connection| !connection.pending.is_empty()) {
            if connection.awaits_writable {
                continue;
            }
            match connection.stream.send(&connection.pending) {
                Ok(sent) => drop(connection.pending.drain(..sent)),
                Err(_) => connection.pending.clear(),
            }
            if !connection.pending.is_empty() {
                connection.awaits_writable = true;
                self.reactor.notify_writable(connection.token).unwrap();
            }
        }
    }

    fn close(&mut self, place: u32) {
        if let Some(mut connection) = self.connections.remove(&place) {
            self.outbox.withdraw(&mut connection.ticket, &mut Vec::new());
            self.reactor.remove(connection.token);
        }
    }

    /// Sends back what comes, until the world ends or it is told to stop.
    fn echo(mut self, stop: &AtomicBool) -> usize {
        while !stop.load(Ordering::Relaxed) {
            for seen in self.round(Duration::from_millis(100)) {
                match seen {
                    Seen::Received(place, bytes) => self.send(place, &bytes),
                    Seen::Ended(place, End::Broken) => self.close(place),
                    Seen::Ended(place, End::Finished) => self.connections.get_mut(&place).unwrap().ended = true,
                    _ => {}
                }
            }
            self.go_on();
            let done = |connection: &Connection| connection.ended && connection.pending.is_empty();
            let ended: Vec<u32> = self.connections.iter().filter(|(_, one)| done(one)).map(|(place, _)| *place).collect();
            // What the round has gathered goes first.
            if !ended.is_empty() {
                self.reactor.wait(Duration::ZERO, &mut self.outbox).unwrap();
                let mut is_whole = true;
                while let Some(unsent) = self.outbox.take_unsent() {
                    is_whole = false;
                    self.connections.get_mut(&unsent.token.place).unwrap().pending = unsent.rest;
                }
                if is_whole {
                    ended.into_iter().for_each(|place| self.close(place));
                }
            }
        }
        self.accepts_failed
    }
}

/// Runs a world with an echo server on node 0; what the body returns, the trace's hash, and the network's faults.
fn with_echo<T>(
    seed: u64,
    options: NetOptions,
    body: impl FnOnce(&Arc<World>, NodeId) -> T,
) -> (T, (u64, u64), BTreeMap<&'static str, u64>) {
    World::enter(Choices::from_seed(seed), Schedule::default(), |world| {
        world.net().set_options(options);
        let node = world.node();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let _ = world.spawn(node, "worker", move || Worker::new().echo(&told));
        // It listens.
        world.run(1_000_000).unwrap();
        let value = body(world, node);
        world.run(HOUR_NS / 10).unwrap_or_else(|failure| panic!("seed {seed}: {failure}\n{}", world.turn().trace_words()));
        stop.store(true, Ordering::Relaxed);
        world.run(HOUR_NS).unwrap();
        (value, world.turn().trace_hash(), world.net().faults())
    })
}

/// Sends numbered bytes in pieces, and checks that they come back.
struct Numbers {
    sent: usize,
    received: usize,
    total: usize,
    piece: usize,
    finished: Arc<AtomicU64>,
}

fn numbered(from: usize, to: usize) -> Vec<u8> {
    (from..to).map(|place| (place % 251) as u8).collect()
}

impl Numbers {
    fn send(&mut self, client: &Client) {
        let to = (self.sent + self.piece).min(self.total);
        client.send(&numbered(self.sent, to));
        self.sent = to;
        if to == self.total {
            client.finish();
        }
    }
}

impl Behaviour for Numbers {
    fn connected(&mut self, client: &Client) {
        self.send(client);
    }

    fn received(&mut self, client: &Client, bytes: &[u8]) {
        assert_eq!(bytes, numbered(self.received, self.received + bytes.len()));
        self.received += bytes.len();
        if self.received == self.sent && self.sent < self.total {
            self.send(client);
        }
    }

    fn closed(&mut self, client: &Client, how: Closed) {
        assert_eq!((how, self.received), (Closed::Finished, self.total), "client {}", client.number());
        self.finished.fetch_add(1, Ordering::Relaxed);
        client.close();
    }
}

fn numbers(world: &World, node: NodeId, total: usize, piece: usize, finished: &Arc<AtomicU64>) -> Client {
    let behaviour = Numbers { sent: 0, received: 0, total, piece, finished: Arc::clone(finished) };
    Client::connect(world.net(), node, &address_at(node), behaviour)
}

fn address_at(node: NodeId) -> Address {
    Address::Ip(SocketAddr::new(address_of(node), PORT))
}

#[test]
fn everything_arrives_in_order_however_it_is_cut() {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..20 {
        let options = if seed == 0 { NetOptions::default() } else { NetOptions::rough() };
        let (finished, _, faults) = with_echo(seed, options, |world, node| {
            let finished = Arc::new(AtomicU64::new(0));
            for (total, piece) in [(1, 1), (1000, 10), (5_000, 4_999), (400_000, 100_000), (1_000_000, 1_000_000)] {
                (0..3).for_each(|_| drop(numbers(world, node, total, piece, &finished)));
            }
            finished
        });
        assert_eq!(finished.load(Ordering::Relaxed), 15, "seed {seed}: {faults:?}");
        assert_eq!(faults.is_empty(), seed == 0);
        faults.into_iter().for_each(|(name, count)| *all.entry(name).or_default() += count);
    }
    for name in ["send is cut", "send is short", "receive is short", "buffers run out", "parcel is delayed", "accept fails"] {
        assert!(all[name] > 0, "{name}: {all:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let run = |seed| {
        let (_, hash, _) = with_echo(seed, NetOptions::rough(), |world, node| {
            let finished = Arc::new(AtomicU64::new(0));
            (0..10).for_each(|client| drop(numbers(world, node, 1000 * client + 1, 700, &finished)));
        });
        hash
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn who_cannot_be_accepted_is_accepted_later() {
    let options = NetOptions { accept_failures_per_million: 500_000, ..NetOptions::default() };
    let (finished, _, faults) = with_echo(5, options, |world, node| {
        let finished = Arc::new(AtomicU64::new(0));
        (0..50).for_each(|_| drop(numbers(world, node, 100, 100, &finished)));
        finished
    });
    assert_eq!(finished.load(Ordering::Relaxed), 50);
    assert!(faults["accept fails"] > 5, "{faults:?}");
}

#[test]
fn ten_thousand_clients_are_cheap() {
    let begin = std::time::Instant::now();
    let (finished, _, _) = with_echo(1, NetOptions::default(), |world, node| {
        let finished = Arc::new(AtomicU64::new(0));
        (0..10_000).for_each(|_| drop(numbers(world, node, 30, 10, &finished)));
        finished
    });
    println!("{:?}", begin.elapsed());
    assert_eq!(finished.load(Ordering::Relaxed), 10_000);
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

/// Runs a server and clients as simulated threads of two nodes; they share nothing but the network.
fn two_nodes(
    seed: u64,
    options: NetOptions,
    server: impl FnOnce(Worker) + Send + 'static,
    client: impl FnOnce(NodeId) + Send + 'static,
) {
    World::enter(Choices::from_seed(seed), Schedule::default(), |world| {
        world.net().set_options(options);
        let (node, other) = (world.node(), world.node());
        let _ = world.spawn(node, "worker", move || server(Worker::new()));
        world.run(1_000_000).unwrap();
        let _ = world.spawn(other, "client", move || client(node));
        world.run(HOUR_NS).unwrap_or_else(|failure| panic!("seed {seed}: {failure}\n{}", world.turn().trace_words()));
        assert_eq!(world.net().connections(), 0, "nothing is left over");
    });
}

fn connect(node: NodeId) -> BlockingClient {
    let client = world::connect(node, &address_at(node), Duration::from_secs(10)).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10)));
    client
}

#[test]
fn a_finished_peer_may_read_on() {
    let server = |mut worker: Worker| {
        let mut received = Vec::new();
        loop {
            for seen in worker.round(Duration::from_secs(10)) {
                match seen {
                    Seen::Received(_, bytes) => received.extend(bytes),
                    Seen::Ended(place, end) => {
                        assert_eq!((end, &received[..]), (End::Finished, &b"question"[..]));
                        worker.send(place, b"answer");
                        worker.reactor.wait(Duration::ZERO, &mut worker.outbox).unwrap();
                        return worker.close(place);
                    }
                    _ => {}
                }
            }
        }
    };
    two_nodes(1, NetOptions::rough(), server, |node| {
        let mut client = connect(node);
        client.write_all(b"question").unwrap();
        client.finish();
        assert_eq!(client.write(b"more").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "answer");
    });
}

#[test]
fn a_reset_is_told_behind_the_data_and_breaks_sends() {
    let server = |mut worker: Worker| {
        let mut received = Vec::new();
        loop {
            for seen in worker.round(Duration::from_secs(10)) {
                match seen {
                    Seen::Received(_, bytes) => received.extend(bytes),
                    Seen::Ended(place, end) => {
                        assert_eq!((end, &received[..]), (End::Broken, &b"last words"[..]));
                        assert!(worker.connections[&place].stream.send(b"x").is_err());
                        worker.send(place, b"gathered");
                        worker.reactor.wait(Duration::ZERO, &mut worker.outbox).unwrap();
                        assert!(worker.outbox.take_unsent().unwrap().broken);
                        return worker.close(place);
                    }
                    _ => {}
                }
            }
        }
    };
    two_nodes(1, NetOptions::default(), server, |node| {
        let mut client = connect(node);
        client.write_all(b"last words").unwrap();
        turn::sleep(1_000_000_000);
        client.reset_when_closed();
    });
}

#[test]
fn closing_on_top_of_input_is_a_reset() {
    let server = |mut worker: Worker| {
        while worker.connections.is_empty() {
            worker.round(Duration::from_secs(10));
        }
        worker.reactor.watch(Token { place: 0, generation: 1 }, Interest::Nothing).unwrap();
        for _ in 0..20 {
            let seen = worker.round(Duration::from_millis(100));
            assert_eq!(seen, []);
        }
        worker.close(0);
        worker.round(Duration::ZERO);
    };
    two_nodes(1, NetOptions::default(), server, |node| {
        let mut client = connect(node);
        turn::sleep(1_000_000_000);
        client.write_all(b"unread").unwrap();
        assert_eq!(client.read(&mut [0; 10]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert!(client.write(b"x").is_err());
    });
}

#[test]
fn a_full_window_takes_no_more_and_says_once_when_it_does() {
    const WINDOW: usize = 10_000;
    let server = |mut worker: Worker| {
        while worker.connections.is_empty() {
            worker.round(Duration::from_secs(10));
        }
        // What is gathered comes back, too.
        worker.send(0, &numbered(0, 15_000));
        worker.reactor.wait(Duration::ZERO, &mut worker.outbox).unwrap();
        let unsent = worker.outbox.take_unsent().unwrap();
        assert_eq!((unsent.rest.len(), unsent.broken), (5_000, false));
        assert_eq!(unsent.rest, numbered(10_000, 15_000));
        let (token, stream) = (worker.connections[&0].token, worker.connections[&0].stream.clone());
        assert_eq!(stream.send(&unsent.rest).unwrap(), 0);
        worker.reactor.notify_writable(token).unwrap();
        worker.reactor.notify_writable(token).unwrap();
        worker.connections.get_mut(&0).unwrap().awaits_writable = true;
        let begin_ns = turn::simulation().unwrap().now_ns();
        let mut writable = 0;
        while writable == 0 {
            writable += worker.round(Duration::from_secs(1)).len();
        }
        let waited_ns = turn::simulation().unwrap().now_ns() - begin_ns;
        assert!((2_900_000_000..3_200_000_000).contains(&waited_ns), "{waited_ns}");
        assert_eq!(worker.round(Duration::from_secs(1)), [], "it is told once");
        assert_eq!(stream.send(&unsent.rest).unwrap(), 5_000);
        worker.close(0);
        worker.round(Duration::ZERO);
    };
    let options = NetOptions { window_bytes: WINDOW, ..NetOptions::default() };
    two_nodes(1, options, server, |node| {
        let mut client = connect(node);
        turn::sleep(3_000_000_000);
        let mut all = Vec::new();
        client.read_to_end(&mut all).unwrap();
        assert_eq!(all, numbered(0, 15_000));
    });
}

#[test]
fn data_comes_after_the_watch_has_changed() {
    let late = Arc::new(AtomicU64::new(0));
    for seed in 0..20 {
        let seen_late = Arc::clone(&late);
        let server = move |mut worker: Worker| {
            let token = Token { place: 0, generation: 1 };
            let mut received = 0;
            while received < 1000 {
                for seen in worker.round(Duration::from_secs(10)) {
                    if let Seen::Received(_, bytes) = seen {
                        received += bytes.len();
                    }
                }
                if received > 0 {
                    worker.reactor.watch(token, Interest::Nothing).unwrap();
                    turn::sleep(1_000_000);
                    let before = received;
                    for _ in 0..3 {
                        for seen in worker.round(Duration::from_millis(1)) {
                            let Seen::Received(_, bytes) = seen else { panic!("{seen:?}") };
                            received += bytes.len();
                        }
                    }
                    seen_late.fetch_add(u64::from(received > before), Ordering::Relaxed);
                    assert_eq!(worker.round(Duration::from_secs(1)), [], "what is late is not much later");
                    worker.reactor.watch(token, Interest::Data).unwrap();
                }
            }
            worker.close(0);
        };
        let options = NetOptions { late_data_per_million: 500_000, ..NetOptions::default() };
        two_nodes(seed, options, server, |node| {
            let mut client = connect(node);
            for _ in 0..100 {
                client.write_all(&[1; 10]).unwrap();
                turn::sleep(200_000);
            }
            let _ = client.read(&mut [0]);
        });
    }
    assert!(late.load(Ordering::Relaxed) > 10, "{late:?}");
}

#[test]
fn a_hang_up_is_told_to_who_wants_no_data() {
    let server = |mut worker: Worker| {
        let token = Token { place: 0, generation: 1 };
        while worker.connections.is_empty() {
            worker.round(Duration::from_secs(10));
        }
        worker.reactor.watch(token, Interest::HangUp).unwrap();
        let mut all = Vec::new();
        while all.is_empty() {
            all = worker.round(Duration::from_secs(10));
        }
        assert_eq!(all, [Seen::Ended(0, End::Finished)]);
        worker.reactor.watch(token, Interest::Data).unwrap();
        let rest: Vec<Seen> = (0..3).flat_map(|_| worker.round(Duration::from_millis(10))).collect();
        assert_eq!(rest, [Seen::Received(0, b"unread".to_vec()), Seen::Ended(0, End::Finished)]);
        worker.close(0);
        worker.round(Duration::ZERO);
    };
    two_nodes(1, NetOptions::default(), server, |node| {
        let mut client = connect(node);
        turn::sleep(1_000_000);
        client.write_all(b"unread").unwrap();
        turn::sleep(1_000_000);
        client.finish();
        let _ = client.read(&mut [0]);
    });
}

#[test]
fn a_wake_ends_a_wait_from_threads_and_events() {
    World::enter(Choices::from_seed(1), Schedule::default(), |world| {
        let node = world.node();
        let slot: Arc<Mutex<Option<Arc<Wake>>>> = Arc::default();
        let (out, waits) = (Arc::clone(&slot), Arc::new(Mutex::new(Vec::new())));
        let waited = Arc::clone(&waits);
        let _ = world.spawn(node, "worker", move || {
            let mut worker = Worker::new();
            *out.lock().unwrap() = Some(Arc::clone(&worker.wake));
            for _ in 0..3 {
                worker.round(Duration::from_secs(100));
                waited.lock().unwrap().push(turn::simulation().unwrap().now_ns() / 1_000_000_000);
            }
        });
        let wake = |slot: &Mutex<Option<Arc<Wake>>>| slot.lock().unwrap().clone().unwrap().wake();
        let by_event = Arc::clone(&slot);
        world.turn().at(5_000_000_000, move || wake(&by_event));
        let _ = world.spawn(node, "wakes", move || {
            turn::sleep(9_000_000_000);
            // Twice is once.
            wake(&slot);
            wake(&slot);
        });
        world.run(HOUR_NS).unwrap();
        assert_eq!(*waits.lock().unwrap(), [5, 9, 109]);
    });
}

#[test]
fn connections_are_refused_wait_for_a_backlog_and_time_out() {
    World::enter(Choices::from_seed(1), Schedule::default(), |world| {
        let (node, other) = (world.node(), world.node());
        let _ = world.spawn(other, "clients", move || {
            let refused = world::connect(node, &address_at(node), Duration::from_secs(10)).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        });
        world.run(HOUR_NS).unwrap();
        let _ = world.spawn(node, "listener", move || {
            let Address::Ip(all) = address() else { panic!("TCP") };
            let listener = Listener::tcp(all, ListenOptions::backlog(1), &[]).unwrap();
            assert!(Listener::tcp(all, ListenOptions::backlog(1), &[]).is_err(), "the address is taken");
            let own = SocketAddr::from(([127, 0, 0, 1], PORT));
            assert!(Listener::tcp(own, ListenOptions::backlog(1), &[]).is_err());
            assert!(Listener::tcp(own, ListenOptions::backlog(1), &[&listener]).is_ok(), "a port is lent");
            assert!(Listener::tcp(SocketAddr::from(([192, 0, 2, 1], 0)), ListenOptions::backlog(1), &[]).is_err());
            turn::sleep(4_000_000_000);
            assert!(listener.accept().unwrap().is_some());
            turn::sleep(1_000_000_000_000);
        });
        world.run(1_000_000).unwrap();
        let _ = world.spawn(other, "clients", move || {
            let now_s = || turn::simulation().unwrap().now_ns() / 1_000_000_000;
            let begin_s = now_s();
            let connect = |timeout| world::connect(node, &address_at(node), Duration::from_secs(timeout));
            let _waiting = [connect(1).unwrap(), connect(1).unwrap()];
            assert_eq!(connect(1).unwrap_err().kind(), io::ErrorKind::TimedOut, "the client waits no longer");
            let _third = connect(100).unwrap();
            assert_eq!(now_s() - begin_s, 4, "1 and 3 seconds after it began, and the second finds room");
            assert_eq!(connect(1000).unwrap_err().kind(), io::ErrorKind::TimedOut, "the system gives up");
        });
        world.run(HOUR_NS).unwrap();
    });
}

#[test]
fn a_crash_closes_connections_and_a_power_failure_is_noticed_by_who_sends() {
    for kind in [CrashKind::Process, CrashKind::Machine] {
        World::enter(Choices::from_seed(1), Schedule::default(), |world| {
            let (node, other) = (world.node(), world.node());
            let stop = Arc::new(AtomicBool::new(false));
            let _ = world.spawn(node, "worker", move || Worker::new().echo(&stop));
            world.run(1_000_000).unwrap();
            let done = Arc::new(AtomicU64::new(0));
            let finished = Arc::clone(&done);
            let _ = world.spawn(other, "client", move || {
                let mut client = connect(node);
                client.write_all(b"hello").unwrap();
                client.read_exact(&mut [0; 5]).unwrap();
                let end = client.read(&mut [0]).map_err(|error| error.kind());
                match kind {
                    CrashKind::Machine => {
                        assert_eq!(end, Err(io::ErrorKind::TimedOut), "nobody tells");
                        client.write_all(b"hello?").unwrap();
                        let end = client.read(&mut [0]).map_err(|error| error.kind());
                        assert_eq!(end, Err(io::ErrorKind::ConnectionReset));
                    }
                    _ => assert_eq!(end, Ok(0)),
                }
                finished.fetch_add(1, Ordering::Relaxed);
            });
            let weak = Arc::downgrade(world);
            world.turn().at(5_000_000_000, move || weak.upgrade().unwrap().crash(node, kind));
            world.run(HOUR_NS).unwrap();
            assert_eq!((done.load(Ordering::Relaxed), world.net().connections()), (1, 0), "{kind:?}");
            // The next process has the address.
            let finished = Arc::new(AtomicU64::new(0));
            let stop = Arc::new(AtomicBool::new(false));
            let told = Arc::clone(&stop);
            let _ = world.spawn(node, "worker", move || Worker::new().echo(&told));
            world.run(1_000_000).unwrap();
            drop(numbers(world, node, 100, 10, &finished));
            world.run(10_000_000_000).unwrap();
            assert_eq!(finished.load(Ordering::Relaxed), 1);
        });
    }
}

/// Two workers accept from one listener, and one of them comes and goes.
#[test]
fn nobody_is_left_waiting_at_a_listener_that_a_reactor_leaves() {
    for seed in 0..20 {
        World::enter(Choices::from_seed(seed), Schedule::default(), |world| {
            let node = world.node();
            let stop = Arc::new(AtomicBool::new(false));
            let told = Arc::clone(&stop);
            let slot: Arc<Mutex<Option<Arc<Listener>>>> = Arc::default();
            let shared = Arc::clone(&slot);
            let _ = world.spawn(node, "stays", move || {
                let worker = Worker::new();
                *shared.lock().unwrap() = Some(Arc::clone(&worker.listener));
                worker.echo(&told)
            });
            world.run(1_000_000).unwrap();
            let told = Arc::clone(&stop);
            let _ = world.spawn(node, "comes and goes", move || {
                let listener = slot.lock().unwrap().clone().unwrap();
                while !told.load(Ordering::Relaxed) {
                    let mut worker = Worker::on(Arc::clone(&listener));
                    let mut received = false;
                    worker.round(Duration::from_micros(50));
                    turn::sleep(20_000);
                    worker.reactor.stop_listening_on(7);
                    while !received {
                        let all = worker.round(Duration::from_millis(1));
                        received = all.is_empty() && worker.connections.is_empty();
                        for seen in all {
                            match seen {
                                // At once: the end of the stream may be of the same round.
                                Seen::Received(place, bytes) => drop(worker.connections[&place].stream.send(&bytes)),
                                Seen::Ended(place, _) => worker.close(place),
                                _ => {}
                            }
                        }
                    }
                }
            });
            let finished = Arc::new(AtomicU64::new(0));
            for client in 0..50 {
                let (weak, finished) = (Arc::downgrade(world), Arc::clone(&finished));
                let at_ns = world.turn().now_ns() + client * 30_000;
                world.turn().at(at_ns, move || drop(numbers(&weak.upgrade().unwrap(), node, 10, 10, &finished)));
            }
            world.run(20_000_000_000).unwrap();
            assert_eq!(finished.load(Ordering::Relaxed), 50, "seed {seed}");
            stop.store(true, Ordering::Relaxed);
            world.run(20_000_000_000).unwrap();
        });
    }
}
