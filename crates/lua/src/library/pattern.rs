//! Patterns of Lua: matching by backtracking, as in Lua 5.1, with a bound on its depth.
//!
//! `(` and `)` capture, `%` and a letter is a class, `%b` a balanced pair, `%f` a frontier.

/// Captures of a pattern.
const CAPTURES_MAX: usize = 32;
/// Nested matches.
const DEPTH_MAX: usize = 1000;

/// A capture: its start and its length, or what it is while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Open,
    Position,
    Length(usize),
}

/// A captured part, for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Captured {
    Range(usize, usize),
    /// The number of the byte, from 1.
    Position(usize),
    /// The pattern ended before it did: an error where it is used.
    Unfinished,
}

/// The message of [`Captured::Unfinished`].
pub(super) const UNFINISHED: &str = "unfinished capture";

/// A match of one pattern in one text.
#[derive(Debug)]
pub(super) struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: [(usize, Extent); CAPTURES_MAX],
    level: usize,
    depth: usize,
}

type Outcome<T> = Result<T, String>;

impl<'a> Matcher<'a> {
    pub(super) fn new(text: &'a [u8], pattern: &'a [u8]) -> Self {
        // As in C, a zero byte ends a pattern.
        let pattern = &pattern[..pattern.iter().position(|b| *b == 0).unwrap_or(pattern.len())];
        Self { text, pattern, captures: [(0, Extent::Open); CAPTURES_MAX], level: 0, depth: 0 }
    }

    /// The end of a match that begins at `start`.
    pub(super) fn match_at(&mut self, start: usize, pattern: usize) -> Outcome<Option<usize>> {
        (self.level, self.depth) = (0, 0);
        self.matches(start, pattern)
    }

    /// The number of values that the captures are; a match without any is one itself.
    pub(super) fn captures(&self, whole_without: bool) -> usize {
        if self.level == 0 && whole_without { 1 } else { self.level }
    }

    /// A capture, from 0; without any the whole match.
    pub(super) fn capture(&self, index: usize, start: usize, end: usize) -> Outcome<Captured> {
        if index >= self.level {
            return if index == 0 { Ok(Captured::Range(start, end)) } else { Err("invalid capture index".to_owned()) };
        }
        match self.captures[index] {
            (from, Extent::Length(length)) => Ok(Captured::Range(from, from + length)),
            (from, Extent::Position) => Ok(Captured::Position(from + 1)),
            (_, Extent::Open) => Ok(Captured::Unfinished),
        }
    }

