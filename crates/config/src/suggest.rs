//! What a mistyped parameter may have been meant to be.

use crate::parameter;

/// Options and lines that are no parameters.
const OTHERS: [&str; 8] = ["help", "version", "check-config", "test-memory", "include", "user", "rename-command", "loadmodule"];

/// The name that is nearest to `typed`, if one is near enough to be meant.
pub(crate) fn nearest(typed: &str) -> Option<&'static str> {
    let parameters = parameter::all().filter(|p| !p.flags.hidden).flat_map(|p| [p.name, p.alias]).filter(|name| !name.is_empty());
    let names = parameters.chain(OTHERS);
    let near = names.map(|name| (distance(typed, name), name)).min_by_key(|(distance, _)| *distance)?;
    let tolerated = (typed.len() / 3).clamp(1, 4);
    (near.0 <= tolerated).then_some(near.1)
}

/// Letters to insert, delete, replace or swap with their neighbour to make `right` of `left`; `-` and `_` are no letters.
fn distance(left: &str, right: &str) -> usize {
    let letters = |text: &str| text.bytes().filter(|byte| !matches!(byte, b'-' | b'_')).collect::<Vec<u8>>();
    let (left, right) = (letters(left), letters(right));
    let mut before_last = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let mut cost = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                let swapped: &Vec<usize> = &before_last;
                cost = cost.min(swapped[j - 1] + 1);
            }
            row.push(cost);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_find_their_parameter_and_other_words_find_none() {
        let cases = [
            ("max-memory", Some("maxmemory")),
            ("maxmemroy", Some("maxmemory")),
            ("storagedir", Some("storage-dir")),
            ("prot", Some("port")),
            ("worker", Some("workers")),
            ("require-pass", Some("requirepass")),
            ("loadlevel", Some("loglevel")),
            ("check-cofnig", Some("check-config")),
            ("inclued", Some("include")),
            ("holiday", None),
            ("x", None),
        ];
        for (typed, meant) in cases {
            assert_eq!(nearest(typed), meant, "{typed}");
        }
    }
}
