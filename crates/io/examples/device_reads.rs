//! What reads of a device cost a worker: random reads of 4 KiB with `O_DIRECT`, a given number at once, and the processor time
//! of each.
//!
//! ```text
//! cargo run --release -p almandine-io --example device_reads -- FILE [io_uring|epoll] [DEPTH] [SECONDS] [CONNECTIONS]
//! ```
//!
//! The file is made (1 GiB) when it is missing. With CONNECTIONS, that many connections ask for reads, as pipelines do: each
//! asks for its share of DEPTH again when all of it has ended. Beside it: `fio --rw=randread --bs=4k --direct=1
//! --ioengine=io_uring --iodepth=DEPTH`.
#![allow(clippy::unwrap_used, reason = "an example stops at any error")]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use almandine_io::reactor::{Event, Kind, Reactor};
use almandine_io::storage::{BufferPool, ReadRequest, Source};
use almandine_io::wake::Wake;

const BLOCK: u64 = 4096;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| args.get(index).map_or(default, |text| text.parse().unwrap());
    let path = args.first().expect("a file");
    let kind = if args.get(1).is_some_and(|name| name == "epoll") { Kind::Epoll } else { Kind::Uring };
    let (depth, seconds) = (number(2, 50), number(3, 3));
    let connections = number(4, depth);
    let file = Arc::new(almandine_io::file::File::from(open(path)));
    let blocks = file.len().unwrap() / BLOCK;

    let mut reactor = Reactor::new(kind, &Arc::new(Wake::new().unwrap())).unwrap();
    let mut outbox = reactor.outbox();
    let mut pool = BufferPool::with_arenas();
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let share = depth / connections;
    let mut missing = vec![0; connections];
    let (mut reads, mut rounds) = (0_u64, 0_u64);
    let mut idle: Vec<usize> = (0..connections).collect();
    let (start, cpu) = (Instant::now(), cpu_time());
    while start.elapsed() < Duration::from_secs(seconds as u64) {
        for connection in idle.drain(..) {
            missing[connection] = share;
            for _ in 0..share {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let source = Source::File { file: Arc::clone(&file), offset: random % blocks * BLOCK };
                reactor.read(ReadRequest { token: connection as u64, source, buffer: pool.take(BLOCK as usize) });
            }
        }
        reactor.wait(Duration::from_secs(1), &mut outbox).unwrap();
        rounds += 1;
        while let Some(event) = reactor.next() {
            let Event::Read(done) = event else { panic!("{event:?}") };
            done.result.unwrap();
            pool.give(done.buffer);
            reads += 1;
            let connection = done.token as usize;
            missing[connection] -= 1;
            if missing[connection] == 0 {
                idle.push(connection);
            }
        }
    }
    let elapsed = start.elapsed().as_secs_f64();
    println!(
        "{} depth {depth} by {connections}: {:.0} reads/s, {:.2} us of processor per read, {:.1} reads per wait",
        kind.name(),
        reads as f64 / elapsed,
        (cpu_time() - cpu).as_secs_f64() * 1e6 / reads as f64,
        reads as f64 / rounds as f64,
    );
}

fn open(path: &str) -> File {
    let direct = || OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path);
    direct().unwrap_or_else(|_| {
        let mut file = File::create(path).unwrap();
        let chunk: Vec<u8> = (0..1_u32 << 20).map(|index| (index * 31) as u8).collect();
        (0..1024).for_each(|_| file.write_all(&chunk).unwrap());
        file.sync_all().unwrap();
        direct().unwrap()
    })
}

/// Processor time of the process, in the kernel too.
fn cpu_time() -> Duration {
    let usage = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(usage.tv_sec as u64, usage.tv_nsec as u32)
}
