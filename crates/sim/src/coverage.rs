//! What runs came to: the names of all steps, points and `sometimes!` in the sources, and how often each has happened.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Counts by name.
pub type Counts = BTreeMap<&'static str, u64>;

/// Adds counts to others.
pub fn add(all: &mut Counts, more: &Counts) {
    more.iter().for_each(|(name, times)| *all.entry(name).or_default() += times);
}

/// All that the sources of the product say that happens sometimes; none where the sources are not.
#[must_use]
pub fn named_in_sources() -> BTreeSet<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/"));
    let mut names = BTreeSet::new();
    for source in sources(crates) {
        let text = fs::read_to_string(&source).unwrap_or_default();
        names
            .extend(text.split("sometimes!(\"").skip(1).filter_map(|rest| rest.split_once("\")")).map(|(name, _)| name.to_owned()));
    }
    names
}

/// The sources of the crates, without this one and the macro's.
fn sources(crates: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![crates.to_path_buf()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && path != crates.join("sim") {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("base/src/points.rs") {
                found.push(path);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_the_sources() {
        assert!(named_in_sources().contains("a session gives its ready keys to the server"));
    }
}
