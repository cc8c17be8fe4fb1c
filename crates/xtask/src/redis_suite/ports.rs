//! The ports of a run of the suite. The suite looks for free ones, and takes them a moment later; so runs beside each other need
//! ports of their own.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

/// Below those that the system gives to clients.
const FIRST: u16 = 21_200;
const EACH: u16 = 400;
const RUNS: u16 = 28;
/// Below the base: where the suite's processes talk.
const TALK: u16 = 32;

/// Ports that no other run has while this lives.
pub(super) struct Ports {
    base: u16,
    /// The process that listens here has the ports behind it.
    _guard: TcpListener,
}

impl Ports {
    /// # Errors
    /// When other runs have all of them.
    pub(super) fn claim() -> Result<Self, String> {
        let of_run = |run: u16| {
            let base = FIRST + run * EACH;
            let guard = TcpListener::bind((Ipv4Addr::LOCALHOST, base - TALK - 1)).ok()?;
            Some(Self { base, _guard: guard })
        };
        (0..RUNS).find_map(of_run).ok_or_else(|| format!("{RUNS} runs of the suite have all ports from {FIRST} on"))
    }

    /// Those of the servers that the suite starts. The few before them are the suite's own.
    pub(super) fn servers(&self) -> Range<u16> {
        self.base..self.base + EACH - 2 * TALK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_runs_share_a_port() {
        let (one, other) = (Ports::claim().unwrap(), Ports::claim().unwrap());
        assert!(one.servers().end < other.servers().start - TALK || other.servers().end < one.servers().start - TALK);
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, one.base - TALK - 1)).is_err(), "it is held");
    }
}
