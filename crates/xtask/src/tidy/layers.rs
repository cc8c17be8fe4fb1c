//! The layers: a crate may use only crates of a lower rank. The table is the architecture; a crate that is not in it is a problem.

use serde_json::Value;

use super::problem::Problem;

/// `(crate, layer, position within the layer)`. Equal ranks do not know each other.
const LAYERS: &[(&str, u8, u8)] = &[
    ("almandine-base", 0, 0),
    ("almandine-resp", 0, 1),
    ("almandine-command-spec", 0, 1),
    ("almandine-datatypes", 0, 1),
    ("almandine-lua", 0, 0),
    ("almandine-rdb", 0, 2),
    ("almandine-io", 1, 0),
    ("almandine-epoch", 1, 1),
    ("almandine-config", 1, 1),
    ("almandine-net", 1, 1),
    ("almandine-tls", 2, 0),
    ("almandine-device", 2, 0),
    ("almandine-oplog", 2, 0),
    ("almandine-store", 2, 1),
    ("almandine-keyspace", 3, 0),
    ("almandine-acl", 3, 0),
    ("almandine-script", 3, 0),
    ("almandine-recovery", 3, 1),
    ("almandine-instance", 3, 1),
    ("almandine-handler", 3, 2),
    ("almandine-commands", 3, 3),
    ("almandine-admin", 3, 4),
    ("almandine-console", 4, 0),
    ("almandine-session", 5, 0),
    ("almandine-server", 5, 1),
    ("almandine-testkit", TOOLS, 0),
    ("almandine-sim", TOOLS, 1),
    ("almandine-manual", TOOLS, 0),
    ("almandine-bench", TOOLS, 1),
    ("almandine-check", TOOLS, 1),
    ("almandine-lab", TOOLS, 2),
    ("xtask", TOOLS, 1),
];

/// Tools see everything and nothing of the product sees them, except tests.
const TOOLS: u8 = 9;

pub(super) fn check(metadata: &Value) -> Vec<Problem> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let members: Vec<&Value> = packages.iter().filter(|p| p["source"].is_null()).collect();
    let mut problems = Vec::new();
    for package in &members {
        let name = text(&package["name"]);
        let Some(own) = rank(name) else {
            problems.push(Problem::new(name, 0, "has no layer: add it to crates/xtask/src/tidy/layers.rs with its place"));
            continue;
        };
        for dependency in package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let used = text(&dependency["name"]);
            let Some(theirs) = rank(used) else { continue };
            let for_tests = dependency["kind"] == "dev";
            if theirs < own || for_tests && theirs.0 == TOOLS {
                continue;
            }
            let text = format!("uses {used}, which is not below it (layer {}.{} uses {}.{})", own.0, own.1, theirs.0, theirs.1);
            problems.push(Problem::new(name, 0, text));
        }
    }
    problems
}

/// Whether a crate is of the product, by the name of its folder.
pub(super) fn is_product(folder: &str) -> bool {
    rank(&format!("almandine-{folder}")).is_some_and(|rank| rank.0 != TOOLS)
}

fn rank(name: &str) -> Option<(u8, u8)> {
    LAYERS.iter().find(|(n, _, _)| *n == name).map(|(_, layer, position)| (*layer, *position))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(name: &str, uses: &str, kind: Option<&str>) -> Vec<Problem> {
        check(&json!({ "packages": [{ "name": name, "source": null, "dependencies": [{ "name": uses, "kind": kind }] }] }))
    }

    #[test]
    fn arrows_point_down() {
        assert!(one("almandine-store", "almandine-epoch", None).is_empty());
        assert!(one("almandine-net", "almandine-io", None).is_empty());
        assert!(one("almandine-store", "serde", None).is_empty());
        assert_eq!(one("almandine-epoch", "almandine-store", None).len(), 1);
        assert_eq!(one("almandine-io", "almandine-net", None).len(), 1);
        assert_eq!(one("almandine-resp", "almandine-datatypes", None).len(), 1, "equal ranks do not know each other");
        assert_eq!(one("almandine-epoch", "almandine-store", Some("dev")).len(), 1);
    }

    #[test]
    fn only_tests_use_tools() {
        assert!(one("almandine-server", "almandine-testkit", Some("dev")).is_empty());
        assert_eq!(one("almandine-server", "almandine-testkit", None).len(), 1);
    }

    #[test]
    fn a_crate_without_a_layer_is_a_problem() {
        assert_eq!(one("almandine-surprise", "almandine-base", None).len(), 1);
    }
}
