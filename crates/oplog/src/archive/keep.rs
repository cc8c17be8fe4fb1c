//! Former bases that an archive keeps.
//!
//! The newest one of which the archive had all before the time that is wanted, and those behind it: so each moment since is behind
//! a base. Bases may come each second, and each costs what is in memory; the log since is kept anyway. So of bases that follow each
//! other closely only the first is kept, and its log goes on with that of the others: what is kept is at most [`BASES_KEPT`] + 1
//! former bases, and a restore reads the log of an eighth of the time, and up to the next base.
//!
//! Clocks may be set back. What is older goes by the order of bases then, and a time that is to come says nothing of an age.

use almandine_base::step;

use super::ArchivedLog;

/// The time is divided into this number of parts, and one base is kept of each.
pub const BASES_KEPT: u64 = 8;

/// For how long former bases are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveKeep {
    /// Each moment of these last milliseconds is kept; 0: only the newest base.
    pub ms: u64,
    /// The time now, in milliseconds since the Unix epoch.
    pub now_ms: u64,
}

impl ArchiveKeep {
    /// Whether former bases are kept.
    pub(super) fn is_on(self) -> bool {
        self.ms > 0
    }

    /// Of all that could be kept, the oldest first, what is.
    pub(super) fn choose(self, mut all: Vec<ArchivedLog>) -> Vec<ArchivedLog> {
        if !self.is_on() {
            return Vec::new();
        }
        let first = (0..all.len()).rev().find(|at| self.is_old(&all[..=*at])).unwrap_or(0);
        all.drain(..step!(KeepBefore, first, else (first + 1).min(all.len())));
        let mut kept: Vec<ArchivedLog> = Vec::new();
        for log in all {
            match kept.last_mut() {
                Some(last) if step!(KeepBreaks, !last.is_broken, else true) && self.is_close(last, &log) => last.absorb(&log),
                _ => kept.push(log),
            }
        }
        kept
    }

    /// Whether the last of these was there before the time that is kept. Where one before it is of a later time, the clock was set
    /// back between them, and it may be younger than it says; unless that time is still to come.
    fn is_old(self, logs: &[ArchivedLog]) -> bool {
        let since = |log: &ArchivedLog| log.since_ms.unwrap_or(0);
        let Some((last, before)) = logs.split_last() else { return false };
        let age_ms = step!(HeedClock, self.now_ms.saturating_sub(since(last)), else self.now_ms.abs_diff(since(last)));
        age_ms >= self.ms && before.iter().all(|log| since(log) <= since(last) || since(log) > self.now_ms)
    }

    /// Whether two are of about the same time, whichever way the clock was set between them.
    fn is_close(self, a: &ArchivedLog, b: &ArchivedLog) -> bool {
        a.since_ms.unwrap_or(0).abs_diff(b.since_ms.unwrap_or(0)) < self.ms.div_ceil(BASES_KEPT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{BaseEntry, Manifest, SegmentEntry};

    fn log(number: u64, since_ms: u64, is_broken: bool) -> ArchivedLog {
        let base = BaseEntry { number, lsn: number, through: number, epoch: 0, parts: 1, key: None };
        let segment = SegmentEntry { number, run: 1, lsn: number, sum: 0, bytes: 64, key: None };
        let manifest = Manifest { base: Some(base), segments: vec![segment], ..Manifest::default() };
        ArchivedLog { since_ms: Some(since_ms), is_broken, manifest, ..ArchivedLog::default() }
    }

    /// Numbers of the bases that are kept, of those of these times.
    fn kept(since: &[u64], ms: u64, now_ms: u64) -> Vec<u64> {
        let all: Vec<ArchivedLog> = (1..).zip(since).map(|(number, since)| log(number, *since, false)).collect();
        let segments = all.len();
        let kept = ArchiveKeep { ms, now_ms }.choose(all);
        let first = kept.first().map_or(0, |log| log.manifest.segments[0].number);
        let numbers: Vec<u64> = kept.iter().flat_map(|log| &log.manifest.segments).map(|segment| segment.number).collect();
        let all_since: Vec<u64> = if kept.is_empty() { Vec::new() } else { (first..=segments as u64).collect() };
        assert_eq!(numbers, all_since, "the log has no gap");
        kept.iter().map(|log| log.manifest.base.unwrap().number).collect()
    }

    #[test]
    fn the_newest_before_the_time_is_kept_and_all_behind_it() {
        assert_eq!(kept(&[100, 200, 300, 400], 0, 450), []);
        assert_eq!(kept(&[100, 200, 300, 400], 100, 450), [3, 4]);
        assert_eq!(kept(&[100, 200, 300, 400], 50, 450), [4]);
        assert_eq!(kept(&[100, 200, 300, 400], 51, 450), [3, 4]);
        assert_eq!(kept(&[100, 200, 300, 400], 1000, 450), [1, 3]);
        assert_eq!(kept(&[100, 200, 300, 400], 800, 450), [1, 2, 3, 4]);
        assert_eq!(kept(&[], 100, 450), []);
    }

    #[test]
    fn those_that_follow_closely_are_few_however_many_there_are() {
        let mut logs: Vec<ArchivedLog> = Vec::new();
        for now_ms in 1..10_000 {
            logs.push(log(now_ms, now_ms, false));
            logs = ArchiveKeep { ms: 800, now_ms: now_ms + 1 }.choose(logs);
            assert!(logs.len() <= 9, "{now_ms}: {}", logs.len());
            let first = logs[0].since_ms.unwrap();
            assert!(first == 1 || (first + 800 <= now_ms + 1 && first + 950 > now_ms), "{now_ms}: {first}");
        }
    }

    #[test]
    fn a_broken_log_is_not_gone_on_with() {
        let all = vec![log(1, 10, false), log(2, 11, true), log(3, 12, false), log(4, 13, false)];
        let kept = ArchiveKeep { ms: 1000, now_ms: 14 }.choose(all);
        let segments = |log: &ArchivedLog| log.manifest.segments.iter().map(|segment| segment.number).collect::<Vec<_>>();
        assert_eq!(kept.iter().map(segments).collect::<Vec<_>>(), [[1, 2], [3, 4]]);
        assert_eq!(kept.iter().map(|log| log.is_broken).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn a_clock_that_is_set_back_drops_nothing_too_early_and_keeps_nothing_for_ever() {
        // Times that are to come are of no age.
        assert_eq!(kept(&[100, 900, 1000], 350, 500), [1, 2, 3]);
        // Behind them the clock goes on.
        assert_eq!(kept(&[100, 900, 1000, 510], 350, 859), [1, 2, 3, 4]);
        assert_eq!(kept(&[100, 900, 1000, 510], 350, 870), [4]);
        // A machine that began in 1970.
        assert_eq!(kept(&[1_000_000, 5, 1_000_100], 300, 1_000_200), [1, 2, 3]);
        assert_eq!(kept(&[1_000_000, 5, 1_000_100], 300, 1_000_300), [1, 2, 3]);
        assert_eq!(kept(&[1_000_000, 5, 1_000_100], 300, 1_000_400), [3]);
        // One that was far ahead once.
        let far = u64::MAX;
        assert_eq!(kept(&[100, far, 200, 300], 150, 400), [3, 4]);
        assert_eq!(kept(&[far, 200, 300], 1000, 400), [1, 2]);
    }
}
