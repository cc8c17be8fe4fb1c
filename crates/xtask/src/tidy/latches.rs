//! Latches are released by guards: `unlock_…` is called in the guards' file only, so that no way out of a function forgets one.

use super::allowances::{self, UNLOCKS};
use super::problem::Problem;
use super::source::{Source, has_word};

const CALLS: [&str; 2] = ["unlock_exclusive", "unlock_shared"];
/// The latch itself and its guards.
const FILES: [&str; 2] = ["/bucket.rs", "/guard.rs"];

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    check_with(sources, allowances::of(UNLOCKS, "store"))
}

fn check_with(sources: &[Source], allowance: Option<usize>) -> Vec<Problem> {
    let mut found = Vec::new();
    for source in sources
        .iter()
        .filter(|source| source.crate_name() == Some("store") && !FILES.iter().any(|file| source.path.ends_with(file)))
    {
        let calls =
            source.code.iter().enumerate().filter(|(i, line)| !source.is_test(*i) && CALLS.iter().any(|call| has_word(line, call)));
        found
            .extend(calls.map(|(i, line)| Problem::new(&source.path, i + 1, format!("releases a latch by hand: {}", line.trim()))));
    }
    match allowance {
        Some(allowance) if allowance > found.len() || allowance == 0 => {
            vec![Problem::new("crates/store", 0, allowances::too_large("UNLOCKS", "store", allowance, found.len()))]
        }
        Some(allowance) if allowance == found.len() => Vec::new(),
        _ => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_by_hand_is_refused() {
        let by_hand = [Source::new("crates/store/src/a.rs", "fn f() { bucket.unlock_shared(); }\n// unlock_shared\n")];
        assert_eq!(check_with(&by_hand, None).len(), 1);
        assert_eq!(check_with(&by_hand, Some(1)).len(), 0);
        assert_eq!(check_with(&by_hand, Some(2)).len(), 1, "allowances only shrink");
        let guard = [Source::new("crates/store/src/index/guard.rs", "fn drop() { bucket.unlock_shared(); }")];
        assert_eq!(check_with(&guard, None).len(), 0);
    }
}
