//! INCREX: a counter with bounds and an expiry, in one step.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Group};
use almandine_datatypes::number::Extended;
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, WriteCall, errors, number};
use almandine_keyspace::{Put, Value};
use almandine_resp::ProtocolVersion;

use super::counter::{INCR, float, sum_text};
use crate::expiry::{EXPIRY_OR_PERSIST, Expiry, ExpiryChange, only_expiry};
use crate::traits::WRITE;
use crate::value::string;

pub(super) const INCREX: Command = Command {
    spec: CommandSpec {
        name: "INCREX",
        id: 19,
        since: "8.8.0",
        summary: "Increments the numeric value of a key by a number and sets its expiration time. Uses 0 as initial value if \
                  the key doesn't exist.",
        group: Group::String,
        args: &[
            Arg::key("key", Access::ReadUpdate),
            Arg::one_of("increment", &[Arg::double("float").token("BYFLOAT"), Arg::integer("integer").token("BYINT")]).optional(),
            Arg::value("lowerbound").token("LBOUND").optional(),
            Arg::value("upperbound").token("UBOUND").optional(),
            Arg::pure_token("saturate", "SATURATE").optional(),
            EXPIRY_OR_PERSIST,
            Arg::pure_token("enx", "ENX").optional(),
        ],
        traits: WRITE,
        ..INCR.spec
    },
    run: Handler::Write(increx),
};

#[derive(Clone, Copy)]
enum By<'c> {
    Integer(&'c [u8]),
    Float(&'c [u8]),
}

#[derive(Default)]
struct IncrexOptions<'c> {
    by: Option<By<'c>>,
    lower: Option<&'c [u8]>,
    upper: Option<&'c [u8]>,
    saturate: bool,
    expiry: ExpiryChange<'c>,
    /// ENX: only when the key has no expiry.
    only_first_expiry: bool,
}

fn increx_options<'c>(call: &WriteCall<'c>) -> Result<IncrexOptions<'c>, CommandError> {
    let mut increx = IncrexOptions::default();
    let mut options = Options::after(call.args, 2);
    while let Some(option) = options.next() {
        match option {
            o if o.is("BYINT") && increx.by.is_none() => increx.by = Some(By::Integer(options.value()?)),
            o if o.is("BYFLOAT") && increx.by.is_none() => increx.by = Some(By::Float(options.value()?)),
            o if o.is("LBOUND") => increx.lower = Some(options.value()?),
            o if o.is("UBOUND") => increx.upper = Some(options.value()?),
            o if o.is("SATURATE") => increx.saturate = true,
            o if o.is("ENX") => increx.only_first_expiry = true,
            o if o.is("PERSIST") && matches!(increx.expiry, ExpiryChange::Unstated) => increx.expiry = ExpiryChange::Persist,
            o => match Expiry::option(o, &mut options)? {
                Some(expiry) => increx.expiry = only_expiry(increx.expiry, expiry)?,
                None => return Err(CommandError::Syntax),
            },
        }
    }
    let has_expiry = matches!(increx.expiry, ExpiryChange::Set(_));
    if increx.only_first_expiry && !has_expiry { Err(CommandError::Syntax) } else { Ok(increx) }
}

/// What became of the number, as texts: its value now, and by how much it changed.
struct Step {
    value: Vec<u8>,
    change: Vec<u8>,
    /// Whether anything is stored: not when the result was out of bounds.
    accepted: bool,
}

