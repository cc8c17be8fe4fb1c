//! Lengths: functions that no longer fit on a screen, and files that hold more than one noun.

use super::problem::Problem;
use super::source::{Source, has_word};

/// Above this a function is noted.
const NOTED: usize = 100;
/// Above this a function is a problem, unless it is listed.
const MOST: usize = 150;
/// Above this a file is noted.
const FILE_NOTED: usize = 600;

/// `(path, function, why it is long)`.
const LISTED: &[(&str, &str, &str)] =
    &[("crates/lua/src/vm/execute.rs", "execute", "one arm per instruction; the state stays in registers")];

/// Problems and notes.
pub(super) fn check(sources: &[Source]) -> (Vec<Problem>, Vec<Problem>) {
    let (mut problems, mut notes) = (Vec::new(), Vec::new());
    for source in sources.iter().filter(|s| s.is_rust()) {
        if source.lines.len() > FILE_NOTED {
            notes.push(Problem::new(&source.path, 0, format!("has {} lines: what is its second noun?", source.lines.len())));
        }
        for (name, line, length) in functions(&source.code) {
            let listed = LISTED.iter().any(|(path, function, _)| *path == source.path && *function == name);
            let problem = Problem::new(&source.path, line, format!("function {name} has {length} lines"));
            if length > MOST && !listed {
                problems.push(problem);
            } else if length > NOTED {
                notes.push(problem);
            }
        }
    }
    (problems, notes)
}

/// Name, first line and number of lines of each function with a body.
pub(super) fn functions(code: &[String]) -> Vec<(String, usize, usize)> {
    let mut found = Vec::new();
    for (start, line) in code.iter().enumerate().filter(|(_, line)| has_word(line, "fn")) {
        let Some(name) = name_after_fn(line) else { continue };
        if let Some(end) = end_of_body(&code[start..], line.find("fn ").unwrap_or(0)) {
            found.push((name, start + 1, end + 1));
        }
    }
    found
}

fn name_after_fn(line: &str) -> Option<String> {
    let after = &line[line.find("fn ")? + 3..];
    let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// The line, counted from the first, on which the body's braces balance; `None` when a `;` ends the item without a body.
fn end_of_body(code: &[String], from: usize) -> Option<usize> {
    let (mut braces, mut others) = (0_i32, 0_i32);
    for (i, line) in code.iter().enumerate() {
        for c in line.chars().skip(if i == 0 { from } else { 0 }) {
            match c {
                '{' => braces += 1,
                '}' => {
                    braces -= 1;
                    if braces == 0 {
                        return Some(i);
                    }
                }
                '(' | '[' => others += 1,
                ')' | ']' => others -= 1,
                ';' if braces == 0 && others == 0 => return None,
                _ => {}
            }
        }
        if braces < 0 {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_body(lines: usize) -> Source {
        let text = format!(
            "//! A.\nfn long(a: [u8; 3],\n    b: u8) {{\n{}}}\nfn short() {{}}\ntrait T {{ fn none(&self); }}\n",
            "    x();\n".repeat(lines)
        );
        Source::new("crates/a/src/b.rs", &text)
    }

    #[test]
    fn lengths_are_counted_from_fn_to_the_closing_brace() {
        let found = functions(&with_body(5).code);
        assert_eq!(found[0], ("long".to_owned(), 2, 8));
        assert_eq!(found[1], ("short".to_owned(), 10, 1));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn long_functions_are_noted_and_very_long_ones_fail() {
        let counts = |n| {
            let (problems, notes) = check(&[with_body(n)]);
            (problems.len(), notes.len())
        };
        assert_eq!(counts(50), (0, 0));
        assert_eq!(counts(120), (0, 1));
        assert_eq!(counts(200), (1, 0));
        assert_eq!(counts(700), (1, 1), "the file is long too");
    }
}
