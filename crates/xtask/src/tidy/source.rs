//! A source file with comments and strings told apart from code, by a small scanner over Rust's lexical rules.

/// A file.
#[derive(Debug)]
pub(crate) struct Source {
    /// From the root, with `/`.
    pub(crate) path: String,
    /// As it is.
    pub(crate) lines: Vec<String>,
    /// Rust only: the same lines with comments and the content of literals blanked.
    pub(crate) code: Vec<String>,
    /// Rust only: index of the first line that belongs to `#[cfg(test)]` code, which stands last by convention; else the number
    /// of lines.
    pub(crate) tests_from: usize,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let code: Vec<String> = if path.ends_with(".rs") { blank(text).lines().map(str::to_owned).collect() } else { Vec::new() };
        let tests_from = test_modules(&code).find(|(_, item)| item.contains('{')).map_or(lines.len(), |(line, _)| line);
        Self { path: path.to_owned(), lines, code, tests_from }
    }

    /// Paths of files that this one declares as modules under `cfg(test)`.
    pub(crate) fn test_files(&self) -> Vec<String> {
        let (folder, name) = self.path.rsplit_once('/').unwrap_or_default();
        let folder = match name {
            "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
            _ => format!("{folder}/{}", name.trim_end_matches(".rs")),
        };
        let names = test_modules(&self.code).filter_map(|(_, item)| item.trim_end().strip_suffix(';')?.split_whitespace().last());
        names.map(|name| format!("{folder}/{name}.rs")).collect()
    }

    /// Name of the crate whose product code this is.
    pub(crate) fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split_once("/src/").map(|(name, _)| name)
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether a line is test code: in a tests directory, or below the file's `#[cfg(test)]`.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.path.contains("/tests/") || self.path.contains("/testkit/") || line >= self.tests_from
    }
}

/// The line of each `#[cfg(test)]` on a module, and the module's line.
fn test_modules(code: &[String]) -> impl Iterator<Item = (usize, &String)> {
    let cfgs = code.iter().enumerate().filter(|(_, l)| l.trim_start().starts_with("#[cfg(") && mentions_test(l));
    cfgs.filter_map(|(i, _)| {
        let item = code[i + 1..].iter().find(|l| !l.trim_start().starts_with("#["))?;
        has_word(item, "mod").then_some((i, item))
    })
}

/// `cfg(test)` or a combination that holds only under test, such as `all(test, not(loom))`; not `any(loom, test)` on one item.
fn mentions_test(line: &str) -> bool {
    line.contains("(test") || line.contains("(all(test")
}

/// The text with everything in comments and literals replaced by spaces; quotes stay, line breaks stay.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let rest = &bytes[i..];
        let end = i + match rest[0] {
            b'/' if rest.starts_with(b"//") => rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with(b"/*") => block_comment(rest),
            b'"' => string(rest),
            b'r' | b'b' if !continues_word(bytes, i) => raw_string(rest).unwrap_or(1),
            b'\'' => character(rest),
            _ => 1,
        };
        if end == i + 1 {
            out.push(bytes[i]);
        } else {
            out.extend(bytes[i..end].iter().map(|b| if *b == b'\n' { b'\n' } else { b' ' }));
        }
        i = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn continues_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut i = 0;
    while i < rest.len() {
        if rest[i..].starts_with(b"/*") {
            depth += 1;
            i += 2;
        } else if rest[i..].starts_with(b"*/") {
            depth -= 1;
            i += 2;
            if depth == 0 {
                return i;
            }
        } else {
            i += 1;
        }
    }
    rest.len()
}

fn string(rest: &[u8]) -> usize {
    let mut i = 1;
    while i < rest.len() {
        match rest[i] {
            b'\\' => i += 2,
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    rest.len()
}

/// `r"…"`, `r#"…"#`, `br"…"`, `b"…"`.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let start = if rest.starts_with(b"br") { 2 } else { 1 };
    if rest[0] == b'b' && start == 1 {
        return (rest.get(1) == Some(&b'"')).then(|| 1 + string(&rest[1..]));
    }
    let hashes = rest[start..].iter().take_while(|b| **b == b'#').count();
    if rest.get(start + hashes) != Some(&b'"') {
        return None;
    }
    let closing: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let body = start + hashes + 1;
    Some(rest[body..].windows(closing.len()).position(|w| w == closing).map_or(rest.len(), |at| body + at + closing.len()))
}

/// A character literal, or a lifetime's quote alone.
fn character(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        return rest.iter().skip(3).position(|b| *b == b'\'').map_or(1, |at| at + 4);
    }
    let text = std::str::from_utf8(&rest[1..rest.len().min(6)])
        .unwrap_or_else(|e| std::str::from_utf8(&rest[1..1 + e.valid_up_to()]).unwrap_or_default());
    match text.chars().next() {
        Some(c) if rest.get(1 + c.len_utf8()) == Some(&b'\'') => 2 + c.len_utf8(),
        _ => 1,
    }
}

/// Whether `word` stands in `line` as a word of its own.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        !line[..at].chars().next_back().is_some_and(is_word) && !line[at + word.len()..].chars().next().is_some_and(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_lines_kept() {
        let text = "let a = \"unsafe // {\"; // unsafe\n/* unsafe /* { */ */ let b = '{';\nlet c = r#\"unsafe \" {\"#; \
                    fn f<'a>(x: &'a str) {}\nlet d = '\\''; let e = b\"{\"; let g = '√';";
        let source = Source::new("a.rs", text);
        assert_eq!(source.code.len(), 4);
        assert!(source.code.iter().all(|l| !l.contains("unsafe")), "{:#?}", source.code);
        assert_eq!(source.code.iter().map(|l| l.matches('{').count()).sum::<usize>(), 1, "{:#?}", source.code);
        assert!(source.code[2].contains("fn f<'a>"));
        assert!(source.code[3].contains("let g ="));
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("unsafe {", "unsafe"));
        assert!(!has_word("unsafe_code", "unsafe"));
        assert!(!has_word("not_unsafe", "unsafe"));
    }

    #[test]
    fn tests_begin_at_the_cfg() {
        let source = Source::new("crates/a/src/b.rs", "fn f() {}\n#[cfg(test)]\nmod tests {}\n");
        assert!(!source.is_test(0) && source.is_test(2));
        let source = Source::new("crates/a/src/b.rs", "#[cfg(all(test, loom))]\nmod model;\n#[cfg(test)]\nfn g() {}\nfn f() {}\n");
        assert!(!source.is_test(4));
        assert_eq!(source.test_files(), ["crates/a/src/b/model.rs"]);
    }
}
