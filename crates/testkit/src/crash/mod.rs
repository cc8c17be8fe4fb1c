//! Kill -9 with a journal on the clients' side: what was acknowledged is there after the restart, and nothing is there in part.
//!
//! Each client writes to a database of its own, in pipelines of changing depth, single commands and transactions, and notes how
//! many commands it has sent and how many were acknowledged. The server is killed at a random moment and started again in its
//! directory. Then each database must be what redis-server has after the first *k* of its client's commands, for one *k* from
//! the acknowledged ones to the sent ones ([`Check`]). The next round goes on from there.

mod check;
mod commands;
mod journal;
mod state;

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::{Client, Program, Random, Server, mutants};

pub use check::Check;
pub use commands::{Command, Generator};
pub use journal::Journal;

/// How a proof runs.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'p> {
    /// Which server.
    pub program: &'p Program,
    /// The step that it leaves out, of [`Program::Mutants`].
    pub mutant: Option<&'p str>,
    /// Its flags; they make it durable.
    pub flags: &'p [&'p str],
    /// A command that a further client gives again and again, at random moments; none: there is no such client.
    pub beside: Option<&'p str>,
    /// Clients, each with a database of its own.
    pub clients: u16,
    /// Times that the server is killed.
    pub rounds: u32,
    /// Seed of commands and moments.
    pub seed: u64,
}

/// What a proof has seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Commands that were acknowledged.
    pub acknowledged: usize,
    /// Commands that were sent, not acknowledged, and are there.
    pub kept: usize,
    /// Commands that were sent, not acknowledged, and are not there.
    pub gone: usize,
}

/// Runs it.
///
/// # Errors
/// What is lost, or there in part, with the commands around the first difference.
///
/// # Panics
/// When the server does not start again.
pub fn prove(plan: Plan<'_>) -> Result<Seen, String> {
    let mut random = Random::new(plan.seed);
    let mut server = match plan.mutant {
        Some(mutant) => mutants::start(mutant, plan.flags),
        None => Server::start(plan.program, plan.flags),
    };
    let reference = Server::start(&Program::Redis, &[]);
    let mut generators: Vec<_> = (0..plan.clients).map(|db| Generator::new(plan.seed, db)).collect();
    let mut seen = Seen::default();
    let mut moments = Random::new(plan.seed ^ 0xBE51DE);
    for round in 0..plan.rounds {
        let address = server.address();
        let life = Duration::from_millis(random.between(5, 400).unsigned_abs());
        let journals: Vec<Journal> = thread::scope(|scope| {
            let clients: Vec<_> =
                generators.iter_mut().map(|generator| scope.spawn(move || journal::write(address, generator))).collect();
            let ends = Instant::now() + life;
            if let Some(command) = plan.beside {
                disturb(address, command, &mut moments, ends);
            }
            thread::sleep(ends.saturating_duration_since(Instant::now()));
            server.kill();
            clients.into_iter().map(|client| client.join().expect("a client ends with its connection")).collect()
        });
        server.start_again();
        for (db, journal) in (0..).zip(&journals) {
            let kept = Check { server: &server, reference: &reference, db }
                .run(journal)
                .map_err(|report| format!("round {round}, killed after {life:?}, database {db}: {report}\n{}", server.log()))?;
            seen.acknowledged += journal.acknowledged;
            seen.kept += kept - journal.acknowledged;
            seen.gone += journal.sent.len() - kept;
        }
    }
    Ok(seen)
}

/// Gives a command again and again until a time. Whatever the server answers.
fn disturb(address: SocketAddr, command: &str, moments: &mut Random, ends: Instant) {
    let Ok(mut client) = Client::connect(address) else { return };
    let words: Vec<&str> = command.split(' ').collect();
    while Instant::now() < ends {
        if client.call(&words).is_err() {
            return;
        }
        let rest = Duration::from_micros(moments.between(100, 20_000).unsigned_abs());
        thread::sleep(rest.min(ends.saturating_duration_since(Instant::now())));
    }
}
