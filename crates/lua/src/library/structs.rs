//! `struct`: values to and from the layouts of C, as struct 0.2 does with Redis' limits.
//!
//! A format is a text of options: `b h l T i f d` and their unsigned forms, `s` and `c` for strings, `x` for padding, `>` and `<`
//! for the order of bytes, `!` for alignment. A number behind `c`, `i` and `!` is a size.

use crate::heap::gathered::Gathered;
use crate::value::LuaValue;
use crate::vm::code::Native;
use crate::vm::context::{Action, Context, Stepped, to_integer, to_unsigned};
use crate::vm::error::type_error_named;
use crate::vm::state::{Fault, STACK_MAX};

pub(super) const FUNCTIONS: &[(&str, Native)] = &[("pack", pack), ("size", size), ("unpack", unpack)];

/// Bytes of an integer at most.
const INTEGER_MAX: usize = 32;
/// What `!` without a number aligns to.
const ALIGNMENT: usize = 8;

/// A format, as far as it has been read.
struct Format {
    text: Vec<u8>,
    at: usize,
    big: bool,
    alignment: usize,
}

/// An option and the size of its value.
struct Item {
    letter: u8,
    size: usize,
}

impl Format {
    fn of(context: &mut Context<'_>) -> Result<Self, Fault> {
        context.string(0)?;
        let text = context.bytes(0);
        // As in C, a zero byte ends a format.
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        let text = text[..end].to_vec();
        context.charge(text.len() / 4);
        Ok(Self { text, at: 0, big: false, alignment: 1 })
    }

    fn next(&mut self, context: &mut Context<'_>) -> Result<Option<Item>, Fault> {
        let Some(letter) = self.text.get(self.at).copied() else { return Ok(None) };
        self.at += 1;
        let size = match letter {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'f' => 4,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'c' => self.number(context, 1)?,
            b'i' | b'I' => {
                let size = self.number(context, 4)?;
                if size > INTEGER_MAX {
                    return Err(context.error(&format!("integral size {size} is larger than limit of {INTEGER_MAX}")));
                }
                size
            }
            _ => 0,
        };
        Ok(Some(Item { letter, size }))
    }

    /// The number that the format goes on with.
    fn number(&mut self, context: &mut Context<'_>, default: usize) -> Result<usize, Fault> {
        let mut number: Option<i32> = None;
        while let Some(digit @ b'0'..=b'9') = self.text.get(self.at).copied() {
            self.at += 1;
            let next = number.unwrap_or(0).checked_mul(10).and_then(|number| number.checked_add(i32::from(digit - b'0')));
            let Some(next) = next else { return Err(context.error("integral size overflow")) };
            number = Some(next);
        }
        Ok(number.map_or(default, |number| number as usize))
    }

    /// Bytes that bring a value to its alignment behind `length` bytes.
    fn padding(&self, item: &Item, length: usize) -> usize {
        let size = item.size.min(self.alignment);
        if item.letter == b'c' || size <= 1 {
            return 0;
        }
        // Sizes that are no powers of two give what this gives.
        let mask = size - 1;
        (size - (length & mask)) & mask
    }

    /// An option that has no value.
    fn control(&mut self, context: &mut Context<'_>, item: &Item) -> Result<(), Fault> {
        match item.letter {
            b' ' => {}
            b'>' => self.big = true,
            b'<' => self.big = false,
            b'!' => {
                let alignment = self.number(context, ALIGNMENT)?;
                if !alignment.is_power_of_two() {
                    return Err(context.error(&format!("alignment {alignment} is not a power of 2")));
                }
                self.alignment = alignment;
            }
            letter => return Err(context.argument_error_bytes(0, &[b"invalid format option '", &[letter][..], b"'"].concat())),
        }
        Ok(())
    }
}

fn pack(context: &mut Context<'_>) -> Stepped {
    let mut format = Format::of(context)?;
    let (mut out, mut argument) = (Gathered::default(), 1);
    while let Some(item) = format.next(context)? {
        let padding = format.padding(&item, out.len());
        out.fill(&context.state.heap.memory, 0, padding)?;
        match item.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let value = number(context, argument)?;
                let value = if value < 0.0 { to_integer(value) as u64 } else { to_unsigned(value) };
                put(context, &mut out, &value.to_le_bytes(), item.size, format.big)?;
                argument += 1;
            }
            b'x' => out.push(&context.state.heap.memory, 0)?,
            b'f' => {
                let value = number(context, argument)? as f32;
                put(context, &mut out, &value.to_le_bytes(), 4, format.big)?;
                argument += 1;
            }
            b'd' => {
                let value = number(context, argument)?;
                put(context, &mut out, &value.to_le_bytes(), 8, format.big)?;
                argument += 1;
            }
            b'c' | b's' => {
                if argument >= context.count {
                    return Err(type_error_named(context, argument, "string", "nil"));
                }
                context.string(argument)?;
                let length = context.bytes(argument).len();
                let size = if item.size == 0 { length } else { item.size };
                argument += 1;
                if length < size {
                    return Err(context.argument_error(argument, "string too short"));
                }
                out.append(&context.state.heap.memory, &context.bytes(argument - 1)[..size])?;
                if item.letter == b's' {
                    out.push(&context.state.heap.memory, 0)?;
                }
            }
            _ => format.control(context, &item)?,
        }
    }
    context.return_owned(out.into_bytes())
}

