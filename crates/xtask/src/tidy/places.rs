//! Nothing in the tree names a place that exists on one machine or in one network only.

use super::problem::Problem;
use super::source::Source;

/// Written in pieces, so that this file does not name them.
const PLACES: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/wo", "rk/"),
    concat!("/tm", "p/alm"),
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("npmjs", ".org"),
    concat!("npmjs", ".com"),
    concat!("deb.debian", ".org"),
    concat!("proxy.golang", ".org"),
    concat!("repo1.maven", ".org"),
];

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let mut problems = Vec::new();
    // Cargo's lock files name the registry by design.
    for source in sources.iter().filter(|s| !s.path.ends_with("Cargo.lock")) {
        for (i, line) in source.lines.iter().enumerate() {
            if let Some(place) = PLACES.iter().find(|place| names(line, place)) {
                problems.push(Problem::new(
                    &source.path,
                    i + 1,
                    format!("names {place}, which is a place of one machine or network"),
                ));
            }
        }
    }
    problems
}

/// Whether `place` begins a path or a host in `line`, rather than continuing a longer word.
fn names(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !place.starts_with('/') || !before.is_some_and(|c| c.is_alphanumeric() || "._-~}".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_found_and_longer_paths_are_not() {
        for place in PLACES {
            let text = format!("see {place}x");
            assert_eq!(check(&[Source::new("docs/a.md", &text)]).len(), 1, "{text}");
            assert!(check(&[Source::new("Cargo.lock", &text)]).is_empty());
        }
        assert!(check(&[Source::new("docs/a.md", concat!("net", "/wo", "rk/x and ./ho", "me/y"))]).is_empty());
    }
}
