//! `string.format`

use crate::heap::gathered::Gathered;
use crate::number;
use crate::value::LuaValue;
use crate::vm::context::{Context, Stepped, to_integer, to_unsigned};
use crate::vm::error::error;
use crate::vm::state::Fault;

/// A conversion between `%` and its letter.
#[derive(Clone, Copy, Debug, Default)]
struct Directive {
    left: bool,
    plus: bool,
    blank: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
}

pub(super) fn format(context: &mut Context<'_>) -> Stepped {
    context.string(0)?;
    let template = context.bytes(0).to_vec();
    let (mut out, mut at, mut argument) = (Gathered::default(), 0, 0);
    while let Some(byte) = template.get(at).copied() {
        at += 1;
        if byte != b'%' {
            out.push(&context.state.heap.memory, byte)?;
            continue;
        }
        if template.get(at) == Some(&b'%') {
            out.push(&context.state.heap.memory, b'%')?;
            at += 1;
            continue;
        }
        argument += 1;
        if argument >= context.count {
            return Err(context.argument_error(argument, "no value"));
        }
        let directive = directive(context, &template, &mut at)?;
        let letter = template.get(at).copied();
        at += 1;
        convert(context, &mut out, directive, letter, argument)?;
    }
    context.return_owned(out.into_bytes())
}

fn directive(context: &mut Context<'_>, template: &[u8], at: &mut usize) -> Result<Directive, Fault> {
    let mut directive = Directive::default();
    let start = *at;
    while let Some(flag) = template.get(*at).copied() {
        match flag {
            b'-' => directive.left = true,
            b'+' => directive.plus = true,
            b' ' => directive.blank = true,
            b'#' => directive.alternate = true,
            b'0' => directive.zero = true,
            _ => break,
        }
        *at += 1;
    }
    if *at - start >= 6 {
        return Err(context.error("invalid format (repeated flags)"));
    }
    let digits = |at: &mut usize| {
        let (mut value, mut count) = (0, 0);
        while let Some(digit @ b'0'..=b'9') = template.get(*at).copied() {
            if count == 2 {
                break;
            }
            value = value * 10 + usize::from(digit - b'0');
            count += 1;
            *at += 1;
        }
        value
    };
    directive.width = digits(at);
    if template.get(*at) == Some(&b'.') {
        *at += 1;
        directive.precision = Some(digits(at));
    }
    if template.get(*at).is_some_and(u8::is_ascii_digit) {
        return Err(context.error("invalid format (width or precision too long)"));
    }
    Ok(directive)
}

fn convert(
    context: &mut Context<'_>,
    out: &mut Gathered,
    directive: Directive,
    letter: Option<u8>,
    argument: usize,
) -> Result<(), Fault> {
    match letter {
        Some(b'c') => {
            let number = context.number(argument)?;
            // An `int` of C, and what is behind a zero byte is lost.
            let fits = number > -2_147_483_649.0 && number < 2_147_483_648.0;
            let byte = if fits { number as i32 as u8 } else { 0 };
            let out = out.short(&context.state.heap.memory)?;
            if byte != 0 {
                pad(out, directive, &[byte], false);
            } else if !directive.left {
                pad(out, Directive { width: directive.width.saturating_sub(1), ..directive }, b"", false);
            }
        }
        Some(b'd' | b'i') => {
            let value = to_integer(context.number(argument)?);
            integer(out.short(&context.state.heap.memory)?, directive, value < 0, &value.unsigned_abs().to_string());
        }
        Some(letter @ (b'u' | b'o' | b'x' | b'X')) => {
            let value = context.number(argument)?;
            let value = if value < 0.0 { to_integer(value) as u64 } else { to_unsigned(value) };
            unsigned(out.short(&context.state.heap.memory)?, directive, letter, value);
        }
        Some(letter @ (b'e' | b'E' | b'f' | b'g' | b'G')) => {
            let value = context.number(argument)?;
            float(out.short(&context.state.heap.memory)?, directive, letter, value);
        }
        Some(b'q') => quote(context, out, argument)?,
        Some(b's') => {
            context.string(argument)?;
            let bytes = context.bytes(argument);
            let whole = directive.precision.is_none() && bytes.len() >= 100;
            let text = if whole { bytes } else { &bytes[..bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len())] };
            let cut = directive.precision.unwrap_or(usize::MAX).min(text.len());
            if whole {
                out.append(&context.state.heap.memory, text)?;
            } else {
                pad(out.short(&context.state.heap.memory)?, Directive { zero: false, ..directive }, &text[..cut], false);
            }
        }
        other => {
            let letter = other.filter(|letter| *letter != 0);
            let text = [b"invalid option '%", letter.as_slice(), b"' to 'format'"].concat();
            return Err(error(context, &text));
        }
    }
    Ok(())
}

