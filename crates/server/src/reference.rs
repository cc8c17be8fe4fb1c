//! `--print-reference`: the references in `docs/reference`, and the manual page and completions that packages hold beside the
//! program.

use std::fmt::Write;
use std::process::ExitCode;

use almandine_config::manual::{self, Shell};
use almandine_console::FAMILIES;
use almandine_handler::{Table, help};
use almandine_instance::metrics::METRICS;

use crate::commands;

pub(crate) fn print(what: &str) -> ExitCode {
    match text(what) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn text(what: &str) -> Result<String, String> {
    Ok(match what {
        "commands" => commands(commands::table(&[]).map_err(|error| error.to_string())?),
        "config" => manual::reference(),
        "metrics" => metrics(),
        "prometheus" => prometheus(),
        "man" => manual::page(),
        "bash" => manual::completions(Shell::Bash),
        "zsh" => manual::completions(Shell::Zsh),
        "fish" => manual::completions(Shell::Fish),
        _ => return Err("--print-reference takes commands, config, metrics, prometheus, man, bash, zsh or fish".to_owned()),
    })
}

fn commands(table: &Table) -> String {
    let mut text = String::from(
        "# Command reference\n\nGenerated from the command table by `cargo xtask docs`; do not edit.\n\n\
         | command | since | summary | complexity | categories |\n|---|---|---|---|---|\n",
    );
    let mut entries: Vec<_> = table.rows().iter().collect();
    entries.sort_by_key(|entry| (entry.command.spec.group.name(), entry.command.spec.name));
    let mut group = "";
    for entry in entries {
        let spec = &entry.command.spec;
        if spec.group.name() != group {
            group = spec.group.name();
            let _ = writeln!(text, "| **{group}** | | | | |");
        }
        let container = spec.name.split_once('|').map_or(String::new(), |(container, _)| format!("{container} "));
        let categories: Vec<_> = entry.shape.categories.iter().map(|category| category.name().to_owned()).collect();
        let _ = writeln!(
            text,
            "| `{container}{}` | {} | {} | {} | {} |",
            cell(&help::syntax(spec)),
            spec.since,
            cell(spec.summary),
            cell(spec.complexity),
            categories.join(" ")
        );
    }
    text
}

fn metrics() -> String {
    let mut text = String::from(
        "# Metrics reference\n\nGenerated from the metrics table by `cargo xtask docs`; do not edit.\n\n\
         | name | section of INFO | kind | meaning |\n|---|---|---|---|\n",
    );
    for metric in METRICS {
        let _ = writeln!(text, "| `{}` | {:?} | {:?} | {} |", metric.name, metric.section, metric.kind, metric.help);
    }
    text
}

fn prometheus() -> String {
    let mut text = String::from(
        "# Reference of the page for Prometheus\n\nGenerated from the console's table by `cargo xtask docs`; do not edit.\n\n\
         `redis_` begins names that mean what they mean in redis_exporter. A name stays once it is here. Counters begin anew at a \
         restart and at CONFIG RESETSTAT.\n\n\
         | name | kind | labels | field of INFO | meaning |\n|---|---|---|---|---|\n",
    );
    for family in FAMILIES {
        let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let info = family.info().map_or_else(String::new, |field| format!("`{field}`"));
        let (kind, help) = (format!("{:?}", family.kind()).to_lowercase(), cell(family.help()));
        let _ = writeln!(text, "| `{}` | {kind} | {} | {info} | {help} |", family.name, labels.join(" "));
    }
    text
}

/// Text that may stand in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_references_in_the_tree_are_what_the_tables_say() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
        for what in ["commands", "config", "metrics", "prometheus"] {
            let kept = fs::read_to_string(folder.join(what).with_extension("md")).unwrap_or_default();
            assert!(kept == text(what).unwrap(), "docs/reference/{what}.md is stale: `cargo xtask docs` refreshes it");
        }
    }

    #[test]
    fn what_packages_hold_is_printed() {
        for (what, mark) in [("man", ".TH"), ("bash", "complete -o"), ("zsh", "#compdef"), ("fish", "complete -c")] {
            assert!(text(what).unwrap().contains(mark), "{what}");
        }
        assert!(text("poem").is_err());
    }
}
