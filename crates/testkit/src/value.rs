//! A decoded RESP2 or RESP3 value, and the readable notation in which golden sessions write it.
//!
//! The notation shows the *wire type*, because a client sees it: `+OK`, `:1`, `$"bytes"`, `(nil)` for `$-1`, `(nil-array)` for
//! `*-1`, `_` for RESP3's null, `,1.5`, `#t`, `*[…]`, `~[…]`, `>[…]`, `%{k: v}`, `-ERR text`.

use std::fmt::{self, Write as _};

/// One reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// `+`
    Simple(Vec<u8>),
    /// `-`, prefix included.
    Error(Vec<u8>),
    /// `:`
    Integer(i64),
    /// `$`
    Bulk(Vec<u8>),
    /// `$-1`
    NullBulk,
    /// `*-1`
    NullArray,
    /// `_`
    Null,
    /// `*`
    Array(Vec<Value>),
    /// `~`
    Set(Vec<Value>),
    /// `>`
    Push(Vec<Value>),
    /// `%`
    Map(Vec<(Value, Value)>),
    /// `|`; the value it belongs to follows.
    Attribute(Vec<(Value, Value)>),
    /// `,` with the text as sent.
    Double(Vec<u8>),
    /// `#`
    Boolean(bool),
    /// `(`
    BigNumber(Vec<u8>),
    /// `=`: format and text.
    Verbatim(Vec<u8>, Vec<u8>),
    /// `!`
    BlobError(Vec<u8>),
    /// Not a value: the peer closed the connection.
    Closed,
}

impl Value {
    /// The simple string `OK`.
    #[must_use]
    pub fn ok() -> Self {
        Self::Simple(b"OK".to_vec())
    }

    /// The bytes of a string-like value.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Simple(b) | Self::Error(b) | Self::Bulk(b) | Self::Double(b) | Self::BigNumber(b) | Self::Verbatim(_, b) => {
                Some(b)
            }
            _ => None,
        }
    }

    /// The integer, if it is one.
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        if let Self::Integer(n) = self { Some(*n) } else { None }
    }

    /// The elements of an array, set or push.
    #[must_use]
    pub fn elements(&self) -> Option<&[Value]> {
        match self {
            Self::Array(v) | Self::Set(v) | Self::Push(v) => Some(v),
            _ => None,
        }
    }

    /// Any of the three nulls.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null | Self::NullBulk | Self::NullArray)
    }

    /// Whether it is an error reply.
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_) | Self::BlobError(_))
    }

    /// The notation over several lines where one line would be long.
    #[must_use]
    pub fn pretty(&self) -> String {
        let mut text = String::new();
        pretty(self, 0, &mut text);
        text
    }
}

const LINE_WIDTH: usize = 110;

fn pretty(value: &Value, depth: usize, out: &mut String) {
    let line = if depth == 0 { top_level(value) } else { value.to_string() };
    let children: Vec<(Option<&Value>, &Value)> = match value {
        Value::Array(v) | Value::Set(v) | Value::Push(v) => v.iter().map(|v| (None, v)).collect(),
        Value::Map(v) | Value::Attribute(v) => v.iter().map(|(k, v)| (Some(k), v)).collect(),
        _ => Vec::new(),
    };
    if children.is_empty() || depth * 2 + line.len() <= LINE_WIDTH {
        out.push_str(&line);
        return;
    }
    let map = children[0].0.is_some();
    out.push_str(&line[..2]);
    for (key, child) in children {
        let _ = write!(out, "\n{}", "  ".repeat(depth + 1));
        if let Some(key) = key {
            let _ = write!(out, "{key}: ");
        }
        pretty(child, depth + 1, out);
        out.push(',');
    }
    let _ = write!(out, "\n{}{}", "  ".repeat(depth), if map { '}' } else { ']' });
}

/// At the top level an error's text runs to the end of the line, unquoted.
fn top_level(value: &Value) -> String {
    match value {
        Value::Error(text) if plain(text) => format!("-{}", String::from_utf8_lossy(text)),
        _ => value.to_string(),
    }
}

