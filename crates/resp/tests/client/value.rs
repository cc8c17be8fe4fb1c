//! A decoded reply.

/// A reply of any type of RESP2 and RESP3, in as much detail as the wire has: the three kinds of null differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// `+`: a status.
    Simple(Vec<u8>),
    /// `-`: an error, with its prefix.
    Error(Vec<u8>),
    /// `:`: an integer.
    Integer(i64),
    /// `$`: a string.
    Bulk(Vec<u8>),
    /// `$-1`: no string.
    NullBulk,
    /// `*`: elements in order.
    Array(Vec<Value>),
    /// `*-1`: no array.
    NullArray,
    /// `_`: nothing, in RESP3.
    Null,
    /// `#`: a truth value.
    Boolean(bool),
    /// `,`: a double, as its text on the wire. [`Value::as_f64`] reads it.
    Double(String),
    /// `(`: an integer of any size, as decimal text.
    BigNumber(String),
    /// `!`: an error of any length.
    BlobError(Vec<u8>),
    /// `=`: text and its format.
    Verbatim {
        /// Three letters, `txt` or `mkd`.
        format: [u8; 3],
        /// The text.
        text: Vec<u8>,
    },
    /// `%`: keys and values in order.
    Map(Vec<(Value, Value)>),
    /// `~`: elements without order or duplicates, in the order in which they came.
    Set(Vec<Value>),
    /// `>`: a message that answers no request.
    Push(Vec<Value>),
    /// `|`: a reply with attributes.
    Attributed {
        /// Keys and values in order.
        attributes: Vec<(Value, Value)>,
        /// The reply itself.
        reply: Box<Value>,
    },
}

impl Value {
    /// The bytes of any kind of string, status or error.
    #[must_use]
    pub(crate) fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Simple(bytes) | Self::Error(bytes) | Self::Bulk(bytes) | Self::BlobError(bytes) => Some(bytes),
            Self::Verbatim { text, .. } => Some(text),
            Self::Double(text) | Self::BigNumber(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// The number that an integer or a double is, or that a string spells.
    #[must_use]
    pub(crate) fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(*value as f64),
            other => str::from_utf8(other.as_bytes()?).ok()?.parse().ok(),
        }
    }

    /// The elements of an array, a set or a push.
    #[must_use]
    pub(crate) fn as_elements(&self) -> Option<&[Value]> {
        match self {
            Self::Array(elements) | Self::Set(elements) | Self::Push(elements) => Some(elements),
            _ => None,
        }
    }

    /// Whether this is an error of either kind.
    #[must_use]
    pub(crate) fn is_error(&self) -> bool {
        matches!(self, Self::Error(_) | Self::BlobError(_))
    }

    /// Whether this is any kind of null.
    #[must_use]
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Null | Self::NullBulk | Self::NullArray)
    }
}