fn increx(call: &mut WriteCall<'_>) -> Outcome {
    let options = increx_options(call)?;
    let expiry_ms = match &options.expiry {
        ExpiryChange::Set(expiry) => Some(expiry.at_ms(call.now_ms(), "increx")?),
        _ => None,
    };
    let key = call.key(1);
    let old = call.keys.read(key)?;
    let old = string(old.as_ref())?;
    let kept_ms = old.and_then(Value::expiry_ms);
    let current: &[u8] = old.map_or(b"0", |old| old);
    let is_float = matches!(options.by, Some(By::Float(_)));
    let step = match options.by {
        Some(By::Float(by)) => step_float(current, by, &options)?,
        Some(By::Integer(by)) => step_integer(current, number::integer(by)?, &options)?,
        None => step_integer(current, 1, &options)?,
    };
    if step.accepted {
        let (expiry_ms, then) = match options.expiry {
            ExpiryChange::Set(_) if !(options.only_first_expiry && kept_ms.is_some()) => (expiry_ms, Some("expire")),
            ExpiryChange::Persist => (None, kept_ms.map(|_| "persist")),
            _ => (kept_ms, None),
        };
        let is_past = expiry_ms.is_some_and(|at| at <= call.now_ms());
        if is_past {
            call.keys.delete(key)?;
        } else {
            call.keys.upsert(key, &step.value, Put { expiry_ms, ..Put::default() })?;
        }
        call.event(Classes::STRING, if is_float { "incrbyfloat" } else { "incrby" }, key);
        if let Some(then) = then {
            call.event(Classes::GENERIC, if is_past { "del" } else { then }, key);
        }
    }
    call.reply.array(2);
    let resp3 = call.reply.version() == ProtocolVersion::Resp3;
    for text in [&step.value, &step.change] {
        match (is_float, resp3) {
            (true, true) => call.reply.double(number::double(text)?),
            (true, false) => call.reply.bulk(text),
            (false, _) => call.reply.integer(number::integer(text)?),
        }
    }
    Ok(())
}

fn step_integer(current: &[u8], by: i64, options: &IncrexOptions<'_>) -> Result<Step, CommandError> {
    let current = i128::from(number::integer(current)?);
    let lower = options.lower.map_or(Ok(i64::MIN), number::integer)?;
    let upper = options.upper.map_or(Ok(i64::MAX), number::integer)?;
    if lower > upper {
        return Err(errors::string::BOUNDS_CROSSED);
    }
    let sum = current + i128::from(by);
    let bounded = sum.clamp(i128::from(lower), i128::from(upper));
    let accepted = sum == bounded || options.saturate;
    let value = if accepted { bounded } else { current };
    // Only bounds far away from the current value make the change exceed 64 bits.
    let change = (value - current).clamp(i128::from(i64::MIN), i128::from(i64::MAX));
    Ok(Step { value: value.to_string().into_bytes(), change: change.to_string().into_bytes(), accepted })
}

fn step_float(current: &[u8], by: &[u8], options: &IncrexOptions<'_>) -> Result<Step, CommandError> {
    let (lower, upper) = (options.lower.map(number::double).transpose()?, options.upper.map(number::double).transpose()?);
    if let (Some(lower), Some(upper)) = (lower, upper)
        && lower > upper
    {
        return Err(errors::string::BOUNDS_CROSSED);
    }
    let sum = sum_text(current, by)?;
    let value = number::double(&sum)?;
    let bound = if lower.is_some_and(|lower| value < lower) {
        options.lower
    } else if upper.is_some_and(|upper| value > upper) {
        options.upper
    } else {
        None
    };
    match bound {
        None => Ok(Step { value: sum, change: sum_text(b"0", by)?, accepted: true }),
        Some(_) if !options.saturate => Ok(Step { value: sum_text(current, b"0")?, change: b"0".to_vec(), accepted: false }),
        Some(bound) => {
            let change = float(bound)?.checked_add(negated(current)?).ok_or(CommandError::IncrementNotFinite)?;
            let mut text = Vec::new();
            change.write(&mut text);
            Ok(Step { value: sum_text(b"0", bound)?, change: text, accepted: true })
        }
    }
}

fn negated(text: &[u8]) -> Result<Extended, CommandError> {
    match text {
        [b'-', positive @ ..] => float(positive),
        [b'+', positive @ ..] => float(&[b"-", positive].concat()),
        positive => float(&[b"-", positive].concat()),
    }
}
