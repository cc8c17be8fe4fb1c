//! Replies into values of Lua.

use almandine_lua::{HostCall, LuaValue};

/// Reads the reply that `bytes` begin with, and leaves what is behind it. It was written by a handler, so it is well formed; what
/// is not becomes nil.
pub(crate) fn value(call: &mut HostCall<'_>, bytes: &mut &[u8]) -> LuaValue {
    // What most replies are, in one go over its line.
    if let [b'$', ..] = **bytes {
        return match usize::try_from(next_integer(bytes)) {
            Ok(length) => call.late_string(take(bytes, length)),
            Err(_) => LuaValue::Boolean(false),
        };
    }
    if let [b':', ..] = **bytes {
        return LuaValue::Number(next_integer(bytes) as f64);
    }
    let (lead, line) = next_line(bytes);
    match lead {
        b'*' | b'>' => match length(line) {
            Some(length) => array(call, bytes, length),
            None => LuaValue::Boolean(false),
        },
        b'+' => {
            let line = call.string(line);
            one_field(call, "ok", line)
        }
        b'-' => error(call, line, true),
        b'#' => LuaValue::Boolean(line == b"t"),
        b',' => {
            let number = std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN);
            one_field(call, "double", LuaValue::Number(number))
        }
        b'(' => {
            let digits = call.string(line);
            one_field(call, "big_number", digits)
        }
        b'=' => verbatim(call, take(bytes, length(line).unwrap_or(0))),
        b'%' => {
            let pairs = map(call, bytes, length(line).unwrap_or(0));
            one_field(call, "map", pairs)
        }
        b'~' => {
            let members = set(call, bytes, length(line).unwrap_or(0));
            one_field(call, "set", members)
        }
        b'|' => {
            for _ in 0..2 * length(line).unwrap_or(0) {
                value(call, bytes);
            }
            value(call, bytes)
        }
        _ => LuaValue::Nil,
    }
}

/// The table of an error: its code and its text. `counted`: the error is part of the statistics already.
pub(crate) fn error(call: &mut HostCall<'_>, line: &[u8], counted: bool) -> LuaValue {
    let table = call.table(0, 2);
    let (key, text) = (call.string(b"err"), call.string(line));
    call.raw_set(table, key, text);
    if counted {
        let key = call.string(IS_COUNTED.as_bytes());
        call.raw_set(table, key, LuaValue::Boolean(true));
    }
    LuaValue::Table(table)
}

/// The field of an error that is part of the statistics.
pub(crate) const IS_COUNTED: &str = "ignore_error_stats_update";

fn one_field(call: &mut HostCall<'_>, name: &str, value: LuaValue) -> LuaValue {
    let table = call.table(0, 1);
    let key = call.string(name.as_bytes());
    call.raw_set(table, key, value);
    LuaValue::Table(table)
}

fn array(call: &mut HostCall<'_>, bytes: &mut &[u8], length: usize) -> LuaValue {
    let table = call.table(length, 0);
    for index in 1..=length {
        let element = value(call, bytes);
        call.raw_set(table, LuaValue::Number(index as f64), element);
    }
    LuaValue::Table(table)
}

fn map(call: &mut HostCall<'_>, bytes: &mut &[u8], pairs: usize) -> LuaValue {
    let table = call.table(0, pairs);
    for _ in 0..pairs {
        let key = value(call, bytes);
        let value = value(call, bytes);
        call.raw_set(table, key, value);
    }
    LuaValue::Table(table)
}

fn set(call: &mut HostCall<'_>, bytes: &mut &[u8], length: usize) -> LuaValue {
    let table = call.table(0, length);
    for _ in 0..length {
        let member = value(call, bytes);
        call.raw_set(table, member, LuaValue::Boolean(true));
    }
    LuaValue::Table(table)
}

/// Three bytes of a format, a colon, and the text.
fn verbatim(call: &mut HostCall<'_>, text: &[u8]) -> LuaValue {
    let (format, text) = text.split_at_checked(4).unwrap_or((b"txt:", text));
    let table = call.table(0, 2);
    let fields = [("string", text), ("format", &format[..3])];
    for (name, text) in fields {
        let (key, text) = (call.string(name.as_bytes()), call.string(text));
        call.raw_set(table, key, text);
    }
    one_field(call, "verbatim_string", LuaValue::Table(table))
}

fn next_line<'b>(bytes: &mut &'b [u8]) -> (u8, &'b [u8]) {
    let Some((lead, rest)) = bytes.split_first() else { return (0, b"") };
    let end = rest.iter().position(|byte| *byte == b'\r').unwrap_or(rest.len());
    *bytes = rest.get(end + 2..).unwrap_or_default();
    (*lead, &rest[..end])
}

/// The integer of the next line, behind its first byte.
fn next_integer(bytes: &mut &[u8]) -> i64 {
    let (negative, mut rest) = match &bytes[1..] {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut number = 0_i64;
    while let [digit @ b'0'..=b'9', others @ ..] = rest {
        number = number.wrapping_mul(10).wrapping_add(i64::from(digit - b'0'));
        rest = others;
    }
    *bytes = rest.get(2..).unwrap_or_default();
    if negative { number.wrapping_neg() } else { number }
}

/// The next `length` bytes, without the end of line behind them.
fn take<'b>(bytes: &mut &'b [u8], length: usize) -> &'b [u8] {
    let length = length.min(bytes.len());
    let text = &bytes[..length];
    *bytes = bytes.get(length + 2..).unwrap_or_default();
    text
}

fn integer(line: &[u8]) -> i64 {
    let (negative, digits) = line.strip_prefix(b"-").map_or((false, line), |digits| (true, digits));
    let number =
        digits.iter().fold(0_i64, |number, digit| number.wrapping_mul(10).wrapping_add(i64::from(digit.wrapping_sub(b'0'))));
    if negative { number.wrapping_neg() } else { number }
}

/// A length; nothing for a value that is missing.
fn length(line: &[u8]) -> Option<usize> {
    usize::try_from(integer(line)).ok()
}
