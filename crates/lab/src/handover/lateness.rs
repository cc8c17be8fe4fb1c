//! How late timeouts of blocking commands are: connections that wait for a list that never comes, each with a timeout of its own.

use std::time::{Duration, Instant};

use crate::cost::Meter;
use crate::pipe;
use crate::servers::Subject;
use crate::wire::{Poller, RECEIVE_BYTES, Wire};
use almandine_bench::generate::random::Random;

/// Timeouts are spread over this many milliseconds.
const TIMEOUT_MS: (u64, u64) = (50, 1050);
/// A timeout that has not come so long after its time will not.
const PATIENCE: Duration = Duration::from_secs(10);
/// What a timeout is answered with.
const NULLS: [&[u8]; 2] = [b"*-1\r\n", b"$-1\r\n"];

/// What was seen of one server.
#[derive(Debug, Clone, Default)]
pub(super) struct Lateness {
    /// Milliseconds from the time that a client asked for until it had the reply, in rising order; below 0 when that came early.
    late_ms: Vec<f64>,
    /// Seconds of processor time per second.
    pub(super) cpu: f64,
}

/// One connection.
struct Sleeper {
    wire: Wire,
    due: Instant,
    waits: bool,
}

/// Has this many connections time out over and over for this time. The thread polls, so that it is not itself late.
pub(super) fn measure(subject: &Subject, sleepers: usize, time: Duration) -> Result<Lateness, String> {
    let poller = Poller::new()?;
    let mut random = Random::new(0x6c61_7465, sleepers as u64);
    let mut request = Vec::new();
    let mut sleep = |wire: &mut Wire, number: usize| {
        let (least, most) = TIMEOUT_MS;
        let ms = least + random.below(most - least);
        let (key, timeout) = (format!("never:{number}"), format!("{}.{:03}", ms / 1000, ms % 1000));
        request.clear();
        pipe::command(&[b"BLPOP", key.as_bytes(), timeout.as_bytes()], &mut request);
        let due = Instant::now() + Duration::from_millis(ms);
        wire.send(&poller, &request)?;
        Ok::<Instant, String>(due)
    };
    let connect = |number: usize| {
        let wire = Wire::new(subject.target.connect()?, &poller, number as u64)?;
        Ok(Sleeper { wire, due: Instant::now(), waits: true })
    };
    let mut all = (0..sleepers).map(connect).collect::<Result<Vec<Sleeper>, String>>()?;
    for (number, sleeper) in all.iter_mut().enumerate() {
        sleeper.due = sleep(&mut sleeper.wire, number)?;
    }
    let meter = Meter::start(subject)?;
    let (begin, mut buffer, mut events) = (Instant::now(), vec![0; RECEIVE_BYTES], Vec::with_capacity(1024));
    let mut lateness = Lateness::default();
    let mut waiting = sleepers;
    while waiting > 0 {
        poller.wait(&mut events, Duration::ZERO)?;
        let now = Instant::now();
        let goes_on = now - begin < time;
        for event in events.drain(..) {
            let number = event.data.u64() as usize;
            let sleeper = &mut all[number];
            let received = sleeper.wire.receive(&mut buffer)?;
            let received = &buffer[..received];
            if received.is_empty() {
                continue;
            }
            if !NULLS.contains(&received) {
                return Err(format!("a timeout was answered with {:?}", String::from_utf8_lossy(received)));
            }
            let late = now.saturating_duration_since(sleeper.due).as_secs_f64()
                - (sleeper.due.saturating_duration_since(now)).as_secs_f64();
            lateness.late_ms.push(late * 1e3);
            sleeper.waits = goes_on;
            waiting -= usize::from(!goes_on);
            if goes_on {
                sleeper.due = sleep(&mut sleeper.wire, number)?;
            }
        }
        if !goes_on && all.iter().any(|sleeper| sleeper.waits && now.saturating_duration_since(sleeper.due) > PATIENCE) {
            return Err(format!("{waiting} timeouts did not come within {} s", PATIENCE.as_secs()));
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    lateness.cpu = meter.stop(1)?.total_us() / 1e6 / seconds;
    lateness.late_ms.sort_by(f64::total_cmp);
    Ok(lateness)
}

impl Lateness {
    /// How many timeouts were seen.
    pub(super) fn count(&self) -> usize {
        self.late_ms.len()
    }

    /// Milliseconds at a quantile, 0 for the earliest and 1 for the latest.
    pub(super) fn at(&self, quantile: f64) -> f64 {
        let last = self.late_ms.len().saturating_sub(1);
        self.late_ms.get((last as f64 * quantile).round() as usize).copied().unwrap_or(0.0)
    }

    /// Takes another repeat in.
    pub(super) fn add(&mut self, other: Self, repeats: usize) {
        self.late_ms.extend(other.late_ms);
        self.late_ms.sort_by(f64::total_cmp);
        self.cpu += other.cpu / repeats as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_all_repeats() {
        let mut all = Lateness::default();
        all.add(Lateness { late_ms: vec![3.0, 1.0], cpu: 0.5 }, 2);
        all.add(Lateness { late_ms: vec![-1.0, 9.0, 2.0], cpu: 0.1 }, 2);
        assert_eq!((all.count(), all.at(0.0), all.at(0.5), all.at(1.0)), (5, -1.0, 2.0, 9.0));
        assert!((all.cpu - 0.3).abs() < 1e-9);
        assert_eq!(Lateness::default().at(0.5), 0.0);
    }
}
