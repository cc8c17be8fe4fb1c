//! Import circles: files of a crate that need each other, directly or by way of others.
//!
//! A circle can only be read as a whole, so a crate may have none of more than [`MOST`] files. The graph's nodes are files; a
//! file points to each file that a path in its code leads to (`crate::…`, `super::…`, `self::…`, a child module or an imported
//! one). Re-exports are followed to where the name is defined and are no dependency by themselves. Test code does not count.

mod imports;
mod modules;

use std::collections::{BTreeMap, BTreeSet};

use super::allowances::{self, CIRCLES};
use super::problem::Problem;
use super::source::Source;
use modules::Crate;

/// Files that may need each other.
const MOST: usize = 4;

/// File numbers that each file points to.
type Graph = Vec<BTreeSet<usize>>;

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    check_with(sources, CIRCLES)
}

fn check_with(sources: &[Source], allowed: &[(&str, usize)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, sources) in crates(sources) {
        let module_tree = Crate::new(&name, &sources);
        let largest = circles(&module_tree.graph()).into_iter().next().unwrap_or_default();
        let allowance = allowances::of(allowed, &name).unwrap_or(MOST);
        let path = format!("crates/{name}");
        if largest.len() > allowance {
            let files: Vec<&str> = largest.iter().map(|file| module_tree.short_path(*file)).collect();
            problems.push(Problem::new(
                path,
                0,
                format!(
                    "{} files need each other, {allowance} are allowed (`cargo xtask circles {name}` shows why): {}",
                    files.len(),
                    files.join(", ")
                ),
            ));
        } else if allowance > largest.len().max(MOST) || (allowance == MOST && allowances::of(allowed, &name).is_some()) {
            problems.push(Problem::new(path, 0, allowances::too_large("CIRCLES", &name, allowance, largest.len().max(MOST))));
        }
    }
    problems.extend(allowances::unknown(allowed, "CIRCLES", &crates(sources).into_keys().collect::<Vec<_>>()));
    problems
}

/// Prints each circle of a crate with the paths that close it.
pub(crate) fn print(sources: &[Source], only: &str) {
    for (name, sources) in crates(sources).into_iter().filter(|(name, _)| only.is_empty() || name == only) {
        let module_tree = Crate::new(&name, &sources);
        let graph = module_tree.graph();
        for circle in circles(&graph).into_iter().filter(|circle| circle.len() > 1) {
            println!("{name}: {} files need each other", circle.len());
            for file in &circle {
                let inside = graph[*file].iter().filter(|to| circle.contains(to)).map(|to| module_tree.short_path(*to));
                println!("  {} -> {}", module_tree.short_path(*file), inside.collect::<Vec<_>>().join(", "));
            }
        }
    }
}

/// Prints how many files each crate has, and how many imports there are between its files and between its folders, by which the
/// wayfinding in a crate is judged.
pub(crate) fn print_imports(sources: &[Source], only: &str) {
    println!("{:<14} {:>6} {:>8} {:>8} {:>8}", "crate", "files", "imports", "folders", "imports");
    for (name, sources) in crates(sources).into_iter().filter(|(name, _)| only.is_empty() || name == only) {
        let module_tree = Crate::new(&name, &sources);
        let graph = module_tree.graph();
        let folder =
            |file: usize| module_tree.short_path(file).split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
        let folders: BTreeSet<String> = (0..graph.len()).map(folder).collect();
        let arrows = || graph.iter().enumerate().flat_map(|(from, to)| to.iter().map(move |to| (from, *to)));
        let between: BTreeSet<(String, String)> =
            arrows().map(|(from, to)| (folder(from), folder(to))).filter(|(from, to)| from != to).collect();
        println!("{name:<14} {:>6} {:>8} {:>8} {:>8}", graph.len(), arrows().count(), folders.len(), between.len());
    }
}

