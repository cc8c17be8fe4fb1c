//! What goes with a value.

/// What goes with a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// When it expires, in milliseconds since the Unix epoch.
    pub expiry_ms: Option<i64>,
    /// Its entity tag.
    pub etag: Option<u64>,
    /// Whether it was built or changed in part (APPEND, SETRANGE, BITOP) rather than set as a whole.
    pub edited: bool,
}

impl Put {
    /// For a value that is built in part, without expiry and entity tag.
    pub const EDITED: Self = Self { expiry_ms: None, etag: None, edited: true };
}
