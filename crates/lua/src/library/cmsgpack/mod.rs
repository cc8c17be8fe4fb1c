//! `cmsgpack`: MessagePack as lua-cmsgpack 0.4.0 has it, without its types `bin`, `ext` and `timestamp`.
//!
//! Both directions keep what is open in a list of their own, so nothing of the input decides how deep the machine calls.

mod pack;
mod unpack;

use crate::value::{LuaValue, TableRef};
use crate::vm::code::Native;
use crate::vm::state::State;

pub(super) const FUNCTIONS: &[(&str, Native)] =
    &[("pack", pack::pack), ("unpack", unpack::unpack), ("unpack_limit", unpack::unpack_limit), ("unpack_one", unpack::unpack_one)];

/// Values between two looks at the budget.
const BATCH: usize = 64;

/// What scripts may read about the library.
pub(super) fn add_constants(state: &mut State, library: TableRef) {
    for (name, text) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
        ("_DESCRIPTION", "MessagePack C implementation for Lua"),
    ] {
        let text = LuaValue::String(state.heap.string(text.as_bytes()));
        state.heap.set_field(library, name, text);
    }
}
