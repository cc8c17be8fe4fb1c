//! Each mutant is a step that the code can leave out, and a test or a model that names it.

use super::problem::Problem;
use super::source::Source;

const TABLE: &str = "crates/base/src/mutants.rs";

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let Some(table) = sources.iter().find(|source| source.path == TABLE) else {
        return vec![Problem::new(TABLE, 0, "is missing")];
    };
    let mut problems = Vec::new();
    for (at, name) in names(table) {
        let mut others =
            sources.iter().filter(|source| source.is_rust() && source.path != TABLE && !source.path.contains("/xtask/"));
        // rustfmt sets the name of a long step into a line of its own.
        let is_step = |source: &Source, line: usize| {
            let (above, text) = (line.checked_sub(1).map_or("", |above| &source.code[above]), &source.code[line]);
            let is_split = above.ends_with("step!(") && text.trim_start().starts_with(name);
            !source.is_test(line) && (is_split || text.contains(&format!("step!({name}")))
        };
        let is_named = |source: &Source, line: usize| source.is_test(line) && source.lines[line].contains(name);
        let any = |source: &Source, found: &dyn Fn(&Source, usize) -> bool| (0..source.lines.len()).any(|line| found(source, line));
        if !others.clone().any(|source| any(source, &is_step)) {
            problems.push(Problem::new(TABLE, at + 1, format!("no `step!` is named {name}")));
        }
        if !others.any(|source| any(source, &is_named)) {
            problems.push(Problem::new(TABLE, at + 1, format!("no test leaves {name} out")));
        }
    }
    problems
}

/// The rows of the table, and their lines.
fn names(table: &Source) -> impl Iterator<Item = (usize, &str)> {
    let lines = table.lines.iter().enumerate().skip_while(|(_, line)| *line != "table! {");
    let rows = lines.skip(1).take_while(|(_, line)| *line != "}");
    rows.filter_map(|(at, line)| Some((at, line.trim().strip_suffix(',').filter(|name| !name.contains(' '))?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_without_a_step_or_a_test_is_found() {
        let table = Source::new(TABLE, "//! A.\ntable! {\n    /// A, b,\n    First,\n    Second,\n}\n");
        let step = Source::new("crates/a/src/lib.rs", "fn f() {\n    step!(First, g());\n}\n");
        let test = Source::new("crates/a/tests/b.rs", "fn f() {\n    must_notice(\"First\");\n}\n");
        let found = check(&[table, step, test]);
        let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(texts.len() == 2 && texts[0].contains("named Second") && texts[1].contains("leaves Second"), "{texts:?}");
    }
}
