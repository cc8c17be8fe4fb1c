//! Documents that are printed by the server from its own tables. A stale one fails `tidy`, which names the command that refreshes it.

use std::fs;
use std::path::Path;
use std::process::Command;

/// One generated document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Document {
    /// Where it stands, from the root.
    pub(crate) path: &'static str,
    /// What `almandine-server --print-reference` calls it.
    pub(crate) reference: &'static str,
}

/// To generate a further document, let `almandine-server --print-reference NAME` print it and add a line.
pub(crate) const DOCUMENTS: &[Document] = &[
    Document { path: "docs/reference/commands.md", reference: "commands" },
    Document { path: "docs/reference/config.md", reference: "config" },
    Document { path: "docs/reference/metrics.md", reference: "metrics" },
];

/// Paths whose content is not what `print` gives for them now, with the reason.
pub(crate) fn stale(
    documents: &[Document],
    read: &dyn Fn(&str) -> Option<String>,
    print: &dyn Fn(&str) -> Result<String, String>,
) -> Vec<(String, String)> {
    let mut problems = Vec::new();
    for document in documents {
        let reason = match (read(document.path), print(document.reference)) {
            (_, Err(e)) => format!("cannot be generated: {e}"),
            (None, _) => "is missing; `cargo xtask docs` writes it".to_owned(),
            (Some(old), Ok(new)) if old != new => "is stale; `cargo xtask docs` refreshes it".to_owned(),
            _ => continue,
        };
        problems.push((document.path.to_owned(), reason));
    }
    problems
}

/// What the server prints.
pub(crate) fn print_reference(root: &Path, name: &str) -> Result<String, String> {
    let output = Command::new("cargo")
        .args(["run", "--quiet", "--package", "almandine-server", "--", "--print-reference", name])
        .current_dir(root)
        .output()
        .map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    String::from_utf8(output.stdout).map_err(|e| e.to_string())
}

/// `cargo xtask docs`.
pub(crate) fn refresh(root: &Path) -> bool {
    for document in DOCUMENTS {
        let written = print_reference(root, document.reference).and_then(|text| {
            let path = root.join(document.path);
            path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, text)).map_err(|e| e.to_string())
        });
        match written {
            Ok(()) => println!("wrote {}", document.path),
            Err(e) => {
                eprintln!("{}: {e}", document.path);
                return false;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_missing_and_failing_documents_are_found() {
        let documents = ["fresh", "stale", "missing", "failing"].map(|name| Document { path: name, reference: name });
        let read = |path: &str| (path != "missing").then(|| if path == "stale" { "old" } else { "new" }.to_owned());
        let print = |name: &str| if name == "failing" { Err("no".to_owned()) } else { Ok("new".to_owned()) };
        let found = stale(&documents, &read, &print);
        let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["stale", "missing", "failing"]);
        assert!(found[0].1.contains("cargo xtask docs"));
    }
}
