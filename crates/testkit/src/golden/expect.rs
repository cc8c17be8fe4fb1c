//! Expected replies: the notation of [`Value`] read back, with matchers where a reply is not the same in every run.

use crate::Value;

/// What a reply must be.
#[derive(Clone, Debug, PartialEq)]
pub enum Expect {
    /// Exactly this value (no children).
    Exactly(Value),
    /// `*[…]`, `~[…]`, `>[…]`: kind, elements, and whether more may follow (`...` as the last element).
    List(u8, Vec<Expect>, bool),
    /// `%{…}`, `|{…}`: kind, pairs in any order, and whether more may follow.
    Pairs(u8, Vec<(Expect, Expect)>, bool),
    /// `<any>`
    Any,
    /// `<int>`, or `<int LOW..HIGH>` with both included.
    Integer(i64, i64),
    /// `<bulk>`: a bulk string, `<bulk "glob">` one that matches.
    Bulk(Vec<u8>),
    /// `<text "glob">`: a simple, bulk or verbatim string or an error that matches.
    Text(Vec<u8>),
    /// `<error>`, `<error "glob">`
    Error(Vec<u8>),
    /// `<unordered *[…]>`, `<unordered ~[…]>`: the elements in any order.
    Unordered(Box<Expect>),
}

impl Expect {
    /// Whether `value` is as expected.
    #[must_use]
    pub fn matches(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Any, _) => true,
            (Self::Exactly(expected), _) => expected == value,
            (Self::Integer(low, high), Value::Integer(n)) => low <= n && n <= high,
            (Self::Bulk(glob), Value::Bulk(b)) => glob_matches(glob, b),
            (Self::Error(glob), Value::Error(b) | Value::BlobError(b)) => glob_matches(glob, b),
            (Self::Text(glob), _) => value.bytes().is_some_and(|b| glob_matches(glob, b)),
            // A set has no order; everything else has.
            (Self::List(b'~', e, more), Value::Set(v)) => in_any_order(e, *more, v, |e, v| e.matches(v)),
            (Self::List(b'*', e, more), Value::Array(v)) | (Self::List(b'>', e, more), Value::Push(v)) => {
                (e.len() == v.len() || *more && e.len() < v.len()) && e.iter().zip(v).all(|(e, v)| e.matches(v))
            }
            (Self::Pairs(b'%', e, more), Value::Map(v)) | (Self::Pairs(b'|', e, more), Value::Attribute(v)) => {
                in_any_order(e, *more, v, |e, v| e.0.matches(&v.0) && e.1.matches(&v.1))
            }
            (Self::Unordered(inner), Value::Array(v)) => {
                matches!(&**inner, Self::List(b'*', e, more) if in_any_order(e, *more, v, |e, v| e.matches(v)))
            }
            (Self::Unordered(inner), Value::Set(v)) => {
                matches!(&**inner, Self::List(b'~', e, more) if in_any_order(e, *more, v, |e, v| e.matches(v)))
            }
            _ => false,
        }
    }
}

/// Whether each expectation takes one value of its own. Greedy: enough, since matchers in unordered lists do not overlap.
fn in_any_order<E, V>(expected: &[E], more: bool, values: &[V], matches: impl Fn(&E, &V) -> bool) -> bool {
    if expected.len() > values.len() || (!more && expected.len() != values.len()) {
        return false;
    }
    let mut taken = vec![false; values.len()];
    expected.iter().all(|e| {
        let found = values.iter().enumerate().position(|(i, v)| !taken[i] && matches(e, v));
        found.is_some_and(|i| !std::mem::replace(&mut taken[i], true))
    })
}

/// `*` and `?` wildcards; an empty pattern matches everything.
#[must_use]
pub fn glob_matches(pattern: &[u8], text: &[u8]) -> bool {
    fn at(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) => at(rest, text) || !text.is_empty() && at(pattern, &text[1..]),
            (Some((p, rest)), Some((t, text))) => (*p == b'?' || p == t) && at(rest, text),
            _ => false,
        }
    }
    pattern.is_empty() || at(pattern, text)
}

/// Reads all expectations in `text`, each with the text it was read from; each starts on a line of its own.
///
/// # Errors
/// What is wrong and where.
pub fn parse_all(text: &str) -> Result<Vec<(Expect, String)>, String> {
    let mut parser = Parser { text: text.as_bytes(), position: 0 };
    let mut all = Vec::new();
    loop {
        parser.skip_space();
        if parser.position == text.len() {
            return Ok(all);
        }
        let start = parser.position;
        let expect = parser.value(true)?;
        all.push((expect, text[start..parser.position].to_owned()));
    }
}

struct Parser<'t> {
    text: &'t [u8],
    position: usize,
}

