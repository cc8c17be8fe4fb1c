//! Shapes that are hard to read: functions of many parameters, structs of many fields.
//!
//! A comment `// reason: …` in the block above one says why it is so, and is accepted. Test code does not count.

use std::collections::BTreeMap;

use super::allowances::{self, WIDE_FUNCTIONS, WIDE_STRUCTS};
use super::problem::Problem;
use super::source::{Source, has_word};

/// Parameters of a function, the receiver not counted.
const PARAMETERS_MAX: usize = 6;
/// Fields of a struct.
const FIELDS_MAX: usize = 16;

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let mut problems = excess(sources, "WIDE_FUNCTIONS", WIDE_FUNCTIONS, wide_functions);
    problems.extend(excess(sources, "WIDE_STRUCTS", WIDE_STRUCTS, wide_structs));
    problems
}

/// What a finder finds in each crate beyond what the table allows it.
fn excess(sources: &[Source], title: &str, allowed: &[(&str, usize)], find: fn(&Source) -> Vec<Problem>) -> Vec<Problem> {
    let mut by_crate: BTreeMap<String, Vec<Problem>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        if let Some(name) = source.crate_name() {
            by_crate.entry(name.to_owned()).or_default().extend(find(source));
        }
    }
    let mut problems = allowances::unknown(allowed, title, &by_crate.keys().cloned().collect::<Vec<_>>());
    for (name, found) in by_crate {
        let allowance = allowances::of(allowed, &name);
        if found.len() > allowance.unwrap_or(0) {
            problems.extend(found);
        } else if allowance.is_some_and(|allowance| allowance > found.len() || allowance == 0) {
            let text = allowances::too_large(title, &name, allowance.unwrap_or(0), found.len());
            problems.push(Problem::new(format!("crates/{name}"), 0, text));
        }
    }
    problems
}

fn wide_functions(source: &Source) -> Vec<Problem> {
    let mut found = Vec::new();
    for (line, name, rest) in items(source, "fn") {
        let Some(list) = skip_generics(&rest).and_then(|rest| enclosed(rest, '(', ')')) else { continue };
        let parameters = parts(list).into_iter().filter(|part| !is_receiver(part)).count();
        if parameters > PARAMETERS_MAX && !has_reason(source, line) {
            let text =
                format!("function {name} has {parameters} parameters, {PARAMETERS_MAX} are allowed: what do they make together?");
            found.push(Problem::new(&source.path, line + 1, text));
        }
    }
    found
}

fn wide_structs(source: &Source) -> Vec<Problem> {
    let mut found = Vec::new();
    for (line, name, rest) in items(source, "struct") {
        let body = rest.find(['{', ';', '(']).filter(|at| rest[*at..].starts_with('{'));
        let Some(list) = body.and_then(|at| enclosed(&rest[at..], '{', '}')) else { continue };
        let fields = parts(list).len();
        if fields > FIELDS_MAX && !has_reason(source, line) {
            let text = format!("struct {name} has {fields} fields, {FIELDS_MAX} are allowed: which of them belong together?");
            found.push(Problem::new(&source.path, line + 1, text));
        }
    }
    found
}

/// Line, name and the code behind the name of each item that `keyword` begins.
fn items(source: &Source, keyword: &str) -> Vec<(usize, String, String)> {
    let code = &source.code[..source.tests_from.min(source.code.len())];
    let lines = code.iter().enumerate().filter(|(i, line)| !source.is_test(*i) && has_word(line, keyword));
    let found = lines.filter_map(|(i, line)| {
        let start = line.find(&format!("{keyword} "))? + keyword.len() + 1;
        let name: String = line[start..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let behind = std::iter::once(&line[start + name.len()..]).chain(code[i + 1..].iter().map(String::as_str));
        (!name.is_empty()).then(|| (i, name, behind.take(200).collect::<Vec<_>>().join("\n")))
    });
    found.collect()
}

/// The code behind `<…>`, if there is one.
fn skip_generics(code: &str) -> Option<&str> {
    let code = code.trim_start();
    if code.starts_with('<') { enclosed(code, '<', '>').map(|inner| &code[inner.len() + 2..]) } else { Some(code) }
}

/// What stands between the brackets that `code` begins with.
fn enclosed(code: &str, open: char, close: char) -> Option<&str> {
    let code = code.trim_start();
    let mut depth = 0_usize;
    let mut before = ' ';
    for (at, c) in code.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close && before != '-' {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return code.get(open.len_utf8()..at);
            }
        } else if depth == 0 {
            return None;
        }
        before = c;
    }
    None
}

/// The parts that commas separate, those within brackets not counted.
fn parts(list: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut depth, mut before) = (0_i32, ' ');
    for c in list.chars() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().into_iter().for_each(|part| part.push(c));
        }
        before = c;
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

fn is_receiver(parameter: &str) -> bool {
    let name = parameter.split(':').next().unwrap_or_default();
    has_word(name, "self")
}

/// Whether the comments and attributes above the item state a reason.
fn has_reason(source: &Source, line: usize) -> bool {
    let above = source.lines[..line].iter().rev();
    let mut block = above.map(|text| text.trim_start()).take_while(|text| text.starts_with("//") || text.starts_with("#["));
    block.any(|text| text.split_once("// reason: ").is_some_and(|(_, reason)| reason.len() > 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(parameters: usize, above: &str) -> Source {
        let list: String = (0..parameters).map(|i| format!("p{i}: Map<A, (B, [C; 2])>,\n")).collect();
        let code = format!(
            "//! A.\n{above}pub(crate) fn wide<'a, F: Fn(A, B) -> C>(&mut self, {list}) -> (A, B) {{}}\nfn narrow() {{}}\n"
        );
        Source::new("crates/a/src/b.rs", &code)
    }

    fn structure(fields: usize, above: &str) -> Source {
        let list: String = (0..fields).map(|i| format!("    /// F, {i}.\n    pub f{i}: Map<A, B>,\n")).collect();
        Source::new(
            "crates/a/src/b.rs",
            &format!("//! A.\n{above}struct Wide<'a> {{\n{list}}}\nstruct Unit;\nstruct Pair(A, B);\n"),
        )
    }

    const REASON: &str = "/// Doc.\n// reason: the kernel's own layout\n#[inline]\n";

    #[test]
    fn seven_parameters_are_refused() {
        assert_eq!(wide_functions(&function(6, "")).len(), 0);
        let found = wide_functions(&function(7, ""));
        assert!(found.len() == 1 && found[0].text.contains("wide has 7 parameters"), "{found:?}");
        assert_eq!(wide_functions(&function(7, REASON)).len(), 0);
        assert_eq!(wide_functions(&function(7, "// reason: it is.\n")).len(), 1, "no reason");
    }

    #[test]
    fn seventeen_fields_are_refused() {
        assert_eq!(wide_structs(&structure(16, "")).len(), 0);
        let found = wide_structs(&structure(17, ""));
        assert!(found.len() == 1 && found[0].text.contains("Wide has 17 fields"), "{found:?}");
        assert_eq!(wide_structs(&structure(17, REASON)).len(), 0);
    }

    #[test]
    fn allowances_only_shrink() {
        let sources = [function(7, "")];
        let run = |allowed: &[(&str, usize)]| excess(&sources, "T", allowed, wide_functions).len();
        assert_eq!(run(&[]), 1);
        assert_eq!(run(&[("a", 1)]), 0);
        assert_eq!(run(&[("a", 2)]), 1);
        assert_eq!(run(&[("a", 1), ("b", 1)]), 1);
    }
}
