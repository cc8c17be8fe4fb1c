//! Patterns with listeners, found by plain bytes that they begin with, end with, and have inside, so that a message is compared
//! with those only that are near it.
//!
//! A text that matches a pattern begins with all that the pattern has before its first wildcard, ends with what it has behind the
//! last one, and has what is between two of them somewhere inside. Of what is inside, the longest part counts, cut to a power of
//! two: so a channel is searched for parts of few lengths, by looking up each piece of it of such a length. What a message costs
//! grows with its channel's length, and with the patterns that have the same plain bytes.

use std::collections::{BTreeMap, HashMap};

use almandine_base::steps;
use almandine_datatypes::glob::{self, Case};
use bytes::Bytes;

use super::{Counts, shrinks_to};

/// Groups that are looked at one by one rather than looked up.
const FEW: usize = 4;
/// Longest part of a pattern's inside that it is found by.
const INSIDE_BYTES_MAX: usize = 32;

/// Patterns that have the same plain bytes.
type Group = BTreeMap<Bytes, Counts>;

/// Something by plain bytes.
#[derive(Debug)]
struct ByPart<T> {
    groups: HashMap<Bytes, T>,
    /// How many groups there are for each length of their part.
    lengths: BTreeMap<usize, usize>,
}

impl<T> Default for ByPart<T> {
    fn default() -> Self {
        Self { groups: HashMap::new(), lengths: BTreeMap::new() }
    }
}

/// What is removed when nothing is in it.
trait Emptied {
    fn is_empty(&self) -> bool;
}

impl Emptied for Group {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl<T> Emptied for ByPart<T> {
    fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

impl<T: Default + Emptied> ByPart<T> {
    fn make(&mut self, part: &Bytes) -> &mut T {
        if !self.groups.contains_key(part) {
            *self.lengths.entry(part.len()).or_default() += 1;
        }
        self.groups.entry(part.clone()).or_default()
    }

    /// Takes something out of the group of a part, which goes when it is empty. None: there is no such group.
    fn take<R>(&mut self, part: &[u8], take: impl FnOnce(&mut T) -> R) -> Option<R> {
        let group = self.groups.get_mut(part)?;
        let taken = take(group);
        if group.is_empty() {
            self.groups.remove(part);
            if let Some(capacity) = shrinks_to(self.groups.len(), self.groups.capacity()) {
                self.groups.shrink_to(capacity);
            }
            if let Some(groups) = self.lengths.get_mut(&part.len()) {
                *groups -= 1;
                if *groups == 0 {
                    self.lengths.remove(&part.len());
                }
            }
        }
        Some(taken)
    }

    /// Visits the groups whose part is at an end of a text: `end_of` is the end of a length.
    fn each_at_end<'t>(&self, text: &'t [u8], end_of: impl Fn(usize) -> &'t [u8], mut each: impl FnMut(&T)) {
        let lengths = self.lengths.keys().take_while(|len| **len <= text.len());
        if self.groups.len() <= FEW {
            let is_end = |part: &Bytes| part.len() <= text.len() && *end_of(part.len()) == **part;
            self.groups.iter().filter(|(part, _)| is_end(part)).for_each(|(_, group)| each(group));
        } else {
            lengths.filter_map(|&len| self.groups.get(end_of(len))).for_each(each);
        }
    }

    /// Visits the groups whose part may be in a text; all of them where those are fewer than the pieces of the text.
    fn each_inside(&self, text: &[u8], mut each: impl FnMut(&T)) {
        if self.groups.len() <= text.len().max(FEW) {
            return self.groups.values().for_each(each);
        }
        for &len in self.lengths.keys().take_while(|len| **len <= text.len()) {
            for at in 0..=if len == 0 { 0 } else { text.len() - len } {
                let part = &text[at..at + len];
                let Some(group) = self.groups.get(part) else { continue };
                // Each once, though the text may have it several times.
                if len == 0 || !text[..at + len - 1].windows(len).any(|before| before == part) {
                    each(group);
                }
            }
        }
    }
}

/// All patterns: by their beginning, their ending and their inside.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    all: ByPart<ByPart<ByPart<Group>>>,
    len: usize,
    /// Another one whenever a client listens to a pattern or ceases to.
    version: u64,
}

