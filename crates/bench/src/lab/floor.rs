//! `floor`: this client against a server that does nothing.
//!
//! The server is one thread that answers every received chunk with the right number of canned replies. Its cost per command is
//! the kernel's, the floor of any server with this I/O pattern on this machine; the client's cost must stay clearly below any real
//! server's, or comparisons measure the client.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use rustix::event::epoll;
use rustix::net::{RecvFlags, SendFlags};
use rustix::time::{ClockId, clock_gettime};

use crate::cli::options::{OutputOptions, seconds};
use crate::control::{Address, Target};
use crate::load::{Load, run};
use crate::report::sample::{Sample, write_all};
use crate::report::table::{Table, count, small};
use crate::system::affinity::{self, parse_cores};
use crate::system::machine::Machine;
use crate::workload::{Operation, Shape, Workload};

/// Options of `floor`.
#[derive(Debug, Args)]
pub struct Floor {
    /// Batch sizes.
    #[arg(short = 'P', long, value_delimiter = ',', default_value = "1,16,256")]
    pipeline: Vec<usize>,
    /// Connections.
    #[arg(short = 'c', long, default_value_t = 50)]
    connections: usize,
    /// Seconds per batch size.
    #[arg(short = 's', long, default_value_t = 2.0)]
    time: f64,
    /// Core of the canned server.
    #[arg(long, default_value = "0")]
    server_cores: String,
    /// Core of the client.
    #[arg(long, default_value = "1")]
    load_cores: String,
    #[command(flatten)]
    output: OutputOptions,
}

const REQUEST_BYTES: usize = b"*1\r\n$4\r\nPING\r\n".len();
const REPLY: &[u8] = b"+PONG\r\n";

impl Floor {
    /// Measures client and floor.
    pub fn run(self) -> Result<ExitCode, String> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|e| format!("no free port: {e}"))?;
        let port = listener.local_addr().map_err(|e| e.to_string())?.port();
        let (stop, cpu_ns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let server = {
            let (stop, cpu_ns, cores) = (stop.clone(), cpu_ns.clone(), parse_cores(&self.server_cores)?);
            thread::spawn(move || serve(&listener, &cores, &stop, &cpu_ns))
        };
        let target = Target::new(Address::Tcp("127.0.0.1".into(), port));
        let workload = Arc::new(Workload::new(Operation::mix("ping")?, Shape::default())?);
        let machine = Machine::inspect();
        println!("{}\nPING against canned replies, {} connections", machine.line(), self.connections);
        let mut table = Table::new(&["P", "ops/s", "canned server µs/op", "client µs/op", "client alone could do, ops/s per core"]);
        let mut samples = Vec::new();
        for &pipeline in &self.pipeline {
            let load = Load {
                connections: self.connections,
                pipeline,
                time: seconds("time", self.time)?,
                cores: parse_cores(&self.load_cores)?,
                ..Load::new(target.clone(), workload.clone())
            };
            let before = cpu_ns.load(Ordering::Relaxed);
            let mut measurement = run(&load, &mut |_| {})?;
            // The canned server's clock covers warm-up too, so its share is scaled by replies.
            let cpu = (cpu_ns.load(Ordering::Relaxed) - before) as f64 / 1e9;
            measurement.server_cpu = Some(cpu * measurement.operations as f64 / measurement.tally.replies.max(1) as f64);
            table.row([
                pipeline.to_string(),
                count(measurement.throughput()),
                small(measurement.server_cpu_us().unwrap_or(0.0)),
                small(measurement.client_cpu_us()),
                count(1e6 / measurement.client_cpu_us()),
            ]);
            samples.push(Sample::new("canned", &load, measurement));
        }
        stop.store(true, Ordering::Relaxed);
        server.join().map_err(|_| "the canned server panicked".to_owned())??;
        println!("\n{table}");
        write_all(&self.output, "floor", &machine, &samples)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Answers until `stop`. `cpu_ns` is this thread's CPU time.
fn serve(listener: &TcpListener, cores: &[usize], stop: &AtomicBool, cpu_ns: &AtomicU64) -> Result<(), String> {
    if !cores.is_empty() {
        affinity::pin_this_thread(cores)?;
    }
    let say = |e: rustix::io::Errno| format!("the canned server failed: {e}");
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(say)?;
    epoll::add(&poll, listener, epoll::EventData::new_u64(u64::MAX), epoll::EventFlags::IN).map_err(say)?;
    listener.set_nonblocking(true).map_err(|e| e.to_string())?;
    let canned = REPLY.repeat((1 << 16) / REQUEST_BYTES + 1);
    let mut buffer = vec![0; 1 << 16];
    // Per connection: the socket and the bytes of an incomplete request.
    let mut connections: Vec<Option<(OwnedFd, usize)>> = Vec::new();
    let mut events = Vec::with_capacity(512);
    while !stop.load(Ordering::Relaxed) {
        events.clear();
        let timeout = rustix::time::Timespec { tv_sec: 0, tv_nsec: Duration::from_millis(20).as_nanos() as i64 };
        match epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(say(error)),
        }
        for event in events.drain(..) {
            if event.data.u64() == u64::MAX {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nodelay(true).map_err(|e| e.to_string())?;
                    let index = connections.len() as u64;
                    epoll::add(&poll, &stream, epoll::EventData::new_u64(index), epoll::EventFlags::IN).map_err(say)?;
                    connections.push(Some((stream.into(), 0)));
                }
                continue;
            }
            let slot = &mut connections[event.data.u64() as usize];
            let Some((socket, partial)) = slot else { continue };
            match rustix::net::recv(&*socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((_, received @ 1..)) => {
                    let bytes = *partial + received;
                    *partial = bytes % REQUEST_BYTES;
                    let replies = &canned[..bytes / REQUEST_BYTES * REPLY.len()];
                    rustix::net::send(&*socket, replies, SendFlags::NOSIGNAL).map_err(say)?;
                }
                Err(rustix::io::Errno::AGAIN) => {}
                _ => *slot = None,
            }
        }
        let time = clock_gettime(ClockId::ThreadCPUTime);
        cpu_ns.store(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64, Ordering::Relaxed);
    }
    Ok(())
}