impl Parser<'_> {
    fn value(&mut self, top: bool) -> Result<Expect, String> {
        let kind = self.next()?;
        Ok(match kind {
            b'+' if self.peek() == Some(b'"') => Expect::Exactly(Value::Simple(self.string()?)),
            b'+' => Expect::Exactly(Value::Simple(self.word(top))),
            b'-' if self.peek() == Some(b'"') => Expect::Exactly(Value::Error(self.string()?)),
            b'-' if top => Expect::Exactly(Value::Error(self.rest_of_line())),
            b':' => Expect::Exactly(Value::Integer(self.number()?)),
            b'$' => Expect::Exactly(Value::Bulk(self.string()?)),
            b'!' => Expect::Exactly(Value::BlobError(self.string()?)),
            b'=' => Expect::Exactly(Value::Verbatim(self.string()?, self.string()?)),
            b'_' => Expect::Exactly(Value::Null),
            b',' => Expect::Exactly(Value::Double(self.word(false))),
            b'#' => Expect::Exactly(Value::Boolean(self.next()? == b't')),
            b'b' if self.eat("ig") => Expect::Exactly(Value::BigNumber(self.string()?)),
            b'(' if self.eat("nil)") => Expect::Exactly(Value::NullBulk),
            b'(' if self.eat("nil-array)") => Expect::Exactly(Value::NullArray),
            b'(' if self.eat("closed)") => Expect::Exactly(Value::Closed),
            b'*' | b'~' | b'>' if self.eat("[") => self.list(kind)?,
            b'%' | b'|' if self.eat("{") => self.pairs(kind)?,
            b'<' => self.matcher()?,
            _ => return Err(self.error("a reply")),
        })
    }

    fn list(&mut self, kind: u8) -> Result<Expect, String> {
        let mut values = Vec::new();
        loop {
            self.skip_space();
            if self.eat("]") {
                return Ok(Expect::List(kind, values, false));
            }
            if self.eat("...") {
                self.skip_space();
                return if self.eat("]") { Ok(Expect::List(kind, values, true)) } else { Err(self.error("]")) };
            }
            values.push(self.value(false)?);
            self.skip_space();
            let _ = self.eat(",");
        }
    }

    fn pairs(&mut self, kind: u8) -> Result<Expect, String> {
        let mut values = Vec::new();
        loop {
            self.skip_space();
            if self.eat("}") {
                return Ok(Expect::Pairs(kind, values, false));
            }
            if self.eat("...") {
                self.skip_space();
                return if self.eat("}") { Ok(Expect::Pairs(kind, values, true)) } else { Err(self.error("}")) };
            }
            let key = self.value(false)?;
            self.skip_space();
            if !self.eat(":") {
                return Err(self.error("':' after a key"));
            }
            self.skip_space();
            values.push((key, self.value(false)?));
            self.skip_space();
            let _ = self.eat(",");
        }
    }

    fn matcher(&mut self) -> Result<Expect, String> {
        let name = self.word(false);
        self.skip_space();
        let expect = match name.as_slice() {
            b"any" => Expect::Any,
            b"int" if self.peek() == Some(b'>') => Expect::Integer(i64::MIN, i64::MAX),
            b"int" => {
                let low = self.number()?;
                if !self.eat("..") {
                    return Err(self.error("'..'"));
                }
                Expect::Integer(low, self.number()?)
            }
            b"bulk" => Expect::Bulk(self.optional_string()?),
            b"text" => Expect::Text(self.optional_string()?),
            b"error" => Expect::Error(self.optional_string()?),
            b"unordered" => Expect::Unordered(Box::new(self.value(false)?)),
            _ => return Err(self.error("a matcher (any, int, bulk, text, error, unordered)")),
        };
        self.skip_space();
        if self.eat(">") { Ok(expect) } else { Err(self.error("'>'")) }
    }

    fn optional_string(&mut self) -> Result<Vec<u8>, String> {
        if self.peek() == Some(b'"') { self.string() } else { Ok(Vec::new()) }
    }

    fn string(&mut self) -> Result<Vec<u8>, String> {
        let (bytes, used) = unquote(&self.text[self.position..]).ok_or_else(|| self.error("a quoted string"))?;
        self.position += used;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<i64, String> {
        let start = self.position;
        let _ = self.eat("-");
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.position += 1;
        }
        let text = std::str::from_utf8(&self.text[start..self.position]).unwrap_or_default();
        text.parse().map_err(|_| self.error("a number"))
    }

    /// A bare word; at the top level it runs to the end of the line.
    fn word(&mut self, line: bool) -> Vec<u8> {
        if line {
            return self.rest_of_line();
        }
        let start = self.position;
        while self.peek().is_some_and(|b| !b.is_ascii_whitespace() && !b",]}:>".contains(&b)) {
            self.position += 1;
        }
        self.text[start..self.position].to_vec()
    }

    fn rest_of_line(&mut self) -> Vec<u8> {
        let rest = &self.text[self.position..];
        let line = &rest[..rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())];
        self.position += line.len();
        line.trim_ascii_end().to_vec()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.position += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    fn next(&mut self) -> Result<u8, String> {
        let byte = self.peek().ok_or_else(|| self.error("more"))?;
        self.position += 1;
        Ok(byte)
    }

    fn eat(&mut self, what: &str) -> bool {
        let found = self.text[self.position..].starts_with(what.as_bytes());
        self.position += if found { what.len() } else { 0 };
        found
    }

    fn error(&self, expected: &str) -> String {
        let near = &self.text[self.position.saturating_sub(1)..];
        format!("expected {expected} at {:?}", String::from_utf8_lossy(&near[..near.len().min(40)]))
    }
}

