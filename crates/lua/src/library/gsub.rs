//! `string.gsub`: a replacement by a function goes on as a continuation.

use super::pattern::{Captured, Matcher, Progress, UNFINISHED, until_zero};
use super::search::{allowance, captured_value, settle};
use crate::heap::gathered::{Full, Gathered};
use crate::value::{LuaValue, StringRef};
use crate::vm::context::{Action, Context, Continuation, Stepped};
use crate::vm::state::{Event, Fault};

/// Where a substitution is.
#[derive(Debug)]
struct Substitution {
    out: Gathered,
    matcher: Matcher,
    text: StringRef,
    /// The part of the pattern that is matched.
    pattern: (usize, usize),
    anchored: bool,
    at: usize,
    count: i64,
    most: i64,
    /// The match whose replacement is being made.
    matched: (usize, usize),
    /// A function has been called for it.
    calls: bool,
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
    let most = context.optional_short_integer(3, length + 1)?;
    match context.get(2) {
        LuaValue::Number(_) => context.string(2)?,
        LuaValue::String(_) | LuaValue::Table(_) | LuaValue::Function(_) | LuaValue::Native(_) => {}
        _ => return Err(context.argument_error(2, "string/function/table expected")),
    }
    let LuaValue::String(text) = context.get(0) else { return context.return_none() };
    let anchored = context.bytes(1).first() == Some(&b'^');
    let pattern = (usize::from(anchored), until_zero(context.bytes(1)));
    let matcher = Matcher::new();
    let state = Substitution {
        out: Gathered::default(),
        matcher,
        text,
        pattern,
        anchored,
        at: 0,
        count: 0,
        most,
        matched: (0, 0),
        calls: false,
    };
    begin(state, context)
}

/// Begins the next match, if there is to be one.
fn begin(mut state: Substitution, context: &mut Context<'_>) -> Stepped {
    if state.count >= state.most {
        return finish(state, context);
    }
    state.matcher.begin(state.at);
    go_on(state, context)
}

/// Replaces matches until a function has to be called, the budget is used up, or there are no more.
fn go_on(mut state: Substitution, context: &mut Context<'_>) -> Stepped {
    loop {
        let allowed = allowance(context);
        let mut steps = allowed;
        let progress = look(&mut state, context, &mut steps);
        settle(context, allowed, steps);
        match progress? {
            Ok(Progress::Paused) => return context.go_on_later(Box::new(state)),
            Ok(Progress::NotFound) => return finish(state, context),
            Ok(Progress::Found(end)) => {
                state.count += 1;
                state.matched = (state.at, end);
                match replacement(context, &mut state)? {
                    Replacement::Done => {}
                    Replacement::Value(value) => append(context, &mut state, value)?,
                    Replacement::Call(count) => {
                        state.calls = true;
                        return context.call_then(count, Box::new(state));
                    }
                }
                if !advance(context, &mut state)? || state.count >= state.most {
                    return finish(state, context);
                }
                state.matcher.begin(state.at);
                if context.has_to_pause() {
                    return context.go_on_later(Box::new(state));
                }
            }
            Err(message) => return Err(context.error(message)),
        }
    }
}

