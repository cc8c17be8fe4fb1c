//! `table`, but for `sort`.

use super::sort::sort;
use crate::number;
use crate::value::{LuaValue, TableRef};
use crate::vm::code::Native;
use crate::vm::context::{Action, Context, Continuation, Stepped};

pub(super) const FUNCTIONS: &[(&str, Native)] = &[
    ("concat", concat),
    ("foreach", foreach),
    ("foreachi", foreachi),
    ("getn", getn),
    ("insert", insert),
    ("maxn", maxn),
    ("remove", remove),
    ("setn", setn),
    ("sort", sort),
];

fn length(context: &Context<'_>, table: TableRef) -> i64 {
    context.state.heap.table(table).length() as i64
}

fn get(context: &mut Context<'_>, table: TableRef, index: i64) -> LuaValue {
    context.state.heap.get(table, LuaValue::Number(index as f64))
}

fn concat(context: &mut Context<'_>) -> Stepped {
    let table = context.table(0)?;
    let separator = if context.get(1).is_nil() {
        Vec::new()
    } else {
        context.string(1)?;
        context.bytes(1).to_vec()
    };
    let first = context.optional_integer(2, 1)?;
    let last = if context.get(3).is_nil() { length(context, table) } else { context.integer(3)? };
    let mut out = Vec::new();
    let mut index = first;
    while index <= last {
        match get(context, table, index) {
            LuaValue::String(string) => out.extend_from_slice(context.state.heap.bytes(string)),
            LuaValue::Number(number) => number::write(&mut out, number),
            other => {
                return Err(context.error(&format!("invalid value ({}) at index {index} in table for 'concat'", other.type_name())));
            }
        }
        if index == last {
            break;
        }
        out.extend_from_slice(&separator);
        context.reserve(out.len())?;
        index += 1;
    }
    context.return_owned(out)
}

fn getn(context: &mut Context<'_>) -> Stepped {
    let table = context.table(0)?;
    let length = length(context, table);
    context.return_one(LuaValue::Number(length as f64))
}

fn setn(context: &mut Context<'_>) -> Stepped {
    context.table(0)?;
    Err(context.error("'setn' is obsolete"))
}

fn maxn(context: &mut Context<'_>) -> Stepped {
    let table = context.table(0)?;
    let mut most = 0.0;
    let (mut position, content) = (0, context.state.heap.table(table));
    while let Some((next, key, _)) = content.next_from(position) {
        if let LuaValue::Number(number) = key
            && number > most
        {
            most = number;
        }
        position = next;
    }
    context.return_one(LuaValue::Number(most))
}

fn insert(context: &mut Context<'_>) -> Stepped {
    let table = context.table(0)?;
    let mut end = length(context, table) + 1;
    let (position, value) = match context.count {
        2 => (end, context.get(1)),
        3 => {
            let position = context.integer(1)?;
            end = end.max(position);
            (position, context.get(2))
        }
        _ => return Err(context.error("wrong number of arguments to 'insert'")),
    };
    let mut index = end;
    while index > position {
        let moved = get(context, table, index - 1);
        context.raw_set(table, LuaValue::Number(index as f64), moved)?;
        index -= 1;
    }
    context.raw_set(table, LuaValue::Number(position as f64), value)?;
    context.return_none()
}

fn remove(context: &mut Context<'_>) -> Stepped {
    let table = context.table(0)?;
    let end = length(context, table);
    let position = context.optional_integer(1, end)?;
    if !(1..=end).contains(&position) {
        return context.return_none();
    }
    let removed = get(context, table, position);
    for index in position..end {
        let moved = get(context, table, index + 1);
        context.raw_set(table, LuaValue::Number(index as f64), moved)?;
    }
    context.raw_set(table, LuaValue::Number(end as f64), LuaValue::Nil)?;
    context.return_one(removed)
}

/// Calls a function for one entry after the other, until it returns something.
#[derive(Debug)]
struct ForEach {
    table: TableRef,
    /// The key before; an index in the ordered form.
    key: LuaValue,
    end: Option<i64>,
}

fn foreach(context: &mut Context<'_>) -> Stepped {
    let table = context.table(0)?;
    context.function(1)?;
    next_entry(Box::new(ForEach { table, key: LuaValue::Nil, end: None }), context)
}

fn foreachi(context: &mut Context<'_>) -> Stepped {
    let table = context.table(0)?;
    context.function(1)?;
    let end = Some(length(context, table));
    next_entry(Box::new(ForEach { table, key: LuaValue::Number(0.0), end }), context)
}

fn next_entry(mut state: Box<ForEach>, context: &mut Context<'_>) -> Stepped {
    let entry = match (state.end, state.key) {
        (Some(end), LuaValue::Number(index)) if (index as i64) < end => {
            let key = LuaValue::Number(index + 1.0);
            Some((key, context.state.heap.get(state.table, key)))
        }
        (Some(_), _) => None,
        (None, key) => match context.state.heap.table(state.table).next(key) {
            Some(entry) => entry,
            None => return Err(crate::vm::error::run_error(context.state, context.code, b"invalid key to 'next'")),
        },
    };
    let Some((key, value)) = entry else { return context.return_none() };
    state.key = key;
    let function = context.get(1);
    [function, key, value].into_iter().for_each(|value| context.state.push(value));
    context.call_then(2, state)
}

impl Continuation for ForEach {
    fn resume(self: Box<Self>, context: &mut Context<'_>, first: usize) -> Stepped {
        let result = context.take_result(first);
        if result.is_nil() {
            return next_entry(self, context);
        }
        context.state.push(result);
        Ok(Action::Return(1))
    }

    fn mark(&self, mark: &mut dyn FnMut(LuaValue)) {
        mark(LuaValue::Table(self.table));
        mark(self.key);
    }
}
