//! Ranges of members, by score and by bytes.

use crate::number::parse_f64_leniently;

use super::edge::Edge;

/// A range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreRange {
    min: f64,
    max: f64,
    above_min: bool,
    below_max: bool,
}

impl ScoreRange {
    /// A range from one score to another, both included.
    #[must_use]
    pub fn closed(min: f64, max: f64) -> Self {
        Self { min, max, above_min: false, below_max: false }
    }

    /// The range between two texts, of which each may begin with a parenthesis: then that score is not in it. None: a text is no
    /// number.
    #[must_use]
    pub fn parse(min: &[u8], max: &[u8]) -> Option<Self> {
        let ((min, above_min), (max, below_max)) = (score(min)?, score(max)?);
        Some(Self { min, max, above_min, below_max })
    }

    /// The edge that all members of the range lie above.
    #[must_use]
    pub fn lower(&self) -> Edge<'static> {
        if self.above_min { Edge::behind_score(self.min) } else { Edge::before_score(self.min) }
    }

    /// The edge that all of them lie below. It may be the lower one, or below it.
    #[must_use]
    pub fn upper(&self) -> Edge<'static> {
        if self.below_max { Edge::before_score(self.max) } else { Edge::behind_score(self.max) }
    }
}

fn score(text: &[u8]) -> Option<(f64, bool)> {
    let (text, is_open) = text.strip_prefix(b"(").map_or((text, false), |text| (text, true));
    parse_f64_leniently(text).map(|score| (score, is_open))
}

/// A limit of a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LexLimit<'a> {
    /// Below all members.
    Lowest,
    /// Above all members.
    Highest,
    /// This member, which is in the range.
    Included(&'a [u8]),
    /// This member, which is not.
    Excluded(&'a [u8]),
}

impl<'a> LexLimit<'a> {
    fn parse(text: &'a [u8]) -> Option<Self> {
        match text {
            b"-" => Some(Self::Lowest),
            b"+" => Some(Self::Highest),
            [b'[', member @ ..] => Some(Self::Included(member)),
            [b'(', member @ ..] => Some(Self::Excluded(member)),
            _ => None,
        }
    }
}

/// A range of members by their bytes, where all have the same score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LexRange<'a> {
    min: LexLimit<'a>,
    max: LexLimit<'a>,
}

impl<'a> LexRange<'a> {
    /// The range between two texts: `-`, `+`, or a member behind `[`, that is in the range, or `(`. None: a text is none of them.
    #[must_use]
    pub fn parse(min: &'a [u8], max: &'a [u8]) -> Option<Self> {
        Some(Self { min: LexLimit::parse(min)?, max: LexLimit::parse(max)? })
    }