/// The plain bytes that all texts begin with that match.
fn beginning(pattern: &[u8]) -> &[u8] {
    let len = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
    &pattern[..len]
}

/// The plain bytes that all texts end with that match; fewer where that is hard to say.
fn ending(pattern: &[u8]) -> &[u8] {
    if pattern.contains(&b'[') {
        // What may be the end of a class is hard to tell from plain bytes.
        return &[];
    }
    let len = pattern.iter().rev().position(|byte| b"*?\\".contains(byte)).unwrap_or(pattern.len());
    &pattern[pattern.len() - len..]
}

/// Plain bytes that all texts have inside that match: the longest part between two wildcards, and before the first class, cut to a
/// power of two.
fn inside(pattern: &[u8]) -> &[u8] {
    let plain = &pattern[..pattern.iter().position(|byte| *byte == b'[').unwrap_or(pattern.len())];
    let (first, last) = (beginning(plain).len(), plain.len() - ending(plain).len());
    let mut longest: &[u8] = &[];
    let mut escaped = false;
    let mut start = first;
    for at in first..last {
        // A byte behind a backslash stands for itself, but not beside the one before it.
        if escaped || b"*?\\".contains(&plain[at]) {
            if at - start > longest.len() {
                longest = &plain[start..at];
            }
            start = at + 1;
            escaped = !escaped && plain[at] == b'\\';
        }
    }
    let len = longest.len().min(INSIDE_BYTES_MAX);
    &longest[..len.checked_ilog2().map_or(0, |bits| 1 << bits)]
}

impl Patterns {
    pub(super) fn add(&mut self, pattern: &Bytes, worker: usize) {
        self.version += 1;
        let part = |part: fn(&[u8]) -> &[u8]| pattern.slice_ref(part(pattern));
        let group = self.all.make(&part(beginning)).make(&part(ending)).make(&part(inside));
        self.len += usize::from(!group.contains_key(pattern));
        group.entry(pattern.clone()).or_default().add(worker);
    }

    pub(super) fn remove(&mut self, pattern: &[u8], worker: usize) {
        self.version += 1;
        let subtract = |group: &mut Group| {
            let is_gone = group.get_mut(pattern).is_some_and(|counts| counts.subtract(worker));
            is_gone && group.remove(pattern).is_some()
        };
        let within = |endings: &mut ByPart<ByPart<Group>>| {
            endings.take(ending(pattern), |insides| insides.take(inside(pattern), subtract)).flatten()
        };
        self.len -= usize::from(self.all.take(beginning(pattern), within).flatten() == Some(true));
    }

