//! What modules leave in files: parts that say of what kind they are, so that they can be passed over, and the module's name as a
//! number of nine letters and a version.

use std::io::Read;

use super::fault::{Fault, FileError};
use super::shape::Steps;
use super::window::Window;

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const NAME_LETTERS: u32 = 9;
/// Bits of the version behind the name.
const VERSION_BITS: u32 = 10;

const PART_END: u64 = 0;
const PART_SIGNED: u64 = 1;
const PART_UNSIGNED: u64 = 2;
const PART_FLOAT: u64 = 3;
const PART_DOUBLE: u64 = 4;
const PART_TEXT: u64 = 5;

/// The name that a module's number stands for.
pub(super) fn name(id: u64) -> String {
    let letter = |at: u32| {
        let bits = id >> (VERSION_BITS + 6 * (NAME_LETTERS - 1 - at)) & 63;
        char::from(LETTERS[bits as usize])
    };
    (0..NAME_LETTERS).map(letter).collect()
}

/// Moves over the parts of a module up to their end.
pub(super) fn skip_parts<R: Read>(window: &mut Window<R>) -> Result<(), FileError> {
    loop {
        match window.number()? {
            PART_END => return Ok(()),
            PART_SIGNED | PART_UNSIGNED => drop(window.number()?),
            PART_FLOAT => window.bytes(4)?,
            PART_DOUBLE => window.bytes(8)?,
            PART_TEXT => window.text()?,
            _ => return Err(window.fault(Fault::Malformed("part of a module"))),
        }
    }
}

/// Moves over what a module keeps beside the keys, and returns its name.
pub(super) fn skip_aux<R: Read>(window: &mut Window<R>) -> Result<String, FileError> {
    let name = name(window.number()?);
    // When it was written: before or behind the keys.
    if window.number()? != PART_UNSIGNED {
        return Err(window.fault(Fault::Malformed("data of a module")));
    }
    window.number()?;
    skip_parts(window)?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_name() {
        let id =
            b"ReJSON-RL".iter().fold(0u64, |id, letter| id << 6 | LETTERS.iter().position(|known| known == letter).unwrap() as u64);
        assert_eq!(name(id << 10 | 3), "ReJSON-RL");
    }
}
