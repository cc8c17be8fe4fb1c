//! What compilers do not check: layers, file headers, fences around `unsafe`, invariant ids, lengths, paths, licences.
//!
//! Rust is read by lines after comments and strings are told apart ([`source`]), not parsed: a macro that builds `unsafe` from
//! pieces, or an unusual layout of braces, can hide from these rules. They keep honest people honest. Every rule is a function from
//! sources to problems, and its tests show it a violation: a check that cannot fail is a defect.

mod allowances;
pub(crate) mod assertions;
pub(crate) mod circles;
mod dependencies;
mod documents;
mod features;
mod findings;
mod functions;
mod headers;
pub(crate) mod interfaces;
mod invariants;
mod kernel;
mod latches;
mod layers;
pub(crate) mod lines;
mod mechanisms;
mod mutants;
mod names;
mod places;
mod problem;
pub(crate) mod prose;
mod shape;
pub(crate) mod source;
mod unsafety;

use std::fs;
use std::path::Path;
use std::process::Command;

use problem::Problem;
use serde_json::Value;
use source::Source;

/// Runs all rules and prints what they find; true when nothing.
pub(crate) fn run() -> bool {
    let root = crate::root::root();
    let (problems, warnings) = match check(&root) {
        Ok(found) => found,
        Err(e) => {
            eprintln!("tidy: {e}");
            return false;
        }
    };
    for warning in &warnings {
        println!("note: {warning}");
    }
    for problem in &problems {
        eprintln!("tidy: {problem}");
    }
    println!("tidy: {} problems, {} notes", problems.len(), warnings.len());
    problems.is_empty()
}

fn check(root: &Path) -> Result<(Vec<Problem>, Vec<Problem>), String> {
    let sources = sources(root)?;
    let metadata = metadata(root)?;
    let (mut problems, mut warnings) = functions::check(&sources);
    warnings.extend(lines::check(&sources));
    problems.extend(layers::check(&metadata));
    problems.extend(headers::check(&sources));
    problems.extend(unsafety::check(&sources));
    problems.extend(invariants::check(&sources));
    problems.extend(places::check(&sources));
    problems.extend(circles::check(&sources));
    problems.extend(shape::check(&sources));
    problems.extend(latches::check(&sources));
    problems.extend(kernel::check(&sources));
    problems.extend(findings::check(&sources));
    problems.extend(documents::check(&sources, &|path| root.join(path).exists()));
    problems.extend(assertions::check(&sources));
    for (found, notes) in [prose::check(&sources), interfaces::check(&sources), names::check(&sources)] {
        problems.extend(found);
        warnings.extend(notes);
    }
    problems.extend(mechanisms::check(&sources));
    problems.extend(mutants::check(&sources));
    problems.extend(dependencies::check(&metadata));
    problems.extend(features::check(&metadata));
    Ok((problems, warnings))
}

/// All text files that are tracked or would be.
pub(crate) fn sources(root: &Path) -> Result<Vec<Source>, String> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("git ls-files: {e}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    // A file that is listed and gone is a deletion that is not committed yet; one that is not UTF-8 is no source.
    let read = |name: &str| fs::read_to_string(root.join(name)).ok().map(|text| Source::new(name, &text));
    let mut sources: Vec<Source> = names.split('\0').filter(|n| !n.is_empty()).filter_map(read).collect();
    let test_files: Vec<String> = sources.iter().flat_map(Source::test_files).collect();
    // What lies below a test module is test code, too.
    let stems: Vec<&str> = test_files.iter().map(|path| path.trim_end_matches(".rs")).collect();
    let is_below = |path: &str| stems.iter().any(|stem| path.strip_prefix(stem).is_some_and(|rest| rest.starts_with(['/', '.'])));
    for source in sources.iter_mut().filter(|s| is_below(&s.path)) {
        source.tests_from = 0;
    }
    Ok(sources)
}

fn metadata(root: &Path) -> Result<Value, String> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))
}
