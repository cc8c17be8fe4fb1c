//! What a script touches, decided once from its code: scripts whose keys are known before they run are planned as transactions
//! are, and run beside others.

use almandine_handler::{Dispatch, Flags, Handler, Table};
use almandine_lua::{CallArgument, CallSite};
use almandine_script::{Footprint, Script};

/// Commands of which the keys do not follow from their arguments alone.
const ANY: Flags = Flags::ANY_KEY.with(Flags::SELECTS).with(Flags::OTHER_DATABASE).with(Flags::CONTAINER);

/// What a script touches.
pub(crate) fn of<'s>(script: &'s Script, table: &Table) -> &'s Footprint {
    script.footprint.get_or_init(|| classify(script, table).unwrap_or(Footprint::Any))
}

fn classify(script: &Script, table: &Table) -> Option<Footprint> {
    let (mut keys, mut constants, mut writes) = (false, Vec::new(), false);
    for site in script.proto.calls()? {
        let Some(dispatch) = dispatch_of(&site, table)? else { continue };
        writes |= matches!(dispatch.run, Handler::Write(_));
        for argument in keys_of(&site, dispatch)? {
            match argument {
                CallArgument::Key => keys = true,
                CallArgument::Constant(bytes) => constants.push(bytes.clone()),
                CallArgument::Unknown => return None,
            }
        }
    }
    constants.sort_unstable();
    constants.dedup();
    Some(Footprint::Declared { keys, constants, writes })
}

/// The command of a call; an inner `None` for one that fails whatever it is given.
#[expect(clippy::option_option, reason = "the outer one ends the search, as everywhere here")]
fn dispatch_of<'t>(site: &CallSite, table: &'t Table) -> Option<Option<&'t Dispatch>> {
    let Some(CallArgument::Constant(name)) = site.arguments.first() else { return None };
    let Some(dispatch) = table.lookup(name) else { return Some(None) };
    if dispatch.flags.any(ANY) {
        return None;
    }
    Some((!dispatch.flags.any(Flags::NO_SCRIPT)).then_some(dispatch))
}

/// The arguments of a call that are keys, or may be.
fn keys_of<'s>(site: &'s CallSite, dispatch: &Dispatch) -> Option<&'s [CallArgument]> {
    if dispatch.flags.any(Flags::MANY_KEYS) {
        // Which ones are keys may follow from the others.
        let is_known = !site.is_open && !site.arguments.contains(&CallArgument::Unknown);
        return is_known.then(|| &site.arguments[1..]);
    }
    match usize::from(dispatch.key) {
        0 => Some(&[]),
        key if key < site.arguments.len() => Some(&site.arguments[key..=key]),
        // It fails for want of arguments, if no others follow.
        _ => (!site.is_open).then_some(&[]),
    }
}

#[cfg(test)]
mod tests {
    use almandine_script::Scripts;

    use super::*;

    fn footprint(text: &str) -> Footprint {
        let families = [almandine_commands::COMMANDS, almandine_admin::COMMANDS].concat();
        let table = Table::new(&families, &[], &[]).unwrap();
        of(&Scripts::default().evaluate(text.as_bytes()).unwrap(), table).clone()
    }

    fn declared(keys: bool, constants: &[&str], writes: bool) -> Footprint {
        Footprint::Declared { keys, constants: constants.iter().map(|key| key.as_bytes().into()).collect(), writes }
    }

    #[test]
    fn keys_that_are_declared_are_planned() {
        let lock = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
        for (text, expected) in [
            ("return 1", declared(false, &[], false)),
            ("return redis.call('PING')", declared(false, &[], false)),
            ("return redis.call('GET', KEYS[1])", declared(true, &[], false)),
            ("return redis.call('GET', 'a') .. redis.call('GET', 'b')", declared(false, &["a", "b"], false)),
            ("return redis.call('SET', KEYS[1], ARGV[1], unpack(ARGV))", declared(true, &[], true)),
            (lock, declared(true, &[], true)),
            ("return redis.call('NOSUCH', ARGV[1])", declared(false, &[], false)),
            ("return redis.call('RENAME', KEYS[1], KEYS[2])", declared(true, &[], true)),
        ] {
            assert_eq!(footprint(text), expected, "{text}");
        }
    }

    #[test]
    fn others_may_touch_anything() {
        for text in [
            "return redis.call('GET', ARGV[1])",
            "return redis.call('GET', KEYS[1] .. 'x')",
            "return redis.call(ARGV[1], KEYS[1])",
            "return redis.call('KEYS', '*')",
            "redis.call('SELECT', 1) return redis.call('GET', KEYS[1])",
            "return redis.call('COPY', KEYS[1], KEYS[2], 'DB', 1)",
            "return redis.call('MSET', KEYS[1], 1, unpack(ARGV))",
            "return redis.call('MSET', KEYS[1], ARGV[1])",
            "return redis.call('FLUSHALL')",
            "return redis.call('SORT', KEYS[1], 'BY', 'w_*')",
            "return redis.call('RANDOMKEY')",
            "return redis.call('OBJECT', 'ENCODING', ARGV[1])",
        ] {
            assert_eq!(footprint(text), Footprint::Any, "{text}");
        }
    }
}
