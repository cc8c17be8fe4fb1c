//! Values into JSON.

use super::{BATCH, settings};

use crate::heap::gathered::{Charge, Full, Gathered};
use crate::json::{InvalidNumbers, JsonSettings};
use crate::number;
use crate::value::{LuaValue, TableRef};
use crate::vm::context::{Context, Continuation, Stepped};
use crate::vm::state::{Fault, STACK_MAX};

/// A table that is being written.
#[derive(Debug)]
struct Visit {
    table: TableRef,
    /// The index or the position of the next element.
    next: usize,
    /// Its last index; `None` for an object.
    length: Option<usize>,
    /// Values that lay on PUC's stack when it was begun.
    below: usize,
}

#[derive(Debug)]
struct Encoder {
    out: Gathered,
    open: Vec<Visit>,
    charge: Charge,
    settings: JsonSettings,
}

pub(super) fn encode(context: &mut Context<'_>) -> Stepped {
    if context.count != 1 {
        return Err(context.argument_error(0, "expected 1 argument"));
    }
    let settings = settings::of(context);
    let mut encoder = Encoder { out: Gathered::default(), open: Vec::new(), charge: Charge::default(), settings };
    encoder.write(context, context.get(0))?;
    go_on(encoder, context)
}

fn go_on(mut encoder: Encoder, context: &mut Context<'_>) -> Stepped {
    loop {
        for _ in 0..BATCH {
            if encoder.open.is_empty() {
                return context.return_owned(encoder.out.into_bytes());
            }
            encoder.step(context)?;
        }
        context.charge(BATCH);
        if context.has_to_pause() {
            return context.go_on_later(Box::new(encoder));
        }
    }
}

impl Encoder {
    /// Writes the next element of the innermost table, or its end.
    fn step(&mut self, context: &mut Context<'_>) -> Result<(), Fault> {
        let Some(visit) = self.open.last_mut() else { return Ok(()) };
        let heap = &context.state.heap;
        let table = heap.table(visit.table);
        let is_first = visit.next == 0;
        if let Some(length) = visit.length {
            if visit.next == length {
                self.open.pop();
                return Ok(self.out.push(&heap.memory, b']')?);
            }
            visit.next += 1;
            let value = table.get_index(visit.next);
            if !is_first {
                self.out.push(&heap.memory, b',')?;
            }
            return self.write(context, value);
        }
        let Some((next, key, value)) = table.next_from(visit.next) else {
            self.open.pop();
            return Ok(self.out.push(&heap.memory, b'}')?);
        };
        visit.next = next;
        // The first entry may not be at the first position.
        if self.out.as_slice().last() != Some(&b'{') {
            self.out.push(&heap.memory, b',')?;
        }
        self.write_key(context, key)?;
        self.write(context, value)
    }

    fn write_key(&mut self, context: &mut Context<'_>, key: LuaValue) -> Result<(), Fault> {
        match key {
            LuaValue::String(string) => {
                let heap = &context.state.heap;
                write_string(&mut self.out, heap, heap.bytes(string))?;
                Ok(self.out.push(&heap.memory, b':')?)
            }
            LuaValue::Number(number) => {
                self.out.push(&context.state.heap.memory, b'"')?;
                self.write_number(context, number)?;
                Ok(self.out.append(&context.state.heap.memory, b"\":")?)
            }
            other => Err(refusal(context, other, "table key must be a number or string")),
        }
    }

    fn write(&mut self, context: &mut Context<'_>, value: LuaValue) -> Result<(), Fault> {
        let heap = &context.state.heap;
        match value {
            LuaValue::String(string) => Ok(write_string(&mut self.out, heap, heap.bytes(string))?),
            LuaValue::Number(number) => self.write_number(context, number),
            LuaValue::Boolean(value) => Ok(self.out.append(&heap.memory, if value { b"true" } else { b"false" })?),
            LuaValue::Table(table) => self.open_table(context, table),
            LuaValue::Nil | LuaValue::Light(0) => Ok(self.out.append(&heap.memory, b"null")?),
            other => Err(refusal(context, other, "type not supported")),
        }
    }

