//! Open load: requests are sent when they are due, whether or not the server keeps up.

use std::collections::VecDeque;
use std::time::Duration;

use super::run::{Arrivals, FILLER, Report, STOP, Thread, WARM_UP, writable};
use crate::generate::random::Random;

/// Below this distance to the next send the thread polls instead of sleeping: timers are no more exact than this.
const SPIN_BELOW: Duration = Duration::from_micros(100);
/// Most events taken per wait, so that sends stay on time while many replies arrive.
const EVENTS_MAX: usize = 64;

/// Sends `rate` commands per second over all threads until the run stops.
pub(super) fn drive(mut thread: Thread<'_>, rate: f64, arrivals: Arrivals, spin: bool) -> Result<Report, String> {
    let mut events = Vec::with_capacity(EVENTS_MAX);
    let mut schedule = Schedule::new(&thread, rate, arrivals);
    let mut waiting: Vec<VecDeque<u64>> = vec![VecDeque::new(); thread.connections.len()];
    let mut turn = 0;
    let mut phase = WARM_UP;
    // Without this a sleep of 200 µs may last 50 µs longer. Failing only costs precision, and lateness is reported.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    loop {
        let current = thread.shared.phase();
        if current != phase {
            phase = current;
            if phase == STOP {
                break;
            }
            thread.begin_measurement();
            let now = thread.now_ns();
            thread.filler.iter_mut().for_each(|filler| filler.start(now));
        }
        let now = thread.now_ns();
        while schedule.next_ns <= now {
            waiting[turn].push_back(schedule.next_ns);
            send_waiting(&mut thread, turn, &mut waiting[turn])?;
            turn = if turn + 1 == waiting.len() { 0 } else { turn + 1 };
            schedule.advance();
        }
        let mut next_ns = schedule.next_ns;
        if let Some(filler) = &mut thread.filler {
            filler.send_due(now)?;
            next_ns = next_ns.min(filler.next_ns());
        }
        let idle = Duration::from_nanos(next_ns.saturating_sub(now)).min(Duration::from_millis(50));
        let timeout = if spin || idle < SPIN_BELOW { Duration::ZERO } else { idle - SPIN_BELOW / 2 };
        thread.wait(&mut events, timeout)?;
        for event in events.drain(..) {
            if event.data.u64() == FILLER {
                if let Some(filler) = &mut thread.filler {
                    filler.receive(&mut thread.buffers)?;
                }
                continue;
            }
            let index = event.data.u64() as usize;
            if writable(event) {
                thread.connections[index].flush(&thread.pool)?;
                send_waiting(&mut thread, index, &mut waiting[index])?;
            }
            thread.receive(index)?;
        }
    }
    thread.end_measurement();
    thread.report.added = thread.filler.as_ref().map_or(0, |filler| filler.added());
    let unsent: usize = waiting.iter().map(VecDeque::len).sum();
    let now = thread.now_ns();
    for due in waiting.iter().flatten() {
        thread.report.latency.saturating_record_n(now.saturating_sub(*due).max(1), thread.load.pipeline as u64);
    }
    thread.report.unanswered += unsent as u64 * thread.load.pipeline as u64;
    thread.drain(&mut events)?;
    Ok(thread.report)
}

/// Sends what is due on a connection as far as the socket takes it.
fn send_waiting(thread: &mut Thread<'_>, index: usize, waiting: &mut VecDeque<u64>) -> Result<(), String> {
    while thread.connections[index].can_send() {
        let Some(due) = waiting.pop_front() else { break };
        let batch = thread.pool.next_batch();
        thread.connections[index].send(&thread.pool, batch, thread.load.pipeline as u64, due)?;
        let late = thread.now_ns().saturating_sub(due).max(1);
        thread.report.lateness.saturating_record(late);
    }
    thread.update_interest(index)
}

/// The due times of one thread's batches.
struct Schedule {
    next_ns: u64,
    at: f64,
    interval: f64,
    random: Option<Random>,
}

impl Schedule {
    fn new(thread: &Thread<'_>, rate: f64, arrivals: Arrivals) -> Self {
        let load = thread.load;
        let interval = load.pipeline as f64 * load.threads as f64 * 1e9 / rate.max(1e-3);
        let random = (arrivals == Arrivals::Poisson).then(|| Random::new(load.seed ^ 0x6f70_656e, thread.index as u64));
        // Threads are staggered so that they do not send at the same instant.
        let at = thread.now_ns() as f64 + interval * thread.index as f64 / load.threads as f64;
        Self { next_ns: at as u64, at, interval, random }
    }

    fn advance(&mut self) {
        let step = match &mut self.random {
            None => self.interval,
            Some(random) => -(1.0 - random.unit()).ln() * self.interval,
        };
        self.at += step;
        self.next_ns = self.at as u64;
    }
}
