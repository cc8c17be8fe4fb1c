//! MessagePack into values.

use super::BATCH;
use crate::heap::gathered::Charge;
use crate::value::{LuaValue, TableRef};
use crate::vm::context::{Action, Context, Continuation, Stepped};
use crate::vm::error::refused;
use crate::vm::state::{Fault, STACK_MAX};

const MISSING: &str = "Missing bytes in input.";
const BAD: &str = "Bad data format in input.";

/// A table that is being filled.
#[derive(Debug)]
struct Open {
    table: TableRef,
    /// Elements that are still to come.
    left: u32,
    /// The index of the next element; `None` in a map.
    index: Option<u32>,
    /// The key of a map whose value is next.
    key: Option<LuaValue>,
    /// Values that lay on PUC's stack below it.
    below: usize,
}

#[derive(Debug)]
struct Unpacker {
    at: usize,
    limit: usize,
    /// The results come behind the offset of the rest.
    with_offset: bool,
    open: Vec<Open>,
    charge: Charge,
    results: usize,
    /// Values that lie on PUC's stack before the results.
    arguments: usize,
}

pub(super) fn unpack(context: &mut Context<'_>) -> Stepped {
    let arguments = context.count;
    begin(context, 0, 0, arguments)
}

pub(super) fn unpack_one(context: &mut Context<'_>) -> Stepped {
    let offset = context.optional_integer(1, 0)?;
    begin(context, 1, offset, 1)
}

pub(super) fn unpack_limit(context: &mut Context<'_>) -> Stepped {
    let limit = context.integer(1)?;
    let offset = context.optional_integer(2, 0)?;
    begin(context, limit, offset, 1)
}

fn begin(context: &mut Context<'_>, limit: i64, offset: i64, arguments: usize) -> Stepped {
    context.string(0)?;
    let length = context.bytes(0).len();
    if limit < 0 || offset < 0 {
        let offset = offset as i32;
        return Err(context.error(&format!("Invalid request to unpack with offset of {offset} and limit of {length}.")));
    }
    if offset as usize > length {
        let offset = offset as i32;
        return Err(context.error(&format!("Start offset {offset} greater than input length {length}.")));
    }
    let with_offset = limit != 0 || offset != 0;
    let limit = if with_offset { limit as usize } else { usize::MAX };
    if with_offset {
        context.state.push(LuaValue::Nil);
    }
    let unpacker =
        Unpacker { at: offset as usize, limit, with_offset, open: Vec::new(), charge: Charge::default(), results: 0, arguments };
    go_on(unpacker, context)
}

fn go_on(mut unpacker: Unpacker, context: &mut Context<'_>) -> Stepped {
    loop {
        for _ in 0..BATCH {
            if unpacker.open.is_empty() && (unpacker.at >= context.bytes(0).len() || unpacker.results >= unpacker.limit) {
                return unpacker.finish(context);
            }
            unpacker.step(context)?;
        }
        context.charge(BATCH);
        if context.has_to_pause() {
            return context.go_on_later(Box::new(unpacker));
        }
    }
}

impl Unpacker {
    fn finish(self, context: &mut Context<'_>) -> Stepped {
        if !self.with_offset {
            return Ok(Action::Return(self.results));
        }
        if self.arguments + self.results + 1 > STACK_MAX {
            return Err(context.error("stack overflow (in function mp_unpack_full)"));
        }
        let rest = if self.at == context.bytes(0).len() { -1.0 } else { self.at as f64 };
        let first = context.state.at.top - self.results - 1;
        context.state.at.stack[first] = LuaValue::Number(rest);
        Ok(Action::Return(self.results + 1))
    }

