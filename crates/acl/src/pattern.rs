//! Patterns of keys and channels. Those that end with their only star, and those without one, are compared without a search.

use almandine_datatypes::glob::{self, Case};

/// A glob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: Box<[u8]>,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Itself.
    Exact,
    /// This number of bytes, and anything behind them.
    Prefix(usize),
    Any,
}

impl Pattern {
    pub(crate) fn new(text: &[u8]) -> Self {
        let special = |byte: &u8| b"*?[\\".contains(byte);
        let form = match text.iter().position(special) {
            None => Form::Exact,
            // A star alone does not match the empty text, as in Redis.
            Some(at) if at > 0 && at + 1 == text.len() && text[at] == b'*' => Form::Prefix(at),
            Some(_) => Form::Any,
        };
        Self { text: text.into(), form }
    }

    /// The glob as it was given.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether all of `text` matches.
    #[inline]
    #[must_use]
    pub fn matches(&self, text: &[u8]) -> bool {
        match self.form {
            Form::Exact => *self.text == *text,
            Form::Prefix(len) => text.len() >= len && text[..len] == self.text[..len],
            Form::Any => glob::matches(&self.text, text, Case::Sensitive),
        }
    }
}

/// A glob of keys, and what may be done to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPattern {
    pub(crate) pattern: Pattern,
    /// Their values may be read.
    pub(crate) read: bool,
    /// They may be written.
    pub(crate) write: bool,
}

impl KeyPattern {
    /// The pattern of a rule that begins with `~` or `%`.
    pub(crate) fn parse(rule: &[u8]) -> Option<Self> {
        let (mut read, mut write, mut text) = (true, true, &rule[1..]);
        if rule[0] == b'%' {
            (read, write) = (false, false);
            while let Some((permission, rest)) = text.split_first() {
                text = rest;
                match permission.to_ascii_uppercase() {
                    b'R' if !read => read = true,
                    b'W' if !write => write = true,
                    b'~' => break,
                    _ => return None,
                }
            }
        }
        ((read || write) && !has_blanks(text)).then(|| Self { pattern: Pattern::new(text), read, write })
    }

    /// Appends the rule that makes it.
    pub(crate) fn describe(&self, out: &mut Vec<u8>) {
        let permissions: &[u8] = match (self.read, self.write) {
            (true, true) => b"~",
            (true, false) => b"%R~",
            _ => b"%W~",
        };
        out.extend_from_slice(permissions);
        out.extend_from_slice(self.pattern.text());
    }

    /// Whether the permissions that a call needs are given, and the key matches.
    #[inline]
    pub(crate) fn permits(&self, key: &[u8], read: bool, write: bool) -> bool {
        self.read >= read && self.write >= write && self.pattern.matches(key)
    }
}

/// Whether a name or a pattern cannot stand in a line of rules.
pub(crate) fn has_blanks(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_cut_agrees_with_the_glob() {
        let patterns: [&[u8]; 10] = [b"", b"a", b"a*", b"*", b"a**", b"a?", b"ab*", b"[a]*", b"\\a*", b"a\\*"];
        let texts: [&[u8]; 8] = [b"", b"a", b"ab", b"abc", b"b", b"a*", b"\\a", b"A"];
        for pattern in patterns {
            for text in texts {
                let expected = glob::matches(pattern, text, Case::Sensitive);
                assert_eq!(Pattern::new(pattern).matches(text), expected, "{pattern:?} {text:?}");
            }
        }
        assert_eq!(Pattern::new(b"key:*").form, Form::Prefix(4));
    }

    #[test]
    fn permissions_are_letters_in_any_order_and_case() {
        let parsed =
            |rule: &[u8]| KeyPattern::parse(rule).map(|pattern| (pattern.read, pattern.write, pattern.pattern.text().to_vec()));
        assert_eq!(parsed(b"~a*"), Some((true, true, b"a*".to_vec())));
        assert_eq!(parsed(b"%R~a"), Some((true, false, b"a".to_vec())));
        assert_eq!(parsed(b"%wr~a~b"), Some((true, true, b"a~b".to_vec())));
        for bad in [&b"%~a"[..], b"%RR~a", b"%X~a", b"%", b"~a b", b"~a\0"] {
            assert_eq!(parsed(bad), None, "{bad:?}");
        }
    }
}