/// Looks for the next match; what lies before it is appended.
fn look(state: &mut Substitution, context: &Context<'_>, steps: &mut usize) -> Result<Result<Progress, &'static str>, Full> {
    let heap = &context.state.heap;
    let (text, pattern) = (heap.bytes(state.text), &context.bytes(1)[state.pattern.0..state.pattern.1.max(state.pattern.0)]);
    let from = state.at;
    let progress = loop {
        match state.matcher.run(text, pattern, steps) {
            Ok(Progress::NotFound) if !state.anchored && state.at < text.len() => {
                state.at += 1;
                state.matcher.begin(state.at);
            }
            progress => break progress,
        }
    };
    state.out.append(&heap.memory, &text[from..state.at])?;
    Ok(progress)
}

fn finish(state: Substitution, context: &mut Context<'_>) -> Stepped {
    let mut out = state.out;
    let heap = &context.state.heap;
    let text = heap.bytes(state.text);
    out.append(&heap.memory, &text[state.at.min(text.len())..])?;
    let string = LuaValue::String(context.state.heap.string_owned(out.into_bytes()));
    context.state.push(string);
    context.state.push(LuaValue::Number(state.count as f64));
    Ok(Action::Return(2))
}

/// Goes behind a match that has been replaced; false when there is no other to look for.
fn advance(context: &Context<'_>, state: &mut Substitution) -> Result<bool, Full> {
    let (start, end) = state.matched;
    let heap = &context.state.heap;
    let text = heap.bytes(state.text);
    if end > start {
        state.at = end;
        return Ok(!state.anchored);
    }
    let Some(byte) = text.get(start) else { return Ok(false) };
    state.out.push(&heap.memory, *byte)?;
    state.at = start + 1;
    Ok(!state.anchored)
}

/// A capture of the match.
fn captured(context: &mut Context<'_>, state: &Substitution, index: usize) -> Result<Captured, Fault> {
    let (start, end) = state.matched;
    state.matcher.capture(index, start, end).map_err(|message| context.error(message))
}

fn replacement(context: &mut Context<'_>, state: &mut Substitution) -> Result<Replacement, Fault> {
    match context.get(2) {
        LuaValue::String(template) => {
            append_template(context, state, template)?;
            Ok(Replacement::Done)
        }
        LuaValue::Table(table) => {
            let first = captured(context, state, 0)?;
            let key = captured_value(context, first, state.text)?;
            look_up(context, LuaValue::Table(table), key)
        }
        function => {
            context.state.push(function);
            let count = state.matcher.captures(true);
            for index in 0..count {
                let captured = captured(context, state, index)?;
                let value = captured_value(context, captured, state.text)?;
                context.state.push(value);
            }
            Ok(Replacement::Call(count))
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
fn append_template(context: &mut Context<'_>, state: &mut Substitution, template: StringRef) -> Result<(), Fault> {
    let mut at = 0;
    while let Some(byte) = context.state.heap.bytes(template).get(at).copied() {
        at += 1;
        let heap = &context.state.heap;
        if byte != b'%' {
            state.out.push(&heap.memory, byte)?;
            continue;
        }
        let next = heap.bytes(template).get(at).copied().unwrap_or(0);
        at += 1;
        if !next.is_ascii_digit() {
            state.out.push(&heap.memory, next)?;
            continue;
        }
        let (start, end) = state.matched;
        let part = match next {
            b'0' => Captured::Range(start, end),
            digit => captured(context, state, usize::from(digit - b'1'))?,
        };
        let heap = &context.state.heap;
        match part {
            Captured::Range(from, to) => state.out.append(&heap.memory, &heap.bytes(state.text)[from..to])?,
            Captured::Position(position) => {
                state.out.write(&heap.memory, |out| crate::number::write_integer(out, position as i64))?;
            }
            Captured::Unfinished => return Err(context.error(UNFINISHED)),
        }
    }
    Ok(())
}

/// Appends what a table or a function gave: `false` and nil leave the match as it is.
fn append(context: &mut Context<'_>, state: &mut Substitution, value: LuaValue) -> Result<(), Fault> {
    let (start, end) = state.matched;
    let heap = &context.state.heap;
    match value {
        LuaValue::Nil | LuaValue::Boolean(false) => {
            state.out.append(&heap.memory, &heap.bytes(state.text)[start..end])?;
        }
        LuaValue::String(string) => state.out.append(&heap.memory, heap.bytes(string))?,
        LuaValue::Number(number) => state.out.write(&heap.memory, |out| crate::number::write(out, number))?,
        other => return Err(context.error(&format!("invalid replacement value (a {})", other.type_name()))),
    }
    Ok(())
}

impl Continuation for Substitution {
    fn resume(mut self: Box<Self>, context: &mut Context<'_>, first: usize) -> Stepped {
        if !self.calls {
            return go_on(*self, context);
        }
        self.calls = false;
        let value = context.take_result(first);
        context.state.at.top = context.base + context.count;
        append(context, &mut self, value)?;
        if advance(context, &mut self)? { begin(*self, context) } else { finish(*self, context) }
    }

    fn mark(&self, mark: &mut dyn FnMut(LuaValue)) {
        mark(LuaValue::String(self.text));
    }
}
