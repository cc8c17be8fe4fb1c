//! Links between documents lead somewhere.

use super::problem::Problem;
use super::source::Source;

/// `exists` says whether there is a file or folder at a path of the repository.
pub(super) fn check(sources: &[Source], exists: &dyn Fn(&str) -> bool) -> Vec<Problem> {
    sources.iter().filter(|source| source.path.ends_with(".md")).flat_map(|page| dangling(page, exists)).collect()
}

/// Links of a page that lead nowhere. What is indented or fenced as code has none.
fn dangling(page: &Source, exists: &dyn Fn(&str) -> bool) -> Vec<Problem> {
    let mut fenced = false;
    let mut problems = Vec::new();
    for (i, line) in page.lines.iter().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        for target in line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target) {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains(':') && !exists(&beside(&page.path, file)) {
                problems.push(Problem::new(&page.path, i + 1, format!("links to {file}, which is not there")));
            }
        }
    }
    problems
}

/// The path of a file that a page names relative to itself.
fn beside(page: &str, file: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(path: &str, text: &str) -> Vec<String> {
        let there = ["docs/a.md", "README.md"];
        let found = check(&[Source::new(path, text)], &|path| there.contains(&path));
        found.into_iter().map(|problem| problem.text).collect()
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        assert_eq!(run("docs/b.md", "[a](a.md#part), [b](../README.md), [c](#here), [d](https://e.org/x.md)\n"), [""; 0]);
        assert_eq!(run("docs/b.md", "```\n[a](gone.md)\n```\n"), [""; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_are_named() {
        assert!(run("docs/b.md", "[a](a.md) and [b](gone.md)\n")[0].contains("gone.md"));
        assert!(run("b.md", "[a](a.md)\n")[0].contains("a.md"));
    }
}
