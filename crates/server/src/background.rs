//! The control thread: ten times a second it brings figures from where they arise to where they are asked for, while there is
//! anything to bring.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use almandine_instance::{Instance, Message, NetworkCounts};
use almandine_io::thread::{self, JoinHandle, Waker};
use almandine_io::{allocator, clock};
use almandine_net::Handle;

use crate::refusals::Refusals;
use crate::storage::Watch;
use crate::tls::Tls;

const PERIOD: Duration = Duration::from_millis(100);
/// The same while all workers rest.
const REST: Duration = Duration::from_secs(10);
/// Turns without a change before the thread rests: what was freed last has left memory by then.
const TURNS_BEFORE_REST: u32 = 50;
/// Turns between the figures that `loglevel verbose` and `debug` show: five seconds.
const TURNS_BETWEEN_FIGURES: u32 = 50;
/// Turns without a failure to accept after which that is over.
const QUIET_TURNS: u32 = 20;

/// The thread. It ends once the end of its instance is asked for.
pub(crate) struct Control {
    thread: JoinHandle<()>,
    waker: Arc<Waker>,
}

impl Control {
    /// Waits for its end.
    pub(crate) fn join(self) {
        self.waker.wake();
        // A thread that panics ends the process.
        let _ = self.thread.join();
    }
}

/// Starts the thread.
pub(crate) fn start(instance: Arc<Instance>, network: Handle<Message>, mut storage: Watch, tls: Arc<Tls>) -> io::Result<Control> {
    let waker = Arc::new(Waker::new());
    instance.workers.rest.install_waker(Arc::clone(&waker));
    let own = Arc::clone(&waker);
    let thread = thread::spawn("control", move || {
        let (mut accepting, mut refusals, mut turns, mut quiet) = (Accepting::default(), Refusals::default(), 0_u32, 0_u32);
        while !instance.shutdown.requested() {
            turn(&instance, &network);
            storage.turn(&instance);
            refusals.turn(&instance);
            tls.turn();
            turns = turns.wrapping_add(1);
            if turns % TURNS_BETWEEN_FIGURES == 0 {
                log_figures(&instance);
            }
            accepting.turn(network.sum(|counters| &counters.accepts_failed));
            allocator::release_unused();
            quiet = if may_rest(&instance) { quiet.saturating_add(1) } else { 0 };
            let rests = quiet > TURNS_BEFORE_REST;
            instance.keyspace.settings().set_rests(rests);
            own.wait(if rests { REST } else { PERIOD });
        }
    })?;
    Ok(Control { thread, waker })
}

/// Whether nothing happens of which figures would change.
fn may_rest(instance: &Instance) -> bool {
    let persistence = &instance.persistence;
    instance.workers.rest.is_whole()
        && !persistence.is_loading()
        && !persistence.rewrites.is_running()
        && !persistence.saves.figures().in_background
        && instance.pause.active(clock::unix_ms()).is_none()
        // They are told while nothing happens, too.
        && !tracing::enabled!(tracing::Level::DEBUG)
}

/// Says when no connection can be accepted, and when it can be again.
#[derive(Default)]
struct Accepting {
    failures: u64,
    /// Turns since the last failure, while the log has not said that it is over.
    quiet: Option<u32>,
}

impl Accepting {
    /// `failures` is how often it failed since the start. Returns whether the log says something.
    fn turn(&mut self, failures: u64) -> bool {
        let failed = std::mem::replace(&mut self.failures, failures) != failures;
        let before = self.quiet;
        self.quiet = if failed { Some(0) } else { before.map(|turns| turns + 1) };
        if failed && before.is_none() {
            tracing::warn!(
                "Cannot accept connections: the process has no file descriptors or memory left. Those that wait are accepted when \
                 there are some again. Raise the limit of open files (ulimit -n), or lower 'maxclients'."
            );
            return true;
        }
        if self.quiet == Some(QUIET_TURNS) {
            self.quiet = None;
            tracing::info!("Connections are accepted again");
            return true;
        }
        false
    }
}

fn turn(instance: &Instance, network: &Handle<Message>) {
    instance.sample();
    let gauges = &instance.gauges.network;
    gauges.output_pending_bytes.store(network.sum(|counters| &counters.output_pending_bytes), Relaxed);
    gauges.input_buffer_bytes.store(network.sum(|counters| &counters.input_buffer_bytes), Relaxed);
}

/// Sizes of databases for `loglevel verbose`, clients and memory for `debug`.
fn log_figures(instance: &Instance) {
    let keyspace = &instance.keyspace;
    if tracing::enabled!(tracing::Level::DEBUG) {
        for db in (0..keyspace.databases()).filter_map(|db| u16::try_from(db).ok()) {
            let (keys, expires) = (keyspace.dbsize(db), keyspace.expires(db));
            if keys > 0 {
                tracing::debug!("DB {db}: {keys} keys ({expires} volatile)");
            }
        }
    }
    tracing::trace!("{} clients connected, {} bytes in use", instance.clients.connected(), keyspace.figures().used_bytes());
}

/// Lets INFO read what the network counts.
pub(crate) fn count_connections(instance: &Instance, network: Handle<Message>) {
    instance.gauges.network.install(move || NetworkCounts {
        rejected: network.sum(|counters| &counters.rejected),
        timed_out: network.sum(|counters| &counters.closed_by.timeout),
        output_limit: network.sum(|counters| &counters.closed_by.output_limit),
        input_limit: network.sum(|counters| &counters.closed_by.input_limit),
    });
}

/// Has what connections hold count against `maxmemory`: their buffers, transactions, watched keys and subscriptions, and messages
/// that wait for them. They are summed up when the store asks: a figure of a moment ago would evict keys, or refuse writes, for
/// clients that have gone.
pub(crate) fn count_buffers(instance: &Arc<Instance>, network: Handle<Message>) {
    // The instance holds the store, so the store must not hold the instance.
    let weak = Arc::downgrade(instance);
    instance.keyspace.settings().count_external_bytes(move || {
        let output = network.sum(|counters| &counters.output_memory_bytes);
        let input = network.sum(|counters| &counters.input_buffer_bytes);
        let of_node = |instance: Arc<Instance>| {
            let statistics = &instance.statistics;
            statistics.device_buffer_bytes()
                + statistics.computed_bytes()
                + instance.clients.memory.held()
                + instance.pubsub.payload_bytes()
        };
        output + input + weak.upgrade().map_or(0, of_node)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_once_that_nothing_is_accepted_and_once_that_it_is_over() {
        let mut accepting = Accepting::default();
        let failures = std::iter::repeat_n(0, 5).chain(1..100).chain(std::iter::repeat_n(99, 100)).chain([100, 100]);
        let said: Vec<usize> =
            failures.enumerate().filter(|&(_, failures)| accepting.turn(failures)).map(|(turn, _)| turn).collect();
        assert_eq!(said, [5, 5 + 98 + QUIET_TURNS as usize, 5 + 99 + 100]);
    }
}
