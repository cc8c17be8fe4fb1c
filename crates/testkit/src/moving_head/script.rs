//! What the two connections of a pair do to the keys of a block.
//!
//! A few neighbouring keys get the same operations, so that MGET and MSET have several keys to take. Long appends
//! dominate on one side: they make a batch that lasts while the head moves.

use super::op::{Op, SOON_MS, Text};
use crate::Random;

/// Keys that share their operations at most.
const RUN: usize = 12;
/// A long value: most of an operation's time is its copy.
const LONG: usize = 900;

/// What happens to one key.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    pub(super) create: Vec<Op>,
    pub(super) sides: [Vec<Op>; 2],
}

/// Makes scripts.
pub(super) struct Writer {
    pub(super) random: Random,
    number: u64,
}

impl Writer {
    /// Its texts begin with `first`, which no other writer's do.
    pub(super) fn new(seed: u64, first: u64) -> Self {
        Self { random: Random::new(seed), number: first << 40 }
    }

    /// One script per key.
    pub(super) fn scripts(&mut self, keys: usize) -> Vec<Script> {
        let mut scripts = Vec::with_capacity(keys);
        while scripts.len() < keys {
            let run = (1 + self.random.below(RUN)).min(keys - scripts.len());
            // The same random numbers with other texts.
            let choices = self.random.clone();
            for _ in 0..run {
                self.random = choices.clone();
                scripts.push(self.script());
            }
        }
        scripts
    }

    fn script(&mut self) -> Script {
        if self.random.chance(12) {
            return Script { create: vec![Op::SetNumber(1000)], sides: [self.counting(), self.counting()] };
        }
        let create = match self.random.below(20) {
            0 => vec![],
            1..3 => vec![Op::SetFar(self.text(40))],
            3 => vec![Op::Set(self.text(LONG))],
            _ => vec![Op::Set(self.text(40))],
        };
        Script { create, sides: [self.heavy(), self.any()] }
    }

    fn counting(&mut self) -> Vec<Op> {
        let random = &mut self.random;
        match random.below(12) {
            0 => vec![Op::SetNumber(random.between(0, 1_000_000)), Op::Incr],
            1 => vec![Op::Del],
            2 => vec![Op::GetDel, Op::Incr],
            3 => vec![Op::Get, Op::IncrBy(random.between(-50, 50))],
            4 => vec![Op::ExpireSoon(1 + random.below(SOON_MS))],
            5 => vec![Op::SetNumber(random.between(0, 1_000_000))],
            n => vec![Op::Incr; 1 + n % 3],
        }
    }

    /// Mostly long appends.
    fn heavy(&mut self) -> Vec<Op> {
        match self.random.below(20) {
            0 => vec![Op::SetRange(self.random.below(60), self.text(LONG))],
            1 => vec![Op::Append(self.text(LONG)), Op::Get],
            2 => vec![Op::Append(self.text(30)), Op::Append(self.text(30))],
            3 => self.any(),
            4 => vec![Op::Get, Op::Get],
            5 => vec![Op::Append(self.text(LONG))],
            _ => vec![Op::Append(self.text(30))],
        }
    }

    /// Everything.
    fn any(&mut self) -> Vec<Op> {
        match self.random.below(32) {
            0..8 => vec![Op::Set(self.text(20))],
            8..10 => vec![Op::SetFar(self.text(20))],
            10 => vec![Op::SetSoon(self.text(20), 1 + self.random.below(SOON_MS))],
            11..14 => vec![Op::Mset(self.text(20))],
            14..16 => vec![Op::SetRange(self.random.below(60), self.text(20))],
            16 => vec![Op::Append(self.text(20)), Op::Append(self.text(20))],
            17..20 => vec![Op::Del],
            20 => vec![Op::Unlink],
            21 => vec![Op::GetDel],
            22 => vec![Op::ExpireSoon(1 + self.random.below(SOON_MS))],
            23 => vec![Op::Set(self.text(20)), Op::Del],
            24 => vec![Op::Del, Op::Set(self.text(20))],
            25 => vec![Op::Set(self.text(20)), Op::Append(self.text(20)), Op::Get],
            26 => vec![Op::SetNx(self.text(20))],
            27 => vec![Op::GetSet(self.text(20))],
            28 => vec![Op::Persist],
            29 => vec![Op::Mset(self.text(20)), Op::Unlink],
            30 => vec![Op::GetDel, Op::SetNx(self.text(20))],
            _ => vec![Op::Get, Op::Mset(self.text(20))],
        }
    }

    fn text(&mut self, len: usize) -> Text {
        self.number += 1;
        Text { number: self.number, len }
    }
}
