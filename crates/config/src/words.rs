//! Splits a line of a configuration file into words, and quotes a word so that splitting gives it back.
//!
//! The rules are Redis': words are separated by blanks; in double quotes `\xHH`, `\n`, `\r`, `\t`, `\b`, `\a` and `\c` are escapes;
//! in single quotes only `\'` is; a closing quote ends its word.

/// The words of `line`, or `None` when quotes are unbalanced or a word is not UTF-8.
#[must_use]
pub fn split(line: &str) -> Option<Vec<String>> {
    let bytes = line.as_bytes();
    let (mut words, mut at) = (Vec::new(), 0);
    loop {
        while bytes.get(at).is_some_and(|b| is_blank(*b)) {
            at += 1;
        }
        if at >= bytes.len() || bytes[at] == 0 {
            return Some(words);
        }
        let word = word(bytes, &mut at)?;
        words.push(String::from_utf8(word).ok()?);
    }
}

fn word(bytes: &[u8], at: &mut usize) -> Option<Vec<u8>> {
    let mut word = Vec::new();
    while let Some(byte) = bytes.get(*at).copied() {
        match byte {
            b'"' | b'\'' => {
                quoted(bytes, at, byte, &mut word)?;
                return Some(word);
            }
            0 => break,
            _ if is_blank(byte) => break,
            _ => word.push(byte),
        }
        *at += 1;
    }
    Some(word)
}

/// Reads from an opening quote to behind the closing one, which must end the word.
fn quoted(bytes: &[u8], at: &mut usize, quote: u8, word: &mut Vec<u8>) -> Option<()> {
    *at += 1;
    loop {
        let byte = *bytes.get(*at)?;
        *at += 1;
        match (byte, bytes.get(*at).copied()) {
            _ if byte == quote => return bytes.get(*at).is_none_or(|b| is_blank(*b)).then_some(()),
            (b'\\', Some(next)) if quote == b'"' => {
                let digits = (next == b'x').then(|| bytes.get(*at + 1..*at + 3)).flatten().and_then(hex);
                if let Some(value) = digits {
                    word.push(value);
                    *at += 3;
                } else {
                    word.push(unescaped(next));
                    *at += 1;
                }
            }
            (b'\\', Some(b'\'')) => {
                word.push(b'\'');
                *at += 1;
            }
            _ => word.push(byte),
        }
    }
}

fn hex(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits).ok().filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u8::from_str_radix(digits, 16).ok()
}

const fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 11 | 12)
}

/// `word` in double quotes, with escapes for everything that is not printable ASCII.
#[must_use]
pub fn quote(word: &str) -> String {
    let mut quoted = String::with_capacity(word.len() + 2);
    quoted.push('"');
    for byte in word.bytes() {
        match byte {
            b'"' | b'\\' => {
                quoted.push('\\');
                quoted.push(char::from(byte));
            }
            b'\n' => quoted.push_str("\\n"),
            b'\r' => quoted.push_str("\\r"),
            b'\t' => quoted.push_str("\\t"),
            8 => quoted.push_str("\\b"),
            7 => quoted.push_str("\\a"),
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_as_redis_does() {
        let cases: &[(&str, Option<&[&str]>)] = &[
            ("", Some(&[])),
            ("  port   7000  ", Some(&["port", "7000"])),
            ("save \"\"", Some(&["save", ""])),
            ("a \"b c\" 'd e'", Some(&["a", "b c", "d e"])),
            (r#"a "\x41\n\q""#, Some(&["a", "A\nq"])),
            (r#"a "\xZZ""#, Some(&["a", "xZZ"])),
            (r"a 'it\'s' '\n'", Some(&["a", "it's", "\\n"])),
            ("a\"b\"", Some(&["ab"])),
            ("a \"b\"c", None),
            ("a \"b", None),
            ("a 'b", None),
        ];
        for (line, words) in cases {
            assert_eq!(split(line), words.map(|w| w.iter().map(ToString::to_string).collect()), "{line}");
        }
    }

    #[test]
    fn quoting_is_undone_by_splitting() {
        for word in ["", "a b", "\"\\\n\r\t\x08\x07\x01", "größe", "'"] {
            assert_eq!(split(&quote(word)), Some(vec![word.to_owned()]));
        }
    }
}
