//! `cjson`: JSON as lua-cjson 2.1.0 has it in Redis.
//!
//! Settings that a script changes last until its run ends: those of Redis would last for all scripts behind it. `cjson.new` makes a
//! library with settings of its own.

mod decode;
mod encode;
mod settings;

use crate::heap::objects::NativeFunction;
use crate::value::{LuaValue, TableRef};
use crate::vm::code::Native;
use crate::vm::context::{Context, Stepped};
use crate::vm::state::State;

pub(super) const FUNCTIONS: &[(&str, Native)] = &[
    ("decode", decode::decode),
    ("decode_invalid_numbers", settings::decode_invalid_numbers),
    ("decode_max_depth", settings::decode_max_depth),
    ("encode", encode::encode),
    ("encode_invalid_numbers", settings::encode_invalid_numbers),
    ("encode_keep_buffer", settings::encode_keep_buffer),
    ("encode_max_depth", settings::encode_max_depth),
    ("encode_number_precision", settings::encode_number_precision),
    ("encode_sparse_array", settings::encode_sparse_array),
    ("new", new),
];

/// Tokens between two looks at the budget.
const BATCH: usize = 64;
/// `cjson.null`
const NULL: LuaValue = LuaValue::Light(0);

/// What is no function of the library.
pub(super) fn add_constants(state: &mut State, library: TableRef) {
    for (name, text) in [("_NAME", "cjson"), ("_VERSION", "2.1.0")] {
        let text = LuaValue::String(state.heap.string(text.as_bytes()));
        state.heap.set_field(library, name, text);
    }
    state.heap.set_field(library, "null", NULL);
}

fn new(context: &mut Context<'_>) -> Stepped {
    let LuaValue::Native(this) = context.state.at.stack[context.base - 1] else { return context.return_none() };
    let position = FUNCTIONS.iter().position(|(name, _)| *name == "new").unwrap_or_default();
    let first = context.state.heap.native(this).function - position as u32;
    let settings = settings::store(context.state);
    let library = context.state.heap.new_table(0, FUNCTIONS.len() + 3);
    for (number, (name, _)) in FUNCTIONS.iter().enumerate() {
        let function = NativeFunction { function: first + number as u32, values: Box::new([settings]) };
        let function = LuaValue::Native(context.state.heap.new_native(function));
        context.state.heap.set_field(library, name, function);
    }
    add_constants(context.state, library);
    context.return_one(LuaValue::Table(library))
}