/// Sources of product code by the crate that they belong to.
fn crates(sources: &[Source]) -> BTreeMap<String, Vec<&Source>> {
    let mut crates: BTreeMap<String, Vec<&Source>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        if let Some(name) = source.crate_name() {
            crates.entry(name.to_owned()).or_default().push(source);
        }
    }
    crates
}

/// Sets of files that reach each other, the largest first.
fn circles(graph: &Graph) -> Vec<Vec<usize>> {
    let reach: Vec<BTreeSet<usize>> = (0..graph.len()).map(|from| reachable(graph, from)).collect();
    let mut circles = Vec::new();
    let mut placed = BTreeSet::new();
    for from in 0..graph.len() {
        if placed.insert(from) {
            let others = reach[from].iter().copied().filter(|to| *to != from && reach[*to].contains(&from));
            let circle: Vec<usize> = std::iter::once(from).chain(others).collect();
            placed.extend(&circle);
            circles.push(circle);
        }
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

fn reachable(graph: &Graph, from: usize) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<usize> = graph[from].iter().copied().collect();
    while let Some(file) = open.pop() {
        if seen.insert(file) {
            open.extend(&graph[file]);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate of files that import the next one each; the last one imports the first by `back`.
    fn ring(files: usize, back: &str) -> Vec<Source> {
        let modules: String = (0..files).map(|i| format!("mod m{i};\n")).collect();
        let mut sources = vec![Source::new("crates/a/src/lib.rs", &modules)];
        for i in 0..files {
            let code = if i + 1 == files { back.to_owned() } else { format!("use crate::m{}::f;\n", i + 1) };
            sources.push(Source::new(&format!("crates/a/src/m{i}.rs"), &code));
        }
        sources
    }

    fn texts(sources: &[Source], allowed: &[(&str, usize)]) -> Vec<String> {
        check_with(sources, allowed).into_iter().map(|problem| problem.text).collect()
    }

    #[test]
    fn a_circle_of_five_files_is_refused() {
        assert_eq!(texts(&ring(5, "fn f() {}"), &[]), [""; 0], "a chain is no circle");
        assert_eq!(texts(&ring(4, "use super::m0::f;"), &[]), [""; 0]);
        for back in [
            "use super::m0::f;",
            "use crate::{m0::f};",
            "use crate::m0;",
            "fn f() { crate::m0::f() }",
            "pub use crate::m0::f as g;\nfn h() { g() }",
        ] {
            let found = texts(&ring(5, back), &[]);
            assert!(found.len() == 1 && found[0].starts_with("5 files need each other"), "{back}: {found:?}");
        }
    }

    #[test]
    fn tests_and_mere_re_exports_close_no_circle() {
        for back in ["#[cfg(test)]\nmod tests { use super::super::m0::f; }", "pub use crate::m0::f;", "// use crate::m0;"] {
            assert_eq!(texts(&ring(5, back), &[]), [""; 0], "{back}");
        }
    }

    #[test]
    fn a_re_export_leads_to_where_the_name_is_defined() {
        let mut sources = ring(5, "use crate::door::f;");
        sources[0] = Source::new("crates/a/src/lib.rs", "mod door; mod m0; mod m1; mod m2; mod m3; mod m4;");
        sources.push(Source::new("crates/a/src/door.rs", "pub(crate) use crate::m0::{f, g as h};"));
        assert!(texts(&sources, &[])[0].starts_with("5 files"));
    }

    #[test]
    fn allowances_only_shrink() {
        let five = ring(5, "use super::m0::f;");
        assert_eq!(texts(&five, &[("a", 5)]), [""; 0]);
        assert!(texts(&five, &[("a", 6)])[0].contains("is too large"));
        assert!(texts(&ring(2, ""), &[("a", 4)])[0].contains("is too large"), "four need no allowance");
        assert!(texts(&five, &[("a", 5), ("b", 5)])[0].contains("no crate"));
    }
}
