//! Functions of the library in their plain cases: arguments of the right types, a result that takes little time.
//!
//! A call of one makes no frame. What is not plain (another type, an error, a long text) is left to the function itself, which has
//! the same result wherever both have one.

use super::string::position;
use crate::heap::Heap;
use crate::number;
use crate::value::LuaValue;
use crate::vm::code::Plain;
use crate::vm::context::to_integer;

/// Bytes of a text that is copied here.
const TEXT_MAX: usize = 256;

/// The plain case of a function, if it has one.
pub(super) fn of(table: &str, name: &str) -> Option<Plain> {
    Some(match (table, name) {
        ("", "tonumber") => tonumber,
        ("", "tostring") => tostring,
        ("", "type") => type_,
        ("", "select") => count,
        ("", "rawget") => rawget,
        ("string", "byte") => byte,
        ("string", "char") => char_,
        ("string", "len") => len,
        ("string", "lower") => |heap, arguments| changed(heap, arguments, <[u8]>::make_ascii_lowercase),
        ("string", "upper") => |heap, arguments| changed(heap, arguments, <[u8]>::make_ascii_uppercase),
        ("string", "sub") => sub,
        ("table", "insert") => insert,
        ("math", "abs") => |_, arguments| one(arguments, f64::abs),
        ("math", "ceil") => |_, arguments| one(arguments, f64::ceil),
        ("math", "floor") => |_, arguments| one(arguments, f64::floor),
        ("math", "max") => |_, arguments| two(arguments, |x, y| if y > x { y } else { x }),
        ("math", "min") => |_, arguments| two(arguments, |x, y| if y < x { y } else { x }),
        ("math", "sqrt") => |_, arguments| one(arguments, f64::sqrt),
        _ => return None,
    })
}

#[expect(clippy::unnecessary_wraps, reason = "as plain functions return")]
fn number(value: f64) -> Option<Option<LuaValue>> {
    Some(Some(LuaValue::Number(value)))
}

#[expect(clippy::unnecessary_wraps, reason = "as plain functions return")]
fn text(heap: &mut Heap, bytes: &[u8]) -> Option<Option<LuaValue>> {
    Some(Some(LuaValue::String(heap.string(bytes))))
}

fn tonumber(heap: &mut Heap, arguments: &[LuaValue]) -> Option<Option<LuaValue>> {
    match arguments {
        [LuaValue::Number(value)] => number(*value),
        [LuaValue::String(text)] => Some(Some(number::parse(heap.bytes(*text)).map_or(LuaValue::Nil, LuaValue::Number))),
        _ => None,
    }
}

/// Numbers have no metatable.
fn tostring(heap: &mut Heap, arguments: &[LuaValue]) -> Option<Option<LuaValue>> {
    let [LuaValue::Number(value)] = arguments else { return None };
    let mut bytes = Vec::with_capacity(32);
    number::write(&mut bytes, *value);
    text(heap, &bytes)
}

fn type_(heap: &mut Heap, arguments: &[LuaValue]) -> Option<Option<LuaValue>> {
    text(heap, arguments.first()?.type_name().as_bytes())
}

/// `select('#', …)`
fn count(heap: &mut Heap, arguments: &[LuaValue]) -> Option<Option<LuaValue>> {
    let [LuaValue::String(what), rest @ ..] = arguments else { return None };
    if heap.bytes(*what) == b"#" { number(rest.len() as f64) } else { None }
}

fn rawget(heap: &mut Heap, arguments: &[LuaValue]) -> Option<Option<LuaValue>> {
    let [LuaValue::Table(table), key] = arguments else { return None };
    Some(Some(heap.get(*table, *key)))
}

fn byte(heap: &mut Heap, arguments: &[LuaValue]) -> Option<Option<LuaValue>> {
    let (string, at) = match arguments {
        [LuaValue::String(string)] => (*string, 1.0),
        [LuaValue::String(string), LuaValue::Number(at)] => (*string, *at),
        _ => return None,
    };
    let bytes = heap.bytes(string);
    let at = position(to_integer(at), bytes.len());
    number(f64::from(*bytes.get(usize::try_from(at).ok()?.checked_sub(1)?)?))
}

fn char_(heap: &mut Heap, arguments: &[LuaValue]) -> Option<Option<LuaValue>> {
    let [LuaValue::Number(code)] = arguments else { return None };
    let byte = *code as u8;
    if f64::from(byte) == *code { text(heap, &[byte]) } else { None }
}

fn len(heap: &mut Heap, arguments: &[LuaValue]) -> Option<Option<LuaValue>> {
    let [LuaValue::String(string)] = arguments else { return None };
    number(heap.bytes(*string).len() as f64)
}

fn changed(heap: &mut Heap, arguments: &[LuaValue], change: fn(&mut [u8])) -> Option<Option<LuaValue>> {
    let [LuaValue::String(string)] = arguments else { return None };
    copied(heap, |heap| Some(heap.bytes(*string)), change)
}

fn sub(heap: &mut Heap, arguments: &[LuaValue]) -> Option<Option<LuaValue>> {
    let (string, first, last) = match arguments {
        [LuaValue::String(string), LuaValue::Number(first)] => (*string, *first, -1.0),
        [LuaValue::String(string), LuaValue::Number(first), LuaValue::Number(last)] => (*string, *first, *last),
        _ => return None,
    };
    let length = heap.bytes(string).len();
    let first = usize::try_from(position(to_integer(first), length)).ok()?.max(1);
    let last = usize::try_from(position(to_integer(last), length)).ok()?.min(length);
    if first == 1 && last == length {
        return Some(Some(LuaValue::String(string)));
    }
    copied(heap, |heap| Some(heap.bytes(string).get(first - 1..last).unwrap_or_default()), |_| ())
}

/// A string of some bytes of the heap, changed.
fn copied(heap: &mut Heap, of: impl Fn(&Heap) -> Option<&[u8]>, change: fn(&mut [u8])) -> Option<Option<LuaValue>> {
    let mut copy = [0; TEXT_MAX];
    let bytes = of(heap)?;
    let copy = copy.get_mut(..bytes.len())?;
    copy.copy_from_slice(bytes);
    change(copy);
    text(heap, copy)
}

/// `table.insert(list, value)` where the list has room and no metatable.
fn insert(heap: &mut Heap, arguments: &[LuaValue]) -> Option<Option<LuaValue>> {
    let [LuaValue::Table(table), value] = arguments else { return None };
    let key = LuaValue::Number((heap.table(*table).length() + 1) as f64);
    heap.replace_or_append(*table, key, *value).then_some(None)
}

fn one(arguments: &[LuaValue], function: fn(f64) -> f64) -> Option<Option<LuaValue>> {
    let [LuaValue::Number(x)] = arguments else { return None };
    number(function(*x))
}

fn two(arguments: &[LuaValue], function: fn(f64, f64) -> f64) -> Option<Option<LuaValue>> {
    let [LuaValue::Number(x), LuaValue::Number(y)] = arguments else { return None };
    number(function(*x, *y))
}
