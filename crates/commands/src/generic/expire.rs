//! Expiries: setting, removing and asking for the time at which a key ceases to exist.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, ReadCall, WriteCall, errors, number};
use almandine_keyspace::Slot;

use crate::traits::{CHANGE_BY_ONE_VERB, READ};

use crate::expiry::{Condition, Unit};

const CONDITION: Arg = Arg::one_of(
    "condition",
    &[Arg::pure_token("nx", "NX"), Arg::pure_token("xx", "XX"), Arg::pure_token("gt", "GT"), Arg::pure_token("lt", "LT")],
)
.optional()
.since("7.0.0");

const CONDITION_HISTORY: &[(&str, &str)] = &[("7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`.")];

pub(super) const EXPIRE: Command = Command {
    spec: CommandSpec {
        name: "EXPIRE",
        id: 205,
        summary: "Sets the expiration time of a key in seconds.",
        args: &[Arg::key("key", Access::Update), Arg::integer("seconds"), CONDITION],
        traits: CHANGE_BY_ONE_VERB,
        history: CONDITION_HISTORY,
        ..CommandSpec::BLANK
    },
    run: Handler::Write(|call| expire(call, Unit::Seconds, call.now_ms(), "expire")),
};

pub(super) const PEXPIRE: Command = Command {
    spec: CommandSpec {
        name: "PEXPIRE",
        id: 206,
        since: "2.6.0",
        summary: "Sets the expiration time of a key in milliseconds.",
        args: &[Arg::key("key", Access::Update), Arg::integer("milliseconds"), CONDITION],
        ..EXPIRE.spec
    },
    run: Handler::Write(|call| expire(call, Unit::Milliseconds, call.now_ms(), "pexpire")),
};

pub(super) const EXPIREAT: Command = Command {
    spec: CommandSpec {
        name: "EXPIREAT",
        id: 207,
        since: "1.2.0",
        summary: "Sets the expiration time of a key to a Unix timestamp.",
        args: &[Arg::key("key", Access::Update), Arg::unix_time("unix-time-seconds"), CONDITION],
        ..EXPIRE.spec
    },
    run: Handler::Write(|call| expire(call, Unit::Seconds, 0, "expireat")),
};

pub(super) const PEXPIREAT: Command = Command {
    spec: CommandSpec {
        name: "PEXPIREAT",
        id: 208,
        since: "2.6.0",
        summary: "Sets the expiration time of a key to a Unix milliseconds timestamp.",
        args: &[Arg::key("key", Access::Update), Arg::unix_time("unix-time-milliseconds"), CONDITION],
        ..EXPIRE.spec
    },
    run: Handler::Write(|call| expire(call, Unit::Milliseconds, 0, "pexpireat")),
};

fn condition(options: Options<'_>) -> Result<Condition, CommandError> {
    let mut condition = Condition::default();
    for option in options {
        if !condition.take(option) {
            return Err(errors::generic::unsupported_option(option.0));
        }
    }
    condition.check()?;
    Ok(condition)
}

/// The point in time `amount` after `base_ms`; it may have passed, even before 1970.
fn at_ms(amount: i64, unit: Unit, base_ms: i64) -> Option<i64> {
    let amount_ms = match unit {
        Unit::Seconds => amount.checked_mul(1000)?,
        Unit::Milliseconds => amount,
    };
    amount_ms.checked_add(base_ms)
}

fn expire(call: &mut WriteCall<'_>, unit: Unit, base_ms: i64, command: &str) -> Outcome {
    let condition = condition(Options::after(call.args, 3))?;
    let amount = number::integer(call.args.at(2))?;
    let expiry_ms = at_ms(amount, unit, base_ms).ok_or_else(|| errors::invalid_expiry(command))?;
    let (key, now_ms) = (call.key(1), call.now_ms());
    let done = match call.keys.modify(key)? {
        Slot::Occupied(mut occupied) if condition.holds(occupied.expiry_ms(), expiry_ms) => {
            if expiry_ms <= now_ms {
                occupied.remove();
            } else {
                occupied.set_expiry(Some(expiry_ms))?;
            }
            true
        }
        _ => false,
    };
    if done {
        call.event(Classes::GENERIC, if expiry_ms <= now_ms { "del" } else { "expire" }, key);
    }
    call.reply.integer(i64::from(done));
    Ok(())
}

