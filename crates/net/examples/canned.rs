//! What the network itself costs: a server that answers each request of a fixed length with a canned reply, and its load.
//!
//! ```text
//! cargo run --profile fast -p almandine-net --example canned -- <io_uring|epoll> [connections request reply depth seconds workers]
//! ```
//!
//! The server is a child process on core 0 (with two workers on both), the load runs on core 1. Prints requests per second and
//! the server's processor time per request.
#![allow(clippy::unwrap_used, reason = "an example stops at any error")]

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use almandine_base::Output;
use almandine_io::reactor::{self, Choice, Event, Kind, Reactor, Ticket, Token};
use almandine_io::socket::{Address, Stream, bind};
use almandine_io::wake::Wake;
use almandine_net::{ConnectionId, Control, Endpoint, Limits, Next, Options, Peer, Progress, Service};

struct Canned {
    request: usize,
    reply: Vec<u8>,
}

impl Service for Canned {
    type Connection = ();
    type Message = ();

    fn open(&mut self, _: ConnectionId, _: &Peer, _: &mut Output) -> Option<()> {
        Some(())
    }

    fn receive(&mut self, (): &mut (), input: &[u8], out: &mut Output) -> Progress {
        let requests = input.len() / self.request;
        for _ in 0..requests {
            out.bytes.extend_from_slice(&self.reply);
        }
        Progress { consumed: requests * self.request, needed: self.request, next: Next::Continue, holds: false }
    }

    fn close(&mut self, (): ()) {}
    fn message(&mut self, (): (), _: &mut dyn Control<()>) {}
    fn tick(&mut self, _: u64, _: &mut dyn Control<()>) {}
    fn idle(&mut self) {}
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| args.get(index).map_or(default, |text| text.parse().unwrap());
    let [connections, request, reply] = [number(1, 50), number(2, 32), number(3, 11)];
    let [depth, seconds, workers] = [number(4, 1), number(5, 3), number(6, 1)];
    let choice: Choice = args.first().map_or("auto", String::as_str).parse().unwrap();
    if args.last().is_some_and(|last| last == "serve") {
        return serve(choice, request, reply, workers);
    }
    let mut arguments: Vec<String> = [connections, request, reply, depth, seconds, workers].map(|n| n.to_string()).to_vec();
    arguments.insert(0, args.first().cloned().unwrap_or_else(|| "auto".to_owned()));
    arguments.push("serve".to_owned());
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(arguments)
        .stdout(Stdio::piped())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.as_mut().unwrap()), &mut line).unwrap();
    almandine_io::thread::pin_to(1).unwrap();
    load(&server, line.trim().parse().unwrap(), connections, request, reply * depth, depth, seconds);
    let _ = server.kill();
    let _ = server.wait();
}

/// The server process.
fn serve(choice: Choice, request: usize, reply: usize, workers: usize) {
    let listener = bind(&["127.0.0.1"], 0, 511).unwrap().remove(0);
    let Address::Ip(address) = listener.address().clone() else { return };
    let selected = reactor::select(choice).unwrap();
    eprint!("{} ", selected.kind.name());
    let endpoints = vec![Arc::new(Endpoint { listener: Arc::new(listener), transport: None })];
    let limits = Limits::default();
    limits.connections_max.store(100_000, std::sync::atomic::Ordering::Relaxed);
    let options = Options { workers, active: workers, reactor: selected.kind, endpoints, limits: Arc::new(limits) };
    let (_handle, workers) = almandine_net::open(options).unwrap();
    let threads: Vec<_> = workers
        .into_iter()
        .map(|worker| {
            std::thread::spawn(move || {
                almandine_io::thread::pin_to(worker.index()).unwrap();
                worker.run(Canned { request, reply: vec![b'+'; reply] }).map(drop).unwrap();
            })
        })
        .collect();
    println!("{address}");
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Keeps `depth` requests in flight on every connection: when all replies are there, the next batch goes out.
fn load(
    server: &Child,
    address: std::net::SocketAddr,
    connections: usize,
    request: usize,
    batch_bytes: usize,
    depth: usize,
    seconds: usize,
) {
    let mut reactor = Reactor::new(Kind::Epoll, &Arc::new(Wake::new().unwrap())).unwrap();
    let mut outbox = reactor.outbox();
    let pipeline = vec![b'x'; request * depth];
    let send = |stream: &Stream| assert_eq!(stream.send(&pipeline).unwrap(), pipeline.len());
    let mut streams = Vec::new();
    for place in 0..connections as u32 {
        let stream = Stream::new(std::net::TcpStream::connect(address).unwrap().into());
        stream.set_no_delay();
        reactor.add(Token { place, generation: 1 }, &stream).unwrap();
        streams.push((stream, 0));
    }
    eprint!("{} KiB resident; ", resident_kib(server));
    outbox.send(Token { place: 0, generation: 1 }, &streams[0].0, &[], &mut Ticket::default()).unwrap();
    streams.iter().for_each(|(stream, _)| send(stream));
    let mut measured = (Instant::now(), cpu_ticks(server), 0_u64);
    let mut batches = 0;
    let mut warm = false;
    loop {
        reactor.wait(Duration::from_secs(1), &mut outbox).unwrap();
        while let Some(event) = reactor.next() {
            let Event::Received { token, data } = event else { panic!("{event:?}") };
            let (stream, received) = &mut streams[token.place as usize];
            *received += data.len();
            if *received >= batch_bytes {
                *received -= batch_bytes;
                batches += 1;
                send(stream);
            }
        }
        let elapsed = measured.0.elapsed();
        if !warm && elapsed > Duration::from_millis(300) {
            warm = true;
            measured = (Instant::now(), cpu_ticks(server), batches);
        } else if warm && elapsed >= Duration::from_secs(seconds as u64) {
            let requests = (batches - measured.2) * depth as u64;
            let cpu_us = (cpu_ticks(server) - measured.1) as f64 * 10_000.0;
            println!(
                "{:.0} thousand/s, {:.3} µs of server CPU per request, {} KiB resident",
                requests as f64 / elapsed.as_secs_f64() / 1000.0,
                cpu_us / requests as f64,
                resident_kib(server)
            );
            return;
        }
    }
}

/// User and system time of the server in ticks of 10 ms.
fn cpu_ticks(server: &Child) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn resident_kib(server: &Child) -> String {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim().trim_end_matches(" kB").to_owned()
}
