//! The library: what a script finds among its globals, from a list of what is allowed.

mod base;
mod bit;
mod cjson;
mod cmsgpack;
mod coroutine;
mod format;
mod gsub;
mod load;
mod math;
mod pattern;
mod plain;
mod search;
mod sort;
mod string;
mod structs;
mod table;

use crate::heap::objects::NativeFunction;
use crate::value::LuaValue;
use crate::vm::code::{Native, Plain};
use crate::vm::context::IPAIRS;
use crate::vm::state::State;

pub(crate) use base::show;

/// A function of the library.
pub(crate) struct Entry {
    /// The table that it is in; empty for globals.
    table: &'static str,
    /// Its name; empty for those that other functions make.
    name: &'static str,
    pub(crate) native: Native,
}

impl Entry {
    /// Its plain case, if it has one.
    pub(crate) fn plain(&self) -> Option<Plain> {
        plain::of(self.table, self.name).filter(|_| !self.name.is_empty())
    }
}

/// All functions, in the order of their numbers.
pub(crate) fn entries(deprecated: bool) -> Vec<Entry> {
    let mut entries = vec![
        Entry { table: "", name: "", native: string::next_match },
        Entry { table: "", name: "", native: coroutine::call_wrapped },
        Entry { table: "", name: "", native: base::ipairs_next },
    ];
    let mut add = |table: &'static str, functions: &[(&'static str, Native)]| {
        entries.extend(functions.iter().map(|(name, native)| Entry { table, name, native: *native }));
    };
    add("", base::FUNCTIONS);
    add("", load::FUNCTIONS);
    if deprecated {
        add("", base::DEPRECATED);
    }
    add("coroutine", coroutine::FUNCTIONS);
    add("string", string::FUNCTIONS);
    add("table", table::FUNCTIONS);
    add("math", math::FUNCTIONS);
    add("os", math::OS);
    add("bit", bit::FUNCTIONS);
    add("cjson", cjson::FUNCTIONS);
    add("cmsgpack", cmsgpack::FUNCTIONS);
    add("struct", structs::FUNCTIONS);
    entries
}

/// Puts the functions where scripts find them.
pub(crate) fn install(state: &mut State, entries: &[Entry]) {
    let globals = state.globals;
    for (number, entry) in entries.iter().enumerate().filter(|(_, entry)| !entry.name.is_empty()) {
        let table = if entry.table.is_empty() { globals } else { library_table(state, entry.table) };
        let native = state.heap.new_native(NativeFunction { function: number as u32, values: Box::default() });
        state.heap.set_field(table, entry.name, LuaValue::Native(native));
    }
    let math = library_table(state, "math");
    math::add_constants(state, math);
    let cjson = library_table(state, "cjson");
    cjson::add_constants(state, cjson);
    let cmsgpack = library_table(state, "cmsgpack");
    cmsgpack::add_constants(state, cmsgpack);
    let strings = library_table(state, "string");
    let metatable = state.heap.new_table(0, 1);
    state.heap.set_field(metatable, "__index", LuaValue::Table(strings));
    state.string_metatable = Some(metatable);
    let next = LuaValue::String(state.heap.string(b"next"));
    state.next_function = state.heap.get(globals, next);
    state.ipairs_iterator = LuaValue::Native(state.heap.new_native(NativeFunction { function: IPAIRS, values: Box::default() }));
    // A script may drop them from its globals where these are not read-only.
    state.roots.extend([state.next_function, state.ipairs_iterator]);
    state.heap.set_field(globals, "_G", LuaValue::Table(globals));
    let version = LuaValue::String(state.heap.string(b"Lua 5.1"));
    state.heap.set_field(globals, "_VERSION", version);
}

fn library_table(state: &mut State, name: &str) -> crate::value::TableRef {
    let key = LuaValue::String(state.heap.string(name.as_bytes()));
    if let LuaValue::Table(table) = state.heap.get(state.globals, key) {
        return table;
    }
    let table = state.heap.new_table(0, 16);
    let globals = state.globals;
    state.heap.set_field(globals, name, LuaValue::Table(table));
    table
}