pub(super) const PERSIST: Command = Command {
    spec: CommandSpec {
        name: "PERSIST",
        id: 209,
        since: "2.2.0",
        summary: "Removes the expiration time of a key.",
        args: &[Arg::key("key", Access::Update)],
        traits: CHANGE_BY_ONE_VERB,
        ..CommandSpec::BLANK
    },
    run: Handler::Write(persist),
};

fn persist(call: &mut WriteCall<'_>) -> Outcome {
    let key = call.key(1);
    let done = match call.keys.modify(key)? {
        Slot::Occupied(mut occupied) if occupied.expiry_ms().is_some() => {
            occupied.set_expiry(None)?;
            true
        }
        _ => false,
    };
    if done {
        call.event(Classes::GENERIC, "persist", key);
    }
    call.reply.integer(i64::from(done));
    Ok(())
}

pub(super) const TTL: Command = Command {
    spec: CommandSpec {
        name: "TTL",
        id: 210,
        summary: "Returns the expiration time in seconds of a key.",
        args: &[Arg::key("key", Access::Read)],
        traits: READ,
        tips: &["nondeterministic_output"],
        history: &[("2.8.0", "Added the -2 reply.")],
        ..CommandSpec::BLANK
    },
    run: Handler::Read(|call| answer(call, call.now_ms(), Unit::Seconds)),
};

pub(super) const PTTL: Command = Command {
    spec: CommandSpec {
        name: "PTTL",
        id: 211,
        since: "2.6.0",
        summary: "Returns the expiration time in milliseconds of a key.",
        ..TTL.spec
    },
    run: Handler::Read(|call| answer(call, call.now_ms(), Unit::Milliseconds)),
};

pub(super) const EXPIRETIME: Command = Command {
    spec: CommandSpec {
        name: "EXPIRETIME",
        id: 212,
        since: "7.0.0",
        summary: "Returns the expiration time of a key as a Unix timestamp.",
        args: &[Arg::key("key", Access::Read)],
        traits: READ,
        ..CommandSpec::BLANK
    },
    run: Handler::Read(|call| answer(call, 0, Unit::Seconds)),
};

pub(super) const PEXPIRETIME: Command = Command {
    spec: CommandSpec {
        name: "PEXPIRETIME",
        id: 213,
        summary: "Returns the expiration time of a key as a Unix milliseconds timestamp.",
        ..EXPIRETIME.spec
    },
    run: Handler::Read(|call| answer(call, 0, Unit::Milliseconds)),
};

/// Answers the expiry as time since `base_ms`, -1 without one, -2 without a key. Seconds are rounded to the nearest.
fn answer(call: &mut ReadCall<'_>, base_ms: i64, unit: Unit) -> Outcome {
    let key = call.key(1);
    let metadata = call.keys.metadata(key)?;
    call.looked_up(key, metadata.is_some());
    call.reply.integer(match metadata.map(|metadata| metadata.expiry_ms) {
        None => -2,
        Some(None) => -1,
        Some(Some(expiry_ms)) => {
            let left_ms = expiry_ms.saturating_sub(base_ms).max(0);
            match unit {
                Unit::Seconds => left_ms / 1000 + i64::from(left_ms % 1000 >= 500),
                Unit::Milliseconds => left_ms,
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_beyond_64_bits_are_none() {
        assert_eq!(at_ms(-1, Unit::Seconds, 500), Some(-500));
        assert_eq!(at_ms(i64::MAX / 1000, Unit::Seconds, 0), Some(i64::MAX / 1000 * 1000));
        assert_eq!(at_ms(i64::MAX / 1000 + 1, Unit::Seconds, 0), None);
        assert_eq!(at_ms(i64::MIN, Unit::Seconds, 0), None);
        assert_eq!(at_ms(i64::MAX, Unit::Milliseconds, 1), None);
        assert_eq!(at_ms(i64::MIN, Unit::Milliseconds, 1), Some(i64::MIN + 1));
    }
}
