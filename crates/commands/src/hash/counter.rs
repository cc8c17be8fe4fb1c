//! Fields that hold a number.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Traits};
use almandine_datatypes::number::{Extended, parse_i64};
use almandine_datatypes::packed::Due;
use almandine_handler::{Command, CommandError, Handler, Outcome, Stop, WriteCall, errors, number};

use super::access::{HASH, change};
use crate::traits::WRITE;

pub(super) const HINCRBY: Command = Command {
    spec: CommandSpec {
        name: "HINCRBY",
        id: 612,
        summary: "Increments the integer value of a field in a hash by a number. Uses 0 as initial value if the field doesn't \
                  exist.",
        args: &[Arg::key("key", Access::ReadUpdate), Arg::value("field"), Arg::integer("increment")],
        traits: Traits { element: true, ..WRITE },
        ..HASH
    },
    run: Handler::Write(hincrby),
};

fn hincrby(call: &mut WriteCall<'_>) -> Outcome {
    let (field, by) = (call.args.at(2), number::integer(call.args.at(3))?);
    let (mut sum, mut buffer) = (by, itoa::Buffer::new());
    let text = &mut buffer;
    let add = |value: Option<&[u8]>| {
        let digits = text;
        let value = value.map_or(Some(0), parse_i64).ok_or(errors::hash::NOT_INTEGER)?;
        sum = value.checked_add(by).ok_or(CommandError::IncrementOverflow)?;
        Ok::<_, Stop>(digits.format(sum).as_bytes())
    };
    let mut hash = change(call)?;
    hash.update(field, Due::Keep, add)?;
    hash.commit()?;
    let key = call.key(1);
    call.event_of(Classes::HASH, "hincrby", key, std::iter::once(field));
    call.reply.integer(sum);
    Ok(())
}

pub(super) const HINCRBYFLOAT: Command = Command {
    spec: CommandSpec {
        name: "HINCRBYFLOAT",
        id: 613,
        since: "2.6.0",
        summary: "Increments the floating point value of a field by a number. Uses 0 as initial value if the field doesn't exist.",
        args: &[Arg::key("key", Access::ReadUpdate), Arg::value("field"), Arg::double("increment")],
        traits: Traits { element: true, ..WRITE },
        ..HASH
    },
    run: Handler::Write(hincrbyfloat),
};

fn hincrbyfloat(call: &mut WriteCall<'_>) -> Outcome {
    let field = call.args.at(2);
    let by = Extended::parse(call.args.at(3)).ok_or(CommandError::NotFloat)?;
    if !by.is_finite() {
        return Err(errors::hash::NOT_FINITE.into());
    }
    let add = |value: Option<&[u8]>| {
        let value = value.map_or(Some(Extended::ZERO), Extended::parse).ok_or(errors::hash::NOT_FLOAT)?;
        let mut sum = Vec::new();
        value.checked_add(by).ok_or(CommandError::IncrementNotFinite)?.write(&mut sum);
        Ok::<_, Stop>(sum)
    };
    let mut hash = change(call)?;
    let (_, sum) = hash.update(field, Due::Keep, add)?;
    hash.commit()?;
    let key = call.key(1);
    call.event_of(Classes::HASH, "hincrbyfloat", key, std::iter::once(field));
    call.reply.bulk(&sum);
    Ok(())
}
