//! Whether errors go on: they are told when they begin and when they have ended, not once each.

use std::time::Duration;

/// Errors are over when there were none for this long.
pub(super) const QUIET: Duration = Duration::from_secs(30);

/// Errors of one kind.
pub(super) struct Streak {
    quiet: Duration,
    seen: u64,
    /// Since the errors began: how many there had been before, and when the last one was, in nanoseconds.
    running: Option<(u64, u64)>,
}

/// What is to be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    Begins,
    GoesOn,
    /// With the number of errors.
    Ends(u64),
}

impl Default for Streak {
    fn default() -> Self {
        Self::new(QUIET)
    }
}

impl Streak {
    /// Errors that are over when there were none for so long.
    pub(super) const fn new(quiet: Duration) -> Self {
        Self { quiet, seen: 0, running: None }
    }

    /// Looks at the number of errors so far. `lasts` says that they cannot be over yet.
    pub(super) fn next(&mut self, errors: u64, lasts: bool, now_ns: u64) -> Option<News> {
        let new = errors > self.seen;
        let before = std::mem::replace(&mut self.seen, errors);
        match self.running {
            None if new => {
                self.running = Some((before, now_ns));
                Some(News::Begins)
            }
            Some((began, _)) if new || lasts => {
                self.running = Some((began, now_ns));
                new.then_some(News::GoesOn)
            }
            Some((began, last)) if u128::from(now_ns.saturating_sub(last)) > self.quiet.as_nanos() => {
                self.running = None;
                Some(News::Ends(errors - began))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn errors_are_told_when_they_begin_and_when_they_end() {
        let mut streak = Streak::default();
        let outcomes: Vec<_> = [(0, 0), (3, 1), (3, 2), (9, 20), (9, 49), (9, 51), (9, 90), (10, 91)]
            .map(|(errors, at)| streak.next(errors, false, at * SECOND))
            .into();
        let expected = [None, Some(News::Begins), None, Some(News::GoesOn), None, Some(News::Ends(9)), None, Some(News::Begins)];
        assert_eq!(outcomes, expected);
    }

    #[test]
    fn what_lasts_does_not_end() {
        let mut streak = Streak::new(Duration::from_secs(3));
        assert_eq!(streak.next(1, true, 0), Some(News::Begins));
        assert_eq!(streak.next(1, true, 100 * SECOND), None);
        assert_eq!(streak.next(1, false, 102 * SECOND), None);
        assert_eq!(streak.next(1, false, 104 * SECOND), Some(News::Ends(1)));
    }
}
