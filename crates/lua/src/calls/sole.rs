//! Functions that do nothing but pass what they are given to the host's function, and return what that returns. A host runs them
//! without a machine.
//!
//! The code is read once from its begin: the first instruction that is anything else ends the search.

use super::held::CALLS;
use crate::instruction::Instruction;
use crate::proto::{Constant, Proto};

/// An argument of such a call.
#[derive(Clone, Debug, PartialEq)]
pub enum SoleArgument {
    /// This text.
    Text(Box<[u8]>),
    /// This number.
    Number(f64),
    /// The key at this place, from 0.
    Key(usize),
    /// The argument at this place, from 0.
    Argument(usize),
}

/// What a register holds.
#[derive(Clone, Debug, PartialEq)]
enum Kept {
    Unknown,
    Host,
    Call,
    Register,
    Keys,
    Arguments,
    Value(SoleArgument),
    Function(u32),
}

impl Proto {
    /// The arguments of the one call that a script consists of: `return redis.call('GET', KEYS[1])`, for one.
    #[must_use]
    pub fn sole_call(&self) -> Option<Box<[SoleArgument]>> {
        let Reader { registers, found, .. } = Reader::new(self, true, None).read()?;
        arguments(&registers, found)
    }

    /// The same for a function that a library registers by this name.
    #[must_use]
    pub fn sole_call_of(&self, name: &[u8]) -> Option<Box<[SoleArgument]>> {
        let Reader { registers, found, .. } = Reader::new(self, false, Some(name)).read()?;
        let Kept::Function(function) = registers[found.0 + 2] else { return None };
        let function = self.prototypes.get(function as usize)?;
        let mut reader = Reader::new(function, false, None);
        let given = [Kept::Keys, Kept::Arguments];
        reader.registers.iter_mut().zip(given).take(usize::from(function.parameters)).for_each(|(place, kept)| *place = kept);
        let Reader { registers, found, .. } = reader.read()?;
        arguments(&registers, found)
    }
}

/// The arguments of the call in these registers, the first of which has the function.
fn arguments(registers: &[Kept], (first, count): (usize, usize)) -> Option<Box<[SoleArgument]>> {
    let values = registers.get(first + 1..first + 1 + count)?.iter();
    let arguments: Option<Box<[_]>> =
        values.map(|kept| if let Kept::Value(value) = kept { Some(value.clone()) } else { None }).collect();
    arguments.filter(|arguments| !arguments.is_empty())
}

struct Reader<'p> {
    proto: &'p Proto,
    registers: Vec<Kept>,
    /// Keys and arguments are in globals.
    has_globals: bool,
    /// The function that is registered by this name is looked for, not a call that is returned.
    wanted: Option<&'p [u8]>,
    /// Register and number of arguments of the call that was looked for.
    found: (usize, usize),
}

impl<'p> Reader<'p> {
    fn new(proto: &'p Proto, has_globals: bool, wanted: Option<&'p [u8]>) -> Self {
        // A call may name one register more than the function has for itself.
        let registers = vec![Kept::Unknown; usize::from(u8::MAX) + 2];
        Self { proto, registers, has_globals, wanted, found: (0, 0) }
    }

    /// Reads up to the call that is looked for.
    fn read(mut self) -> Option<Self> {
        for instruction in &self.proto.code {
            let (to, kept) = match *instruction {
                Instruction::GetGlobal { a, k } => (a, self.global(self.text(k)?)?),
                Instruction::GetField { a, b, k } => (a, self.field(&self.registers[usize::from(b)], self.text(k)?)?),
                Instruction::GetConstant { a, b, k } => (a, self.element(&self.registers[usize::from(b)], k)?),
                Instruction::LoadConstant { a, k } => (a, self.constant(k)?),
                Instruction::Move { a, b } => (a, self.registers[usize::from(b)].clone()),
                Instruction::Closure { a, prototype } => (a, Kept::Function(prototype)),
                Instruction::Call { a, b: 3, c: 1 } if self.wanted.is_some() => {
                    if self.registers[usize::from(a)] != Kept::Register {
                        return None;
                    }
                    let name = &self.registers[usize::from(a) + 1];
                    if matches!(name, Kept::Value(SoleArgument::Text(text)) if Some(&**text) == self.wanted) {
                        self.found = (usize::from(a), 2);
                        return Some(self);
                    }
                    continue;
                }
                Instruction::TailCall { a, b } if self.wanted.is_none() && b > 1 => {
                    self.found = (usize::from(a), usize::from(b) - 1);
                    return (self.registers[usize::from(a)] == Kept::Call).then_some(self);
                }
                _ => return None,
            };
            self.registers[usize::from(to)] = kept;
        }
        None
    }

    fn text(&self, k: u32) -> Option<&'p [u8]> {
        match self.proto.constants.get(k as usize)? {
            Constant::String(text) => Some(text),
            _ => None,
        }
    }

    fn global(&self, name: &[u8]) -> Option<Kept> {
        match name {
            b"redis" | b"server" => Some(Kept::Host),
            b"KEYS" if self.has_globals => Some(Kept::Keys),
            b"ARGV" if self.has_globals => Some(Kept::Arguments),
            _ => None,
        }
    }

    fn field(&self, object: &Kept, name: &[u8]) -> Option<Kept> {
        match (object, name) {
            (Kept::Host, _) if CALLS.contains(&name) => Some(Kept::Call),
            (Kept::Host, b"register_function") => Some(Kept::Register),
            _ => None,
        }
    }

    fn element(&self, list: &Kept, k: u32) -> Option<Kept> {
        let Constant::Number(number) = self.proto.constants.get(k as usize)? else { return None };
        let index = *number as u32;
        if f64::from(index) != *number {
            return None;
        }
        let place = (index as usize).checked_sub(1)?;
        match list {
            Kept::Keys => Some(Kept::Value(SoleArgument::Key(place))),
            Kept::Arguments => Some(Kept::Value(SoleArgument::Argument(place))),
            _ => None,
        }
    }

    fn constant(&self, k: u32) -> Option<Kept> {
        match self.proto.constants.get(k as usize)? {
            Constant::String(text) => Some(Kept::Value(SoleArgument::Text(text.clone()))),
            Constant::Number(number) => Some(Kept::Value(SoleArgument::Number(*number))),
            _ => None,
        }
    }
}
