//! From received bytes to replies, incrementally.
//!
//! Scalars are taken whole; aggregates are built on an explicit stack, so that a large array that arrives in many chunks is
//! decoded in one pass and a hostile depth ends in an error, not in a stack overflow.

use super::value::Value;

/// Deepest nesting.
const DEPTH_MAX: usize = 128;

/// Longest line. Replies of a server are shorter; a stream without ends of line is not RESP.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Longest string.
const BLOB_BYTES_MAX: usize = 1 << 40;

/// Elements for which memory is taken before they arrive.
const ELEMENTS_RESERVED_MAX: usize = 1024;

/// Bytes that are not RESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// No type begins with this byte.
    UnknownType(u8),
    /// A length, number or truth value that is none.
    InvalidNumber,
    /// A line, string or nesting beyond the decoder's limits.
    TooLong,
    /// A string that does not end where its length says, or text that is not what its type demands.
    Malformed,
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownType(byte) => write!(f, "no reply begins with '{}'", byte.escape_ascii()),
            Self::InvalidNumber => f.write_str("invalid number in a reply"),
            Self::TooLong => f.write_str("a reply exceeds the decoder's limits"),
            Self::Malformed => f.write_str("malformed reply"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Decodes one reply that is complete in `input`; the number is its length in bytes. Nothing when the input ends first.
///
/// # Errors
/// When the input is not RESP.
pub(crate) fn decode(input: &[u8]) -> Result<Option<(Value, usize)>, DecodeError> {
    let (consumed, value) = Decoder::new().decode(input)?;
    Ok(value.map(|value| (value, consumed)))
}

/// The decoder of one stream of replies.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// Aggregates that wait for elements, outermost first.
    open: Vec<Open>,
    /// The line at the front of the input does not end before this.
    searched: usize,
}

/// An aggregate that waits for elements.
#[derive(Debug)]
struct Open {
    kind: u8,
    /// Elements to come, keys and values counted apart.
    remaining: usize,
    elements: Vec<Value>,
}

/// What the front of the input holds.
enum Item {
    Scalar(Value),
    /// An aggregate's type and number of elements.
    Aggregate(u8, usize),
}

impl Decoder {
    /// A decoder at the start of a stream.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Takes bytes off the front of `input`, at most to the end of the next reply. The result is their number, which the next
    /// call's input must begin behind, and the reply if it is complete.
    ///
    /// # Errors
    /// When the input is not RESP. The decoder is of no further use then.
    pub(crate) fn decode(&mut self, input: &[u8]) -> Result<(usize, Option<Value>), DecodeError> {
        let mut at = 0;
        loop {
            let Some((item, len)) = self.item(&input[at..])? else { return Ok((at, None)) };
            at += len;
            let value = match item {
                Item::Scalar(value) => value,
                Item::Aggregate(kind, remaining) => {
                    if self.open.len() == DEPTH_MAX {
                        return Err(DecodeError::TooLong);
                    }
                    let elements = Vec::with_capacity(remaining.min(ELEMENTS_RESERVED_MAX));
                    let open = Open { kind, remaining, elements };
                    if remaining > 0 || kind == b'|' {
                        self.open.push(open);
                        continue;
                    }
                    open.close()
                }
            };
            if let Some(reply) = self.add(value) {
                return Ok((at, Some(reply)));
            }
        }
    }

    /// Adds a complete value to the innermost aggregate, and closes those that it completes. A value of its own is the result.
    fn add(&mut self, mut value: Value) -> Option<Value> {
        while let Some(mut innermost) = self.open.pop() {
            if innermost.kind == b'|' && innermost.remaining == 0 {
                value = Value::Attributed { attributes: pairs(innermost.elements), reply: Box::new(value) };
                continue;
            }
            innermost.elements.push(value);
            innermost.remaining -= 1;
            // Attributes stay open for the reply that they belong to.
            if innermost.remaining > 0 || innermost.kind == b'|' {
                self.open.push(innermost);
                return None;
            }
            value = innermost.close();
        }
        Some(value)
    }