    fn matches(&mut self, start: usize, pattern: usize) -> Outcome<Option<usize>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("pattern too complex".to_owned());
        }
        let found = self.matches_here(start, pattern);
        self.depth -= 1;
        found
    }

    fn matches_here(&mut self, start: usize, pattern: usize) -> Outcome<Option<usize>> {
        let (mut s, mut p) = (start, pattern);
        loop {
            let Some(byte) = self.pattern.get(p).copied() else { return Ok(Some(s)) };
            match byte {
                b'(' if self.pattern.get(p + 1) == Some(&b')') => return self.open_capture(s, p + 2, Extent::Position),
                b'(' => return self.open_capture(s, p + 1, Extent::Open),
                b')' => return self.close_capture(s, p + 1),
                b'%' => match self.pattern.get(p + 1).copied() {
                    Some(b'b') => match self.balance(s, p + 2)? {
                        Some(end) => {
                            (s, p) = (end, p + 4);
                            continue;
                        }
                        None => return Ok(None),
                    },
                    Some(b'f') => {
                        p += 2;
                        if self.pattern.get(p) != Some(&b'[') {
                            return Err("missing '[' after '%f' in pattern".to_owned());
                        }
                        let end = self.class_end(p)?;
                        let before = if s == 0 { 0 } else { self.text[s - 1] };
                        let here = self.text.get(s).copied().unwrap_or(0);
                        if self.in_set(before, p, end - 1) || !self.in_set(here, p, end - 1) {
                            return Ok(None);
                        }
                        p = end;
                        continue;
                    }
                    Some(digit) if digit.is_ascii_digit() => match self.back_reference(s, digit)? {
                        Some(end) => {
                            (s, p) = (end, p + 2);
                            continue;
                        }
                        None => return Ok(None),
                    },
                    _ => {}
                },
                b'$' if p + 1 == self.pattern.len() => return Ok((s == self.text.len()).then_some(s)),
                _ => {}
            }
            let end = self.class_end(p)?;
            let fits = s < self.text.len() && self.single(self.text[s], p, end);
            match self.pattern.get(end) {
                Some(b'?') => {
                    if fits && let Some(found) = self.matches(s + 1, end + 1)? {
                        return Ok(Some(found));
                    }
                    p = end + 1;
                }
                Some(b'*') => return self.expand(s, p, end, 0),
                Some(b'+') => return if fits { self.expand(s, p, end, 1) } else { Ok(None) },
                Some(b'-') => return self.expand_little(s, p, end),
                _ if !fits => return Ok(None),
                _ => (s, p) = (s + 1, end),
            }
        }
    }

    /// The longest repetition that lets the rest match.
    fn expand(&mut self, s: usize, p: usize, end: usize, least: usize) -> Outcome<Option<usize>> {
        let mut count = 0;
        while s + count < self.text.len() && self.single(self.text[s + count], p, end) {
            count += 1;
        }
        loop {
            if let Some(found) = self.matches(s + count, end + 1)? {
                return Ok(Some(found));
            }
            if count <= least {
                return Ok(None);
            }
            count -= 1;
        }
    }

    /// The shortest one.
    fn expand_little(&mut self, s: usize, p: usize, end: usize) -> Outcome<Option<usize>> {
        let mut s = s;
        loop {
            if let Some(found) = self.matches(s, end + 1)? {
                return Ok(Some(found));
            }
            if s >= self.text.len() || !self.single(self.text[s], p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn open_capture(&mut self, s: usize, p: usize, what: Extent) -> Outcome<Option<usize>> {
        if self.level >= CAPTURES_MAX {
            return Err("too many captures".to_owned());
        }
        self.captures[self.level] = (s, what);
        self.level += 1;
        let found = self.matches(s, p)?;
        if found.is_none() {
            self.level -= 1;
        }
        Ok(found)
    }

    fn close_capture(&mut self, s: usize, p: usize) -> Outcome<Option<usize>> {
        let open = self.captures[..self.level].iter().rposition(|(_, extent)| *extent == Extent::Open);
        let Some(open) = open else { return Err("invalid pattern capture".to_owned()) };
        self.captures[open].1 = Extent::Length(s - self.captures[open].0);
        let found = self.matches(s, p)?;
        if found.is_none() {
            self.captures[open].1 = Extent::Open;
        }
        Ok(found)
    }

    fn balance(&self, s: usize, p: usize) -> Outcome<Option<usize>> {
        let [opening, closing] = self.pattern.get(p..p + 2).unwrap_or_default() else {
            return Err("unbalanced pattern".to_owned());
        };
        if self.text.get(s) != Some(opening) {
            return Ok(None);
        }
        let mut depth = 1;
        for (offset, byte) in self.text[s + 1..].iter().enumerate() {
            if byte == closing {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(s + offset + 2));
                }
            } else if byte == opening {
                depth += 1;
            }
        }
        Ok(None)
    }

    fn back_reference(&self, s: usize, digit: u8) -> Outcome<Option<usize>> {
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let captured = self.captures[..self.level].get(index);
        match captured {
            Some((from, Extent::Length(length))) => {
                let part = &self.text[*from..from + length];
                Ok(self.text[s..].starts_with(part).then_some(s + length))
            }
            Some((_, Extent::Position)) => Ok(None),
            _ => Err("invalid capture index".to_owned()),
        }
    }

    /// Where the pattern goes on behind the single class at `p`.
    fn class_end(&self, p: usize) -> Outcome<usize> {
        match self.pattern[p] {
            b'%' if p + 1 >= self.pattern.len() => Err("malformed pattern (ends with '%')".to_owned()),
            b'%' => Ok(p + 2),
            b'[' => {
                let mut at = p + 1;
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                // A closing bracket that comes first is a member.
                loop {
                    let Some(byte) = self.pattern.get(at) else {
                        return Err("malformed pattern (missing ']')".to_owned());
                    };
                    at += 1;
                    if *byte == b'%' && at < self.pattern.len() {
                        at += 1;
                    }
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    fn single(&self, byte: u8, p: usize, end: usize) -> bool {
        match self.pattern[p] {
            b'.' => true,
            b'%' => in_class(byte, self.pattern[p + 1]),
            b'[' => self.in_set(byte, p, end - 1),
            other => other == byte,
        }
    }

    /// `p` is at the opening bracket, `end` at the closing one.
    fn in_set(&self, byte: u8, p: usize, end: usize) -> bool {
        let mut at = p + 1;
        let negated = self.pattern.get(at) == Some(&b'^');
        at += usize::from(negated);
        while at < end {
            let member = self.pattern[at];
            if member == b'%' {
                at += 1;
                if in_class(byte, self.pattern[at]) {
                    return !negated;
                }
                at += 1;
            } else if self.pattern.get(at + 1) == Some(&b'-') && at + 2 < end {
                if (member..=self.pattern[at + 2]).contains(&byte) {
                    return !negated;
                }
                at += 3;
            } else {
                if member == byte {
                    return !negated;
                }
                at += 1;
            }
        }
        negated
    }
}

fn in_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => crate::number::is_space(byte),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in != class.is_ascii_uppercase()
}