/// Brings a text to the width; zeros go behind a sign.
fn pad(out: &mut Vec<u8>, directive: Directive, text: &[u8], is_number: bool) {
    let missing = directive.width.saturating_sub(text.len());
    if directive.left {
        out.extend_from_slice(text);
        out.resize(out.len() + missing, b' ');
    } else if directive.zero && is_number {
        let sign = usize::from(matches!(text.first(), Some(b'+' | b'-' | b' ')));
        let prefix = if text[sign..].starts_with(b"0x") || text[sign..].starts_with(b"0X") { sign + 2 } else { sign };
        out.extend_from_slice(&text[..prefix]);
        out.resize(out.len() + missing, b'0');
        out.extend_from_slice(&text[prefix..]);
    } else {
        out.resize(out.len() + missing, b' ');
        out.extend_from_slice(text);
    }
}

fn sign(directive: Directive, negative: bool) -> &'static str {
    match (negative, directive.plus, directive.blank) {
        (true, _, _) => "-",
        (false, true, _) => "+",
        (false, false, true) => " ",
        _ => "",
    }
}

fn integer(out: &mut Vec<u8>, directive: Directive, negative: bool, digits: &str) {
    let digits = if directive.precision == Some(0) && digits == "0" { "" } else { digits };
    let text = format!("{}{digits:0>1$}", sign(directive, negative), directive.precision.unwrap_or(0));
    // A precision switches zeros off.
    pad(out, Directive { zero: directive.zero && directive.precision.is_none(), ..directive }, text.as_bytes(), true);
}

fn unsigned(out: &mut Vec<u8>, directive: Directive, letter: u8, value: u64) {
    let digits = match letter {
        b'o' => format!("{value:o}"),
        b'x' => format!("{value:x}"),
        b'X' => format!("{value:X}"),
        _ => value.to_string(),
    };
    let digits = if directive.precision == Some(0) && value == 0 { String::new() } else { digits };
    let mut digits = format!("{digits:0>0$}", directive.precision.unwrap_or(0));
    match letter {
        b'o' if directive.alternate && !digits.starts_with('0') => digits.insert(0, '0'),
        b'x' if directive.alternate && value != 0 => digits.insert_str(0, "0x"),
        b'X' if directive.alternate && value != 0 => digits.insert_str(0, "0X"),
        _ => {}
    }
    pad(out, Directive { zero: directive.zero && directive.precision.is_none(), ..directive }, digits.as_bytes(), true);
}

fn float(out: &mut Vec<u8>, directive: Directive, letter: u8, value: f64) {
    let precision = directive.precision.unwrap_or(6);
    let magnitude = value.abs();
    let text = match letter {
        b'e' | b'E' => number::exponential(magnitude, precision, directive.alternate),
        b'f' => number::fixed(magnitude, precision, directive.alternate),
        _ => number::general(magnitude, precision, directive.alternate),
    };
    let text = format!("{}{text}", sign(directive, value.is_sign_negative()));
    let text = if letter.is_ascii_uppercase() { text.to_ascii_uppercase() } else { text };
    pad(out, Directive { zero: directive.zero && value.is_finite(), ..directive }, text.as_bytes(), true);
}

fn quote(context: &mut Context<'_>, out: &mut Gathered, argument: usize) -> Result<(), Fault> {
    context.string(argument)?;
    let LuaValue::String(string) = context.get(argument) else { return Ok(()) };
    let heap = &context.state.heap;
    let (bytes, memory) = (heap.bytes(string), &heap.memory);
    out.reserve(memory, bytes.len() + 2)?;
    out.push(memory, b'"')?;
    for byte in bytes {
        match byte {
            b'"' | b'\\' | b'\n' => out.append(memory, &[b'\\', *byte])?,
            b'\r' => out.append(memory, b"\\r")?,
            0 => out.append(memory, b"\\000")?,
            _ => out.push(memory, *byte)?,
        }
    }
    Ok(out.push(memory, b'"')?)
}