    /// Whether no member can lie in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        use LexLimit::{Excluded, Highest, Included, Lowest};
        match (self.min, self.max) {
            (Highest, _) | (_, Lowest) => true,
            (Lowest, _) | (_, Highest) => false,
            (Included(min), Included(max)) => min > max,
            (Included(min) | Excluded(min), Included(max) | Excluded(max)) => min >= max,
        }
    }

    /// Whether a member is not below the range.
    #[must_use]
    pub fn reaches_down_to(&self, member: &[u8]) -> bool {
        match self.min {
            LexLimit::Lowest => true,
            LexLimit::Highest => false,
            LexLimit::Included(min) => min <= member,
            LexLimit::Excluded(min) => min < member,
        }
    }

    /// Whether a member is not above the range.
    #[must_use]
    pub fn reaches_up_to(&self, member: &[u8]) -> bool {
        match self.max {
            LexLimit::Lowest => false,
            LexLimit::Highest => true,
            LexLimit::Included(max) => member <= max,
            LexLimit::Excluded(max) => member < max,
        }
    }

    /// The edge that all members of the range lie above, where all have this score. None: below all members.
    #[must_use]
    pub fn lower(&self, score: f64) -> Option<Edge<'a>> {
        match self.min {
            LexLimit::Lowest => None,
            LexLimit::Highest => Some(Edge::behind_score(f64::INFINITY)),
            LexLimit::Included(min) => Some(Edge::before_member(score, min)),
            LexLimit::Excluded(min) => Some(Edge::behind_member(score, min)),
        }
    }

    /// The edge that all of them lie below. None: above all members.
    #[must_use]
    pub fn upper(&self, score: f64) -> Option<Edge<'a>> {
        match self.max {
            LexLimit::Lowest => Some(Edge::before_score(f64::NEG_INFINITY)),
            LexLimit::Highest => None,
            LexLimit::Included(max) => Some(Edge::behind_member(score, max)),
            LexLimit::Excluded(max) => Some(Edge::before_member(score, max)),
        }
    }

    /// The places of the members in the range among all there are, which need not have the same score: then it begins at the first
    /// one that is not before it and ends at the next one behind it, and both ends of all members decide whether there are any. So
    /// does Redis. `backwards`: the members come from the highest to the lowest, and places count in this direction.
    pub fn places<'m>(&self, members: impl Iterator<Item = &'m [u8]> + Clone, backwards: bool) -> std::ops::Range<usize> {
        let (Some(first), Some(last)) = (members.clone().next(), members.clone().last()) else { return 0..0 };
        let (lowest, highest) = if backwards { (last, first) } else { (first, last) };
        if self.is_empty() || !self.reaches_down_to(highest) || !self.reaches_up_to(lowest) {
            return 0..0;
        }
        let begins = |member| if backwards { self.reaches_up_to(member) } else { self.reaches_down_to(member) };
        let stays = |member| if backwards { self.reaches_down_to(member) } else { self.reaches_up_to(member) };
        let before = members.clone().take_while(|member| !begins(member)).count();
        before..before + members.skip(before).take_while(|member| stays(member)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(min: &str, max: &str, members: &str, backwards: bool) -> std::ops::Range<usize> {
        let range = LexRange::parse(min.as_bytes(), max.as_bytes()).expect("a range");
        range.places(members.split(' ').map(str::as_bytes), backwards)
    }

    #[test]
    fn limits_are_in_or_not() {
        for (min, max, expected) in [
            ("-", "+", 0..4),
            ("[b", "[c", 1..3),
            ("(b", "[c", 2..3),
            ("[b", "(c", 1..2),
            ("(b", "(c", 2..2),
            ("[bb", "+", 2..4),
            ("-", "(a", 0..0),
            ("[x", "+", 0..0),
            ("[c", "[b", 0..0),
            ("(b", "[b", 0..0),
            ("+", "-", 0..0),
            ("+", "+", 0..0),
            ("-", "-", 0..0),
            ("[", "[a", 0..1),
        ] {
            assert_eq!(places(min, max, "a b c d", false).len(), expected.len(), "{min} {max}");
            let backwards = places(min, max, "d c b a", true);
            assert_eq!(backwards.len(), expected.len(), "{min} {max}");
            if !expected.is_empty() {
                assert_eq!(places(min, max, "a b c d", false), expected);
                assert_eq!(4 - backwards.end..4 - backwards.start, expected);
            }
        }
        assert!(LexRange::parse(b"a", b"+").is_none() && LexRange::parse(b"-", b"").is_none());
    }

    #[test]
    fn without_order_the_direction_decides() {
        assert_eq!(places("[b", "[c", "x b a c", false), 0..0);
        assert_eq!(places("[b", "[c", "a c x b", false), 1..2);
        assert_eq!(places("[b", "[c", "b x c a", true), 0..3);
        assert_eq!(places("-", "[c", "a x b", false), 0..1);
    }

    #[test]
    fn scores_are_open_behind_a_parenthesis() {
        let parse = |min: &str, max: &str| ScoreRange::parse(min.as_bytes(), max.as_bytes());
        assert_eq!(parse("1", "2"), Some(ScoreRange::closed(1.0, 2.0)));
        assert_eq!(parse("-inf", "+inf"), Some(ScoreRange::closed(f64::NEG_INFINITY, f64::INFINITY)));
        assert_eq!(parse("(1", "("), Some(ScoreRange { min: 1.0, max: 0.0, above_min: true, below_max: true }));
        assert_eq!([parse("x", "1"), parse("1", "nan"), parse("1", "((2"), parse("[1", "2")], [None; 4]);
    }
}
