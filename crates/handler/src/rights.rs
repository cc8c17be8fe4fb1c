//! Whether a user may run a command with these arguments.
//!
//! The rules are asked in the order in which Redis asks them: the database, the command, its keys, its channels. A call is
//! permitted when one selector permits all of it; else the denial that is told is the one that came furthest, and of those the
//! last one.

use almandine_acl::{Reason, Selector, User};
use almandine_base::step;
use almandine_command_spec::{Access as KeyAccess, Traits};
use almandine_datatypes::number::parse_i64;
use almandine_resp::Args;

use crate::access::Access;
use crate::flags::Flags;
use crate::table::{Dispatch, Row, Table};

/// What a user is denied, and by which argument; 0 is the command's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial {
    /// What it is.
    pub reason: Reason,
    /// The argument.
    pub at: usize,
}

/// Whether the client may run a command on its database `db`. The usual rules are asked directly: one selector, keys that may be
/// read and written.
#[inline]
#[must_use]
pub fn permits(access: &Access, table: &Table, dispatch: &Dispatch, args: Args<'_>, db: u16) -> bool {
    let root = &access.user().selectors()[0];
    let keys_permitted = || match dispatch.key {
        _ if root.has_all_keys() => true,
        0 => !dispatch.flags.any(Flags::MANY_KEYS),
        key => root.permits_key_fully(args.at(usize::from(key))),
    };
    root.databases.are_all()
        && root.commands.contains(dispatch.index)
        && (root.has_all_channels() || !dispatch.flags.any(Flags::CHANNELS))
        && keys_permitted()
        || denial(access.user(), table, dispatch, args, db).is_none()
}

/// Whether the client may run a command of which the values decide which keys it reads.
#[must_use]
pub fn permits_any_key(access: &Access, table: &Table, args: Args<'_>, db: u16) -> bool {
    let Some(dispatch) = table.lookup(args.at(0)).filter(|_| access.is_restricted()) else { return true };
    let row = table.row(dispatch.index);
    access
        .user()
        .selectors()
        .iter()
        .any(|selector| selector.reads_any_key() && denied_by(selector, row, dispatch, args, db).is_none())
}

/// What of a call is denied to a user; nothing when it is permitted.
#[must_use]
pub fn denial(user: &User, table: &Table, dispatch: &Dispatch, args: Args<'_>, db: u16) -> Option<Denial> {
    let row = table.row(dispatch.index);
    let mut furthest: Option<Denial> = None;
    for selector in user.selectors() {
        let denied = denied_by(selector, row, dispatch, args, db)?;
        if furthest.is_none_or(|other| (rank(denied.reason), denied.at) > (rank(other.reason), other.at)) {
            furthest = Some(denied);
        }
    }
    furthest
}

/// How far the check came.
const fn rank(reason: Reason) -> u8 {
    match reason {
        Reason::Authentication | Reason::Certificate => 0,
        Reason::Database => 1,
        Reason::Command => 2,
        Reason::Key => 3,
        Reason::Channel => 4,
    }
}

fn denied_by(selector: &Selector, row: &Row, dispatch: &Dispatch, args: Args<'_>, db: u16) -> Option<Denial> {
    if let Some(at) = denied_database(selector, row, args, db) {
        return Some(Denial { reason: Reason::Database, at });
    }
    if !permits_command(selector, row, dispatch, args) {
        return Some(Denial { reason: Reason::Command, at: 0 });
    }
    if let Some(at) = denied_key(selector, row, args) {
        return Some(Denial { reason: Reason::Key, at });
    }
    denied_channel(selector, row.command.spec.traits, args).map(|at| Denial { reason: Reason::Channel, at })
}

fn permits_command(selector: &Selector, row: &Row, dispatch: &Dispatch, args: Args<'_>) -> bool {
    let commands = &selector.commands;
    let first = if row.command.spec.is_subcommand() { 2 } else { 1 };
    dispatch.flags.any(Flags::NO_AUTH)
        || commands.contains(dispatch.index)
        || args.get(first).is_some_and(|argument| commands.permits_first(dispatch.index, argument))
}

fn denied_key(selector: &Selector, row: &Row, args: Args<'_>) -> Option<usize> {
    if selector.has_all_keys() {
        return None;
    }
    let mut keys =
        row.shape.keys_exact(args.len(), |argument| args.at(argument)).filter(|(_, access)| *access != KeyAccess::NotKey);
    let is_denied =
        |(at, access): &(usize, KeyAccess)| !selector.permits_key(args.at(*at), access.reads_value(), access.changes_value());
    step!(CheckEveryKey, keys.find(is_denied), else keys.take(1).find(is_denied)).map(|(at, _)| at)
}

fn denied_channel(selector: &Selector, traits: Traits, args: Args<'_>) -> Option<usize> {
    let channels = match traits {
        _ if selector.has_all_channels() => return None,
        Traits { publishes: true, .. } => 1..2,
        Traits { subscribes: true, .. } | Traits { subscribes_patterns: true, .. } => 1..args.len(),
        _ => return None,
    };
    channels.into_iter().find(|at| !selector.permits_channel(args.at(*at), traits.subscribes_patterns))
}

/// The argument that names a database that is not permitted; 0 for the selected one, and for a command on all.
fn denied_database(selector: &Selector, row: &Row, args: Args<'_>, db: u16) -> Option<usize> {
    let databases = &selector.databases;
    let traits = row.command.spec.traits;
    if databases.are_all() {
        return None;
    }
    if traits.all_databases {
        return Some(0);
    }
    let named = match traits {
        Traits { databases: true, .. } => 1..args.len(),
        Traits { database_last: true, .. } => args.len() - 1..args.len(),
        Traits { database_option: true, .. } => 4..args.len(),
        _ => 0..0,
    };
    let is_named = |at: &usize| !traits.database_option || args.at(*at - 1).eq_ignore_ascii_case(b"DB");
    // What is no number is refused by the command.
    let is_denied = |at: &usize| parse_i64(args.at(*at)).is_some_and(|id| !databases.contains(id));
    if let Some(at) = named.filter(is_named).find(is_denied) {
        return Some(at);
    }
    let has_keys = row.shape.key_specs().iter().any(|spec| spec.access != KeyAccess::NotKey);
    let uses_selected = has_keys || !traits.databases && (traits.readonly || traits.write);
    (uses_selected && !databases.contains(db.into())).then_some(0)
}
