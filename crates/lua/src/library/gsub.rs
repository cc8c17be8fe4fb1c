//! `string.gsub`: a replacement by a function goes on as a continuation.

use super::pattern::{Captured, Matcher, UNFINISHED};
use crate::value::LuaValue;
use crate::vm::context::{Action, Context, Continuation, Stepped};
use crate::vm::state::{Event, Fault};

/// Where a substitution is.
#[derive(Debug)]
struct Substitution {
    out: Vec<u8>,
    at: usize,
    count: i64,
    most: i64,
    /// The match whose replacement is being made.
    matched: (usize, usize),
}

/// What a match is to be replaced by.
enum Replacement {
    /// This has been appended.
    Done,
    Value(LuaValue),
    /// The upmost function is to be called with this number of arguments.
    Call(usize),
}

pub(super) fn gsub(context: &mut Context<'_>) -> Stepped {
    context.string(0)?;
    context.string(1)?;
    let length = context.bytes(0).len() as i64;
    let most = context.optional_integer(3, length + 1)?;
    match context.get(2) {
        LuaValue::Number(_) => context.string(2)?,
        LuaValue::String(_) | LuaValue::Table(_) | LuaValue::Function(_) | LuaValue::Native(_) => {}
        _ => return Err(context.argument_error(2, "string/function/table expected")),
    }
    let state = Substitution { out: Vec::new(), at: 0, count: 0, most, matched: (0, 0) };
    go_on(Box::new(state), context)
}

/// Replaces matches until a function has to be called, or there are no more.
fn go_on(mut state: Box<Substitution>, context: &mut Context<'_>) -> Stepped {
    while state.count < state.most {
        let (start, length) = (state.at, context.bytes(0).len());
        let (end, captures) = match match_here(context, start) {
            Ok(found) => found,
            Err(message) => return Err(context.error(&message)),
        };
        let anchored = context.bytes(1).first() == Some(&b'^');
        match end {
            Some(end) => {
                state.count += 1;
                state.matched = (start, end);
                match replacement(context, &mut state, &captures)? {
                    Replacement::Done => {}
                    Replacement::Value(value) => append(context, &mut state, value)?,
                    Replacement::Call(count) => return context.call_then(count, state),
                }
                if !advance(context, &mut state, length) {
                    break;
                }
            }
            None if start < length => {
                let byte = context.bytes(0)[start];
                state.out.push(byte);
                state.at += 1;
            }
            None => break,
        }
        if anchored {
            break;
        }
    }
    finish(*state, context)
}

fn finish(state: Substitution, context: &mut Context<'_>) -> Stepped {
    let mut out = state.out;
    out.extend_from_slice(&context.bytes(0)[state.at.min(context.bytes(0).len())..]);
    context.reserve(out.len())?;
    let string = LuaValue::String(context.state.heap.string_owned(out));
    context.state.push(string);
    context.state.push(LuaValue::Number(state.count as f64));
    Ok(Action::Return(2))
}

/// Goes behind a match that has been replaced; false at the end of the text.
fn advance(context: &mut Context<'_>, state: &mut Substitution, length: usize) -> bool {
    let (start, end) = state.matched;
    if end > start {
        state.at = end;
        return true;
    }
    if start < length {
        state.out.push(context.bytes(0)[start]);
        state.at = start + 1;
        return true;
    }
    false
}

type Here = (Option<usize>, Vec<Captured>);

fn match_here(context: &Context<'_>, start: usize) -> Result<Here, String> {
    let pattern = context.bytes(1);
    let pattern = pattern.strip_prefix(b"^").unwrap_or(pattern);
    let mut matcher = Matcher::new(context.bytes(0), pattern);
    let Some(end) = matcher.match_at(start, 0)? else { return Ok((None, Vec::new())) };
    let captures = (0..matcher.captures(true)).map(|index| matcher.capture(index, start, end)).collect::<Result<_, _>>()?;
    Ok((Some(end), captures))
}

fn value_of(context: &mut Context<'_>, captured: Captured) -> Result<LuaValue, Fault> {
    match captured {
        Captured::Position(position) => Ok(LuaValue::Number(position as f64)),
        Captured::Range(from, to) => {
            let part = context.bytes(0)[from..to].to_vec();
            Ok(LuaValue::String(context.state.heap.string_owned(part)))
        }
        Captured::Unfinished => Err(context.error(UNFINISHED)),
    }
}

