//! Words of a line, as Redis takes it apart: first lines of scripts, and lines of a terminal.

/// The words of a line, in which quotes keep blanks together; nothing when a quote is not closed.
#[must_use]
pub fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line.iter().copied().peekable();
    loop {
        while rest.next_if(u8::is_ascii_whitespace).is_some() {}
        if rest.peek().is_none() {
            return Some(words);
        }
        let mut word = Vec::new();
        while let Some(byte) = rest.next_if(|byte| !byte.is_ascii_whitespace()) {
            match byte {
                b'"' | b'\'' => {
                    loop {
                        match rest.next()? {
                            close if close == byte => break,
                            b'\\' if byte == b'"' => word.push(escaped(rest.next()?)),
                            b'\\' if rest.next_if_eq(&b'\'').is_some() => word.push(b'\''),
                            other => word.push(other),
                        }
                    }
                    if rest.peek().is_some_and(|next| !next.is_ascii_whitespace()) {
                        return None;
                    }
                }
                other => word.push(other),
            }
        }
        words.push(word);
    }
}

fn escaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}
