//! `--print-reference`: the generated parts of the documentation, and what packages hold beside the program.

use std::fmt::Write;
use std::process::ExitCode;

use almandine_call::{Table, help};
use almandine_config::manual::{self, Shell};
use almandine_node::metrics::METRICS;

use crate::commands;

pub(crate) fn print(what: &str) -> ExitCode {
    let text = match what {
        "commands" => match commands::table(&[]) {
            Ok(table) => commands(table),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        },
        "config" => manual::reference(),
        "metrics" => metrics(),
        "man" => manual::page(),
        "bash" => manual::completions(Shell::Bash),
        "zsh" => manual::completions(Shell::Zsh),
        "fish" => manual::completions(Shell::Fish),
        _ => {
            eprintln!("--print-reference takes commands, config, metrics, man, bash, zsh or fish");
            return ExitCode::FAILURE;
        }
    };
    print!("{text}");
    ExitCode::SUCCESS
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

/// Text that may stand in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