fn replacement(context: &mut Context<'_>, state: &mut Substitution, captures: &[Captured]) -> Result<Replacement, Fault> {
    match context.get(2) {
        LuaValue::String(_) => {
            append_template(context, state, captures)?;
            Ok(Replacement::Done)
        }
        LuaValue::Table(table) => {
            let key = value_of(context, captures[0])?;
            look_up(context, LuaValue::Table(table), key)
        }
        function => {
            context.state.push(function);
            for captured in captures {
                let value = value_of(context, *captured)?;
                context.state.push(value);
            }
            Ok(Replacement::Call(captures.len()))
        }
    }
}

/// A field of the table of replacements, with metamethods.
fn look_up(context: &mut Context<'_>, table: LuaValue, key: LuaValue) -> Result<Replacement, Fault> {
    let mut object = table;
    for _ in 0..100 {
        if let LuaValue::Table(table) = object {
            let value = context.state.heap.get(table, key);
            if !value.is_nil() {
                return Ok(Replacement::Value(value));
            }
        }
        let handler = context.state.metamethod(object, Event::Index);
        if handler.is_nil() {
            return match object {
                LuaValue::Table(_) => Ok(Replacement::Value(LuaValue::Nil)),
                other => Err(context.error(&format!("attempt to index a {} value", other.type_name()))),
            };
        }
        if handler.is_function() {
            [handler, object, key].into_iter().for_each(|value| context.state.push(value));
            return Ok(Replacement::Call(2));
        }
        object = handler;
    }
    Err(context.error("loop in gettable"))
}

/// Appends the replacement that is a text with `%0` to `%9`.
fn append_template(context: &mut Context<'_>, state: &mut Substitution, captures: &[Captured]) -> Result<(), Fault> {
    let template = context.bytes(2).to_vec();
    let mut at = 0;
    while let Some(byte) = template.get(at).copied() {
        at += 1;
        if byte != b'%' {
            state.out.push(byte);
            continue;
        }
        let next = template.get(at).copied().unwrap_or(0);
        at += 1;
        if !next.is_ascii_digit() {
            state.out.push(next);
        } else if next == b'0' {
            let (start, end) = state.matched;
            state.out.extend_from_slice(&context.bytes(0)[start..end]);
        } else {
            let index = usize::from(next - b'1');
            let Some(captured) = captures.get(index).copied() else { return Err(context.error("invalid capture index")) };
            match captured {
                Captured::Range(from, to) => state.out.extend_from_slice(&context.bytes(0)[from..to]),
                Captured::Position(position) => crate::number::write_integer(&mut state.out, position as i64),
                Captured::Unfinished => return Err(context.error(UNFINISHED)),
            }
        }
        context.reserve(state.out.len())?;
    }
    Ok(())
}

/// Appends what a table or a function gave: `false` and nil leave the match as it is.
fn append(context: &mut Context<'_>, state: &mut Substitution, value: LuaValue) -> Result<(), Fault> {
    let (start, end) = state.matched;
    match value {
        LuaValue::Nil | LuaValue::Boolean(false) => state.out.extend_from_slice(&context.bytes(0)[start..end]),
        LuaValue::String(string) => state.out.extend_from_slice(context.state.heap.bytes(string)),
        LuaValue::Number(number) => crate::number::write(&mut state.out, number),
        other => return Err(context.error(&format!("invalid replacement value (a {})", other.type_name()))),
    }
    context.reserve(state.out.len())
}

impl Continuation for Substitution {
    fn resume(mut self: Box<Self>, context: &mut Context<'_>, first: usize) -> Stepped {
        let value = context.take_result(first);
        context.state.at.top = context.base + context.count;
        append(context, &mut self, value)?;
        let length = context.bytes(0).len();
        let anchored = context.bytes(1).first() == Some(&b'^');
        if !advance(context, &mut self, length) || anchored { finish(*self, context) } else { go_on(self, context) }
    }

    fn mark(&self, _mark: &mut dyn FnMut(LuaValue)) {}
}
