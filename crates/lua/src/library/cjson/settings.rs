//! Settings of `cjson`, and the functions that read and change them.

use crate::heap::objects::NativeFunction;
use crate::json::{InvalidNumbers, JsonSettings};
use crate::value::LuaValue;
use crate::vm::context::{Action, Context, Stepped};
use crate::vm::state::{Fault, State};

/// The settings of the function that runs: its library's own, or those of the run.
pub(super) fn of(context: &Context<'_>) -> JsonSettings {
    match context.value_of_function(0) {
        LuaValue::Native(holder) => JsonSettings::from_values(&context.state.heap.native(holder).values),
        _ => context.state.json,
    }
}

fn change(context: &mut Context<'_>, settings: JsonSettings) {
    match context.value_of_function(0) {
        LuaValue::Native(holder) => {
            context.state.heap.native_mut(holder).values.copy_from_slice(&settings.values());
        }
        _ => context.state.json = settings,
    }
}

/// An object that holds new settings; it is no function that a script gets hold of.
pub(super) fn store(state: &mut State) -> LuaValue {
    let holder = NativeFunction { function: u32::MAX, values: Box::new(JsonSettings::default().values()) };
    LuaValue::Native(state.heap.new_native(holder))
}

fn expect_at_most(context: &mut Context<'_>, arguments: usize) -> Result<(), Fault> {
    if context.count <= arguments { Ok(()) } else { Err(context.argument_error(arguments, "found too many arguments")) }
}

/// Changes an integer by an argument that is not nil, and returns what holds.
fn integer(context: &mut Context<'_>, index: usize, setting: &mut i32, least: i32, most: i32) -> Result<(), Fault> {
    if !context.get(index).is_nil() {
        let value = context.integer(index)? as i32;
        if !(least..=most).contains(&value) {
            return Err(context.argument_error(index, &format!("expected integer between {least} and {most}")));
        }
        *setting = value;
    }
    context.state.push(LuaValue::Number(f64::from(*setting)));
    Ok(())
}

/// The name of a choice, or a boolean for the first two, that is given by an argument; `None` when it is nil.
fn choice(context: &mut Context<'_>, index: usize, names: &[&str]) -> Result<Option<usize>, Fault> {
    match context.get(index) {
        LuaValue::Nil => return Ok(None),
        LuaValue::Boolean(value) => return Ok(Some(usize::from(value))),
        _ => context.string(index)?,
    }
    // As in C, a zero byte ends a name.
    let name = context.bytes(index).split(|byte| *byte == 0).next().unwrap_or_default();
    match names.iter().position(|known| known.as_bytes() == name) {
        Some(found) => Ok(Some(found)),
        None => {
            let message = [b"invalid option '", name, b"'"].concat();
            Err(context.argument_error_bytes(index, &message))
        }
    }
}

const OFF_ON: [&str; 2] = ["off", "on"];

fn boolean(context: &mut Context<'_>, index: usize, setting: &mut bool) -> Result<(), Fault> {
    if let Some(choice) = choice(context, index, &OFF_ON)? {
        *setting = choice == 1;
    }
    context.state.push(LuaValue::Boolean(*setting));
    Ok(())
}

pub(super) fn encode_sparse_array(context: &mut Context<'_>) -> Stepped {
    expect_at_most(context, 3)?;
    pad(context, 3);
    let mut settings = of(context);
    // What was accepted before a refused argument holds.
    boolean(context, 0, &mut settings.sparse_convert)?;
    change(context, settings);
    integer(context, 1, &mut settings.sparse_ratio, 0, i32::MAX)?;
    change(context, settings);
    integer(context, 2, &mut settings.sparse_safe, 0, i32::MAX)?;
    change(context, settings);
    Ok(Action::Return(3))
}

/// Missing arguments become nil.
fn pad(context: &mut Context<'_>, arguments: usize) {
    if context.count < arguments {
        context.set(arguments - 1, LuaValue::Nil);
    }
}

fn one_integer(context: &mut Context<'_>, field: fn(&mut JsonSettings) -> &mut i32, most: i32) -> Stepped {
    expect_at_most(context, 1)?;
    let mut settings = of(context);
    integer(context, 0, field(&mut settings), 1, most)?;
    change(context, settings);
    Ok(Action::Return(1))
}

pub(super) fn encode_max_depth(context: &mut Context<'_>) -> Stepped {
    one_integer(context, |settings| &mut settings.encode_max_depth, i32::MAX)
}

pub(super) fn decode_max_depth(context: &mut Context<'_>) -> Stepped {
    one_integer(context, |settings| &mut settings.decode_max_depth, i32::MAX)
}

pub(super) fn encode_number_precision(context: &mut Context<'_>) -> Stepped {
    one_integer(context, |settings| &mut settings.precision, 14)
}

fn one_boolean(context: &mut Context<'_>, field: fn(&mut JsonSettings) -> &mut bool) -> Stepped {
    expect_at_most(context, 1)?;
    let mut settings = of(context);
    boolean(context, 0, field(&mut settings))?;
    change(context, settings);
    Ok(Action::Return(1))
}

pub(super) fn encode_keep_buffer(context: &mut Context<'_>) -> Stepped {
    one_boolean(context, |settings| &mut settings.keep_buffer)
}

pub(super) fn decode_invalid_numbers(context: &mut Context<'_>) -> Stepped {
    one_boolean(context, |settings| &mut settings.decode_invalid_numbers)
}

pub(super) fn encode_invalid_numbers(context: &mut Context<'_>) -> Stepped {
    expect_at_most(context, 1)?;
    let mut settings = of(context);
    match choice(context, 0, &["off", "on", "null"])? {
        Some(0) => settings.encode_invalid_numbers = InvalidNumbers::Refused,
        Some(1) => settings.encode_invalid_numbers = InvalidNumbers::Written,
        Some(_) => settings.encode_invalid_numbers = InvalidNumbers::Null,
        None => {}
    }
    change(context, settings);
    match settings.encode_invalid_numbers {
        InvalidNumbers::Refused => context.return_one(LuaValue::Boolean(false)),
        InvalidNumbers::Written => context.return_one(LuaValue::Boolean(true)),
        InvalidNumbers::Null => context.return_bytes(b"null"),
    }
}
