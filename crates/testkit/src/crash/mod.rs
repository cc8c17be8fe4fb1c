//! Kill -9 with a journal on the clients' side: what was acknowledged is there after the restart, and nothing is there in part.
//!
//! Each client writes to a database of its own, in pipelines of changing depth, single commands and transactions, and notes how
//! many commands it has sent and how many were acknowledged. The server is killed at a random moment and started again in its
//! directory. Then each database must be what redis-server has after the first *k* of its client's commands, for one *k* from
//! the acknowledged ones to the sent ones ([`Check`]). The next round goes on from there.
//!
//! On a [`Machine`] the power is cut instead. Then *k* begins where the mode of the log promises ([`Promise`]).

mod check;
mod commands;
mod filler;
mod journal;
mod machine;
mod pulse;
mod state;

use std::net::SocketAddr;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use crate::{Client, Program, Random, Server, mutants};

pub use check::Check;
pub use commands::{Command, Generator};
pub use filler::Filler;
pub use journal::Journal;
pub use machine::{FileSystem, Machine, reason_against};
use pulse::Pulse;

/// What of the acknowledged commands is there after the restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// All.
    All,
    /// All but those of the last second and of the syncs that it takes.
    AllButLastSecond,
    /// Those of the lives before.
    Prefix,
}

/// How a proof runs.
#[derive(Clone, Debug)]
pub struct Plan<'p> {
    /// Which server.
    pub program: &'p Program,
    /// The step that it leaves out, of [`Program::Mutants`].
    pub mutant: Option<&'p str>,
    /// Its flags; they make it durable.
    pub flags: &'p [&'p str],
    /// A command that a further client gives again and again, at random moments, or several with bars between them; none: there
    /// is no such client.
    pub beside: Option<&'p str>,
    /// Clients, each with a database of its own.
    pub clients: u16,
    /// Rest of a client after each pipeline.
    pub rest: Duration,
    /// How long the server lives, in milliseconds.
    pub life_ms: Range<i64>,
    /// The machine whose power is cut; none: the server is killed.
    pub machine: Option<&'p Machine>,
    /// How long the server goes on without its disk.
    pub after_cut: Duration,
    /// What is there afterwards.
    pub promise: Promise,
    /// Times that the server is killed.
    pub rounds: u32,
    /// Seed of commands and moments.
    pub seed: u64,
}

impl<'p> Plan<'p> {
    /// Kills a server with these flags, which make it durable, while clients write as fast as they can.
    #[must_use]
    pub fn of(program: &'p Program, flags: &'p [&'p str], rounds: u32, seed: u64) -> Self {
        let (rest, life_ms) = (Duration::ZERO, 5..400);
        Self {
            program,
            mutant: None,
            flags,
            beside: None,
            clients: 4,
            rest,
            life_ms,
            machine: None,
            after_cut: Duration::ZERO,
            promise: Promise::All,
            rounds,
            seed,
        }
    }
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
    /// Commands that were acknowledged and are not there, as [`Promise`] allows.
    pub lost: usize,
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
        Some(mutant) if plan.machine.is_none() => mutants::start(mutant, plan.flags),
        Some(mutant) => mutants::start_by(plan.program, mutant, plan.flags),
        None => Server::start(plan.program, plan.flags),
    };
    let reference = Server::start(&Program::Redis, &[]);
    let mut generators: Vec<_> = (0..plan.clients).map(|db| Generator::new(plan.seed, db)).collect();
    let mut seen = Seen::default();
    let mut moments = Random::new(plan.seed ^ 0xBE51DE);
    for round in 0..plan.rounds {
        let life = Duration::from_millis(random.between(plan.life_ms.start, plan.life_ms.end).unsigned_abs());
        let (journals, durable) = live(&plan, &mut server, &mut generators, &mut moments, life);
        server.start_again();
        for (db, journal) in (0..).zip(&journals) {
            let promised = durable.map_or(journal.acknowledged, |time| journal.acknowledged_at(time));
            let kept = Check { server: &server, reference: &reference, db }
                .run(journal, promised)
                .map_err(|report| format!("round {round}, ended after {life:?}, database {db}: {report}\n{}", server.log()))?;
            seen.acknowledged += journal.acknowledged;
            seen.kept += kept.saturating_sub(journal.acknowledged);
            seen.lost += journal.acknowledged.saturating_sub(kept);
            seen.gone += journal.sent.len() - kept.max(journal.acknowledged);
        }
    }
    Ok(seen)
}

/// One life of the server and its end. Returns what the clients did, and the time up to which acknowledged commands are promised
/// to be there; none: all are.
fn live(
    plan: &Plan<'_>,
    server: &mut Server,
    generators: &mut [Generator],
    moments: &mut Random,
    life: Duration,
) -> (Vec<Journal>, Option<Instant>) {
    let address = server.address();
    let began = Instant::now();
    thread::scope(|scope| {
        let clients: Vec<_> =
            generators.iter_mut().map(|generator| scope.spawn(move || journal::write(address, generator, plan.rest))).collect();
        let pulse = plan.machine.filter(|_| plan.promise == Promise::AllButLastSecond).map(|machine| Pulse::start(&machine.disk()));
        let ends = began + life;
        if let Some(command) = plan.beside {
            disturb(address, command, moments, ends);
        }
        thread::sleep(ends.saturating_duration_since(Instant::now()));
        let longest = pulse.map(Pulse::end);
        let cut = Instant::now();
        if let Some(machine) = plan.machine {
            machine.cut_power();
            thread::sleep(plan.after_cut);
        }
        server.kill();
        if let Some(machine) = plan.machine {
            machine.start_again();
        }
        let durable = match plan.promise {
            Promise::All => None,
            // A unit may have come behind a write that was under way, so that it waits for two syncs.
            Promise::AllButLastSecond => cut.checked_sub(Duration::from_secs(1) + 3 * longest.unwrap_or_default()),
            Promise::Prefix => Some(began),
        };
        (clients.into_iter().map(|client| client.join().expect("a client ends with its connection")).collect(), durable)
    })
}

/// Gives a command, or several with bars between them, again and again until a time. Whatever the server answers.
fn disturb(address: SocketAddr, command: &str, moments: &mut Random, ends: Instant) {
    let Ok(mut client) = Client::connect(address) else { return };
    let mut commands = command.split('|').map(|command| command.split(' ').collect::<Vec<&str>>()).cycle();
    while Instant::now() < ends {
        if commands.next().is_some_and(|words| client.call(&words).is_err()) {
            return;
        }
        let rest = Duration::from_micros(moments.between(100, 20_000).unsigned_abs());
        thread::sleep(rest.min(ends.saturating_duration_since(Instant::now())));
    }
}
