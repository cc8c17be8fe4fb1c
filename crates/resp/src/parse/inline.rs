//! Inline commands: words on a line, as a person types them into telnet.
//!
//! Words are separated by white space and may be quoted, wholly or in part. In double quotes `\n \r \t \b \a` and `\xHH` stand for
//! a byte and any other escaped byte for itself; in single quotes only `\'` is an escape. A closing quote must end its word.

use crate::args::Span;
use crate::batch::Batch;
use crate::error::ProtocolError;

/// Appends the words of `line` to the batch as one command; none when there are no words.
pub(super) fn split(line: &[u8], batch: &mut Batch) -> Result<(), ProtocolError> {
    let (spans, bytes) = (batch.spans.len(), batch.unescaped.len());
    let mut rest = line;
    loop {
        rest = &rest[rest.iter().take_while(|&&byte| is_space(byte)).count()..];
        if rest.is_empty() {
            break;
        }
        let offset = batch.unescaped.len();
        match word(rest, &mut batch.unescaped) {
            Some(behind) => rest = behind,
            None => {
                batch.spans.truncate(spans);
                batch.unescaped.truncate(bytes);
                return Err(ProtocolError::UnbalancedQuotes);
            }
        }
        batch.spans.push(Span { offset: offset as u32, len: (batch.unescaped.len() - offset) as u32 });
    }
    if batch.spans.len() > spans {
        batch.finish_inline(spans);
    }
    Ok(())
}

/// Unquotes the word that `rest` begins with, and returns what is behind it; nothing when its quotes are unbalanced.
fn word<'l>(mut rest: &'l [u8], out: &mut Vec<u8>) -> Option<&'l [u8]> {
    while let Some((&byte, behind)) = rest.split_first() {
        match byte {
            b'"' => return closed(double_quoted(behind, out)?),
            b'\'' => return closed(single_quoted(behind, out)?),
            // Vertical tab and form feed separate words, yet do not end one: so does Redis.
            b' ' | b'\t' | b'\r' | b'\n' => return Some(rest),
            _ => out.push(byte),
        }
        rest = behind;
    }
    Some(rest)
}

/// `rest`, if the word may end in front of it.
fn closed(rest: &[u8]) -> Option<&[u8]> {
    rest.first().is_none_or(|&byte| is_space(byte)).then_some(rest)
}

/// Unquotes up to the closing `"`, and returns what is behind it.
fn double_quoted<'l>(mut rest: &'l [u8], out: &mut Vec<u8>) -> Option<&'l [u8]> {
    loop {
        rest = match *rest {
            [b'"', ref behind @ ..] => return Some(behind),
            [b'\\', b'x', high, low, ref behind @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.push(hex_digit(high) << 4 | hex_digit(low));
                behind
            }
            [b'\\', escaped, ref behind @ ..] => {
                out.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => other,
                });
                behind
            }
            [byte, ref behind @ ..] => {
                out.push(byte);
                behind
            }
            [] => return None,
        }
    }
}

/// Unquotes up to the closing `'`, and returns what is behind it.
fn single_quoted<'l>(mut rest: &'l [u8], out: &mut Vec<u8>) -> Option<&'l [u8]> {
    loop {
        rest = match *rest {
            [b'\'', ref behind @ ..] => return Some(behind),
            [b'\\', b'\'', ref behind @ ..] => {
                out.push(b'\'');
                behind
            }
            [byte, ref behind @ ..] => {
                out.push(byte);
                behind
            }
            [] => return None,
        }
    }
}

/// White space as the C locale has it.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The value of a digit that is known to be hexadecimal.
fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}
