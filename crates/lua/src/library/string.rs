//! `string`: everything but `format` and the matching itself.

use super::format::format;
use super::gsub::gsub;
use super::search::{Purpose, Search, search};
use crate::heap::gathered::Charge;
use crate::heap::objects::NativeFunction;
use crate::proto::c_string;
use crate::value::LuaValue;
use crate::vm::code::Native;
use crate::vm::context::{Action, Context, GMATCH, Stepped};
use crate::vm::state::Fault;

pub(super) const FUNCTIONS: &[(&str, Native)] = &[
    ("byte", byte),
    ("char", char_),
    ("dump", dump),
    ("find", find),
    ("format", format),
    ("gfind", gmatch),
    ("gmatch", gmatch),
    ("gsub", gsub),
    ("len", len),
    ("lower", lower),
    ("match", match_),
    ("rep", rep),
    ("reverse", reverse),
    ("sub", sub),
    ("upper", upper),
];

/// Bytes that `byte` returns at most.
const SLICE_MAX: usize = 7997;
/// Longest string that `rep` makes.
const REPEATED_MAX: usize = 1 << 30;

/// A position from the start or, negative, from the end: 1 is the first.
pub(super) fn position(position: i64, length: usize) -> i64 {
    if position < 0 { (position + length as i64 + 1).max(0) } else { position }
}

fn byte(context: &mut Context<'_>) -> Stepped {
    context.string(0)?;
    let length = context.bytes(0).len();
    let first = position(context.optional_integer(1, 1)?, length);
    let last = position(context.optional_integer(2, first)?, length).min(length as i64);
    let first = first.max(1);
    if first > last {
        return context.return_none();
    }
    let slice = context.bytes(0)[first as usize - 1..last as usize].to_vec();
    if slice.len() > SLICE_MAX {
        return Err(context.error("stack overflow (string slice too long)"));
    }
    slice.iter().for_each(|byte| context.state.push(LuaValue::Number(f64::from(*byte))));
    Ok(Action::Return(slice.len()))
}

fn char_(context: &mut Context<'_>) -> Stepped {
    let mut bytes = Vec::with_capacity(context.count);
    for index in 0..context.count {
        let value = context.integer(index)? as i32;
        match u8::try_from(value) {
            Ok(byte) => bytes.push(byte),
            Err(_) => return Err(context.argument_error(index, "invalid value")),
        }
    }
    context.return_owned(bytes)
}

fn dump(context: &mut Context<'_>) -> Stepped {
    context.function(0)?;
    Err(context.error("unable to dump given function"))
}

fn len(context: &mut Context<'_>) -> Stepped {
    context.string(0)?;
    let length = context.bytes(0).len();
    context.return_one(LuaValue::Number(length as f64))
}

fn lower(context: &mut Context<'_>) -> Stepped {
    context.string(0)?;
    context.reserve(context.bytes(0).len())?;
    let bytes = context.bytes(0).to_ascii_lowercase();
    context.return_owned(bytes)
}

fn upper(context: &mut Context<'_>) -> Stepped {
    context.string(0)?;
    context.reserve(context.bytes(0).len())?;
    let bytes = context.bytes(0).to_ascii_uppercase();
    context.return_owned(bytes)
}

fn reverse(context: &mut Context<'_>) -> Stepped {
    context.string(0)?;
    context.reserve(context.bytes(0).len())?;
    let bytes = context.bytes(0).iter().rev().copied().collect();
    context.return_owned(bytes)
}

fn rep(context: &mut Context<'_>) -> Stepped {
    context.string(0)?;
    let times = context.integer(1)? as i32;
    let length = context.bytes(0).len();
    if times <= 0 || length == 0 {
        return context.return_bytes(b"");
    }
    let total = length.saturating_mul(times as usize);
    if total > REPEATED_MAX {
        return Err(context.error("resulting string too large"));
    }
    context.reserve(total)?;
    context.charge(total / 256);
    let bytes = context.bytes(0).repeat(times as usize);
    context.return_owned(bytes)
}

fn sub(context: &mut Context<'_>) -> Stepped {
    context.string(0)?;
    let length = context.bytes(0).len();
    let first = position(context.integer(1)?, length).max(1);
    let last = position(context.optional_integer(2, -1)?, length).min(length as i64);
    if first > last {
        return context.return_bytes(b"");
    }
    let LuaValue::String(string) = context.get(0) else { return context.return_none() };
    if first == 1 && last == length as i64 {
        return context.return_one(LuaValue::String(string));
    }
    context.reserve((last - first) as usize)?;
    let part = context.state.heap.bytes(string)[first as usize - 1..last as usize].to_vec();
    context.return_owned(part)
}

