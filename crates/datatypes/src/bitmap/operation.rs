//! Bitwise operations between strings. Shorter ones, and missing ones as empty ones, are padded with zeros.

use std::cmp::min;

/// What `BITOP` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOperation {
    /// In all.
    And,
    /// In any.
    Or,
    /// In an odd number of them.
    Xor,
    /// Not in the only one.
    Not,
    /// In the first and in no other.
    Diff,
    /// In any other, but not in the first.
    Diff1,
    /// In the first and in any other.
    AndOr,
    /// In exactly one.
    One,
}

/// Results are made in pieces of this size, which stay in the first-level cache while every source is applied to them.
const PIECE: usize = 4096;

impl BitOperation {
    /// The operation of this name, in any case.
    pub fn parse(name: &[u8]) -> Option<Self> {
        use BitOperation::{And, AndOr, Diff, Diff1, Not, One, Or, Xor};
        let all = [And, Or, Xor, Not, Diff, Diff1, AndOr, One];
        all.into_iter().find(|operation| operation.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// The name in capitals.
    pub const fn name(self) -> &'static str {
        match self {
            Self::And => "AND",
            Self::Or => "OR",
            Self::Xor => "XOR",
            Self::Not => "NOT",
            Self::Diff => "DIFF",
            Self::Diff1 => "DIFF1",
            Self::AndOr => "ANDOR",
            Self::One => "ONE",
        }
    }

    /// How few sources it takes.
    pub const fn sources_min(self) -> usize {
        match self {
            Self::Diff | Self::Diff1 | Self::AndOr => 2,
            _ => 1,
        }
    }

    /// How many sources it takes, if there is a limit.
    pub const fn sources_max(self) -> Option<usize> {
        match self {
            Self::Not => Some(1),
            _ => None,
        }
    }

    /// The length of the result: that of the longest source.
    pub fn result_len(sources: &[&[u8]]) -> usize {
        sources.iter().map(|source| source.len()).max().unwrap_or(0)
    }

    /// Appends the result. Without sources it is empty.
    pub fn apply(self, sources: &[&[u8]], out: &mut Vec<u8>) {
        self.apply_part(sources, 0, Self::result_len(sources), out);
    }

    /// Appends `len` bytes of the result from `start` on.
    pub fn apply_part(self, sources: &[&[u8]], start: usize, len: usize, out: &mut Vec<u8>) {
        let Some((&first, others)) = sources.split_first() else { return };
        let begin = out.len();
        out.resize(begin + len, 0);
        for (index, piece) in out[begin..].chunks_mut(PIECE).enumerate() {
            let part = |source| part(source, start + index * PIECE, piece_len(len, index));
            self.apply_piece(piece, part(first), others.iter().map(|&source| part(source)));
        }
    }

    /// `piece` is all zeros; the sources' parts may be shorter.
    fn apply_piece<'s>(self, piece: &mut [u8], first: &'s [u8], others: impl Iterator<Item = &'s [u8]>) {
        match self {
            Self::Not => {
                piece[..first.len()].copy_from_slice(first);
                piece.iter_mut().for_each(|byte| *byte = !*byte);
            }
            Self::And => {
                piece[..first.len()].copy_from_slice(first);
                others.for_each(|other| intersect(piece, other));
            }
            Self::Or => {
                piece[..first.len()].copy_from_slice(first);
                others.for_each(|other| combine(piece, other, |a, b| a | b));
            }
            Self::Xor => {
                piece[..first.len()].copy_from_slice(first);
                others.for_each(|other| combine(piece, other, |a, b| a ^ b));
            }
            Self::Diff => {
                piece[..first.len()].copy_from_slice(first);
                others.for_each(|other| combine(piece, other, |a, b| a & !b));
            }
            Self::Diff1 => {
                others.for_each(|other| combine(piece, other, |a, b| a | b));
                combine(piece, first, |a, b| a & !b);
            }
            Self::AndOr => {
                others.for_each(|other| combine(piece, other, |a, b| a | b));
                intersect(piece, first);
            }
            Self::One => {
                let mut more = [0; PIECE];
                for source in std::iter::once(first).chain(others) {
                    for ((one, more), &byte) in piece.iter_mut().zip(&mut more).zip(source) {
                        *more |= *one & byte;
                        *one |= byte;
                    }
                }
                combine(piece, &more, |a, b| a & !b);
            }
        }
    }
}

fn piece_len(len: usize, index: usize) -> usize {
    min(PIECE, len - index * PIECE)
}

/// What there is of `source` from `start` on, up to `len` bytes.
fn part(source: &[u8], start: usize, len: usize) -> &[u8] {
    let rest = source.get(start..).unwrap_or_default();
    &rest[..min(len, rest.len())]
}

#[inline(always)]
fn combine(piece: &mut [u8], other: &[u8], operation: impl Fn(u8, u8) -> u8) {
    for (byte, &other) in piece.iter_mut().zip(other) {
        *byte = operation(*byte, other);
    }
}

/// And, where the zeros beyond the end of `other` count.
fn intersect(piece: &mut [u8], other: &[u8]) {
    combine(piece, other, |a, b| a & b);
    piece[other.len()..].fill(0);
}
