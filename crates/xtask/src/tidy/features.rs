//! No crate turns the simulation on by default: users get builds without it, and so does a build of the workspace.

use serde_json::Value;

use super::problem::Problem;

const FEATURE: &str = "sim";
/// The crates whose code the feature changes.
const OWNERS: &[&str] = &["almandine-base", "almandine-io"];

pub(super) fn check(metadata: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in list(&metadata["packages"]) {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(short) = name.strip_prefix("almandine-") else { continue };
        let path = format!("crates/{short}/Cargo.toml");
        if is_enabled(package, "default", 0) {
            problems.push(Problem::new(&path, 0, format!("a feature of its default turns `{FEATURE}` on")));
        }
        for dependency in list(&package["dependencies"]) {
            let owner = dependency["name"].as_str().unwrap_or_default();
            if OWNERS.contains(&owner)
                && dependency["kind"] != "dev"
                && list(&dependency["features"]).any(|feature| feature == FEATURE)
            {
                problems.push(Problem::new(&path, 0, format!("depends on {owner} with `{FEATURE}`")));
            }
        }
    }
    problems
}

/// Whether a feature of a package turns the simulation on, by itself or by another feature.
fn is_enabled(package: &Value, feature: &str, depth: usize) -> bool {
    let parts = list(&package["features"][feature]).filter_map(Value::as_str);
    depth < 8 && parts.into_iter().any(|part| part == FEATURE || part.ends_with("/sim") || is_enabled(package, part, depth + 1))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_simulation_in_a_default_or_a_dependency_is_found() {
        const OWNER: &str = "almandine-io";
        let run = |name: &str, features: Value, dependencies: Value| {
            check(&json!({ "packages": [{ "name": name, "features": features, "dependencies": dependencies }] })).len()
        };
        let on_io = |kind: Value, features: Value| json!([{ "name": OWNER, "kind": kind, "features": features }]);
        assert_eq!(run(OWNER, json!({ "sim": [], "default": [] }), json!([])), 0);
        assert_eq!(run(OWNER, json!({ "sim": [], "default": ["sim"] }), json!([])), 1);
        assert_eq!(run("almandine-server", json!({ "default": ["all"], "all": ["almandine-io/sim"] }), json!([])), 1);
        assert_eq!(run("almandine-net", json!({ "sim": ["almandine-io/sim"] }), on_io(Value::Null, json!(["sim"]))), 1);
        assert_eq!(run("almandine-net", json!({}), on_io(json!("dev"), json!(["sim"]))), 0);
        assert_eq!(run("almandine-sim", json!({ "sim": ["almandine-io/sim"] }), on_io(Value::Null, json!([]))), 0);
        assert_eq!(run("almandine-sim", json!({ "default": ["sim"], "sim": ["almandine-io/sim"] }), json!([])), 1);
        assert_eq!(
            run("almandine-sim", json!({}), on_io(Value::Null, json!(["sim"]))),
            1,
            "a build of the workspace would have it"
        );
        let on_base = json!([{ "name": "almandine-base", "kind": null, "features": ["sim"] }]);
        assert_eq!(run("almandine-epoch", json!({}), on_base), 1);
        assert_eq!(run("serde", json!({ "default": ["sim"] }), json!([])), 0);
    }
}