    /// Visits the patterns that match a channel, each with how many listen to it. Returns with how many it was compared.
    pub(super) fn each_match(&self, channel: &[u8], each: &mut dyn FnMut(&Bytes, &Counts)) -> usize {
        let mut compared = 0;
        let mut compare = |group: &Group| {
            for (pattern, counts) in group {
                compared += 1;
                if glob::matches(pattern, channel, Case::Sensitive) {
                    each(pattern, counts);
                }
            }
        };
        self.all.each_at_end(
            channel,
            |len| &channel[..len],
            |endings| {
                endings.each_at_end(
                    channel,
                    |len| &channel[channel.len() - len..],
                    |insides| insides.each_inside(channel, &mut compare),
                );
            },
        );
        steps::take(compared);
        compared
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching(patterns: &Patterns, channel: &str) -> Vec<String> {
        let mut found = Vec::new();
        patterns.each_match(channel.as_bytes(), &mut |pattern, _| found.push(String::from_utf8_lossy(pattern).into_owned()));
        found.sort();
        found
    }

    /// Every pattern made of a few pieces against every channel made of a few letters: the index finds what a comparison with each
    /// finds.
    #[test]
    fn the_index_finds_what_comparing_with_all_finds() {
        let pieces = ["a", "b", "*", "?", "[ab]", "[^a]", "\\*", "\\a", "[", "]", "[a\\]", "]b", "[a-b", "\\"];
        let mut all = vec![String::new()];
        for _ in 0..3 {
            let longer: Vec<String> =
                all.iter().flat_map(|text| pieces.iter().map(move |piece| format!("{text}{piece}"))).collect();
            all.extend(longer);
        }
        all.sort();
        all.dedup();
        let mut patterns = Patterns::default();
        all.iter().for_each(|pattern| patterns.add(&Bytes::from(pattern.clone()), 0));
        assert_eq!(patterns.len(), all.len());
        let letters = ["a", "b", "*", "[", "]", "\\", ""];
        for first in letters {
            for second in letters {
                for third in letters {
                    let channel = format!("{first}{second}{third}");
                    let expected: Vec<String> = all
                        .iter()
                        .filter(|pattern| glob::matches(pattern.as_bytes(), channel.as_bytes(), Case::Sensitive))
                        .cloned()
                        .collect();
                    assert_eq!(matching(&patterns, &channel), expected, "{channel:?}");
                }
            }
        }
        all.iter().for_each(|pattern| patterns.remove(pattern.as_bytes(), 0));
        assert_eq!((patterns.len(), patterns.all.lengths.len(), patterns.all.groups.len()), (0, 0, 0));
    }

    /// What is inside of a pattern, as it is found by it.
    #[test]
    fn what_is_inside_is_cut_to_a_power_of_two() {
        for (pattern, expected) in [
            ("*", ""),
            ("begin*end", ""),
            ("*abc*", "ab"),
            ("a*b*cdefg*h", "cdef"),
            ("*ab?cd[xyz]longer*", "ab"),
            ("*\\\\abcd*", "abcd"),
            ("*a\\*bc*", "bc"),
            ("*0123456789012345678901234567890123456789*", "01234567890123456789012345678901"),
        ] {
            assert_eq!(String::from_utf8_lossy(inside(pattern.as_bytes())), expected, "{pattern}");
        }
    }

    /// With a hundred thousand patterns of each kind, a channel is compared with few of them, whether none matches, or one.
    #[test]
    fn a_message_is_compared_with_those_near_it() {
        const COUNT: usize = 100_000;
        type Kind = (&'static str, fn(usize) -> String, &'static str, &'static str);
        let kinds: [Kind; 6] = [
            ("by beginnings", |n| format!("news:{n}:*"), "news:none:x", "news:77777:x"),
            ("by endings", |n| format!("*:{n}"), "x:none", "x:77777"),
            ("by both", |n| format!("user:*:{n}"), "user:x:none", "user:x:77777"),
            ("by what is inside", |n| format!("*:{n:08}:*"), "x:none:y", "x:00077777:y"),
            ("by what is inside, between others", |n| format!("a*{n:08}?*z"), "a none z", "a 00077777 z"),
            ("of various lengths", |n| format!("*{}{n:06}*", "-".repeat(n % 5)), "x none y", "x ---077778 y"),
        ];
        for (what, pattern, without, with) in kinds {
            let mut patterns = Patterns::default();
            (0..COUNT).for_each(|n| patterns.add(&Bytes::from(pattern(n)), 0));
            let mut found = 0;
            let compared = [without, with].map(|channel| patterns.each_match(channel.as_bytes(), &mut |_, _| found += 1));
            println!("patterns {what}: compared with {compared:?} of {COUNT}");
            assert_eq!(found, 1, "{what}");
            assert!(compared[0] == 0 && compared[1] <= COUNT / 100, "{what}: {compared:?}");
            (0..COUNT).for_each(|n| patterns.remove(pattern(n).as_bytes(), 0));
            assert!(patterns.len() == 0 && patterns.all.groups.is_empty(), "{what}");
        }
    }

    #[test]
    fn a_pattern_stays_as_long_as_anybody_listens() {
        let mut patterns = Patterns::default();
        let pattern = Bytes::from_static(b"news.*");
        patterns.add(&pattern, 0);
        patterns.add(&pattern, 3);
        assert_eq!(patterns.len(), 1);
        patterns.each_match(b"news.x", &mut |_, counts| {
            assert_eq!((counts.total(), counts.workers().collect::<Vec<_>>()), (2, vec![0, 3]));
        });
        patterns.remove(&pattern, 0);
        assert_eq!(matching(&patterns, "news.x"), ["news.*"]);
        patterns.remove(&pattern, 3);
        assert!(matching(&patterns, "news.x").is_empty() && patterns.len() == 0);
    }
}
