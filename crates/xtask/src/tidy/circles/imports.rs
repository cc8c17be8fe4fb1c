//! The paths in a file's code: what it imports, what it re-exports, and what it names where it stands.

use std::collections::BTreeSet;

/// A name that a `use` binds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) name: String,
    pub(super) path: Vec<String>,
    pub(super) is_public: bool,
}

/// What a file mentions.
#[derive(Debug, Default)]
pub(super) struct Imports {
    pub(super) uses: Vec<Use>,
    /// Paths of at least two parts outside of `use`.
    pub(super) inline: Vec<Vec<String>>,
    /// Words outside of `use`.
    pub(super) words: BTreeSet<String>,
}

impl Imports {
    pub(super) fn new(code: &[String]) -> Self {
        let tokens = tokens(code);
        let mut scan = Scan { tokens: &tokens, at: 0, depth: 0, inner_modules: Vec::new(), imports: Self::default() };
        scan.run();
        scan.imports
    }
}

struct Scan<'t> {
    tokens: &'t [String],
    at: usize,
    depth: usize,
    /// Depth of each `mod name {` that is open: `super` there means the file's module.
    inner_modules: Vec<usize>,
    imports: Imports,
}

impl Scan<'_> {
    fn token(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", String::as_str)
    }

    fn before(&self, behind: usize) -> &str {
        self.at.checked_sub(behind).map_or("", |at| self.tokens[at].as_str())
    }

    fn run(&mut self) {
        while self.at < self.tokens.len() {
            match self.token(0) {
                "use" => {
                    let is_public = matches!(self.before(1), "pub" | ")");
                    self.at += 1;
                    self.tree(&[], is_public);
                    continue;
                }
                "mod" if self.token(2) == "{" => self.inner_modules.push(self.depth + 1),
                "{" => self.depth += 1,
                "}" => {
                    self.inner_modules.retain(|depth| *depth != self.depth);
                    self.depth = self.depth.saturating_sub(1);
                }
                word if is_word(word) => self.path(),
                _ => {}
            }
            self.at += 1;
        }
    }

    /// A path where it stands. `pub(in path)` names nothing that is needed.
    fn path(&mut self) {
        self.imports.words.insert(self.token(0).to_owned());
        let is_visibility = self.before(1) == "in" && self.before(2) == "(" && self.before(3) == "pub";
        if self.before(1) == "::" || self.token(1) != "::" || is_visibility {
            return;
        }
        let mut path = vec![self.token(0).to_owned()];
        let mut ahead = 1;
        while self.token(ahead) == "::" && is_word(self.token(ahead + 1)) {
            path.push(self.token(ahead + 1).to_owned());
            ahead += 2;
        }
        if let Some(path) = self.outward(path) {
            self.imports.inline.push(path);
        }
    }

    /// The tree of a `use`, from the present token to behind its `;`, `,` or `}`.
    fn tree(&mut self, prefix: &[String], is_public: bool) {
        let mut path = prefix.to_vec();
        let mut name = None;
        loop {
            match self.token(0) {
                "" | ";" | "," => break,
                "}" => {
                    self.bind(path, name, is_public);
                    return;
                }
                "{" => {
                    self.at += 1;
                    while !matches!(self.token(0), "}" | ";" | "") {
                        self.tree(&path, is_public);
                    }
                    self.at += 1;
                    if matches!(self.token(0), "," | ";") {
                        self.at += 1;
                    }
                    return;
                }
                "as" => {
                    self.at += 1;
                    name = Some(self.token(0).to_owned());
                }
                "::" => {}
                "self" if !path.is_empty() => {}
                word => path.push(word.to_owned()),
            }
            self.at += 1;
        }
        self.at += 1;
        self.bind(path, name, is_public);
    }

    fn bind(&mut self, path: Vec<String>, name: Option<String>, is_public: bool) {
        let Some(last) = path.last().cloned() else { return };
        if let Some(path) = self.outward(path) {
            self.imports.uses.push(Use { name: name.unwrap_or(last), path, is_public });
        }
    }

    /// The path as the file's own module would write it; `None` when it stays within the file.
    fn outward(&self, mut path: Vec<String>) -> Option<Vec<String>> {
        for _ in 0..self.inner_modules.len() {
            match path[0].as_str() {
                "super" => {
                    path.remove(0);
                }
                "self" => return None,
                _ => break,
            }
            if path.is_empty() {
                return None;
            }
        }
        (path.last().is_some_and(|last| last != "*") || path.len() > 1).then(|| {
            path.retain(|part| part != "*");
            path
        })
    }
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Words, `::` and single marks.
fn tokens(code: &[String]) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    for line in code {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let length = if word > 0 {
                word
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            tokens.push(rest[..length].to_owned());
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(text: &str) -> Imports {
        Imports::new(&text.lines().map(str::to_owned).collect::<Vec<_>>())
    }

    fn joined(paths: &[Vec<String>]) -> Vec<String> {
        paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn trees_of_use_are_unfolded() {
        let found = imports("pub(crate) use crate::a::{self, b::{C, D as E}, f::*,\n g};\nuse super::h;");
        let names: Vec<(String, String, bool)> =
            found.uses.iter().map(|import| (import.name.clone(), import.path.join("::"), import.is_public)).collect();
        let expected = [
            ("a", "crate::a", true),
            ("C", "crate::a::b::C", true),
            ("E", "crate::a::b::D", true),
            ("*", "crate::a::f", true),
            ("g", "crate::a::g", true),
            ("h", "super::h", false),
        ];
        assert_eq!(names, expected.map(|(name, path, public)| (name.to_owned(), path.to_owned(), public)));
    }

    #[test]
    fn paths_where_they_stand_are_found() {
        let found = imports(
            "fn f() -> crate::a::B { x::y(super::c::d) }\npub(in crate::z) fn g() {}\nmod m { fn h() { super::super::k::l(); \
             self::n::o() } }",
        );
        assert_eq!(joined(&found.inline), ["crate::a::B", "x::y", "super::c::d", "super::k::l"]);
        assert!(found.words.contains("d") && !found.words.contains("use"));
    }
}
