//! The elements that are sorted: their bytes in blocks, and an entry of each with what it is sorted by.

use std::cmp::Ordering;

use almandine_datatypes::number::parse_f64;
use almandine_handler::{CommandError, errors};

/// Bytes of a block; a longer element has one of its own.
const BLOCK: usize = 256 << 10;

/// By what elements are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// By numbers, then by their own bytes.
    Numbers,
    /// By their own bytes.
    Bytes,
    /// By the bytes of weights, which stand behind them; those without one come first.
    Weights,
}

/// An element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The number as a double's bits, or the first bytes of what decides.
    key: u64,
    block: u32,
    at: u32,
    len: u32,
}

/// Elements.
pub(super) struct Table {
    order: Order,
    descending: bool,
    blocks: Vec<Vec<u8>>,
    pub(super) entries: Vec<Entry>,
}

impl Table {
    /// With room for `len` elements.
    pub(super) fn new(order: Order, descending: bool, len: usize) -> Self {
        Self { order, descending, blocks: Vec::new(), entries: Vec::with_capacity(len) }
    }

    /// Bytes of memory that it takes, in about as much time as it has blocks.
    pub(super) fn memory(&self) -> usize {
        self.blocks.iter().map(Vec::capacity).sum::<usize>() + self.entries.capacity() * size_of::<Entry>()
    }

    /// Adds an element that is sorted by itself.
    ///
    /// # Errors
    /// When it should be a number and is none. It is added all the same.
    pub(super) fn push(&mut self, element: &[u8]) -> Result<(), CommandError> {
        let (key, outcome) = match self.order {
            Order::Numbers => number(element).map_or((0, Err(errors::generic::NOT_SORTABLE)), |number| (number.to_bits(), Ok(()))),
            Order::Bytes | Order::Weights => (beginning(element), Ok(())),
        };
        self.add(key, element, None);
        outcome
    }

    /// Adds an element that stays where it is.
    pub(super) fn push_unsorted(&mut self, element: &[u8]) {
        self.add(0, element, None);
    }

    /// Adds an element that is sorted by a weight.
    ///
    /// # Errors
    /// As for [`Table::push`].
    pub(super) fn push_weighed(&mut self, element: &[u8], weight: Option<&[u8]>) -> Result<(), CommandError> {
        if self.order != Order::Numbers {
            self.add(weight.map_or(0, beginning), element, Some(weight));
            return Ok(());
        }
        let number = weight.map_or(Some(0.0), number);
        self.add(number.unwrap_or(0.0).to_bits(), element, None);
        number.map(|_| ()).ok_or(errors::generic::NOT_SORTABLE)
    }

    /// Writes an element, behind it a mark whether it has a weight, and the weight.
    fn add(&mut self, key: u64, element: &[u8], weight: Option<Option<&[u8]>>) {
        let needed = element.len() + weight.map_or(0, |weight| 5 + weight.map_or(0, <[u8]>::len));
        if self.blocks.last().is_none_or(|block| block.capacity() - block.len() < needed) {
            self.blocks.push(Vec::with_capacity(needed.max(BLOCK)));
        }
        let index = self.blocks.len() - 1;
        let block = &mut self.blocks[index];
        // Blocks and elements are shorter than 4 GiB.
        self.entries.push(Entry { key, block: index as u32, at: block.len() as u32, len: element.len() as u32 });
        block.extend_from_slice(element);
        if let Some(weight) = weight {
            block.push(u8::from(weight.is_some()));
            let weight = weight.unwrap_or_default();
            block.extend_from_slice(&(weight.len() as u32).to_le_bytes());
            block.extend_from_slice(weight);
        }
    }

    /// The bytes of an element.
    pub(super) fn element(&self, entry: Entry) -> &[u8] {
        let at = entry.at as usize;
        &self.blocks[entry.block as usize][at..at + entry.len as usize]
    }

    fn weight(&self, entry: Entry) -> Option<&[u8]> {
        let rest = &self.blocks[entry.block as usize][(entry.at + entry.len) as usize..];
        let (head, rest) = rest.split_at(5);
        let len = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        (head[0] == 1).then(|| &rest[..len])
    }

