//! Patterns with listeners, found by what they begin or end with, so that a message is compared with those only that are near it.

use std::collections::BTreeMap;
use std::collections::HashMap;

use almandine_datatypes::glob::{self, Case};
use bytes::Bytes;

use super::Counts;

/// Patterns that have the same literal end.
type Group = BTreeMap<Bytes, Counts>;

/// Patterns by one of their ends.
#[derive(Debug, Default)]
struct ByEnd {
    groups: HashMap<Bytes, Group>,
    /// How many groups there are for each length of their end.
    lengths: BTreeMap<usize, usize>,
}

impl ByEnd {
    fn add(&mut self, end: Bytes, pattern: &Bytes, worker: usize) {
        let len = end.len();
        let group = self.groups.entry(end).or_default();
        if group.is_empty() {
            *self.lengths.entry(len).or_default() += 1;
        }
        group.entry(pattern.clone()).or_default().add(worker);
    }

    /// Says whether nobody listens to the pattern any more.
    fn remove(&mut self, end: &[u8], pattern: &[u8], worker: usize) -> bool {
        let Some(group) = self.groups.get_mut(end) else { return false };
        if !group.get_mut(pattern).is_some_and(|counts| counts.subtract(worker)) {
            return false;
        }
        group.remove(pattern);
        if group.is_empty() {
            self.groups.remove(end);
            if let Some(groups) = self.lengths.get_mut(&end.len()) {
                *groups -= 1;
                if *groups == 0 {
                    self.lengths.remove(&end.len());
                }
            }
        }
        true
    }

    fn each_match<'e>(&self, channel: &[u8], end_of: impl Fn(usize) -> &'e [u8], each: &mut dyn FnMut(&Bytes, &Counts)) {
        for &len in self.lengths.keys().take_while(|len| **len <= channel.len()) {
            for (pattern, counts) in self.groups.get(end_of(len)).into_iter().flatten() {
                if glob::matches(pattern, channel, Case::Sensitive) {
                    each(pattern, counts);
                }
            }
        }
    }
}

/// All patterns. One that begins with plain bytes is found by them, others by those at their end; who has neither is compared with every channel.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    by_beginning: ByEnd,
    by_ending: ByEnd,
    len: usize,
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

impl Patterns {
    pub(super) fn add(&mut self, pattern: &Bytes, worker: usize) {
        let (by_end, end) = self.place(pattern);
        let before = by_end.groups.get(end).is_some_and(|group| group.contains_key(pattern));
        by_end.add(pattern.slice_ref(end), pattern, worker);
        self.len += usize::from(!before);
    }

    pub(super) fn remove(&mut self, pattern: &[u8], worker: usize) {
        let (by_end, end) = self.place(pattern);
        let is_gone = by_end.remove(end, pattern, worker);
        self.len -= usize::from(is_gone);
    }

    fn place<'p>(&mut self, pattern: &'p [u8]) -> (&mut ByEnd, &'p [u8]) {
        let beginning = beginning(pattern);
        if beginning.is_empty() { (&mut self.by_ending, ending(pattern)) } else { (&mut self.by_beginning, beginning) }
    }

    /// Visits the patterns that match a channel, each with how many listen to it.
    pub(super) fn each_match(&self, channel: &[u8], each: &mut dyn FnMut(&Bytes, &Counts)) {
        self.by_beginning.each_match(channel, |len| &channel[..len], each);
        self.by_ending.each_match(channel, |len| &channel[channel.len() - len..], each);
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

    /// Every pattern made of a few pieces against every channel made of a few letters: the index finds what a comparison with each finds.
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
        assert_eq!((patterns.len(), patterns.by_beginning.lengths.len(), patterns.by_ending.groups.len()), (0, 0, 0));
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
