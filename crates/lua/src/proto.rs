//! Compiled functions: immutable, and shared by all machines that run them.

use std::sync::Arc;

use crate::instruction::Instruction;

/// A function's code.
#[derive(Debug)]
pub struct Proto {
    pub(crate) code: Box<[Instruction]>,
    /// Line of each instruction.
    pub(crate) lines: Box<[u32]>,
    pub(crate) constants: Box<[Constant]>,
    pub(crate) prototypes: Box<[Arc<Proto>]>,
    pub(crate) captures: Box<[Capture]>,
    /// Names of the upvalues.
    pub(crate) upvalues: Box<[Box<[u8]>]>,
    pub(crate) locals: Box<[LocalVariable]>,
    pub(crate) source: Arc<[u8]>,
    pub(crate) parameters: u8,
    pub(crate) variadic: Variadic,
    /// Registers that the function uses.
    pub(crate) registers: u8,
}

/// What a function does with further arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variadic {
    /// It drops them.
    No,
    /// `...` has them.
    Yes,
    /// They are in the table `arg`, since the function does not use `...`.
    Table,
}

/// A constant, with a string's bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Constant {
    /// `nil`
    Nil,
    /// `true` or `false`
    Boolean(bool),
    /// A number.
    Number(f64),
    /// A string.
    String(Box<[u8]>),
}

/// Where a new function finds one of its upvalues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// A register of the function that makes it.
    Register(u8),
    /// An upvalue of the function that makes it.
    Upvalue(u8),
}

/// A local variable, for error messages.
#[derive(Debug)]
pub(crate) struct LocalVariable {
    pub(crate) name: Box<[u8]>,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Proto {
    /// The name of the local variable that is in a register before instruction `pc`.
    pub(crate) fn local_name(&self, register: usize, pc: usize) -> Option<&[u8]> {
        let active = self.locals.iter().take_while(|local| local.from as usize <= pc).filter(|local| pc < local.to as usize);
        active.map(|local| &*local.name).nth(register)
    }
}

/// What C's formatting shows of a text: it ends at a zero byte.
pub(crate) fn c_string(text: &[u8]) -> &[u8] {
    &text[..text.iter().position(|byte| *byte == 0).unwrap_or(text.len())]
}

/// Bytes of a chunk's name in a message of the machine.
pub(crate) const NAME_MAX: usize = 60;

/// The name of a chunk in messages.
pub(crate) fn chunk_name(source: &[u8], length: usize) -> Vec<u8> {
    match source.first() {
        Some(b'=') => source[1..].iter().take(length - 1).copied().collect(),
        Some(b'@') => {
            let (name, most) = (&source[1..], length - 8);
            if name.len() <= most { name.to_vec() } else { [b"...", &name[name.len() - most..]].concat() }
        }
        _ => {
            let most = length - 17;
            let line = source.iter().position(|b| *b == b'\n' || *b == b'\r').unwrap_or(source.len());
            let cut = line.min(most);
            let dots: &[u8] = if cut < source.len() { b"..." } else { b"" };
            [b"[string \"", &source[..cut], dots, b"\"]"].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_named_as_in_lua() {
        assert_eq!(chunk_name(b"=user_script", NAME_MAX), b"user_script");
        assert_eq!(chunk_name(b"@file.lua", NAME_MAX), b"file.lua");
        assert_eq!(chunk_name(b"return 1", NAME_MAX), b"[string \"return 1\"]");
        assert_eq!(chunk_name(b"return 1\nx", NAME_MAX), b"[string \"return 1...\"]");
        assert_eq!(chunk_name(&[b'x'; 70], NAME_MAX), [b"[string \"", &[b'x'; 43][..], b"...\"]"].concat());
    }
}
