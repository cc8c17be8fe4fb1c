//! Libraries of others: their licences are on the list, and none is built in two versions without a reason.

use std::collections::BTreeMap;

use serde_json::Value;

use super::problem::Problem;

/// SPDX ids that go with MIT OR Apache-2.0.
const LICENCES: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "BSL-1.0",
    "CC0-1.0",
    "Unicode-3.0",
    "Unlicense",
    "MIT-0",
];

/// `(library, why two versions are built)`.
const TWICE: &[(&str, &str)] = &[
    ("getrandom", "the older one is named by ring, a part of rustls-webpki that is not built"),
    ("digest", "crc-fast implements the older one's traits, which nothing calls"),
    ("crypto-common", "of the older digest"),
];

pub(super) fn check(metadata: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let resolved: Vec<&str> = metadata["resolve"]["nodes"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .filter_map(|n| n["id"].as_str())
        .collect();
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    for package in packages.iter().filter(|p| !p["source"].is_null()) {
        let text = |field: &str| package[field].as_str().unwrap_or_default();
        if !resolved.contains(&text("id")) {
            continue;
        }
        if !allowed(text("license")) {
            problems.push(Problem::new(
                "Cargo.lock",
                0,
                format!("{}: the licence {:?} is not on the list", text("name"), text("license")),
            ));
        }
        versions.entry(text("name")).or_default().push(text("version"));
    }
    for (name, versions) in versions.iter().filter(|(_, v)| v.len() > 1) {
        if !TWICE.iter().any(|(listed, _)| listed == name) {
            problems.push(Problem::new("Cargo.lock", 0, format!("{name} is built in several versions: {}", versions.join(", "))));
        }
    }
    problems
}

/// Evaluates an SPDX expression: some alternative of which all parts are listed. `/` is an old form of OR.
fn allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let result = alternatives(&mut words);
    result && words.next().is_none()
}

type Words<'w> = std::iter::Peekable<std::str::SplitWhitespace<'w>>;

fn alternatives(words: &mut Words<'_>) -> bool {
    let mut any = parts(words);
    while words.next_if(|w| *w == "OR").is_some() {
        any |= parts(words);
    }
    any
}

fn parts(words: &mut Words<'_>) -> bool {
    let mut all = licence(words);
    while words.next_if(|w| *w == "AND").is_some() {
        all &= licence(words);
    }
    all
}

fn licence(words: &mut Words<'_>) -> bool {
    if words.next_if(|w| *w == "(").is_some() {
        let inner = alternatives(words);
        return words.next() == Some(")") && inner;
    }
    let mut id = words.next().unwrap_or_default().to_owned();
    if words.next_if(|w| *w == "WITH").is_some() {
        id = format!("{id} WITH {}", words.next().unwrap_or_default());
    }
    LICENCES.contains(&id.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn licence_expressions_are_evaluated() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR MIT",
        ] {
            assert!(allowed(good), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND GPL-3.0", "MIT)", "SSPL-1.0 OR RSALv2"] {
            assert!(!allowed(bad), "{bad}");
        }
    }

    #[test]
    fn strange_licences_and_second_versions_are_found() {
        let package = |name: &str, version: &str, license: &str| {
            let id = format!("{name} {version}");
            json!({ "name": name, "version": version, "license": license, "id": id, "source": "registry" })
        };
        let run = |packages: Vec<Value>| {
            let nodes: Vec<Value> = packages.iter().map(|p| json!({ "id": p["id"] })).collect();
            check(&json!({ "packages": packages, "resolve": { "nodes": nodes } })).len()
        };
        assert_eq!(run(vec![package("a", "1.0.0", "MIT"), package("b", "1.0.0", "MIT")]), 0);
        assert_eq!(run(vec![package("a", "1.0.0", "GPL-3.0")]), 1);
        assert_eq!(run(vec![package("a", "1.0.0", "MIT"), package("a", "2.0.0", "MIT")]), 1);
        let unused = check(&json!({ "packages": [package("a", "1.0.0", "GPL-3.0")], "resolve": { "nodes": [] } }));
        assert!(unused.is_empty(), "not built on this platform");
    }
}
