//! Questions that the device could not answer. They are kept, because a device may recover, and asked again seldom, because most
//! do not.
//!
//! They are the resolver's own: nobody else looks at them, and what others need to know of them is published as two sums.

use crate::tier::Question;
use std::collections::VecDeque;

/// Rest before they are asked again; it doubles up to the longest while there is no answer.
const REST_MS: u64 = 1_000;
const REST_MAX_MS: u64 = 60_000;
/// Questions about expiries and tombstones are let go of beyond so many. They change no count, and come up again when their key is used.
const RETRIES_MAX: usize = 1 << 16;

/// Questions that wait for the device to recover, those first that were not asked for longest.
#[derive(Default)]
pub(super) struct RetryQueue {
    questions: VecDeque<Question>,
    /// Of these, overwritten keys.
    overwritten: u64,
    asked_ms: i64,
    /// 0: the last answer was good, so the next question may be asked at once.
    rest_ms: u64,
    /// Namespaces swept when they were asked last.
    swept: u64,
}

impl RetryQueue {
    /// Puts a question off.
    pub(super) fn keep(&mut self, question: Question, now_ms: i64) {
        if !question.overwritten && self.questions.len() >= RETRIES_MAX {
            return;
        }
        if self.questions.is_empty() && self.rest_ms == 0 {
            (self.asked_ms, self.rest_ms) = (now_ms, REST_MS);
        }
        self.overwritten += u64::from(question.overwritten);
        self.questions.push_back(question);
    }

    /// Whether some are to be asked again. A clock that was set back does not put it off.
    pub(super) fn is_due(&self, now_ms: i64) -> bool {
        !self.questions.is_empty() && now_ms.abs_diff(self.asked_ms) >= self.rest_ms
    }

    /// Takes the one that was not asked for longest.
    pub(super) fn pop(&mut self) -> Option<Question> {
        let question = self.questions.pop_front();
        if self.questions.is_empty() {
            // What a burst of errors took goes back with its last question.
            self.questions = VecDeque::new();
        }
        self.overwritten -= question.as_ref().map_or(0, |question| u64::from(question.overwritten));
        question
    }

    /// Some were taken and asked again; whether any was answered. Before the others are kept again.
    pub(super) fn asked(&mut self, now_ms: i64, answered: bool) {
        self.asked_ms = now_ms;
        self.rest_ms = if answered { 0 } else { (self.rest_ms * 2).clamp(REST_MS, REST_MAX_MS) };
    }

    /// Lets go of the questions that `over` says have no sense any more. Returns how many of them were about overwritten keys.
    pub(super) fn end(&mut self, over: impl Fn(&Question) -> bool) -> u64 {
        let before = self.overwritten;
        self.questions.retain(|question| !over(question));
        self.overwritten = self.questions.iter().map(|question| u64::from(question.overwritten)).sum();
        if self.questions.is_empty() {
            *self = Self { swept: self.swept, ..Self::default() };
        }
        before - self.overwritten
    }

    /// So many namespaces have been swept: if that is news, records that could not be read may have gone with one of them.
    pub(super) fn swept(&mut self, swept: u64) -> bool {
        let news = self.swept != swept;
        if news {
            (self.swept, self.rest_ms) = (swept, 0);
        }
        news
    }

    pub(super) fn is_empty(&self) -> bool {
        self.questions.is_empty()
    }

    /// How many are about overwritten keys.
    pub(super) fn overwritten(&self) -> u64 {
        self.overwritten
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        (self.questions.capacity() * size_of::<Question>()) as u64
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn question(hash: u64) -> Question {
        Question { hash, namespace: 1, overwritten: hash.is_multiple_of(2) }
    }

    #[test]
    fn the_rest_doubles_until_something_is_answered() {
        let mut retries = RetryQueue::default();
        assert!(!retries.is_due(0), "there is nothing to ask");
        retries.keep(question(2), 5_000);
        retries.keep(question(3), 5_900);
        let mut now_ms = 5_000;
        for rest_ms in [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
            assert!(!retries.is_due(now_ms + rest_ms - 1) && retries.is_due(now_ms + rest_ms), "{rest_ms}");
            now_ms += rest_ms;
            let asked = [retries.pop().unwrap(), retries.pop().unwrap()];
            retries.asked(now_ms, false);
            asked.into_iter().for_each(|question| retries.keep(question, now_ms));
        }
        assert!(retries.is_due(now_ms - 100_000), "the clock was set back");
        retries.asked(now_ms, true);
        assert!(retries.is_due(now_ms), "others may be answered, too");
        retries.asked(now_ms, false);
        assert!(!retries.is_due(now_ms + 999) && retries.is_due(now_ms + 1_000));
        assert!(retries.swept(1) && retries.is_due(now_ms));
        retries.asked(now_ms, false);
        assert!(!retries.swept(1) && !retries.is_due(now_ms));
    }

    #[test]
    fn overwritten_keys_are_counted_and_never_dropped() {
        let mut retries = RetryQueue::default();
        (0..2 * RETRIES_MAX as u64 + 10).for_each(|hash| retries.keep(question(hash), 0));
        assert_eq!(retries.overwritten(), RETRIES_MAX as u64 + 5);
        assert!(retries.memory_bytes() >= retries.overwritten() * 16);
        assert_eq!(retries.end(|question| question.hash < 10), 5);
        assert_eq!(retries.pop().map(|question| question.hash), Some(10));
        assert_eq!(retries.overwritten(), RETRIES_MAX as u64 - 1);
        assert_eq!(retries.end(|_| true), RETRIES_MAX as u64 - 1);
        assert!(retries.is_empty() && retries.pop().is_none());
        assert_eq!(retries.memory_bytes(), 0, "memory goes back");
        retries.asked(0, false);
        retries.asked(0, true);
        retries.keep(question(2), 7);
        assert!(!retries.is_due(1_006) && retries.is_due(1_007), "the first rest is the shortest");
    }
}
