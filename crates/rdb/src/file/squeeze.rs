//! Values that were encoded without compression, with their strings compressed.

use super::shape::{self, Shape, Steps};
use crate::cursor::take;
use crate::lzf::Compressor;
use crate::string;

/// Shorter strings are left as they are, as in Redis.
const BYTES_MIN: usize = 21;

#[derive(Debug, Default)]
pub(super) struct Squeezer {
    compressor: Compressor,
    compressed: Vec<u8>,
}

impl Squeezer {
    /// Appends a string.
    pub(super) fn write_text(&mut self, text: &[u8], out: &mut Vec<u8>) {
        if text.len() >= BYTES_MIN {
            self.compressed.clear();
            if self.compressor.compress(text, &mut self.compressed) {
                string::write_compressed(&self.compressed, text.len(), out);
                return;
            }
        }
        string::write_string(text, out);
    }

    /// Appends what stands behind a type byte of this version.
    pub(super) fn write_content(&mut self, value_type: u8, content: &[u8], version: u16, out: &mut Vec<u8>) {
        let begin = out.len();
        let mut steps = Rewrite { input: content, squeezer: self, out };
        let walked = shape::walk(&mut steps, value_type, version);
        let is_whole = walked == Ok(Shape::Value) && steps.input.is_empty();
        debug_assert!(is_whole, "a value that was encoded");
        if !is_whole {
            out.truncate(begin);
            out.extend_from_slice(content);
        }
    }
}

/// Moves from one value to the other.
struct Rewrite<'r, 'i> {
    input: &'i [u8],
    squeezer: &'r mut Squeezer,
    out: &'r mut Vec<u8>,
}

impl Rewrite<'_, '_> {
    fn copy(&mut self, len: usize) -> Result<(), ()> {
        self.out.extend_from_slice(take(&mut self.input, len).ok_or(())?);
        Ok(())
    }
}

impl Steps for Rewrite<'_, '_> {
    type Fault = ();

    fn bytes(&mut self, len: u64) -> Result<(), ()> {
        self.copy(usize::try_from(len).map_err(drop)?)
    }

    fn byte(&mut self) -> Result<u8, ()> {
        let byte = *self.input.first().ok_or(())?;
        self.copy(1)?;
        Ok(byte)
    }

    fn number(&mut self) -> Result<u64, ()> {
        let before = self.input;
        let number = string::read_number(&mut self.input).ok_or(())?;
        self.out.extend_from_slice(&before[..before.len() - self.input.len()]);
        Ok(number)
    }

    fn text(&mut self) -> Result<(), ()> {
        let before = self.input;
        if let string::Form::Plain = string::form(*before.first().ok_or(())?) {
            let len = string::read_length(&mut self.input).ok_or(())?;
            if len >= BYTES_MIN {
                self.squeezer.write_text(take(&mut self.input, len).ok_or(())?, self.out);
                return Ok(());
            }
            self.input = before;
        }
        string::skip_text(&mut self.input).ok_or(())?;
        self.out.extend_from_slice(&before[..before.len() - self.input.len()]);
        Ok(())
    }
}