/// A number among the values; behind the last of them is nil.
fn number(context: &mut Context<'_>, argument: usize) -> Result<f64, Fault> {
    if argument >= context.count {
        return Err(type_error_named(context, argument, "number", "nil"));
    }
    context.number(argument)
}

/// Appends the first `size` bytes of a little-endian number, with zeros behind them where it is shorter.
fn put(context: &Context<'_>, out: &mut Gathered, value: &[u8], size: usize, big: bool) -> Result<(), Fault> {
    let mut bytes = [0; INTEGER_MAX];
    bytes[..value.len()].copy_from_slice(value);
    let bytes = &mut bytes[..size];
    if big {
        bytes.reverse();
    }
    Ok(out.append(&context.state.heap.memory, bytes)?)
}

fn size(context: &mut Context<'_>) -> Stepped {
    let mut format = Format::of(context)?;
    let mut length = 0_usize;
    while let Some(item) = format.next(context)? {
        length = length.wrapping_add(format.padding(&item, length));
        if item.letter == b's' {
            return Err(context.argument_error(0, "option 's' has no fixed size"));
        }
        if item.letter == b'c' && item.size == 0 {
            return Err(context.argument_error(0, "option 'c0' has no fixed size"));
        }
        if !item.letter.is_ascii_alphanumeric() {
            format.control(context, &item)?;
        }
        length = length.wrapping_add(item.size);
    }
    context.return_one(LuaValue::Number(length as i64 as f64))
}

const TOO_SHORT: &str = "data string too short";

fn unpack(context: &mut Context<'_>) -> Stepped {
    let mut format = Format::of(context)?;
    context.string(1)?;
    let length = context.bytes(1).len();
    let offset = context.optional_integer(2, 1)?;
    if offset == 0 {
        return Err(context.argument_error(2, "offset must be 1 or greater"));
    }
    // An offset from the end is one beyond it.
    let mut at = (offset as usize).wrapping_sub(1);
    let (bottom, arguments) = (context.state.at.top, context.count);
    while let Some(item) = format.next(context)? {
        if item.size > length {
            return Err(context.argument_error(1, TOO_SHORT));
        }
        at = at.wrapping_add(format.padding(&item, at));
        let mut size = item.size;
        if !fits(at, size, length) {
            return Err(context.argument_error(1, TOO_SHORT));
        }
        let results = context.state.at.top - bottom;
        if arguments + results + 2 > STACK_MAX {
            return Err(context.error("stack overflow (too many results)"));
        }
        let value = match item.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                LuaValue::Number(integer(&context.bytes(1)[at..at + size], format.big, item.letter.is_ascii_lowercase()))
            }
            b'f' => LuaValue::Number(f64::from(f32::from_le_bytes(array(&context.bytes(1)[at..at + size], format.big)))),
            b'd' => LuaValue::Number(f64::from_le_bytes(array(&context.bytes(1)[at..at + size], format.big))),
            b'c' => {
                if size == 0 {
                    size = previous(context, bottom)?;
                    if !fits(at, size, length) {
                        return Err(context.argument_error(1, TOO_SHORT));
                    }
                }
                part(context, at, size)
            }
            b's' => {
                let end = context.bytes(1)[at..].iter().position(|byte| *byte == 0);
                let Some(end) = end else { return Err(context.error("unfinished string in data")) };
                size = end + 1;
                part(context, at, end)
            }
            b'x' => {
                at += size;
                continue;
            }
            _ => {
                format.control(context, &item)?;
                continue;
            }
        };
        context.state.push(value);
        at += size;
        context.reserve(0)?;
    }
    context.state.push(LuaValue::Number(at.wrapping_add(1) as i64 as f64));
    Ok(Action::Return(context.state.at.top - bottom))
}

fn fits(at: usize, size: usize, length: usize) -> bool {
    at <= length && size <= length - at
}

/// The result before, which is a size.
fn previous(context: &mut Context<'_>, bottom: usize) -> Result<usize, Fault> {
    let top = context.state.at.top;
    let number = if top > bottom { context.to_number(context.state.at.stack[top - 1]) } else { None };
    let Some(number) = number else { return Err(context.error("format 'c0' needs a previous size")) };
    context.state.at.top = top - 1;
    Ok(if number < 0.0 { to_integer(number) as usize } else { to_unsigned(number) as usize })
}

fn part(context: &mut Context<'_>, at: usize, size: usize) -> LuaValue {
    let bytes = context.bytes(1)[at..at + size].to_vec();
    LuaValue::String(context.state.heap.string_owned(bytes))
}

fn array<const N: usize>(bytes: &[u8], big: bool) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    if big {
        array.reverse();
    }
    array
}

/// An integer of any size, of which the low 64 bits count.
fn integer(bytes: &[u8], big: bool, signed: bool) -> f64 {
    let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let value = if big { bytes.iter().fold(0, join) } else { bytes.iter().rev().fold(0, join) };
    if !signed {
        return value as f64;
    }
    // The shift is that of the processor, whose places count modulo 64.
    let above = u64::MAX << ((bytes.len() * 8).wrapping_sub(1) & 63);
    let value = if value & above != 0 { value | above } else { value };
    value as i64 as f64
}
