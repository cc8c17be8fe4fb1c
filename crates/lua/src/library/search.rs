//! The search for a pattern in a text: `string.find`, `string.match` and the iterators of `string.gmatch`.
//!
//! It costs the run as many calls as it takes steps, and goes on later when the budget is used up.

use super::pattern::{Captured, Matcher, Progress, STEPS_PER_CALL, UNFINISHED, until_zero};
use crate::value::{LuaValue, StringRef};
use crate::vm::context::{Action, Context, Continuation, Stepped};
use crate::vm::state::Fault;

/// Steps of one turn at most.
const TURN_MAX: u64 = 1 << 20;

/// What is done with a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Its place and its captures are the results.
    Find,
    /// Its captures are the results.
    Match,
    /// The same, and the iterator goes on behind it.
    Next,
}

#[derive(Debug)]
pub(super) struct Search {
    matcher: Matcher,
    text: StringRef,
    pattern: StringRef,
    /// Where the match that is looked for begins.
    start: usize,
    purpose: Purpose,
}

impl Search {
    pub(super) fn new(text: StringRef, pattern: StringRef, start: usize, purpose: Purpose) -> Self {
        let mut matcher = Matcher::new();
        matcher.begin(start);
        Self { matcher, text, pattern, start, purpose }
    }
}

/// Steps that the budget of the run allows now.
pub(super) fn allowance(context: &Context<'_>) -> usize {
    context.state.budget.clamp(1, TURN_MAX) as usize * STEPS_PER_CALL
}

/// Charges what a search has taken of its allowance.
pub(super) fn settle(context: &mut Context<'_>, allowed: usize, left: usize) {
    context.charge((allowed - left) / STEPS_PER_CALL);
}

/// Looks for a match until there is one, or none, or the budget is used up.
pub(super) fn search(context: &mut Context<'_>, mut search: Search) -> Stepped {
    let heap = &context.state.heap;
    let (text, pattern) = (heap.bytes(search.text), heap.bytes(search.pattern));
    let pattern = &pattern[..until_zero(pattern)];
    let (pattern, anchored) = match pattern.strip_prefix(b"^") {
        // The iterator knows no anchor: it is a character.
        Some(rest) if search.purpose != Purpose::Next => (rest, true),
        _ => (pattern, false),
    };
    let allowed = allowance(context);
    let mut steps = allowed;
    let progress = loop {
        match search.matcher.run(text, pattern, &mut steps) {
            Ok(Progress::NotFound) if !anchored && search.start < text.len() => {
                search.start += 1;
                search.matcher.begin(search.start);
            }
            progress => break progress,
        }
    };
    settle(context, allowed, steps);
    match progress {
        Err(message) => Err(context.error(message)),
        Ok(Progress::NotFound) => context.return_one(LuaValue::Nil),
        Ok(Progress::Paused) => context.go_on_later(Box::new(search)),
        Ok(Progress::Found(end)) => found(context, &search, end),
    }
}

fn found(context: &mut Context<'_>, search: &Search, end: usize) -> Stepped {
    let start = search.start;
    if search.purpose == Purpose::Next {
        let next = if end == start { end + 1 } else { end };
        if let LuaValue::Native(iterator) = context.state.at.stack[context.base - 1] {
            context.state.heap.native_mut(iterator).values[2] = LuaValue::Number(next as f64);
        }
    }
    let is_find = search.purpose == Purpose::Find;
    if is_find {
        context.state.push(LuaValue::Number((start + 1) as f64));
        context.state.push(LuaValue::Number(end as f64));
    }
    let count = search.matcher.captures(!is_find);
    for index in 0..count {
        let captured = search.matcher.capture(index, start, end).map_err(|message| context.error(message))?;
        let value = captured_value(context, captured, search.text)?;
        context.state.push(value);
    }
    Ok(Action::Return(count + if is_find { 2 } else { 0 }))
}

/// A captured part of a text.
pub(super) fn captured_value(context: &mut Context<'_>, captured: Captured, text: StringRef) -> Result<LuaValue, Fault> {
    match captured {
        Captured::Position(position) => Ok(LuaValue::Number(position as f64)),
        Captured::Range(from, to) => {
            let part = context.state.heap.bytes(text)[from..to].to_vec();
            Ok(LuaValue::String(context.state.heap.string_owned(part)))
        }
        Captured::Unfinished => Err(context.error(UNFINISHED)),
    }
}

impl Continuation for Search {
    fn resume(self: Box<Self>, context: &mut Context<'_>, _first: usize) -> Stepped {
        search(context, *self)
    }

    fn mark(&self, mark: &mut dyn FnMut(LuaValue)) {
        mark(LuaValue::String(self.text));
        mark(LuaValue::String(self.pattern));
    }
}