    /// Reads the scalar or the header at the front of `input`, and its length in bytes.
    fn item(&mut self, input: &[u8]) -> Result<Option<(Item, usize)>, DecodeError> {
        let Some(&kind) = input.first() else { return Ok(None) };
        if !b"+-:$*_#,(!=%~>|".contains(&kind) {
            return Err(DecodeError::UnknownType(kind));
        }
        let Some(end) = memchr::memchr(b'\n', &input[self.searched.min(input.len())..]).map(|found| self.searched + found) else {
            self.searched = input.len();
            return if input.len() > LINE_BYTES_MAX { Err(DecodeError::TooLong) } else { Ok(None) };
        };
        let line = input[1..end].strip_suffix(b"\r").ok_or(DecodeError::Malformed)?;
        let next = end + 1;
        let scalar = |value| Ok(Some((Item::Scalar(value), next)));
        let item = match kind {
            b'+' => scalar(Value::Simple(line.to_vec())),
            b'-' => scalar(Value::Error(line.to_vec())),
            b':' => scalar(Value::Integer(number(line)?)),
            b'_' if line.is_empty() => scalar(Value::Null),
            b'#' if line == b"t" || line == b"f" => scalar(Value::Boolean(line == b"t")),
            b',' => {
                let text = text(line)?;
                text.parse::<f64>().map_err(|_| DecodeError::InvalidNumber)?;
                scalar(Value::Double(text))
            }
            b'(' => scalar(Value::BigNumber(big_number(line)?)),
            b'$' if line == b"-1" => scalar(Value::NullBulk),
            b'*' if line == b"-1" => scalar(Value::NullArray),
            b'$' | b'!' | b'=' => {
                let len = length(line)?;
                if len > BLOB_BYTES_MAX {
                    return Err(DecodeError::TooLong);
                }
                let Some(blob) = input[next..].get(..len + 2) else {
                    // The line has been found; the next search finds its end at once.
                    self.searched = end;
                    return Ok(None);
                };
                let blob = blob.strip_suffix(b"\r\n").ok_or(DecodeError::Malformed)?;
                Ok(Some((Item::Scalar(string(kind, blob)?), next + len + 2)))
            }
            b'%' | b'|' => Ok(Some((Item::Aggregate(kind, length(line)?.checked_mul(2).ok_or(DecodeError::InvalidNumber)?), next))),
            b'*' | b'~' | b'>' => Ok(Some((Item::Aggregate(kind, length(line)?), next))),
            _ => Err(DecodeError::Malformed),
        };
        self.searched = 0;
        item
    }
}

impl Open {
    fn close(self) -> Value {
        match self.kind {
            b'%' => Value::Map(pairs(self.elements)),
            b'~' => Value::Set(self.elements),
            b'>' => Value::Push(self.elements),
            _ => Value::Array(self.elements),
        }
    }
}

fn pairs(elements: Vec<Value>) -> Vec<(Value, Value)> {
    let mut elements = elements.into_iter();
    let mut pairs = Vec::with_capacity(elements.len() / 2);
    while let (Some(key), Some(value)) = (elements.next(), elements.next()) {
        pairs.push((key, value));
    }
    pairs
}

fn string(kind: u8, blob: &[u8]) -> Result<Value, DecodeError> {
    match (kind, blob) {
        (b'$', _) => Ok(Value::Bulk(blob.to_vec())),
        (b'!', _) => Ok(Value::BlobError(blob.to_vec())),
        (_, &[a, b, c, b':', ref text @ ..]) => Ok(Value::Verbatim { format: [a, b, c], text: text.to_vec() }),
        _ => Err(DecodeError::Malformed),
    }
}

fn text(line: &[u8]) -> Result<String, DecodeError> {
    str::from_utf8(line).map(str::to_owned).map_err(|_| DecodeError::Malformed)
}

fn number(line: &[u8]) -> Result<i64, DecodeError> {
    str::from_utf8(line).ok().and_then(|digits| digits.parse().ok()).ok_or(DecodeError::InvalidNumber)
}

fn length(line: &[u8]) -> Result<usize, DecodeError> {
    usize::try_from(number(line)?).map_err(|_| DecodeError::InvalidNumber)
}

fn big_number(line: &[u8]) -> Result<String, DecodeError> {
    let digits = line.strip_prefix(b"-").unwrap_or(line);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(DecodeError::InvalidNumber);
    }
    text(line)
}
