//! Computations that arguments do not bound: they work in slices between those of others, on values that were frozen when the command began.
//!
//! A handler begins one and returns [`CommandError::Computing`]; its connection waits, other connections go on. When the computation has
//! ended the command runs again from its start, is given the result, and answers. One that writes looks first whether what it was computed from is
//! still there ([`almandine_keyspace::Reader::is_still`]), and begins anew if it is not; the third time it works under its latches.

use std::any::Any;
use std::cell::Cell;

use almandine_resp::Args;

use crate::errors::CommandError;

/// How often a command that writes computes beside others before it holds them up.
pub(crate) const ROUNDS_MAX: u32 = 2;

/// Work that goes on in steps, each of some microseconds, until its result is there.
pub trait Computation: Any + Send {
    /// Takes a step. True: it was the last one.
    fn step(&mut self) -> bool;
}

/// What a connection's command computes.
#[derive(Default)]
pub struct Computing {
    state: Cell<Option<Box<State>>>,
    /// Nanoseconds that the command has taken before its last run: its first runs, and the slices.
    spent_ns: Cell<u64>,
}

struct State {
    computation: Box<dyn Computation>,
    /// The command and its arguments, one behind the other: only that one gets the result.
    command: Vec<u8>,
    done: bool,
    round: u32,
}

impl std::fmt::Debug for Computing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Computing").finish_non_exhaustive()
    }
}

fn written(args: Args<'_>) -> Vec<u8> {
    let mut all = Vec::new();
    for argument in args.iter() {
        all.extend_from_slice(&argument.len().to_le_bytes());
        all.extend_from_slice(argument);
    }
    all
}

impl Computing {
    /// Begins a computation for a command, which is to be run again when it has ended. What a command returns then.
    pub(crate) fn begin(&self, args: Args<'_>, computation: Box<dyn Computation>, round: u32) -> CommandError {
        self.state.set(Some(Box::new(State { computation, command: written(args), done: false, round })));
        CommandError::Computing
    }

    /// Takes the result for a command, and says in which round it was computed. None where there is none of this kind for this command.
    pub(crate) fn take<C: Computation>(&self, args: Args<'_>) -> Option<(Box<C>, u32)> {
        let state = self.state.take()?;
        if !state.done || state.command != written(args) {
            return None;
        }
        let computation: Box<dyn Any> = state.computation;
        computation.downcast().ok().map(|computation| (computation, state.round))
    }

    /// The command that waits has taken time.
    pub fn spend(&self, elapsed_ns: u64) {
        self.spent_ns.set(self.spent_ns.get() + elapsed_ns);
    }

    /// The time that the command has taken before it ran for the last time.
    #[inline]
    pub fn take_spent_ns(&self) -> u64 {
        self.spent_ns.take()
    }

    /// Whether a computation has begun and not ended.
    pub fn is_running(&mut self) -> bool {
        self.state.get_mut().as_ref().is_some_and(|state| !state.done)
    }

    /// Takes steps as long as `go_on` says so, once at least. True: it has ended, or there is none.
    pub fn work(&mut self, mut go_on: impl FnMut() -> bool) -> bool {
        let Some(state) = self.state.get_mut() else { return true };
        while !state.done {
            state.done = state.computation.step();
            if !go_on() {
                break;
            }
        }
        state.done
    }

    /// Forgets a result that no command of the batch has taken, since the next one may be asked at another time.
    #[inline]
    pub fn end_batch(&mut self) {
        if self.state.get_mut().as_ref().is_some_and(|state| state.done) {
            self.state.set(None);
            self.spent_ns.set(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use almandine_resp::ArgsBuf;

    struct Count(u32);

    impl Computation for Count {
        fn step(&mut self) -> bool {
            self.0 += 1;
            self.0 >= 5
        }
    }

    struct Other;

    impl Computation for Other {
        fn step(&mut self) -> bool {
            true
        }
    }

    fn words(line: &str) -> ArgsBuf {
        let mut args = ArgsBuf::new();
        line.split(' ').for_each(|word| args.push(word.as_bytes()));
        args
    }

    #[test]
    fn only_the_command_that_began_it_gets_the_result() {
        let (own, other) = (words("SUNION a b"), words("SUNION a c"));
        let mut computing = Computing::default();
        let begin = |computing: &Computing| computing.begin(own.as_args(), Box::new(Count(0)), 1);
        assert_eq!(begin(&computing), CommandError::Computing);
        assert!(computing.is_running() && !computing.work(|| false), "a step at a time");
        assert!(computing.take::<Count>(own.as_args()).is_none(), "not ended");
        for taker in [&own, &other] {
            begin(&computing);
            assert!(computing.work(|| true) && !computing.is_running());
            let taken = computing.take::<Count>(taker.as_args()).map(|(count, round)| (count.0, round));
            assert_eq!(taken, std::ptr::eq(taker, &raw const own).then_some((5, 1)));
        }
        begin(&computing);
        computing.work(|| true);
        assert!(computing.take::<Other>(own.as_args()).is_none(), "another kind");
        begin(&computing);
        computing.end_batch();
        assert!(computing.is_running(), "it goes on behind the batch");
        computing.work(|| true);
        computing.end_batch();
        assert!(computing.take::<Count>(own.as_args()).is_none(), "a result is for the next batch only");
        assert!(!computing.is_running() && computing.work(|| true));
    }
}
