//! Computations that arguments do not bound: they work in slices between those of others, on values that were frozen when the
//! command began.
//!
//! A handler begins one and returns [`Stop::Computing`]; its connection waits, other connections go on. When the computation has
//! ended the command runs again from its start, is given the result, and answers. One that writes looks first whether what it
//! was computed from is still there ([`almandine_keyspace::Reader::is_still`]), and begins anew if it is not; the third time it
//! works under its latches.

use std::any::Any;
use std::cell::Cell;

use almandine_resp::Args;

use crate::errors::CommandError;
use crate::stop::Stop;

/// How often a command that writes computes beside others before it holds them up.
pub(crate) const ROUNDS_MAX: u32 = 2;

/// Work that goes on in steps, each of some microseconds, until its result is there.
pub trait Computation: Any + Send {
    /// Takes a step. True: it was the last one.
    fn step(&mut self) -> bool;

    /// Bytes that it has gathered, which nothing else counts.
    fn memory(&self) -> usize;
}

/// What a connection's command computes.
#[derive(Default)]
pub struct Computing {
    state: Cell<Option<Box<State>>>,
    /// Nanoseconds that the command has taken before its last run: its first runs, and the slices.
    spent_ns: Cell<u64>,
    /// Bytes of it that count against the budget.
    counted: usize,
}

struct State {
    computation: Box<dyn Computation>,
    /// The command and its arguments, one behind the other: only that one gets the result.
    command: Vec<u8>,
    done: bool,
    /// There is no memory for what it gathers.
    refused: bool,
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
    pub(crate) fn begin(&self, args: Args<'_>, computation: Box<dyn Computation>, round: u32) -> Stop {
        self.state.set(Some(Box::new(State { computation, command: written(args), done: false, refused: false, round })));
        Stop::Computing
    }

    /// Takes the result for a command, and says in which round it was computed. None where there is none of this kind for this
    /// command.
    ///
    /// # Errors
    /// When there was no memory for it.
    pub(crate) fn take<C: Computation>(&self, args: Args<'_>) -> Result<Option<(Box<C>, u32)>, CommandError> {
        let Some(state) = self.state.take().filter(|state| state.done && state.command == written(args)) else { return Ok(None) };
        if state.refused {
            return Err(CommandError::OutOfMemory);
        }
        let computation: Box<dyn Any> = state.computation;
        Ok(computation.downcast().ok().map(|computation| (computation, state.round)))
    }

    /// By how many bytes what it has gathered has become more or less since the last call.
    pub fn recount(&mut self) -> isize {
        let bytes = self.state.get_mut().as_ref().map_or(0, |state| state.computation.memory());
        bytes.wrapping_sub(std::mem::replace(&mut self.counted, bytes)).cast_signed()
    }

    /// Whether bytes of it count against the budget.
    #[inline]
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.counted != 0
    }

    /// Gives it up: its client has gone.
    pub fn forget(&mut self) {
        self.state.set(None);
    }

    /// Ends it, since there is no memory for more. Its command will answer that.
    pub fn refuse(&mut self) {
        if let Some(state) = self.state.get_mut() {
            (state.done, state.refused) = (true, true);
        }
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

    /// Forgets a result that no command of the batch has taken, since the next one may be asked at another time. A batch that
    /// awaits records before its first command has not ended: if the result went, records that leave memory again and again
    /// would have it computed without end.
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

        fn memory(&self) -> usize {
            self.0 as usize * 100
        }
    }

    struct Other;

    impl Computation for Other {
        fn step(&mut self) -> bool {
            true
        }

        fn memory(&self) -> usize {
            0
        }
    }

    fn taken<C: Computation>(computing: &Computing, args: &ArgsBuf) -> Result<bool, CommandError> {
        computing.take::<C>(args.as_args()).map(|taken| taken.is_some())
    }

    #[test]
    fn what_has_no_memory_ends_and_says_so() {
        let own = words("SUNION a b");
        let mut computing = Computing::default();
        computing.begin(own.as_args(), Box::new(Count(0)), 0);
        assert_eq!(computing.recount(), 0);
        computing.work(|| false);
        assert_eq!((computing.recount(), computing.recount(), computing.is_counted()), (100, 0, true));
        computing.refuse();
        assert!(!computing.is_running() && computing.work(|| true));
        assert_eq!(taken::<Count>(&computing, &own), Err(CommandError::OutOfMemory));
        assert_eq!((computing.recount(), computing.is_counted()), (-100, false));
        assert_eq!(taken::<Count>(&computing, &own), Ok(false), "it was told");
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
        assert!(matches!(begin(&computing), Stop::Computing));
        assert!(computing.is_running() && !computing.work(|| false), "a step at a time");
        assert_eq!(taken::<Count>(&computing, &own), Ok(false), "not ended");
        for taker in [&own, &other] {
            begin(&computing);
            assert!(computing.work(|| true) && !computing.is_running());
            let taken = computing.take::<Count>(taker.as_args()).unwrap_or_default().map(|(count, round)| (count.0, round));
            assert_eq!(taken, std::ptr::eq(taker, &raw const own).then_some((5, 1)));
        }
        begin(&computing);
        computing.work(|| true);
        assert_eq!(taken::<Other>(&computing, &own), Ok(false), "another kind");
        begin(&computing);
        computing.end_batch();
        assert!(computing.is_running(), "it goes on behind the batch");
        computing.work(|| true);
        computing.end_batch();
        assert_eq!(taken::<Count>(&computing, &own), Ok(false), "a result is for the next batch only");
        assert!(!computing.is_running() && computing.work(|| true));
    }
}
