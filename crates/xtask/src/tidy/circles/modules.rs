//! A crate's modules, and which file a path leads to.

use std::collections::{BTreeMap, BTreeSet};

use super::Graph;
use super::imports::{Imports, Use};
use crate::tidy::source::Source;

/// How many re-exports a name may lead through; more would be a circle of them.
const HOPS_MAX: usize = 16;

/// The files of a crate.
pub(super) struct Crate<'s> {
    prefix: String,
    files: Vec<File<'s>>,
    by_module: BTreeMap<Vec<String>, usize>,
}

struct File<'s> {
    path: &'s str,
    module: Vec<String>,
    imports: Imports,
}

impl<'s> Crate<'s> {
    pub(super) fn new(name: &str, sources: &[&'s Source]) -> Self {
        let prefix = format!("crates/{name}/src/");
        let has_library = sources.iter().any(|source| source.path == format!("{prefix}lib.rs"));
        let mut files = Vec::new();
        let mut by_module = BTreeMap::new();
        for source in sources.iter().filter(|source| source.tests_from > 0) {
            let module = module_of(&source.path[prefix.len()..]);
            // A program beside a library is a crate of its own.
            if !(has_library && source.path == format!("{prefix}main.rs")) {
                by_module.insert(module.clone(), files.len());
                files.push(File { path: &source.path, module, imports: Imports::new(&source.code[..source.tests_from]) });
            }
        }
        Self { prefix, files, by_module }
    }

    pub(super) fn short_path(&self, file: usize) -> &'s str {
        &self.files[file].path[self.prefix.len()..]
    }

    pub(super) fn graph(&self) -> Graph {
        self.files.iter().enumerate().map(|(number, file)| self.needs(number, file)).collect()
    }

    fn needs(&self, number: usize, file: &File<'_>) -> BTreeSet<usize> {
        let imports = &file.imports;
        let imported = imports.uses.iter().filter(|import| !import.is_public || imports.words.contains(&import.name));
        let paths = imported.map(|import| &import.path).chain(&imports.inline);
        let targets = paths.filter_map(|path| self.file_of(&self.absolute(file, path)?, &file.module, HOPS_MAX));
        targets.filter(|target| *target != number).collect()
    }

    /// A path from the crate's root; `None` for one that leaves the crate.
    fn absolute(&self, file: &File<'_>, path: &[String]) -> Option<Vec<String>> {
        let mut base = match path[0].as_str() {
            "crate" => Vec::new(),
            "self" | "super" => file.module.clone(),
            first => {
                let mut child = file.module.clone();
                child.push(first.to_owned());
                if !self.by_module.contains_key(&child) && !file.imports.uses.iter().any(|import| import.name == first) {
                    return None;
                }
                let mut whole = file.module.clone();
                whole.extend_from_slice(path);
                return Some(whole);
            }
        };
        let mut rest = path;
        while let Some(("crate" | "self" | "super", after)) = rest.split_first().map(|(first, after)| (first.as_str(), after)) {
            if rest[0] == "super" {
                base.pop()?;
            }
            rest = after;
        }
        base.extend_from_slice(rest);
        Some(base)
    }

    /// The file that defines what an absolute path names: the deepest module on it, or where that module's import leads. A private
    /// import serves `viewer` only within that module.
    fn file_of(&self, path: &[String], viewer: &[String], hops: usize) -> Option<usize> {
        let depth = (0..=path.len()).rev().find(|depth| self.by_module.contains_key(&path[..*depth]))?;
        let number = self.by_module[&path[..depth]];
        let file = &self.files[number];
        let is_seen = |import: &&Use| import.is_public || viewer.starts_with(&file.module);
        let import = path.get(depth).and_then(|name| file.imports.uses.iter().filter(is_seen).find(|import| import.name == *name));
        let (Some(import), Some(hops)) = (import, hops.checked_sub(1)) else { return Some(number) };
        let mut whole = self.absolute(file, &import.path)?;
        if whole == path[..=depth] {
            return Some(number);
        }
        whole.extend_from_slice(&path[depth + 1..]);
        self.file_of(&whole, viewer, hops)
    }
}

/// `a/b.rs` and `a/b/mod.rs` are `a::b`.
fn module_of(file: &str) -> Vec<String> {
    let stem = file.trim_end_matches(".rs");
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    if matches!(stem, "lib" | "main") { Vec::new() } else { stem.split('/').map(str::to_owned).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_files() {
        let sources = [
            Source::new("crates/a/src/lib.rs", "pub mod b; pub use b::c::Thing;"),
            Source::new("crates/a/src/b/mod.rs", "mod c; pub(crate) use self::c::Thing; use std::fs; fn f() { c::g(fs::read()) }"),
            Source::new("crates/a/src/b/c.rs", "use super::d; use crate::Thing as T; fn g() { d::h(); std::b::x() }"),
            Source::new(
                "crates/a/src/b/d.rs",
                "mod inner { use super::super::c; use super::k; }\nfn k() { crate::b::Thing::new() }",
            ),
            Source::new("crates/a/src/main.rs", "use a::b;"),
        ];
        let sources: Vec<&Source> = sources.iter().collect();
        let tree = Crate::new("a", &sources);
        let graph = tree.graph();
        let needs = |file: &str| {
            let number = (0..graph.len()).find(|n| tree.short_path(*n) == file).expect(file);
            graph[number].iter().map(|to| tree.short_path(*to)).collect::<Vec<_>>()
        };
        assert_eq!(needs("lib.rs"), [""; 0], "only re-exports");
        assert_eq!(needs("b/mod.rs"), ["b/c.rs"]);
        assert_eq!(needs("b/c.rs"), ["b/d.rs"], "its own name, by way of the root, is no dependency");
        assert_eq!(needs("b/d.rs"), ["b/c.rs"]);
        assert_eq!(graph.len(), 4, "the program is a crate of its own");
    }
}
