//! The arguments of one command: spans into the bytes that hold them.
//!
//! [`Args`] is what handlers see. It borrows, is two fat pointers large, and is copied freely. [`ArgsBuf`] owns a command that must
//! outlive the bytes it arrived in: one that waits in a transaction, or one that a script builds.

use almandine_base::steps;
use std::ops::Index;

/// A range of bytes. Relative to what, the holder says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Span {
    /// The bytes of `base` that the span covers.
    #[inline]
    fn of(self, base: &[u8]) -> &[u8] {
        steps::take(1);
        &base[self.offset as usize..][..self.len as usize]
    }
}

/// The arguments of one command; the first is the command's name.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    base: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// Arguments at `spans` of `base`.
    #[inline]
    #[must_use]
    pub fn new(base: &'a [u8], spans: &'a [Span]) -> Self {
        Self { base, spans }
    }

    /// Number of arguments, the command's name included.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is no argument at all. True only for a slice past the end, never for a parsed command.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Argument `index`, for as long as the input lives. (Indexing borrows from the `Args` instead.)
    ///
    /// # Panics
    /// When there is no such argument.
    #[inline]
    #[must_use]
    pub fn at(&self, index: usize) -> &'a [u8] {
        self.spans[index].of(self.base)
    }

    /// Argument `index`, if there is one.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| span.of(self.base))
    }

    /// The arguments from `index` on; empty when there are none.
    #[inline]
    #[must_use]
    pub fn slice_from(&self, index: usize) -> Self {
        Self { base: self.base, spans: self.spans.get(index..).unwrap_or_default() }
    }

    /// The first `count` arguments; all when there are fewer.
    #[inline]
    #[must_use]
    pub fn first(&self, count: usize) -> Self {
        Self { base: self.base, spans: self.spans.get(..count).unwrap_or(self.spans) }
    }

    /// The arguments in order.
    #[inline]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &'a [u8]> + ExactSizeIterator + Clone + use<'a> {
        let base = self.base;
        self.spans.iter().map(move |span| span.of(base))
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    #[inline]
    fn index(&self, index: usize) -> &[u8] {
        self.at(index)
    }
}

impl std::fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter().map(|arg| arg.escape_ascii().to_string())).finish()
    }
}

/// A command that owns its arguments, in one allocation for the bytes and one for the spans.
#[derive(Clone, Debug, Default)]
pub struct ArgsBuf {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl ArgsBuf {
    /// Without arguments.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an argument.
    ///
    /// # Panics
    /// When the command would exceed 4 GiB, which the parser never lets through.
    #[inline]
    pub fn push(&mut self, arg: &[u8]) {
        let offset = u32::try_from(self.bytes.len()).expect("a command below 4 GiB");
        let len = u32::try_from(arg.len()).expect("an argument below 4 GiB");
        self.bytes.extend_from_slice(arg);
        self.spans.push(Span { offset, len });
    }

    /// Forgets the arguments, keeping the allocations.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
    }

    /// The arguments.
    #[must_use]
    pub fn as_args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.spans)
    }

    /// Bytes of memory in use, for limits on what a client may queue.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.spans.capacity() * size_of::<Span>()
    }
}

impl From<Args<'_>> for ArgsBuf {
    fn from(args: Args<'_>) -> Self {
        let mut owned =
            Self { bytes: Vec::with_capacity(args.iter().map(<[u8]>::len).sum()), spans: Vec::with_capacity(args.len()) };
        args.iter().for_each(|arg| owned.push(arg));
        owned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_and_owned_copies_agree() {
        let spans = [Span { offset: 0, len: 3 }, Span { offset: 4, len: 1 }, Span { offset: 5, len: 0 }];
        let args = Args::new(b"GET k", &spans);
        assert_eq!((&args[0], args.at(1), args.get(2), args.get(3)), (&b"GET"[..], &b"k"[..], Some(&b""[..]), None));
        assert_eq!(args.slice_from(1).iter().collect::<Vec<_>>(), [&b"k"[..], b""]);
        assert!(args.slice_from(3).is_empty() && args.slice_from(9).is_empty());
        let owned = ArgsBuf::from(args);
        assert!(owned.as_args().iter().eq(args.iter()));
        assert_eq!(format!("{args:?}"), r#"["GET", "k", ""]"#);
    }
}
