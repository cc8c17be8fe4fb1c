//! Documents that programs print from their own tables: references, manual pages, completions. A stale one fails `tidy`, which names the command that refreshes it.

use std::fs;
use std::path::Path;
use std::process::Command;

/// One generated document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Document {
    /// Where it stands, from the root.
    pub(crate) path: &'static str,
    /// Who prints it.
    program: Printer,
    /// What the program calls it.
    pub(crate) reference: &'static str,
}

/// A program that prints documents.
#[derive(Clone, Copy, Debug)]
enum Printer {
    /// `almandine-server --print-reference NAME`.
    Server,
    /// `almandine-bench print-reference NAME`.
    Bench,
}

/// To generate a further document, let a program print it and add a line.
pub(crate) const DOCUMENTS: &[Document] = &[
    by_server("docs/reference/commands.md", "commands"),
    by_server("docs/reference/config.md", "config"),
    by_server("docs/reference/metrics.md", "metrics"),
    by_server("packaging/man/almandine-server.1", "man"),
    by_server("packaging/completions/almandine-server.bash", "bash"),
    by_server("packaging/completions/_almandine-server", "zsh"),
    by_server("packaging/completions/almandine-server.fish", "fish"),
    by_bench("packaging/man/almandine-bench.1", "man"),
    by_bench("packaging/completions/almandine-bench.bash", "bash"),
    by_bench("packaging/completions/_almandine-bench", "zsh"),
    by_bench("packaging/completions/almandine-bench.fish", "fish"),
];

const fn by_server(path: &'static str, reference: &'static str) -> Document {
    Document { path, program: Printer::Server, reference }
}

const fn by_bench(path: &'static str, reference: &'static str) -> Document {
    Document { path, program: Printer::Bench, reference }
}

/// Paths whose content is not what `print` gives for them now, with the reason.
pub(crate) fn stale(
    documents: &[Document],
    read: &dyn Fn(&str) -> Option<String>,
    print: &dyn Fn(&Document) -> Result<String, String>,
) -> Vec<(String, String)> {
    let mut problems = Vec::new();
    for document in documents {
        let reason = match (read(document.path), print(document)) {
            (_, Err(e)) => format!("cannot be generated: {e}"),
            (None, _) => "is missing; `cargo xtask docs` writes it".to_owned(),
            (Some(old), Ok(new)) if old != new => "is stale; `cargo xtask docs` refreshes it".to_owned(),
            _ => continue,
        };
        problems.push((document.path.to_owned(), reason));
    }
    problems
}

/// What the document's program prints.
pub(crate) fn print_reference(root: &Path, document: &Document) -> Result<String, String> {
    let (package, command) = match document.program {
        Printer::Server => ("almandine-server", "--print-reference"),
        Printer::Bench => ("almandine-bench", "print-reference"),
    };
    let output = Command::new("cargo")
        .args(["run", "--quiet", "--package", package, "--", command, document.reference])
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
        let written = print_reference(root, document).and_then(|text| {
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
        let documents = ["fresh", "stale", "missing", "failing"].map(|name| by_server(name, name));
        let read = |path: &str| (path != "missing").then(|| if path == "stale" { "old" } else { "new" }.to_owned());
        let print = |document: &Document| if document.path == "failing" { Err("no".to_owned()) } else { Ok("new".to_owned()) };
        let found = stale(&documents, &read, &print);
        let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["stale", "missing", "failing"]);
        assert!(found[0].1.contains("cargo xtask docs"));
    }
}
