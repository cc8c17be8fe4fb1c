//! Step 1, *plan*: which handlers a group of commands runs and on which keys. The keys are hashed, and their buckets prefetched.

use almandine_handler::{Client, Context, Dispatch, Flags, Handler, PlannedKey, Table, rights};
use almandine_keyspace::Accessor;
use almandine_resp::Args;

use crate::state::received::Received;

/// Commands that are planned before the first of them runs. Enough to hide the latency of memory, and few enough that what was
/// prefetched is still in the first cache level when it is used.
pub(crate) const GROUP_COMMANDS_MAX: usize = 64;

/// The place of the first key of a command that runs a script.
const SCRIPT_KEY: usize = 3;

/// Most keys of one command that are prefetched.
const PREFETCHED_KEYS_MAX: usize = 256;

/// Names remembered with their plans, see [`Memo`].
const MEMO_SLOTS: usize = 16;

/// One command of a group.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Planned {
    /// What runs; `None` when the command must be refused: unknown, called with a wrong number of arguments, or denied to the
    /// client's user.
    pub(crate) dispatch: Option<&'static Dispatch>,
    pub(crate) key: PlannedKey,
}

/// Plans groups; one per worker.
pub(crate) struct Planner {
    pub(crate) table: &'static Table,
    memo: Memo,
    group: [Planned; GROUP_COMMANDS_MAX],
    len: usize,
}

impl Planner {
    pub(crate) fn new(table: &'static Table) -> Self {
        Self { table, memo: Memo::default(), group: [Planned::default(); GROUP_COMMANDS_MAX], len: 0 }
    }

    /// The planned commands of the current group.
    #[inline]
    pub(crate) fn group(&self) -> &[Planned] {
        &self.group[..self.len]
    }

    /// Plans commands from `first` on and asks for their cache lines. The group ends at [`GROUP_COMMANDS_MAX`], at the end of
    /// the batch, or behind a command after which the rest may mean something else. A function of its own, so that its loop has
    /// the registers.
    #[inline(never)]
    pub(crate) fn plan_group(&mut self, accessor: &mut Accessor, client: &Client, received: Received<'_>, first: usize) {
        accessor.group().begin();
        if client.access.is_restricted() {
            self.plan_restricted(accessor, client, received, first);
        } else {
            let Self { table, memo, group, len } = self;
            *len = 0;
            for (planned, command) in group.iter_mut().zip(first..received.len()) {
                let args = received.args(command);
                *len += 1;
                planned.dispatch = resolve(table, memo, args);
                let Some(dispatch) = planned.dispatch else { continue };
                plan_keys(planned, table, accessor, client.db, dispatch, args);
                if dispatch.flags.any(Flags::BARRIER) {
                    break;
                }
            }
        }
        accessor.group().prefetch();
    }

    /// Plans a group for a client that may not do everything: what it may not do is not planned, before any key is looked at.
    #[inline(never)]
    fn plan_restricted(&mut self, accessor: &mut Accessor, client: &Client, received: Received<'_>, first: usize) {
        let Self { table, memo, group, len } = self;
        *len = 0;
        for (planned, command) in group.iter_mut().zip(first..received.len()) {
            let args = received.args(command);
            *len += 1;
            let permitted = |dispatch: &&'static Dispatch| rights::permits(&client.access, table, dispatch, args, client.db);
            planned.dispatch = resolve(table, memo, args).filter(permitted);
            let Some(dispatch) = planned.dispatch else { continue };
            plan_keys(planned, table, accessor, client.db, dispatch, args);
            if dispatch.flags.any(Flags::BARRIER) {
                break;
            }
        }
    }

    /// What runs for a command; `None` when it must be refused.
    #[inline]
    pub(crate) fn resolve(&mut self, args: Args<'_>) -> Option<&'static Dispatch> {
        resolve(self.table, &mut self.memo, args)
    }

    /// Plans the keys of one command by itself.
    pub(crate) fn plan_alone(&self, accessor: &mut Accessor, db: u16, dispatch: &'static Dispatch, args: Args<'_>) -> Planned {
        accessor.group().begin();
        let mut planned = Planned { dispatch: Some(dispatch), ..Planned::default() };
        plan_keys(&mut planned, self.table, accessor, db, dispatch, args);
        planned
    }
}

#[inline(always)]
fn resolve(table: &'static Table, memo: &mut Memo, args: Args<'_>) -> Option<&'static Dispatch> {
    let mut dispatch = memo.lookup(table, args.at(0));
    if let Some(container) = dispatch.filter(|dispatch| dispatch.flags.any(Flags::CONTAINER)) {
        // Without a subcommand the arity of the container refuses the call.
        dispatch = args.get(1).map_or(dispatch, |name| table.subcommand(container, name));
    }
    dispatch.filter(|dispatch| dispatch.accepts(args.len()))
}

