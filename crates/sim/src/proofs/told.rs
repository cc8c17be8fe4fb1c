//! A server with a log that crashes while clients write and listen: what they were told of changes is so when it has booted again.

use std::time::Duration;

use almandine_io::sim::world::CrashKind;
use almandine_testkit::promises::moment;
use almandine_testkit::promises::told::{Ear, Told, Writer};
use almandine_testkit::{Client, Runtime};

use super::machine::{AWAY, Machine};
use crate::runtime::Simulated;

/// Times that the server crashes.
const CRASHES: u64 = 3;
/// Changes of the disk among which one is replaced by the crash.
const CHANGES: u64 = 60;
/// What is evicted at once.
const EVICTED_BYTES: u64 = 20_000;
/// The longest time between two units of a writer.
const PAUSE: Duration = Duration::from_micros(500);

/// What a seed means for the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    is_always: bool,
    has_rings: bool,
}

impl Log {
    pub(super) fn of(seed: u64) -> Self {
        Self { is_always: seed.is_multiple_of(2), has_rings: !(seed / 2).is_multiple_of(3) }
    }

    /// What the server is told of it.
    pub(super) fn settings(self) -> String {
        let mode = if self.is_always { "always" } else { "everysec" };
        format!(" --appendonly yes --appendfsync {mode} --ring-dir {}", if self.has_rings { "auto" } else { "none" })
    }

    /// Crashes behind which nothing may be missing that was told. Rings end with a container.
    fn kinds(self) -> &'static [CrashKind] {
        match (self.is_always, self.has_rings) {
            (true, true) => &[CrashKind::Process, CrashKind::Machine],
            (true, false) => &[CrashKind::Process, CrashKind::Container, CrashKind::Machine],
            (false, true) => &[CrashKind::Process],
            (false, false) => &[CrashKind::Process, CrashKind::Container],
        }
    }
}

/// What a run follows from.
pub(super) struct Plan {
    pub(super) seed: u64,
    /// The longest life of a server, in milliseconds.
    pub(super) millis: u64,
    pub(super) writers: usize,
    /// All that the server is told.
    pub(super) settings: Vec<String>,
}

/// Has writers and listeners load the server in each of its lives, and looks what is there behind each crash. How many changes were
/// heard of.
///
/// # Errors
/// What is not as it was told.
pub(super) fn record(plan: &Plan, server: &Simulated) -> Result<usize, String> {
    let (machine, log) = (Machine::of(server, plan.settings.clone()), Log::of(plan.seed));
    let mut writers: Vec<Writer> = (0..plan.writers).map(|number| Writer::new(number, plan.seed)).collect();
    let (mut told, mut checked) = (Told::default(), 0);
    drop(machine.reach(server));
    for _ in 0..CRASHES {
        let kind = log.kinds()[machine.draw(log.kinds().len() as u64) as usize];
        let time_ns = 5_000_000 + machine.draw(plan.millis * 1_000_000);
        machine.plan_crash(kind, time_ns, CHANGES);
        let until_ns = server.now_ns() + time_ns;
        let ears: Vec<_> = [Ear::Events, Ear::Messages, Ear::Copies]
            .into_iter()
            .map(|ear| {
                let own = server.clone();
                server.spawn("ear", move || Told::listen(&own, until_ns, ear))
            })
            .collect();
        let own = server.clone();
        let evicts = server.spawn("evicts", move || {
            while own.now_ns() < until_ns
                && let Ok(mut client) = Client::of(&own)
            {
                own.sleep(Duration::from_millis(4));
                moment::evict(&own, &mut client, EVICTED_BYTES, Duration::from_millis(2));
            }
        });
        let write = |mut writer: Writer| {
            let own = server.clone();
            server.spawn("writer", move || {
                writer.write(&own, until_ns, PAUSE);
                writer
            })
        };
        let threads: Vec<_> = writers.drain(..).map(write).collect();
        writers = threads.into_iter().map(|thread| thread.join()).collect();
        ears.into_iter().for_each(|ear| told.extend(ear.join()));
        evicts.join();
        server.sleep(Duration::from_nanos((until_ns + 1_000_000).saturating_sub(server.now_ns())) + AWAY);
        machine.boot();
        let Some(mut control) = machine.reach(server) else {
            return Err(format!("the start is refused: {:?}", machine.refused()));
        };
        checked = told
            .check(&mut control, &writers)
            .unwrap_or_else(|breach| panic!("after a crash of the {kind:?} with {log:?}: {breach}"));
    }
    machine.reach(server).into_iter().for_each(|mut control| machine.shut_down(&mut control));
    Ok(checked)
}
