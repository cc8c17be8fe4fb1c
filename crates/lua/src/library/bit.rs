//! `bit`: operations on 32-bit integers, as BitOp 1.0.2 has them.

use crate::value::LuaValue;
use crate::vm::code::Native;
use crate::vm::context::{Context, Stepped};
use crate::vm::state::Fault;

pub(super) const FUNCTIONS: &[(&str, Native)] = &[
    ("arshift", |c| shift(c, |x, n| ((x as i32) >> n) as u32)),
    ("band", |c| fold(c, |a, b| a & b)),
    ("bnot", |c| one(c, |x| !x)),
    ("bor", |c| fold(c, |a, b| a | b)),
    ("bswap", |c| one(c, u32::swap_bytes)),
    ("bxor", |c| fold(c, |a, b| a ^ b)),
    ("lshift", |c| shift(c, |x, n| x << n)),
    ("rol", |c| shift(c, u32::rotate_left)),
    ("ror", |c| shift(c, u32::rotate_right)),
    ("rshift", |c| shift(c, |x, n| x >> n)),
    ("tobit", |c| one(c, |x| x)),
    ("tohex", tohex),
];

/// A number modulo 2^32, rounded to the nearest integer.
fn bits(context: &mut Context<'_>, index: usize) -> Result<u32, Fault> {
    // Adding 2^52 + 2^51 leaves the integer in the low bits of the mantissa.
    let number = context.number(index)? + 6_755_399_441_055_744.0;
    Ok(number.to_bits() as u32)
}

fn give(context: &mut Context<'_>, bits: u32) -> Stepped {
    context.return_one(LuaValue::Number(f64::from(bits as i32)))
}

fn one(context: &mut Context<'_>, function: fn(u32) -> u32) -> Stepped {
    let value = bits(context, 0)?;
    give(context, function(value))
}

fn fold(context: &mut Context<'_>, function: fn(u32, u32) -> u32) -> Stepped {
    let mut value = bits(context, 0)?;
    // Later arguments are read first, which the message of a wrong one tells.
    for index in (1..context.count).rev() {
        value = function(value, bits(context, index)?);
    }
    give(context, value)
}

fn shift(context: &mut Context<'_>, function: fn(u32, u32) -> u32) -> Stepped {
    let value = bits(context, 0)?;
    let places = bits(context, 1)? & 31;
    give(context, function(value, places))
}

fn tohex(context: &mut Context<'_>) -> Stepped {
    let value = bits(context, 0)?;
    let digits = if context.count < 2 { 8 } else { bits(context, 1)? as i32 };
    // The number of digits may be the least integer, whose magnitude is beyond the greatest.
    let count = digits.unsigned_abs().min(8) as usize;
    let text = if digits < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    context.return_bytes(&text.as_bytes()[8 - count..])
}
