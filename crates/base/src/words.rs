//! Words of a line, as Redis takes a line apart: of a configuration file, of a manifest, of the first line of a script.
//!
//! Words are separated by blanks; in double quotes `\xHH`, `\n`, `\r`, `\t`, `\b` and `\a` are escapes; in single quotes only `\'`
//! is; a closing quote ends its word, and a zero byte the line.

/// The words of a line. None: a quote is not closed, or something follows one that is.
#[must_use]
pub fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut words, mut at) = (Vec::new(), 0);
    loop {
        while line.get(at).is_some_and(|byte| is_blank(*byte)) {
            at += 1;
        }
        if line.get(at).is_none_or(|byte| *byte == 0) {
            return Some(words);
        }
        words.push(word(line, &mut at)?);
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

/// Appends a word in double quotes, with escapes for all that is not printable ASCII, so that [`split`] gives it back.
pub fn quote(word: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in word {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            8 => out.extend(b"\\b"),
            7 => out.extend(b"\\a"),
            _ => out.extend(format!("\\x{byte:02x}").bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_apart_as_in_redis() {
        let cases: &[(&str, Option<&[&str]>)] = &[
            ("", Some(&[])),
            ("  port   7000  ", Some(&["port", "7000"])),
            ("save \"\"", Some(&["save", ""])),
            ("a \"b c\" 'd e'", Some(&["a", "b c", "d e"])),
            (r#"a "\x41\n\q""#, Some(&["a", "A\nq"])),
            (r#"a "\xZZ""#, Some(&["a", "xZZ"])),
            (r"a 'it\'s' '\n'", Some(&["a", "it's", "\\n"])),
            ("a\"b\"", Some(&["ab"])),
            ("a\0b", Some(&["a"])),
            ("a \"b\"c", None),
            ("a \"b", None),
            ("a 'b", None),
        ];
        for (line, words) in cases {
            let words = words.map(|words| words.iter().map(|word| word.as_bytes().to_vec()).collect());
            assert_eq!(split(line.as_bytes()), words, "{line}");
        }
    }

    #[test]
    fn quoting_is_undone_by_splitting() {
        for word in ["", "a b", "\"\\\n\r\t\x08\x07\x01\0", "größe", "'"] {
            let mut quoted = Vec::new();
            quote(word.as_bytes(), &mut quoted);
            assert_eq!(split(&quoted), Some(vec![word.as_bytes().to_vec()]));
        }
    }
}