/// The bytes of a string in double quotes at the start of `text`, and its length with the quotes.
#[must_use]
pub fn unquote(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    if text.first() != Some(&b'"') {
        return None;
    }
    let mut bytes = Vec::new();
    let mut i = 1;
    loop {
        match *text.get(i)? {
            b'"' => return Some((bytes, i + 1)),
            b'\\' => {
                i += 1;
                bytes.push(match *text.get(i)? {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'x' => {
                        let hex = std::str::from_utf8(text.get(i + 1..i + 3)?).ok()?;
                        i += 2;
                        u8::from_str_radix(hex, 16).ok()?
                    }
                    other => other,
                });
            }
            byte => bytes.push(byte),
        }
        i += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Expect {
        let mut all = parse_all(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(all.len(), 1, "{text}");
        all.remove(0).0
    }

    #[test]
    fn what_a_value_prints_matches_it() {
        let values = [
            Value::ok(),
            Value::Simple(b"Background saving started".to_vec()),
            Value::Error(b"ERR it's, [bad]".to_vec()),
            Value::Integer(-7),
            Value::Bulk(b"a\n\xff\"]".to_vec()),
            Value::NullBulk,
            Value::NullArray,
            Value::Null,
            Value::Double(b"1.5".to_vec()),
            Value::Boolean(false),
            Value::BigNumber(b"123".to_vec()),
            Value::Verbatim(b"txt".to_vec(), b"x y".to_vec()),
            Value::BlobError(b"ERR".to_vec()),
            Value::Closed,
            Value::Push(vec![Value::Bulk(vec![]), Value::Array(vec![])]),
            Value::Map(vec![(Value::Bulk(b"k".to_vec()), Value::Set(vec![Value::Error(b"E x".to_vec())]))]),
            Value::Array((0..60).map(|_| Value::Double(b"inf".to_vec())).collect()),
        ];
        for value in &values {
            assert!(one(&value.to_string()).matches(value), "{value}");
            assert!(one(&value.pretty()).matches(value), "{}", value.pretty());
            for other in values.iter().filter(|other| *other != value) {
                assert!(!one(&value.to_string()).matches(other), "{value} against {other}");
            }
        }
    }

    #[test]
    fn matchers_match_what_they_say_and_no_more() {
        let ints = |n: &[i64]| Value::Array(n.iter().map(|n| Value::Integer(*n)).collect());
        assert!(one("<int 1..3>").matches(&Value::Integer(3)));
        assert!(!one("<int 1..3>").matches(&Value::Integer(4)));
        assert!(!one("<int>").matches(&Value::Bulk(b"1".to_vec())));
        assert!(one("<bulk \"a*c\">").matches(&Value::Bulk(b"abc".to_vec())));
        assert!(!one("<bulk \"a*c\">").matches(&Value::Bulk(b"abd".to_vec())));
        assert!(one("<error \"ERR *\">").matches(&Value::Error(b"ERR x".to_vec())));
        assert!(one("<unordered *[:1, :2]>").matches(&ints(&[2, 1])));
        assert!(!one("<unordered *[:1, :2]>").matches(&ints(&[2, 2])));
        assert!(!one("*[:1, :2]").matches(&ints(&[2, 1])));
        assert!(one("*[:1, ...]").matches(&ints(&[1, 2])));
        assert!(!one("*[:1]").matches(&ints(&[1, 2])));
        assert!(one("~[:1, :2]").matches(&Value::Set(vec![Value::Integer(2), Value::Integer(1)])));
    }

    #[test]
    fn what_is_malformed_is_refused() {
        for text in ["*[:1", "$abc", "<int 1..>", "<what>", ":x", "%{:1 :2}", "hello"] {
            assert!(parse_all(text).is_err(), "{text}");
        }
    }
}
