//! Whether the workers go on. A worker that does not come to the end of its round for as long as the supervisor allows is stuck,
//! and with it every client that it has: then the process gives no sign of life any more, and the supervisor starts another.
//!
//! A sign is given when each worker has made a round since the last look. A worker that has not is woken, for it may sleep, and is
//! looked at again. What may hold a worker for long and goes on is a sign, too: a script that is asked now and then whether it may,
//! data that is loaded, SAVE, and the end of the server.

use std::sync::Arc;

use almandine_instance::{Instance, Message};
use almandine_net::Handle;

pub(crate) struct Watchdog {
    instance: Arc<Instance>,
    network: Handle<Message>,
    /// The rounds of each worker at the last look.
    rounds: Vec<u64>,
    script_turns: u64,
    /// Looks since the last sign of life.
    looks: u32,
}

impl Watchdog {
    pub(crate) fn new(instance: Arc<Instance>, network: Handle<Message>) -> Self {
        let rounds = vec![0; network.workers()];
        Self { instance, network, rounds, script_turns: 0, looks: 0 }
    }

    /// Whether the server lives.
    pub(crate) fn look(&mut self) -> bool {
        let stuck = self.standing();
        let goes_on = self.goes_on_otherwise();
        let lives = stuck.is_none() || goes_on;
        self.looks = if lives { 0 } else { self.looks + 1 };
        match stuck {
            // At the first look a worker may have slept, and it has been woken.
            Some(worker) if self.looks == 2 => {
                tracing::warn!("Worker {worker} does not go on: systemd is not told any more that the server lives, until it does");
            }
            _ => {}
        }
        lives
    }

    /// A worker that has not made a round since the last look. All such are woken.
    fn standing(&mut self) -> Option<usize> {
        let mut standing = None;
        for (worker, before) in self.rounds.iter_mut().enumerate() {
            let rounds = self.network.counters(worker).rounds.value();
            if std::mem::replace(before, rounds) == rounds && self.network.is_running(worker) {
                self.network.wake(worker);
                standing = Some(worker);
            }
        }
        standing
    }

    fn goes_on_otherwise(&mut self) -> bool {
        let turns = self.instance.scripts.running.turns();
        let scripts_go_on = std::mem::replace(&mut self.script_turns, turns) != turns;
        let saves = self.instance.persistence.saves.figures();
        let is_saving = saves.running_s.is_some() && !saves.in_background;
        scripts_go_on || is_saving || self.instance.persistence.is_loading() || self.instance.shutdown.requested()
    }
}
