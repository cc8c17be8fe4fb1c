//! `cargo xtask docs`: the references in `docs/reference`, which the server prints from its own tables.
//!
//! A test of the server compares them with its tables, so that no check has to build the server only for them.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The references: file name, and what `--print-reference` calls it.
const DOCUMENTS: [&str; 4] = ["commands", "config", "metrics", "prometheus"];

/// `cargo xtask docs`.
pub(crate) fn refresh(root: &Path) -> bool {
    DOCUMENTS.iter().all(|name| {
        let path = format!("docs/reference/{name}.md");
        let written = print(root, name).and_then(|text| fs::write(root.join(&path), text).map_err(|error| error.to_string()));
        match &written {
            Ok(()) => println!("wrote {path}"),
            Err(error) => eprintln!("{path}: {error}"),
        }
        written.is_ok()
    })
}

fn print(root: &Path, name: &str) -> Result<Vec<u8>, String> {
    let run = ["run", "--quiet", "--package", "almandine-server", "--", "--print-reference", name];
    let output = Command::new("cargo").args(run).current_dir(root).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(output.stdout) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}