    fn write_number(&mut self, context: &mut Context<'_>, number: f64) -> Result<(), Fault> {
        let memory = &context.state.heap.memory;
        if !number.is_finite() {
            match self.settings.encode_invalid_numbers {
                InvalidNumbers::Refused => {
                    return Err(refusal(context, LuaValue::Number(number), "must not be NaN or Inf"));
                }
                InvalidNumbers::Null => return Ok(self.out.append(memory, b"null")?),
                InvalidNumbers::Written if number.is_nan() => return Ok(self.out.append(memory, b"nan")?),
                InvalidNumbers::Written => {}
            }
        }
        let precision = self.settings.precision as usize;
        Ok(self.out.write(memory, |out| {
            if precision == 14 {
                number::write(out, number);
            } else {
                out.extend(number::general(number, precision, false).bytes());
            }
        })?)
    }

    fn open_table(&mut self, context: &mut Context<'_>, table: TableRef) -> Result<(), Fault> {
        // The argument lies below the outermost table; an object has a key and a value there, a list a value.
        let below = match self.open.last() {
            None => 1,
            Some(Visit { below, length: None, .. }) => below + 2,
            Some(Visit { below, .. }) => below + 1,
        };
        let depth = self.open.len() + 1;
        if depth > self.settings.encode_max_depth as usize || below + 3 > STACK_MAX {
            return Err(context.error(&format!("Cannot serialise, excessive nesting ({depth})")));
        }
        let length = self.length(context, table)?;
        let memory = &context.state.heap.memory;
        self.open.push(Visit { table, next: 0, length, below });
        self.charge.set(memory, self.open.capacity() * size_of::<Visit>())?;
        Ok(self.out.push(memory, if length.is_some() { b'[' } else { b'{' })?)
    }

    /// The length of a list; `None` for what is an object.
    fn length(&self, context: &mut Context<'_>, table: TableRef) -> Result<Option<usize>, Fault> {
        let (mut most, mut items, mut position) = (0_i32, 0_i32, 0);
        let content = context.state.heap.table(table);
        while let Some((next, key, _)) = content.next_from(position) {
            match key {
                LuaValue::Number(number) if number >= 1.0 && number.floor() == number => {
                    if number > f64::from(most) {
                        // Beyond 32 bits is what a cast of C gives: no length.
                        most = if number > f64::from(i32::MAX) { i32::MIN } else { number as i32 };
                    }
                    items = items.wrapping_add(1);
                }
                _ => return Ok(None),
            }
            position = next;
        }
        context.charge(position / 4);
        let settings = &self.settings;
        if settings.sparse_ratio > 0 && most > items.wrapping_mul(settings.sparse_ratio) && most > settings.sparse_safe {
            if !settings.sparse_convert {
                return Err(refusal(context, LuaValue::Table(table), "excessively sparse array"));
            }
            return Ok(None);
        }
        Ok(usize::try_from(most).ok().filter(|most| *most > 0))
    }
}

fn refusal(context: &mut Context<'_>, value: LuaValue, why: &str) -> Fault {
    context.error(&format!("Cannot serialise {}: {why}", value.type_name()))
}

/// Appends a text in quotes, with control characters and solidi escaped.
fn write_string(out: &mut Gathered, heap: &crate::heap::Heap, bytes: &[u8]) -> Result<(), Full> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let memory = &heap.memory;
    out.reserve(memory, bytes.len() + 2)?;
    out.push(memory, b'"')?;
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, 0..=31 | b'"' | b'\\' | b'/' | 127)) {
        out.append(memory, &rest[..at])?;
        match rest[at] {
            byte @ (b'"' | b'\\' | b'/') => out.append(memory, &[b'\\', byte])?,
            8 => out.append(memory, b"\\b")?,
            b'\t' => out.append(memory, b"\\t")?,
            b'\n' => out.append(memory, b"\\n")?,
            12 => out.append(memory, b"\\f")?,
            b'\r' => out.append(memory, b"\\r")?,
            byte => {
                let (high, low) = (DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]);
                out.append(memory, &[b'\\', b'u', b'0', b'0', high, low])?;
            }
        }
        rest = &rest[at + 1..];
    }
    out.append(memory, rest)?;
    out.push(memory, b'"')
}

impl Continuation for Encoder {
    fn resume(self: Box<Self>, context: &mut Context<'_>, _first: usize) -> Stepped {
        go_on(*self, context)
    }

    fn mark(&self, mark: &mut dyn FnMut(LuaValue)) {
        for visit in &self.open {
            mark(LuaValue::Table(visit.table));
        }
    }
}