    /// Which of two comes first.
    pub(super) fn compare(&self, one: Entry, other: Entry) -> Ordering {
        let bytes = || self.element(one).cmp(self.element(other));
        let ordering = match self.order {
            Order::Numbers => {
                let (one, other) = (f64::from_bits(one.key), f64::from_bits(other.key));
                one.partial_cmp(&other).unwrap_or(Ordering::Equal).then_with(bytes)
            }
            Order::Bytes => one.key.cmp(&other.key).then_with(bytes),
            Order::Weights => one.key.cmp(&other.key).then_with(|| self.weight(one).cmp(&self.weight(other))),
        };
        let ordering = if self.descending { ordering.reverse() } else { ordering };
        // What is equal stays as it came.
        ordering.then_with(|| (one.block, one.at).cmp(&(other.block, other.at)))
    }

    /// Sorts all, of which only these places matter.
    pub(super) fn sort(&mut self, places: &std::ops::Range<usize>) {
        let mut entries = std::mem::take(&mut self.entries);
        if places.end < entries.len() && !places.is_empty() {
            entries.select_nth_unstable_by(places.end, |one, other| self.compare(*one, *other));
            entries[..places.end].sort_unstable_by(|one, other| self.compare(*one, *other));
        } else {
            entries.sort_unstable_by(|one, other| self.compare(*one, *other));
        }
        self.entries = entries;
    }

    /// Sorts a part by itself.
    pub(super) fn sort_part(&mut self, part: std::ops::Range<usize>) {
        let mut entries = std::mem::take(&mut self.entries);
        entries[part].sort_unstable_by(|one, other| self.compare(*one, *other));
        self.entries = entries;
    }
}

/// The first bytes, in an order that is theirs as far as they go.
fn beginning(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    let len = bytes.len().min(8);
    first[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(first)
}

/// A text as C's `strtod` reads it: spaces before it and whatever stands behind a zero byte do not matter, nothing is zero.
/// None: it is no number, or lies beyond doubles of full precision.
fn number(text: &[u8]) -> Option<f64> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let spaces = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    parse_f64(&text[spaces..]).filter(|number| !number.is_subnormal())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(order: Order, descending: bool, elements: &[(&str, Option<&str>)]) -> Vec<String> {
        let mut table = Table::new(order, descending, elements.len());
        for (element, weight) in elements {
            table.push_weighed(element.as_bytes(), weight.map(str::as_bytes)).unwrap();
        }
        table.sort(&(0..elements.len()));
        table.entries.iter().map(|entry| String::from_utf8_lossy(table.element(*entry)).into_owned()).collect()
    }

    #[test]
    fn weights_decide_and_what_is_equal_stays_as_it_came() {
        let elements = [("c", Some("2")), ("b", None), ("a", Some("10")), ("d", Some("2")), ("e", Some(""))];
        assert_eq!(sorted(Order::Numbers, false, &elements), ["b", "e", "c", "d", "a"]);
        assert_eq!(sorted(Order::Numbers, true, &elements), ["a", "d", "c", "e", "b"]);
        assert_eq!(sorted(Order::Weights, false, &elements), ["b", "e", "a", "c", "d"]);
        assert_eq!(sorted(Order::Weights, true, &elements), ["c", "d", "a", "e", "b"]);
    }

    #[test]
    fn parts_and_places_are_sorted() {
        let mut table = Table::new(Order::Bytes, false, 6);
        for element in ["f", "longer than eight b", "longer than eight a", "b", "", "c"] {
            table.push(element.as_bytes()).unwrap();
        }
        table.sort(&(0..3));
        let first: Vec<_> = table.entries[..3].iter().map(|entry| table.element(*entry).to_vec()).collect();
        assert_eq!(first, [&b""[..], b"b", b"c"]);
    }

    #[test]
    fn numbers_are_read_as_by_strtod() {
        assert_eq!([number(b""), number(b" \t5"), number(b"5\0x"), number(b"0x10")], [Some(0.0), Some(5.0), Some(5.0), Some(16.0)]);
        assert_eq!([number(b" "), number(b"5 "), number(b"x"), number(b"nan"), number(b"1e999"), number(b"1e-310")], [None; 6]);
        assert_eq!(number(b"-inf"), Some(f64::NEG_INFINITY));
    }
}