fn plain(text: &[u8]) -> bool {
    text.iter().all(|b| (0x20..0x7f).contains(b) && *b != b'\\') && text.trim_ascii().len() == text.len()
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(b) => {
                f.write_char('+')?;
                let word = !b.is_empty() && b.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'_' || *c == b'-');
                if word { f.write_str(&String::from_utf8_lossy(b)) } else { quoted(f, b) }
            }
            Self::Error(b) => prefixed(f, "-", b),
            Self::Integer(n) => write!(f, ":{n}"),
            Self::Bulk(b) => prefixed(f, "$", b),
            Self::NullBulk => f.write_str("(nil)"),
            Self::NullArray => f.write_str("(nil-array)"),
            Self::Null => f.write_str("_"),
            Self::Array(v) => list(f, "*", v),
            Self::Set(v) => list(f, "~", v),
            Self::Push(v) => list(f, ">", v),
            Self::Map(v) => pairs(f, "%", v),
            Self::Attribute(v) => pairs(f, "|", v),
            Self::Double(b) => write!(f, ",{}", String::from_utf8_lossy(b)),
            Self::Boolean(b) => write!(f, "#{}", if *b { 't' } else { 'f' }),
            Self::BigNumber(b) => prefixed(f, "big", b),
            Self::Verbatim(format, b) => {
                prefixed(f, "=", format)?;
                quoted(f, b)
            }
            Self::BlobError(b) => prefixed(f, "!", b),
            Self::Closed => f.write_str("(closed)"),
        }
    }
}

fn prefixed(f: &mut fmt::Formatter<'_>, prefix: &str, bytes: &[u8]) -> fmt::Result {
    f.write_str(prefix)?;
    quoted(f, bytes)
}

fn list(f: &mut fmt::Formatter<'_>, prefix: &str, values: &[Value]) -> fmt::Result {
    write!(f, "{prefix}[")?;
    for (i, v) in values.iter().enumerate() {
        write!(f, "{}{v}", if i > 0 { ", " } else { "" })?;
    }
    f.write_char(']')
}

fn pairs(f: &mut fmt::Formatter<'_>, prefix: &str, values: &[(Value, Value)]) -> fmt::Result {
    write!(f, "{prefix}{{")?;
    for (i, (k, v)) in values.iter().enumerate() {
        write!(f, "{}{k}: {v}", if i > 0 { ", " } else { "" })?;
    }
    f.write_char('}')
}

/// `bytes` in double quotes, with redis-cli's escapes.
pub fn quoted(f: &mut impl fmt::Write, bytes: &[u8]) -> fmt::Result {
    f.write_char('"')?;
    for &b in bytes {
        match b {
            b'"' => f.write_str("\\\"")?,
            b'\\' => f.write_str("\\\\")?,
            b'\n' => f.write_str("\\n")?,
            b'\r' => f.write_str("\\r")?,
            b'\t' => f.write_str("\\t")?,
            0x20..0x7f => f.write_char(b as char)?,
            _ => write!(f, "\\x{b:02x}")?,
        }
    }
    f.write_char('"')
}

/// A command as it would be typed: arguments quoted where they must be, long ones cut.
#[must_use]
pub fn command_line(args: &[Vec<u8>]) -> String {
    let mut line = String::new();
    for (i, arg) in args.iter().enumerate() {
        if i > 0 {
            line.push(' ');
        }
        let bare = !arg.is_empty() && arg.iter().all(|b| b.is_ascii_graphic() && !b"\"'\\@".contains(b));
        if bare && arg.len() <= 200 {
            line.push_str(&String::from_utf8_lossy(arg));
        } else {
            let _ = quoted(&mut line, &arg[..arg.len().min(200)]);
            if arg.len() > 200 {
                let _ = write!(line, "…({} bytes)", arg.len());
            }
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notation_shows_the_wire_type() {
        let value = Value::Array(vec![
            Value::ok(),
            Value::Simple(b"a b".to_vec()),
            Value::Error(b"ERR no".to_vec()),
            Value::Bulk(b"a\"\x00".to_vec()),
            Value::NullBulk,
            Value::Map(vec![(Value::Integer(1), Value::Boolean(true))]),
            Value::Verbatim(b"txt".to_vec(), b"x".to_vec()),
        ]);
        assert_eq!(value.to_string(), r#"*[+OK, +"a b", -"ERR no", $"a\"\x00", (nil), %{:1: #t}, ="txt""x"]"#);
        assert_eq!(Value::Error(b"ERR a 'b'".to_vec()).pretty(), "-ERR a 'b'");
    }

    #[test]
    fn long_arrays_are_broken_into_lines() {
        let value = Value::Array((0..40).map(Value::Integer).collect());
        let text = value.pretty();
        assert!(text.starts_with("*[\n  :0,\n"), "{text}");
        assert!(text.ends_with(":39,\n]"), "{text}");
    }
}
