//! Glob patterns, as `KEYS`, `SCAN … MATCH`, `PSUBSCRIBE` and `CONFIG GET` take them.
//!
//! `*` any bytes, `?` any byte, `[abc]` one of these, `[a-z]` one between (in either order), `[^…]` none of these, `\x` the byte x
//! itself, inside classes too. A class that is not closed ends with the pattern. An empty text matches only the empty pattern.
//!
//! Every part but `*` takes exactly one byte of the text, so a mismatch only ever has to move the *last* star one byte on: the
//! parts between two stars are best placed as early as possible. Hence at most `pattern × text` steps, without recursion, where the
//! naive search is exponential in the number of stars.

/// Whether ASCII letters match both cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// `a` is not `A`.
    Sensitive,
    /// `a` is `A`.
    Insensitive,
}

impl Case {
    /// Redis compares `char`s, which are signed; that shows in ranges beyond ASCII.
    fn fold(self, byte: u8) -> i8 {
        match self {
            Self::Sensitive => byte as i8,
            Self::Insensitive => byte.to_ascii_lowercase() as i8,
        }
    }
}

/// Whether `text` matches `pattern` as a whole.
pub fn matches(pattern: &[u8], text: &[u8], case: Case) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut pattern, mut text) = (pattern, text);
    // After the last star: what it is followed by, and where in the text that was last tried.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if text.is_empty() {
            // A star that took more would leave even less for what remains of the pattern.
            return pattern.iter().all(|&byte| byte == b'*');
        }
        if pattern.first() == Some(&b'*') {
            let stars = pattern.iter().take_while(|&&byte| byte == b'*').count();
            pattern = &pattern[stars..];
            if pattern.is_empty() {
                return true;
            }
            retry = Some((pattern, text));
        } else if let Some(rest) = match_one(pattern, text[0], case) {
            pattern = rest;
            text = &text[1..];
        } else if let Some((after_star, tried)) = retry {
            pattern = after_star;
            text = &tried[1..];
            retry = Some((pattern, text));
            if text.is_empty() {
                return false;
            }
        } else {
            return false;
        }
    }
}

/// What remains of `pattern` once its first part, which is not a star, has matched `byte`.
fn match_one(pattern: &[u8], byte: u8, case: Case) -> Option<&[u8]> {
    let (&first, rest) = pattern.split_first()?;
    match first {
        b'?' => Some(rest),
        b'[' => {
            let (matched, rest) = match_class(rest, byte, case);
            matched.then_some(rest)
        }
        b'\\' if !rest.is_empty() => (case.fold(rest[0]) == case.fold(byte)).then_some(&rest[1..]),
        _ => (case.fold(first) == case.fold(byte)).then_some(rest),
    }
}

/// `class` starts after the `[`; returns whether it holds `byte`, and what follows its `]`.
fn match_class(class: &[u8], byte: u8, case: Case) -> (bool, &[u8]) {
    let (negated, mut class) = class.strip_prefix(b"^").map_or((false, class), |rest| (true, rest));
    let mut found = false;
    loop {
        class = match class {
            [] => return (found != negated, class),
            // Escaped, a byte matches only itself, whatever the case.
            [b'\\', escaped, rest @ ..] => {
                found |= *escaped == byte;
                rest
            }
            [b']', rest @ ..] => return (found != negated, rest),
            [low, b'-', high, rest @ ..] => {
                // Ordered first and folded after: `[Z-a]` without case is then empty, as in Redis.
                let (low, high) = if (*low as i8) <= (*high as i8) { (low, high) } else { (high, low) };
                found |= (case.fold(*low)..=case.fold(*high)).contains(&case.fold(byte));
                rest
            }
            [one, rest @ ..] => {
                found |= case.fold(*one) == case.fold(byte);
                rest
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sensitive(pattern: &str, text: &str) -> bool {
        matches(pattern.as_bytes(), text.as_bytes(), Case::Sensitive)
    }

    #[test]
    fn parts() {
        for (pattern, text) in [
            ("", ""),
            ("*", "a"),
            ("a*", "a"),
            ("h?llo", "hello"),
            ("h*llo", "heeeello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-b]llo", "hbllo"),
            ("h[b-a]llo", "hallo"),
            ("[\\]]", "]"),
            ("[a", "a"),
            ("\\*", "*"),
            ("a\\", "a\\"),
            ("*a*b*c*", "xxaxxbxxc"),
            ("*ab", "aab"),
            ("[^]x", "ax"),
        ] {
            assert!(sensitive(pattern, text), "{pattern} should match {text}");
        }
        for (pattern, text) in [("*", ""), ("", "a"), ("h[^e]llo", "hello"), ("\\*", "a"), ("*a*b", "ba"), ("?", "ab"), ("[]", "a")]
        {
            assert!(!sensitive(pattern, text), "{pattern} should not match {text}");
        }
    }

    #[test]
    fn case() {
        assert!(matches(b"H[A-C]llo\\X", b"hbLLOx", Case::Insensitive));
        assert!(!matches(b"H", b"h", Case::Sensitive));
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern = "a*".repeat(2_000) + "b";
        assert!(!sensitive(&pattern, &"a".repeat(4_000)));
    }
}
