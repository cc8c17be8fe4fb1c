//! What a script touches, decided once from its code: scripts whose keys are known before they run are planned as transactions
//! are, and run beside others.

use almandine_lua::{CallArgument, CallSite, Calls, Rest, Unseen};
use almandine_script::{Footprint, Program};

use crate::command::Handler;
use crate::flags::Flags;
use crate::table::{Dispatch, Table};

/// Commands of which the keys do not follow from their arguments alone.
const ANY: Flags = Flags::ANY_KEY.with(Flags::SELECTS).with(Flags::OTHER_DATABASE).with(Flags::CONTAINER);

/// What a script touches.
#[must_use]
pub fn of<'p>(program: &'p Program, table: &Table) -> &'p Footprint {
    program.footprint().get_or_init(|| classify(program, table).unwrap_or_else(Footprint::Any))
}

fn classify(program: &Program, table: &Table) -> Result<Footprint, Unseen> {
    let Calls { sites, repeats, nests, endless } = program.calls()?;
    let (mut keys, mut constants, mut built) = (false, Vec::new(), Vec::new());
    let (mut writes, mut leaves, mut grows) = (false, false, None);
    let mut reads_once = sites.len() == 1 && !repeats && endless.is_none();
    for site in &sites {
        let unseen = |what| Unseen { line: site.line, what };
        let Some(dispatch) = dispatch_of(site, table).map_err(unseen)? else {
            reads_once = false;
            continue;
        };
        keys |= site.rest == Rest::Keys;
        writes |= matches!(dispatch.run, Handler::Write(_));
        leaves |= dispatch.flags.any(Flags::MAY_WRITE);
        reads_once &= matches!(dispatch.run, Handler::Read(_)) && dispatch.key != 0 && dispatch.flags.any(Flags::FAST);
        let further = unseen("a key that is neither of KEYS nor written there");
        let Some(arguments) = keys_of(site, dispatch) else {
            grows = grows.or(Some(further));
            continue;
        };
        for argument in arguments {
            match argument {
                CallArgument::Key => keys = true,
                CallArgument::Constant(bytes) => constants.push(bytes.clone()),
                CallArgument::Built(parts) => built.push(parts.clone()),
                CallArgument::Unknown => grows = grows.or(Some(further)),
            }
        }
    }
    leaves |= writes;
    // What runs for long is run again alone, if nothing of it was seen.
    if let Some(line) = endless.filter(|_| leaves) {
        return Err(Unseen { line, what: "a loop or a recursion that may have no end, in a script that writes" });
    }
    constants.sort_unstable();
    constants.dedup();
    built.dedup();
    Ok(Footprint::Declared {
        keys,
        constants,
        built,
        writes,
        reads_once: reads_once && grows.is_none(),
        leaves,
        nests,
        endless: endless.is_some(),
        grows,
    })
}

/// The command of a call; `None` for one that fails whatever it is given.
fn dispatch_of<'t>(site: &CallSite, table: &'t Table) -> Result<Option<&'t Dispatch>, &'static str> {
    let Some(CallArgument::Constant(name)) = site.arguments.first() else { return Err("a command that is not written there") };
    let Some(dispatch) = table.lookup(name) else { return Ok(None) };
    if dispatch.flags.any(ANY) {
        return Err("a command whose keys do not follow from its arguments");
    }
    Ok((!dispatch.flags.any(Flags::NO_SCRIPT)).then_some(dispatch))
}

/// The arguments of a call, as far as it names them, that are keys, or may be; nothing when that is not known.
fn keys_of<'s>(site: &'s CallSite, dispatch: &Dispatch) -> Option<&'s [CallArgument]> {
    if dispatch.flags.any(Flags::MANY_KEYS) {
        // Which ones are keys may follow from the others.
        let is_known = site.rest != Rest::Anything && !site.arguments.contains(&CallArgument::Unknown);
        return is_known.then(|| &site.arguments[1..]);
    }
    match usize::from(dispatch.key) {
        0 => Some(&[]),
        key if key < site.arguments.len() => Some(&site.arguments[key..=key]),
        // It fails for want of arguments, or one of KEYS follows.
        _ => (site.rest != Rest::Anything).then_some(&[]),
    }
}
