//! Finds the memory limit at which a server holds a given number of keys.
//!
//! Servers spend different numbers of bytes on a key; a hit ratio tells about a policy only at equal numbers of keys. What a
//! server holds grows with its limit, but in steps where a table doubles or a page is added, so this is a search by
//! halving that starts from a line through what is known.

/// Most probes of one search.
const PROBES_MAX: usize = 12;
/// Limits closer than this are the same: no server counts its memory more finely.
const STEP_BYTES: u64 = 2048;

/// A limit and the number of keys that were held under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) bytes: u64,
    pub(super) held: u64,
}

impl Point {
    /// How far it is from holding `target` keys, as a share of them.
    pub(super) fn error(&self, target: u64) -> f64 {
        (self.held as f64 / target.max(1) as f64 - 1.0).abs()
    }
}

/// What has been learned about one server under one policy.
#[derive(Debug, Clone, Default)]
pub(super) struct Search {
    below: Option<Point>,
    above: Option<Point>,
    best: Option<Point>,
}

impl Search {
    /// Adds a measurement.
    pub(super) fn learn(&mut self, point: Point, target: u64) {
        if self.best.is_none_or(|best| point.error(target) < best.error(target)) {
            self.best = Some(point);
        }
        let side = if point.held < target { &mut self.below } else { &mut self.above };
        let closer = |old: Point| if point.held < target { point.bytes > old.bytes } else { point.bytes < old.bytes };
        if side.is_none_or(closer) {
            *side = Some(point);
        }
    }

    /// The limit to try next; `None` when there is nothing left between what is too little and what is too much.
    pub(super) fn next(&self, guess: u64, target: u64) -> Option<u64> {
        let next = match (self.below, self.above) {
            (None, None) => guess,
            (None, Some(above)) => above.bytes / 2,
            (Some(below), None) => below.bytes + (below.bytes / 2).max(STEP_BYTES),
            // Not monotone here: the step lies between them, and either will do.
            (Some(below), Some(above)) if below.bytes + STEP_BYTES >= above.bytes => return None,
            (Some(below), Some(above)) => {
                let share = (target - below.held) as f64 / (above.held - below.held).max(1) as f64;
                below.bytes + ((above.bytes - below.bytes) as f64 * share.clamp(0.1, 0.9)) as u64
            }
        };
        (next >= STEP_BYTES).then_some(next)
    }

    /// Whether a limit that is too low and one that is too high are known.
    pub(super) fn is_bracketed(&self) -> bool {
        self.below.is_some() && self.above.is_some()
    }

    /// The measurement that came closest.
    pub(super) fn best(&self) -> Option<Point> {
        self.best
    }
}

/// Searches until the number of keys is within `tolerance` (a share) of `target`.
pub(super) fn calibrate(
    guess: u64,
    target: u64,
    tolerance: f64,
    mut probe: impl FnMut(u64) -> Result<u64, String>,
) -> Result<Point, String> {
    let mut search = Search::default();
    for _ in 0..PROBES_MAX {
        let Some(bytes) = search.next(guess, target) else { break };
        search.learn(Point { bytes, held: probe(bytes)? }, target);
        if search.best().is_some_and(|best| best.error(target) <= tolerance) {
            break;
        }
    }
    search.best().ok_or_else(|| "no limit was tried".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_limit_of_a_line_and_of_steps() {
        let line = |bytes: u64| Ok(bytes.saturating_sub(1_000_000) / 130);
        let found = calibrate(1 << 20, 20_000, 0.01, line).unwrap();
        assert!(found.error(20_000) <= 0.01, "{found:?}");
        // A table that doubles takes memory from the keys.
        let stairs = |bytes: u64| {
            let keys = bytes.saturating_sub(1_000_000) / 100;
            Ok(keys.min((bytes.saturating_sub(1_000_000 + 8 * keys.next_power_of_two())) / 92))
        };
        assert!(calibrate(64 << 20, 20_000, 0.01, stairs).unwrap().error(20_000) <= 0.03);
    }

    #[test]
    fn comes_as_close_as_whole_pages_allow() {
        let mut probes = 0;
        let found = calibrate(1 << 20, 20_000, 0.01, |bytes| {
            probes += 1;
            Ok((bytes >> 21) * 15_000)
        });
        assert_eq!(found.map(|p| p.held), Ok(15_000));
        assert!(probes <= PROBES_MAX);
    }

    #[test]
    fn a_failed_probe_ends_it() {
        assert_eq!(calibrate(1 << 20, 10, 0.1, |_| Err("down".into())), Err("down".into()));
    }
}