    /// Reads one value, or the beginning of a table, and puts it where it belongs.
    fn step(&mut self, context: &mut Context<'_>) -> Result<(), Fault> {
        let Some(tag) = context.bytes(0).get(self.at).copied() else { return Err(context.error(MISSING)) };
        let below = match self.open.last() {
            None => self.arguments + self.results,
            Some(Open { below, index: None, key: None, .. }) => below + 1,
            Some(Open { below, .. }) => below + 2,
        };
        if below + 1 > STACK_MAX {
            return Err(context.error("stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)"));
        }
        self.at += 1;
        let value = match tag {
            0x00..=0x7f => LuaValue::Number(f64::from(tag)),
            0xe0..=0xff => LuaValue::Number(f64::from(tag as i8)),
            0x80..=0x8f => return self.begin_table(context, u32::from(tag & 15), true, below),
            0x90..=0x9f => return self.begin_table(context, u32::from(tag & 15), false, below),
            0xa0..=0xbf => self.string(context, usize::from(tag & 31))?,
            0xc0 => LuaValue::Nil,
            0xc2 | 0xc3 => LuaValue::Boolean(tag == 0xc3),
            0xca => LuaValue::Number(f64::from(f32::from_bits(self.unsigned(context, 4)? as u32))),
            0xcb => LuaValue::Number(f64::from_bits(self.unsigned(context, 8)?)),
            0xcc..=0xcf => LuaValue::Number(self.unsigned(context, 1 << (tag - 0xcc))? as i64 as f64),
            0xd0..=0xd3 => {
                let bytes = 1 << (tag - 0xd0);
                let unused = 64 - 8 * bytes as u32;
                LuaValue::Number(((self.unsigned(context, bytes)? << unused) as i64 >> unused) as f64)
            }
            0xd9..=0xdb => {
                let length = self.unsigned(context, 1 << (tag - 0xd9))? as usize;
                self.string(context, length)?
            }
            0xdc | 0xdd => {
                let length = self.unsigned(context, 2 << (tag - 0xdc))? as u32;
                return self.begin_table(context, length, false, below);
            }
            0xde | 0xdf => {
                let length = self.unsigned(context, 2 << (tag - 0xde))? as u32;
                return self.begin_table(context, length, true, below);
            }
            _ => return Err(context.error(BAD)),
        };
        self.place(context, value)
    }

    /// A big-endian number of the next bytes.
    fn unsigned(&mut self, context: &mut Context<'_>, bytes: usize) -> Result<u64, Fault> {
        let Some(part) = context.bytes(0).get(self.at..self.at + bytes) else { return Err(context.error(MISSING)) };
        self.at += bytes;
        Ok(part.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn string(&mut self, context: &mut Context<'_>, length: usize) -> Result<LuaValue, Fault> {
        let Some(part) = context.bytes(0).get(self.at..self.at + length) else { return Err(context.error(MISSING)) };
        let part = part.to_vec();
        self.at += length;
        Ok(LuaValue::String(context.state.heap.string_owned(part)))
    }

    fn begin_table(&mut self, context: &mut Context<'_>, length: u32, is_map: bool, below: usize) -> Result<(), Fault> {
        if !is_map && below + 2 > STACK_MAX {
            return Err(context.error("stack overflow (in function mp_decode_to_lua_array)"));
        }
        let table = context.state.heap.new_table(0, 0);
        if length == 0 {
            return self.place(context, LuaValue::Table(table));
        }
        self.open.push(Open { table, left: length, index: (!is_map).then_some(1), key: None, below });
        self.charge.set(&context.state.heap.memory, self.open.capacity() * size_of::<Open>())?;
        Ok(())
    }

    /// Puts a value into the table that is open, which may complete it and those around it.
    fn place(&mut self, context: &mut Context<'_>, value: LuaValue) -> Result<(), Fault> {
        let mut value = value;
        loop {
            let Some(open) = self.open.last_mut() else {
                context.state.push(value);
                self.results += 1;
                return Ok(());
            };
            let (table, key) = match (open.index, open.key.take()) {
                (Some(index), _) => {
                    open.index = Some(index.wrapping_add(1));
                    (open.table, LuaValue::Number(f64::from(index)))
                }
                (None, Some(key)) => (open.table, key),
                (None, None) => {
                    open.key = Some(value);
                    return Ok(());
                }
            };
            open.left -= 1;
            let is_complete = open.left == 0;
            if let Err(why) = context.state.heap.set(table, key, value) {
                return Err(refused(context, &why));
            }
            if !is_complete {
                return Ok(());
            }
            self.open.pop();
            value = LuaValue::Table(table);
        }
    }
}

impl Continuation for Unpacker {
    fn resume(self: Box<Self>, context: &mut Context<'_>, _first: usize) -> Stepped {
        go_on(*self, context)
    }

    fn mark(&self, mark: &mut dyn FnMut(LuaValue)) {
        for open in &self.open {
            mark(LuaValue::Table(open.table));
            open.key.into_iter().for_each(&mut *mark);
        }
    }
}