/// Writes in place: a plan that is copied at once waits for its own stores.
#[inline(always)]
fn plan_keys(
    planned: &mut Planned,
    table: &'static Table,
    accessor: &mut Accessor,
    db: u16,
    dispatch: &'static Dispatch,
    args: Args<'_>,
) {
    if dispatch.key != 0 {
        let key = accessor.key(db, args.at(usize::from(dispatch.key)));
        let glance = accessor.group().expect(key.hash);
        planned.key = PlannedKey { position: dispatch.key, namespace: key.namespace, glance, hash: key.hash };
        if dispatch.flags.any(Flags::ELEMENT.with(Flags::ELEMENT_LAST)) {
            let at = if dispatch.flags.any(Flags::ELEMENT) { usize::from(dispatch.key) + 1 } else { args.len() - 1 };
            // A command that names no element looks at all: what leads to any is of use.
            let element = args.get(at).unwrap_or_default();
            accessor.group().expect_element(glance, element, matches!(dispatch.run, Handler::Write(_)));
            if dispatch.flags.any(Flags::ELEMENT_PAIR) {
                accessor.group().expect_element(glance, args.get(at + 1).unwrap_or_default(), false);
            }
        }
    } else if dispatch.flags.any(Flags::MANY_KEYS) {
        planned.key = plan_many(table, accessor, db, dispatch, args);
    } else {
        planned.key = PlannedKey::default();
    }
}

#[cold]
fn plan_many(table: &'static Table, accessor: &mut Accessor, db: u16, dispatch: &Dispatch, args: Args<'_>) -> PlannedKey {
    let mut first = PlannedKey::default();
    let mut expect = |position: usize| {
        let key = accessor.key(db, args.at(position));
        let glance = accessor.group().expect(key.hash);
        if first.position == 0
            && let Ok(position) = u16::try_from(position)
        {
            first = PlannedKey { position, namespace: key.namespace, glance, hash: key.hash };
        }
    };
    // The keys of most scripts are few, and counted in one digit.
    if dispatch.flags.any(Flags::RUNS_SCRIPT)
        && let [digit @ b'0'..=b'9'] = args.at(2)
    {
        (SCRIPT_KEY..args.len()).take(usize::from(digit - b'0')).for_each(expect);
    } else {
        let shape = &table.row(dispatch.index).shape;
        shape.keys(args.len(), |argument| args.at(argument)).take(PREFETCHED_KEYS_MAX).for_each(|(position, _)| expect(position));
    }
    first
}

/// The keys that a call declares.
pub(crate) fn declared_keys<'a>(
    context: &Context,
    dispatch: &Dispatch,
    args: Args<'a>,
) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let shape = &context.table.row(dispatch.index).shape;
    shape.keys(args.len(), move |argument| args.at(argument)).map(move |(position, _)| args.at(position))
}

/// Remembers short names as they were sent, because clients send the same few over and over: a hit costs a third of a look-up.
#[derive(Default)]
pub(crate) struct Memo {
    slots: [MemoSlot; MEMO_SLOTS],
}

#[derive(Clone, Copy, Default)]
struct MemoSlot {
    /// All bytes of a name of up to eight.
    word: u64,
    len: usize,
    dispatch: Option<&'static Dispatch>,
}

impl Memo {
    #[inline]
    pub(crate) fn lookup(&mut self, table: &'static Table, name: &[u8]) -> Option<&'static Dispatch> {
        let Some(word) = word_of(name) else { return table.lookup(name) };
        let slot = &mut self.slots[(word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize % MEMO_SLOTS];
        if slot.word != word || slot.len != name.len() {
            *slot = MemoSlot { word, len: name.len(), dispatch: table.lookup(name) };
        }
        slot.dispatch
    }
}

/// All bytes of a name of up to eight, in an order of their own; with the length, they are the name.
#[inline]
fn word_of(name: &[u8]) -> Option<u64> {
    match (name.first_chunk::<4>(), name.last_chunk::<4>(), name) {
        (Some(first), Some(last), _) if name.len() <= 8 => {
            Some(u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32)
        }
        (None, _, [a, b, c]) => Some(u64::from(u32::from_le_bytes([*a, *b, *c, 0]))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_its_word_are_equal_together() {
        let names: [&[u8]; 8] = [b"GET", b"SET", b"get", b"MGET", b"GETSET", b"STRLEN", b"SETRANGE", b"GETRANGE"];
        for (a, b) in names.iter().flat_map(|a| names.iter().map(move |b| (a, b))) {
            assert_eq!(a == b, (word_of(a), a.len()) == (word_of(b), b.len()));
        }
        assert_eq!((word_of(b""), word_of(b"a"), word_of(b"INCRBYFLOAT")), (None, None, None));
        let (mut memo, table) = (Memo::default(), Table::new(almandine_commands::COMMANDS, &[], &[]).unwrap());
        for name in names.iter().chain(&names) {
            assert_eq!(memo.lookup(table, name).map(|dispatch| dispatch.index), table.lookup(name).map(|dispatch| dispatch.index));
        }
        assert!(memo.lookup(table, b"NOSUCH").is_none() && memo.lookup(table, b"NOSUCH").is_none());
    }
}
