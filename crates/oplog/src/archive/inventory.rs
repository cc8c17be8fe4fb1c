//! Which pages a base names: for a former base, whose table is no longer at hand.
//!
//! ```text
//! almandine pages 1
//! 3-17                    from page 3 through page 17
//! 19-19
//! sum 11223344
//! ```

use std::fmt::Write;

use crate::crc32c::sum;

const FIRST_LINE: &str = "almandine pages 1";

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Inventory {
    /// First and last page of each run, ascending.
    runs: Vec<(u64, u64)>,
}

impl Inventory {
    /// Of pages in ascending order.
    pub(super) fn of(pages: &[u64]) -> Self {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for page in pages {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == *page => *last = *page,
                _ => runs.push((*page, *page)),
            }
        }
        Self { runs }
    }

    pub(super) fn has(&self, page: u64) -> bool {
        let behind = self.runs.partition_point(|(first, _)| *first <= page);
        behind > 0 && self.runs[behind - 1].1 >= page
    }

    pub(super) fn encode(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        for (first, last) in &self.runs {
            let _ = writeln!(text, "{first}-{last}");
        }
        let _ = writeln!(text, "sum {:08x}", sum(text.as_bytes()));
        text
    }

    /// None when it is not what [`Self::encode`] makes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let body = &text[..text.strip_suffix('\n')?.rfind('\n')? + 1];
        if text[body.len()..] != format!("sum {:08x}\n", sum(body.as_bytes())) {
            return None;
        }
        let rows = body.strip_prefix(FIRST_LINE)?.strip_prefix('\n')?;
        let run = |row: &str| row.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        let runs: Vec<(u64, u64)> = rows.lines().map(run).collect::<Option<_>>()?;
        let ascend = runs.iter().all(|(first, last)| first <= last) && runs.windows(2).all(|pair| pair[0].1 < pair[1].0);
        ascend.then_some(Self { runs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_pages_and_no_others() {
        let pages = [3, 4, 5, 9, 11, 12, u64::MAX];
        let inventory = Inventory::of(&pages);
        (0..20).chain([u64::MAX - 1, u64::MAX]).for_each(|page| assert_eq!(inventory.has(page), pages.contains(&page), "{page}"));
        assert!(!Inventory::of(&[]).has(0));
    }

    /// The layout is fixed: archives outlive the program.
    #[test]
    fn the_text_is_pinned_and_no_other_passes() {
        let inventory = Inventory::of(&[3, 4, 5, 9]);
        let golden = "almandine pages 1\n3-5\n9-9\n";
        let text = inventory.encode();
        assert_eq!(text, format!("{golden}sum {:08x}\n", sum(golden.as_bytes())));
        assert_eq!(Inventory::decode(text.as_bytes()), Some(inventory));
        assert_eq!(Inventory::decode(Inventory::of(&[]).encode().as_bytes()), Some(Inventory::default()));
        for len in 0..text.len() {
            assert_eq!(Inventory::decode(&text.as_bytes()[..len]), None, "{len}");
            let mut bytes = text.clone().into_bytes();
            bytes[len] ^= 1;
            assert_eq!(Inventory::decode(&bytes), None, "{len}");
        }
        for rows in ["9-9\n3-5\n", "5-3\n", "x\n"] {
            let body = format!("almandine pages 1\n{rows}");
            assert_eq!(Inventory::decode(format!("{body}sum {:08x}\n", sum(body.as_bytes())).as_bytes()), None, "{rows}");
        }
    }
}
