//! `string`: everything but `format` and the matching itself.

use super::format::format;
use super::gsub::gsub;
use super::pattern::{Captured, Matcher, UNFINISHED};
use crate::heap::objects::NativeFunction;
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
    ("gfind", gfind),
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
fn position(position: i64, length: usize) -> i64 {
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
    let bytes = context.bytes(0).to_ascii_lowercase();
    context.return_owned(bytes)
}

fn upper(context: &mut Context<'_>) -> Stepped {
    context.string(0)?;
    let bytes = context.bytes(0).to_ascii_uppercase();
    context.return_owned(bytes)
}

fn reverse(context: &mut Context<'_>) -> Stepped {
    context.string(0)?;
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
    let part = context.state.heap.bytes(string)[first as usize - 1..last as usize].to_vec();
    context.return_owned(part)
}

/// Pushes the captures of a match in an argument.
fn push_captures(context: &mut Context<'_>, captures: Vec<Captured>, text: usize) -> Result<usize, Fault> {
    let count = captures.len();
    for captured in captures {
        let value = captured_value(context, captured, text)?;
        context.state.push(value);
    }
    Ok(count)
}

/// A captured part of an argument.
fn captured_value(context: &mut Context<'_>, captured: Captured, text: usize) -> Result<LuaValue, Fault> {
    match captured {
        Captured::Position(position) => Ok(LuaValue::Number(position as f64)),
        Captured::Range(from, to) => {
            let part = context.bytes(text)[from..to].to_vec();
            Ok(LuaValue::String(context.state.heap.string_owned(part)))
        }
        Captured::Unfinished => Err(context.error(UNFINISHED)),
    }
}

/// Where a match begins and ends, and its captures.
type Match = (usize, usize, Vec<Captured>);

/// The first match at or behind `from`.
fn first_match(text: &[u8], pattern: &[u8], from: usize, whole_without: bool) -> Result<Option<Match>, String> {
    let (pattern, anchored) = pattern.strip_prefix(b"^").map_or((pattern, false), |rest| (rest, true));
    let mut matcher = Matcher::new(text, pattern);
    let mut start = from;
    loop {
        if let Some(end) = matcher.match_at(start, 0)? {
            let count = matcher.captures(whole_without);
            let captures = (0..count).map(|index| matcher.capture(index, start, end)).collect::<Result<_, _>>()?;
            return Ok(Some((start, end, captures)));
        }
        start += 1;
        if anchored || start > text.len() {
            return Ok(None);
        }
    }
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
    let is_plain = |pattern: &[u8]| !pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte));
    if find && (context.get(3).is_true() || is_plain(context.bytes(1))) {
        let found = find_plain(&context.bytes(0)[from..], context.bytes(1));
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
    match first_match(context.bytes(0), context.bytes(1), from, !find) {
        Err(message) => Err(context.error(&message)),
        Ok(None) => context.return_one(LuaValue::Nil),
        Ok(Some((start, end, captures))) => {
            if find {
                context.state.push(LuaValue::Number((start + 1) as f64));
                context.state.push(LuaValue::Number(end as f64));
            }
            let count = push_captures(context, captures, 0)?;
            Ok(Action::Return(count + if find { 2 } else { 0 }))
        }
    }
}

fn find_plain(text: &[u8], part: &[u8]) -> Option<usize> {
    let Some(first) = part.first() else { return Some(0) };
    let mut from = 0;
    while let Some(at) = text.get(from..)?.iter().position(|byte| byte == first) {
        if text[from + at..].starts_with(part) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

fn gfind(context: &mut Context<'_>) -> Stepped {
    Err(context.error("'string.gfind' was renamed to 'string.gmatch'"))
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
    let heap = &context.state.heap;
    let (text_bytes, pattern) = (heap.bytes(text), heap.bytes(pattern));
    if from as usize > text_bytes.len() {
        return context.return_one(LuaValue::Nil);
    }
    // An anchor has no meaning here: it is a character.
    let mut matcher = Matcher::new(text_bytes, pattern);
    let mut found: Result<Option<Match>, String> = Ok(None);
    for start in from as usize..=text_bytes.len() {
        match matcher.match_at(start, 0) {
            Ok(None) => {}
            Ok(Some(end)) => {
                let count = matcher.captures(true);
                let captures = (0..count).map(|index| matcher.capture(index, start, end)).collect::<Result<_, _>>();
                found = captures.map(|captures| Some((start, end, captures)));
                break;
            }
            Err(message) => {
                found = Err(message);
                break;
            }
        }
    }
    match found {
        Err(message) => Err(context.error(&message)),
        Ok(None) => context.return_one(LuaValue::Nil),
        Ok(Some((start, end, captures))) => {
            let next = if end == start { end + 1 } else { end };
            remember(context, next)?;
            context.set(0, LuaValue::String(text));
            context.state.at.top = context.base + context.count;
            let count = push_captures(context, captures, 0)?;
            Ok(Action::Return(count))
        }
    }
}

/// Keeps where the iterator goes on.
fn remember(context: &mut Context<'_>, next: usize) -> Result<(), Fault> {
    if let LuaValue::Native(native) = context.state.at.stack[context.base - 1] {
        context.state.heap.native_mut(native).values[2] = LuaValue::Number(next as f64);
    }
    Ok(())
}
