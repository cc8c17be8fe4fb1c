//! `table`, but for `sort`.

use super::sort::sort;
use crate::heap::gathered::Gathered;
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
    let first = context.optional_short_integer(2, 1)?;
    let last = if context.get(3).is_nil() { length(context, table) } else { context.short_integer(3)? };
    join(context, Joining { table, separator, next: first, last, out: Gathered::default() })
}

/// Elements between two looks at the budget.
const BATCH: usize = 256;

/// Puts the elements of a list together.
#[derive(Debug)]
struct Joining {
    table: TableRef,
    separator: Vec<u8>,
    next: i64,
    last: i64,
    out: Gathered,
}

fn join(context: &mut Context<'_>, mut joining: Joining) -> Stepped {
    loop {
        for _ in 0..BATCH {
            if joining.next > joining.last {
                return context.return_owned(joining.out.into_bytes());
            }
            let value = get(context, joining.table, joining.next);
            let heap = &context.state.heap;
            match value {
                LuaValue::String(string) => joining.out.append(&heap.memory, heap.bytes(string))?,
                LuaValue::Number(number) => joining.out.write(&heap.memory, |out| number::write(out, number))?,
                other => {
                    let (kind, index) = (other.type_name(), joining.next);
                    return Err(context.error(&format!("invalid value ({kind}) at index {index} in table for 'concat'")));
                }
            }
            if joining.next == joining.last {
                return context.return_owned(joining.out.into_bytes());
            }
            joining.out.append(&heap.memory, &joining.separator)?;
            joining.next += 1;
        }
        context.charge(BATCH / 4);
        if context.has_to_pause() {
            return context.go_on_later(Box::new(joining));
        }
    }
}

impl Continuation for Joining {
    fn resume(self: Box<Self>, context: &mut Context<'_>, _first: usize) -> Stepped {
        join(context, *self)
    }

    fn mark(&self, mark: &mut dyn FnMut(LuaValue)) {
        mark(LuaValue::Table(self.table));
    }
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
    context.charge(position / 16);
    context.return_one(LuaValue::Number(most))
}

fn insert(context: &mut Context<'_>) -> Stepped {
    let table = context.table(0)?;
    let mut end = length(context, table) + 1;
    let (position, value) = match context.count {
        2 => (end, context.get(1)),
        3 => {
            let position = context.short_integer(1)?;
            end = end.max(position);
            (position, context.get(2))
        }
        _ => return Err(context.error("wrong number of arguments to 'insert'")),
    };
    shift(context, Shift { table, index: end, position, value })
}

/// Moves elements up by one for a new one.
#[derive(Debug)]
struct Shift {
    table: TableRef,
    /// The place that is to be filled next.
    index: i64,
    position: i64,
    value: LuaValue,
}

fn shift(context: &mut Context<'_>, mut rest: Shift) -> Stepped {
    let table = rest.table;
    while rest.index > rest.position {
        let moved = get(context, table, rest.index - 1);
        context.raw_set(table, LuaValue::Number(rest.index as f64), moved)?;
        rest.index -= 1;
        // A position far below the first element is a long way.
        if rest.index % BATCH as i64 == 0 {
            context.charge(BATCH / 16);
            if context.has_to_pause() {
                return context.go_on_later(Box::new(rest));
            }
        }
    }
    context.raw_set(table, LuaValue::Number(rest.position as f64), rest.value)?;
    context.return_none()
}

impl Continuation for Shift {
    fn resume(self: Box<Self>, context: &mut Context<'_>, _first: usize) -> Stepped {
        shift(context, *self)
    }

    fn mark(&self, mark: &mut dyn FnMut(LuaValue)) {
        mark(LuaValue::Table(self.table));
        mark(self.value);
    }
}

fn remove(context: &mut Context<'_>) -> Stepped {
    let table = context.table(0)?;
    let end = length(context, table);
    let position = context.optional_short_integer(1, end)?;
    if !(1..=end).contains(&position) {
        return context.return_none();
    }
    let removed = get(context, table, position);
    context.charge((end - position) as usize / 16);
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
