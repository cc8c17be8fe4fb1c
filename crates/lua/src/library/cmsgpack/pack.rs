//! Values into MessagePack.

use super::BATCH;
use crate::heap::Heap;
use crate::heap::gathered::{Full, Gathered};
use crate::heap::table::Table;
use crate::value::{LuaValue, TableRef};
use crate::vm::context::{Context, Continuation, Stepped};
use crate::vm::error::numbered_argument_error;
use crate::vm::state::STACK_MAX;

/// Tables inside each other; deeper ones become nil, as tables that contain themselves do.
const NESTING_MAX: usize = 16;

/// A table that is being written.
#[derive(Debug)]
struct Visit {
    table: TableRef,
    /// The index or the position of the next element.
    next: usize,
    /// Its last index; `None` for a map.
    length: Option<usize>,
    /// The value of a map whose key was written.
    value: Option<LuaValue>,
}

#[derive(Debug, Default)]
struct Packer {
    out: Gathered,
    argument: usize,
    open: Vec<Visit>,
}

pub(super) fn pack(context: &mut Context<'_>) -> Stepped {
    if context.count == 0 {
        return Err(numbered_argument_error(context, 0, b"MessagePack pack needs input."));
    }
    if context.count * 2 > STACK_MAX {
        return Err(numbered_argument_error(context, 0, b"Too many arguments for MessagePack pack."));
    }
    go_on(Packer::default(), context)
}

fn go_on(mut packer: Packer, context: &mut Context<'_>) -> Stepped {
    loop {
        for _ in 0..BATCH {
            let Some(value) = packer.next(context) else { return context.return_owned(packer.out.into_bytes()) };
            packer.write(context, value)?;
        }
        context.charge(BATCH);
        if context.has_to_pause() {
            return context.go_on_later(Box::new(packer));
        }
    }
}

impl Packer {
    /// The next value to be written.
    fn next(&mut self, context: &Context<'_>) -> Option<LuaValue> {
        while let Some(visit) = self.open.last_mut() {
            if let Some(value) = visit.value.take() {
                return Some(value);
            }
            let table = context.state.heap.table(visit.table);
            match visit.length {
                Some(length) if visit.next <= length => {
                    visit.next += 1;
                    return Some(table.get_index(visit.next - 1));
                }
                Some(_) => {}
                None => {
                    if let Some((next, key, value)) = table.next_from(visit.next) {
                        (visit.next, visit.value) = (next, Some(value));
                        return Some(key);
                    }
                }
            }
            self.open.pop();
        }
        let argument = (self.argument < context.count).then(|| context.get(self.argument));
        self.argument += 1;
        argument
    }

    fn write(&mut self, context: &mut Context<'_>, value: LuaValue) -> Result<(), Full> {
        let heap = &context.state.heap;
        match value {
            LuaValue::Table(table) if self.open.len() < NESTING_MAX => {
                let scanned = self.open_table(heap, table)?;
                context.charge(scanned / 4);
                Ok(())
            }
            LuaValue::Boolean(value) => self.out.push(&heap.memory, if value { 0xc3 } else { 0xc2 }),
            LuaValue::Number(number) => self.write_number(heap, number),
            LuaValue::String(string) => {
                let bytes = heap.bytes(string);
                self.write_length(heap, bytes.len(), (0xa0, 31), [Some(0xd9), Some(0xda), Some(0xdb)])?;
                self.out.append(&heap.memory, bytes)
            }
            _ => self.out.push(&heap.memory, 0xc0),
        }
    }

    /// Begins a table; how many of its entries were looked at.
    fn open_table(&mut self, heap: &Heap, table: TableRef) -> Result<usize, Full> {
        let content = heap.table(table);
        let (entries, is_list) = census(content);
        if is_list {
            self.write_length(heap, entries, (0x90, 15), [None, Some(0xdc), Some(0xdd)])?;
            self.open.push(Visit { table, next: 1, length: Some(entries), value: None });
        } else {
            self.write_length(heap, entries, (0x80, 15), [None, Some(0xde), Some(0xdf)])?;
            self.open.push(Visit { table, next: 0, length: None, value: None });
        }
        Ok(entries)
    }

    /// A length in the shortest form: in the byte of the type up to `few.1`, else in one, two or four bytes.
    fn write_length(&mut self, heap: &Heap, length: usize, few: (u8, usize), wide: [Option<u8>; 3]) -> Result<(), Full> {
        let memory = &heap.memory;
        if length <= few.1 {
            return self.out.push(memory, few.0 | length as u8);
        }
        match wide {
            [Some(one), ..] if length <= 0xff => self.out.append(memory, &[one, length as u8]),
            [_, Some(two), _] if length <= 0xffff => {
                self.out.push(memory, two)?;
                self.out.append(memory, &(length as u16).to_be_bytes())
            }
            [.., four] => {
                self.out.push(memory, four.unwrap_or(0))?;
                self.out.append(memory, &(length as u32).to_be_bytes())
            }
        }
    }

    fn write_number(&mut self, heap: &Heap, number: f64) -> Result<(), Full> {
        let integer = crate::vm::context::to_integer(number);
        let (tag, bytes) = if integer as f64 == number && number < 9_223_372_036_854_775_808.0 {
            match integer {
                -32..=127 => return self.out.push(&heap.memory, integer as u8),
                128..=0xff => (0xcc, 1),
                0x100..=0xffff => (0xcd, 2),
                0x1_0000..=0xffff_ffff => (0xce, 4),
                0x1_0000_0000.. => (0xcf, 8),
                -0x80..=-33 => (0xd0, 1),
                -0x8000..=-0x81 => (0xd1, 2),
                -0x8000_0000..=-0x8001 => (0xd2, 4),
                _ => (0xd3, 8),
            }
        } else if f64::from(number as f32) == number {
            self.out.push(&heap.memory, 0xca)?;
            return self.out.append(&heap.memory, &(number as f32).to_be_bytes());
        } else {
            self.out.push(&heap.memory, 0xcb)?;
            return self.out.append(&heap.memory, &number.to_be_bytes());
        };
        self.out.push(&heap.memory, tag)?;
        self.out.append(&heap.memory, &integer.to_be_bytes()[8 - bytes..])
    }
}

/// The number of entries, and whether their keys are 1 to that number.
fn census(table: &Table) -> (usize, bool) {
    let (mut entries, mut most, mut position, mut is_list) = (0, 0.0, 0, true);
    while let Some((next, key, _)) = table.next_from(position) {
        (position, entries) = (next, entries + 1);
        match key {
            LuaValue::Number(number) if number > 0.0 && f64::from(number as i32) == number => most = number.max(most),
            _ => is_list = false,
        }
    }
    (entries, is_list && most == entries as f64)
}

impl Continuation for Packer {
    fn resume(self: Box<Self>, context: &mut Context<'_>, _first: usize) -> Stepped {
        go_on(*self, context)
    }

    fn mark(&self, mark: &mut dyn FnMut(LuaValue)) {
        // The tables are reached from the arguments, but for what weak tables lost meanwhile.
        for visit in &self.open {
            mark(LuaValue::Table(visit.table));
            visit.value.into_iter().for_each(&mut *mark);
        }
    }
}
