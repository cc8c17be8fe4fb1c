//! What SCAN and its relatives have in common: their cursor, which names they answer, and how those of collections answer them.

use almandine_datatypes::glob::{self, Case};
use almandine_handler::{CommandError, Options, Outcome, ReadCall, errors};
use almandine_keyspace::Refusal;
use almandine_resp::reply::write_header;
use almandine_resp::{Args, Reply};

/// As all of them state it.
pub(crate) const COMPLEXITY: &str = "O(1) for every call. O(N) for a complete iteration, including enough command calls for the \
                                     cursor to return back to 0. N is the number of elements inside the collection.";

/// Elements that a call visits when COUNT says nothing.
pub(crate) const COUNT: usize = 10;

/// A cursor as C's `strtoul` reads it, which Redis' clients may rely on: with a sign, or empty for zero. No leading spaces.
///
/// # Errors
/// When it is none.
pub(crate) fn cursor(text: &[u8]) -> Result<u64, CommandError> {
    let (negative, digits) = match text {
        b"" => return Ok(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(errors::generic::INVALID_CURSOR);
    }
    let digits = std::str::from_utf8(digits).map_err(|_| errors::generic::INVALID_CURSOR)?;
    let value: u64 = digits.parse().map_err(|_| errors::generic::INVALID_CURSOR)?;
    Ok(if negative { value.wrapping_neg() } else { value })
}

/// The argument of COUNT.
///
/// # Errors
/// When it is no integer, or less than one.
pub(crate) fn count(options: &mut Options<'_>) -> Result<usize, CommandError> {
    let count = options.integer()?;
    if count < 1 {
        return Err(CommandError::Syntax);
    }
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Whether MATCH takes a name. The lone star also takes the empty name, which as a pattern it does not match.
pub(crate) fn takes(pattern: &[u8], name: &[u8]) -> bool {
    pattern == b"*" || glob::matches(pattern, name, Case::Sensitive)
}

/// HSCAN, SSCAN or ZSCAN: a cursor, and what the options behind it say.
pub(crate) struct Scan<'c> {
    cursor: u64,
    options: Result<ElementOptions<'c>, CommandError>,
}

/// Which elements a scan answers.
pub(crate) struct ElementOptions<'c> {
    pattern: &'c [u8],
    /// Elements to visit.
    pub(crate) count: usize,
    /// Values are wanted, too.
    pub(crate) values: bool,
}

impl<'c> Scan<'c> {
    /// Reads the arguments. `without_values` is the command's word for names only, if it has one.
    ///
    /// # Errors
    /// When the cursor is none.
    pub(crate) fn read(args: Args<'c>, without_values: Option<&'static str>) -> Result<Self, CommandError> {
        Ok(Self { cursor: cursor(args.at(2))?, options: ElementOptions::read(args, without_values) })
    }

    /// Answers some elements of the collection that was found. `visit` says at which cursor the next call goes on. Nothing is
    /// answered when the options are malformed, which [`Self::end`] tells.
    ///
    /// # Errors
    /// As `visit`.
    pub(crate) fn answer(
        &self,
        reply: &mut Reply<'_>,
        visit: impl FnOnce(u64, &ElementOptions<'c>, &mut Elements) -> Result<u64, Refusal>,
    ) -> Result<(), Refusal> {
        let Ok(options) = &self.options else { return Ok(()) };
        let mut found = Elements::default();
        let next = visit(self.cursor, options, &mut found)?;
        found.answer(next, reply);
        Ok(())
    }

    /// Ends the command. Of a key that does not exist Redis does not read the options.
    ///
    /// # Errors
    /// When the options are malformed.
    pub(crate) fn end(self, call: &mut ReadCall<'_>, found: Option<()>) -> Outcome {
        match found {
            Some(()) => {
                self.options?;
                Ok(())
            }
            None => {
                Elements::default().answer(0, &mut call.reply);
                Ok(())
            }
        }
    }
}

impl<'c> ElementOptions<'c> {
    fn read(args: Args<'c>, without_values: Option<&'static str>) -> Result<Self, CommandError> {
        let mut scan = Self { pattern: b"*", count: COUNT, values: without_values.is_some() };
        let mut options = Options::after(args, 3);
        while let Some(option) = options.next() {
            match option {
                o if o.is("MATCH") => scan.pattern = options.value()?,
                o if o.is("COUNT") => scan.count = count(&mut options)?,
                o if without_values.is_some_and(|word| o.is(word)) => scan.values = false,
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(scan)
    }

    /// Whether an element of this name is wanted.
    pub(crate) fn takes(&self, name: &[u8]) -> bool {
        takes(self.pattern, name)
    }
}

/// The elements of an answer, which come behind the next cursor and are found before it is known.
#[derive(Default)]
pub(crate) struct Elements {
    encoded: Vec<u8>,
    len: usize,
}

impl Elements {
    /// Appends a string.
    pub(crate) fn push(&mut self, text: &[u8]) {
        write_header(&mut self.encoded, b'$', text.len());
        self.encoded.extend_from_slice(text);
        self.encoded.extend_from_slice(b"\r\n");
        self.len += 1;
    }

    /// Answers them behind a cursor.
    fn answer(&self, next: u64, reply: &mut Reply<'_>) {
        reply.array(2);
        reply.bulk(next.to_string().as_bytes());
        reply.array(self.len);
        reply.raw(&self.encoded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors() {
        assert_eq!([cursor(b"0"), cursor(b""), cursor(b"+7"), cursor(b"007")], [Ok(0), Ok(0), Ok(7), Ok(7)]);
        assert_eq!([cursor(b"18446744073709551615"), cursor(b"-1")], [Ok(u64::MAX), Ok(u64::MAX)]);
        for text in ["18446744073709551616", " 1", "1 ", "-", "abc"] {
            assert_eq!(cursor(text.as_bytes()), Err(errors::generic::INVALID_CURSOR), "{text}");
        }
    }

    #[test]
    fn the_star_takes_the_empty_name() {
        assert!(takes(b"*", b"") && !takes(b"**", b"") && takes(b"a*", b"a"));
    }
}