fn find(context: &mut Context<'_>) -> Stepped {
    find_or_match(context, true)
}

fn match_(context: &mut Context<'_>) -> Stepped {
    find_or_match(context, false)
}

fn find_or_match(context: &mut Context<'_>, find: bool) -> Stepped {
    context.string(0)?;
    context.string(1)?;
    let length = context.bytes(0).len();
    let from = (position(context.optional_integer(2, 1)?, length) - 1).clamp(0, length as i64) as usize;
    let is_plain = |pattern: &[u8]| !c_string(pattern).iter().any(|byte| b"^$*+?.([%-".contains(byte));
    if find && (context.get(3).is_true() || is_plain(context.bytes(1))) {
        let found = find_plain(context, from)?;
        let end = context.bytes(1).len();
        return match found {
            Some(at) => {
                context.state.push(LuaValue::Number((from + at + 1) as f64));
                context.state.push(LuaValue::Number((from + at + end) as f64));
                Ok(Action::Return(2))
            }
            None => context.return_one(LuaValue::Nil),
        };
    }
    let (LuaValue::String(text), LuaValue::String(pattern)) = (context.get(0), context.get(1)) else {
        return context.return_none();
    };
    search(context, Search::new(text, pattern, from, if find { Purpose::Find } else { Purpose::Match }))
}

/// The place of the second argument in the first, from `from` on.
fn find_plain(context: &mut Context<'_>, from: usize) -> Result<Option<usize>, Fault> {
    context.charge((context.bytes(0).len() - from) / 64);
    let (text, part) = (&context.bytes(0)[from..], context.bytes(1));
    let Some(first) = part.first() else { return Ok(Some(0)) };
    let (mut at, mut wasted) = (0, 0);
    while let Some(next) = text[at..].iter().position(|byte| byte == first) {
        at += next;
        let Some(here) = text.get(at..at + part.len()) else { return Ok(None) };
        let equal = here.iter().zip(part).take_while(|(a, b)| a == b).count();
        if equal == part.len() {
            return Ok(Some(at));
        }
        wasted += equal;
        at += 1;
        if wasted > 1024 + 2 * at {
            // A part that almost fits at many places is looked for without comparing a byte twice.
            let mut charge = Charge::default();
            charge.set(&context.state.heap.memory, part.len() * size_of::<u32>())?;
            return Ok(find_linearly(&text[at..], part).map(|found| at + found));
        }
    }
    Ok(None)
}

/// The algorithm of Knuth, Morris and Pratt.
fn find_linearly(text: &[u8], part: &[u8]) -> Option<usize> {
    // For each prefix: the longest shorter one that it ends with.
    let mut borders = vec![0_u32; part.len()];
    let extend = |borders: &[u32], mut length: usize, byte: u8| {
        while length > 0 && part[length] != byte {
            length = borders[length - 1] as usize;
        }
        length + usize::from(part[length] == byte)
    };
    for at in 1..part.len() {
        borders[at] = extend(&borders, borders[at - 1] as usize, part[at]) as u32;
    }
    let mut length = 0;
    for (at, byte) in text.iter().enumerate() {
        length = extend(&borders, length, *byte);
        if length == part.len() {
            return Some(at + 1 - length);
        }
    }
    None
}

fn gmatch(context: &mut Context<'_>) -> Stepped {
    context.string(0)?;
    context.string(1)?;
    let values = Box::new([context.get(0), context.get(1), LuaValue::Number(0.0)]);
    let native = context.state.heap.new_native(NativeFunction { function: GMATCH, values });
    context.return_one(LuaValue::Native(native))
}

/// An iterator that `gmatch` made.
pub(super) fn next_match(context: &mut Context<'_>) -> Stepped {
    let (text, pattern) = (context.value_of_function(0), context.value_of_function(1));
    let (LuaValue::String(text), LuaValue::String(pattern), LuaValue::Number(from)) = (text, pattern, context.value_of_function(2))
    else {
        return context.return_one(LuaValue::Nil);
    };
    if from as usize > context.state.heap.bytes(text).len() {
        return context.return_one(LuaValue::Nil);
    }
    search(context, Search::new(text, pattern, from as usize, Purpose::Next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_where_a_naive_search_finds_it() {
        let mut state = 7_u32;
        let mut bytes = |length: usize| -> Vec<u8> {
            let next = |_| {
                state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
                b'a' + (state >> 16 & 1) as u8
            };
            (0..length).map(next).collect()
        };
        for round in 0..2000 {
            let (text, part) = (bytes(round % 40), bytes(1 + round % 7));
            let naive = text.windows(part.len()).position(|window| window == part);
            assert_eq!(find_linearly(&text, &part), naive, "{text:?} {part:?}");
        }
    }
}
