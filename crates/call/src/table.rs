//! The command table: from a name to a handler in a few nanoseconds, and everything that is derived from the list of commands.
//!
//! A command's *index* is its position in the list; it is dense, differs between versions, and names counters and table rows. A
//! command's *id* is pinned for ever (see the server's `ids.txt`) and is what the operation log will hold.

use almandine_command_spec::{Layout, Shape, Table as Names};

use crate::command::{Command, Handler};

/// What the session asks of a command, one bit each, so that the ordinary case is one comparison with zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u16);

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)+) => {
        impl Flags { $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)+ }
    };
}

flags! {
    /// Takes about constant time, so it is timed together with its neighbours instead of alone: what Redis calls fast, and writes of one key
    /// by one verb (SET, which Redis calls slow).
    FAST = 0;
    /// Refused beyond the memory limit.
    DENY_OOM = 1;
    /// May change keys: held back by CLIENT PAUSE WRITE.
    MAY_WRITE = 2;
    /// An [`Handler::Admin`]: it may change what the rest of the batch means, so planning stops behind it.
    BARRIER = 3;
    /// Has subcommands.
    CONTAINER = 4;
    /// Has several keys, or keys at places that the arguments decide.
    MANY_KEYS = 5;
    /// Locks its keys itself.
    SELF_LOCKING = 6;
    /// Not shown to MONITOR.
    SKIP_MONITOR = 7;
    /// Not in the slow log.
    SKIP_SLOWLOG = 8;
    /// Allowed before authentication.
    NO_AUTH = 9;
    /// Runs at once inside a transaction, too.
    NOT_QUEUED = 10;
    /// Refused inside a transaction.
    NO_MULTI = 11;
    /// Executes what the client has queued: EXEC.
    EXECUTES = 12;
    /// May touch more than the keys that it declares: a transaction with it runs alone.
    ANY_KEY = 13;
}

impl Flags {
    /// Whether any flag of `other` is set.
    #[inline]
    #[must_use]
    pub const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without those of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    const fn when(condition: bool, flag: Self) -> Self {
        if condition { flag } else { Self(0) }
    }

    fn of(command: &Command, shape: &Shape) -> Self {
        let traits = command.spec.traits;
        [
            (traits.fast || (traits.self_locking && matches!(shape.layout, Layout::One(_))), Self::FAST),
            (traits.denyoom, Self::DENY_OOM),
            (traits.write || traits.may_replicate, Self::MAY_WRITE),
            (matches!(command.run, Handler::Admin(_)), Self::BARRIER),
            (command.spec.is_container(), Self::CONTAINER),
            (shape.layout == Layout::Many, Self::MANY_KEYS),
            (traits.self_locking, Self::SELF_LOCKING),
            (traits.skip_monitor || traits.admin, Self::SKIP_MONITOR),
            (traits.skip_slowlog, Self::SKIP_SLOWLOG),
            (traits.no_auth, Self::NO_AUTH),
            (traits.not_queued, Self::NOT_QUEUED),
            (traits.no_multi, Self::NO_MULTI),
            (traits.executes, Self::EXECUTES),
            (traits.all_keyspace || matches!(command.run, Handler::Admin(_)), Self::ANY_KEY),
        ]
        .into_iter()
        .fold(Self(0), |flags, (holds, flag)| flags.with(Self::when(holds, flag)))
    }
}

/// What the execution loop needs of a command: small, so that the rows in use stay in the first cache level.
#[derive(Clone, Copy, Debug)]
pub struct Dispatch {
    /// The handler.
    pub run: Handler,
    /// Fewest arguments, with the name.
    arguments_min: u32,
    /// How many more there may be.
    arguments_more: u32,
    /// Argument index of the only key; 0 without keys and with [`Flags::MANY_KEYS`].
    pub key: u16,
    /// The command's dense index.
    pub index: u16,
    /// See [`Flags`].
    pub flags: Flags,
}

const _: () = assert!(size_of::<Dispatch>() == 32);

impl Dispatch {
    /// Whether a call may have `count` arguments.
    #[inline]
    #[must_use]
    pub const fn accepts(&self, count: usize) -> bool {
        count.wrapping_sub(self.arguments_min as usize) <= self.arguments_more as usize
    }
}

/// One command and what follows from its spec.
#[derive(Debug)]
pub struct Row {
    /// The constant.
    pub command: &'static Command,
    /// What follows from its spec.
    pub shape: Shape,
    /// The full name in lower case, as errors and statistics write it: `client|kill`.
    pub name: String,
    /// Whether it has a name: `rename-command` can take it away.
    pub available: bool,
    /// Where the subcommands are found, for a container.
    subcommands: Option<Subcommands>,
}

#[derive(Debug)]
struct Subcommands {
    names: Names,
    indexes: Vec<u16>,
}

/// The table of all commands.
#[derive(Debug)]
pub struct Table {
    names: Names,
    dispatches: Box<[Dispatch]>,
    rows: Box<[Row]>,
}

impl Table {
    /// The table of the commands in `families`, some under other names by `rename-command`: `renames` has old and new names, an empty new
    /// one for none. It lives as long as the process, because workers keep references.
    ///
    /// # Errors
    /// When there is no command of the old name, or the new one is taken.
    pub fn new(families: &[&[&'static Command]], renames: &[(&str, &str)]) -> Result<&'static Self, String> {
        let mut named = named_as_specified(families);
        for (old, new) in renames {
            let position = named.iter().position(|(name, _)| name.eq_ignore_ascii_case(old));
            let (_, command) = named.remove(position.ok_or("No such command in rename-command")?);
            if named.iter().any(|(name, _)| name.eq_ignore_ascii_case(new)) {
                return Err("Target command name already exists".to_owned());
            }
            if !new.is_empty() {
                named.push(((*new).to_owned().leak(), command));
            }
        }
        Ok(Box::leak(Box::new(Self::build(families, named))))
    }

    fn build(families: &[&[&'static Command]], named: Vec<(&'static str, &'static Command)>) -> Self {
        // Only what has a name comes first: `config|get` has none, as a client sends it.
        let has_name = |command: &Command| named.iter().any(|(_, named)| named.spec.name == command.spec.name);
        let nameless = families.iter().flat_map(|family| family.iter().copied()).filter(|command| !has_name(command));
        let commands: Vec<&'static Command> = named.iter().map(|(_, command)| *command).chain(nameless).collect();
        let names = Names::new(named.iter().map(|(name, _)| *name));
        let rows: Box<[Row]> = commands.iter().map(|command| row(command, &commands, has_name(command))).collect();
        let dispatches = rows.iter().enumerate().map(|(index, row)| dispatch(index, row)).collect();
        Self { names, dispatches, rows }
    }

    /// The command called `name` in any case. Subcommands are found by [`Table::resolve`].
    #[inline]
    #[must_use]
    pub fn lookup(&self, name: &[u8]) -> Option<&Dispatch> {
        self.names.lookup(name).map(|index| &self.dispatches[index])
    }

    /// The subcommand of `container` that `name` names.
    #[must_use]
    pub fn subcommand(&self, container: &Dispatch, name: &[u8]) -> Option<&Dispatch> {
        let subcommands = self.row(container.index).subcommands.as_ref()?;
        let position = subcommands.names.lookup(name)?;
        self.dispatches.get(usize::from(subcommands.indexes[position]))
    }

    /// The command, or subcommand, that a call with these first arguments runs, without looking at the number of arguments.
    #[must_use]
    pub fn resolve(&self, name: &[u8], subcommand: Option<&[u8]>) -> Option<&Dispatch> {
        let dispatch = self.lookup(name)?;
        if !dispatch.flags.any(Flags::CONTAINER) {
            return Some(dispatch);
        }
        subcommand.map_or(Some(dispatch), |subcommand| self.subcommand(dispatch, subcommand))
    }

    /// The dispatch of a dense index.
    #[must_use]
    pub fn dispatch(&self, index: u16) -> &Dispatch {
        &self.dispatches[usize::from(index)]
    }

    /// The row of a dense index.
    #[must_use]
    pub fn row(&self, index: u16) -> &Row {
        &self.rows[usize::from(index)]
    }

    /// All commands, subcommands included, by dense index.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }
}

/// All commands but subcommands, under the names that their specs state.
fn named_as_specified(families: &[&[&'static Command]]) -> Vec<(&'static str, &'static Command)> {
    let all = families.iter().flat_map(|family| family.iter().copied());
    all.filter(|command| !command.spec.is_subcommand()).map(|command| (command.spec.name, command)).collect()
}

fn row(command: &'static Command, commands: &[&'static Command], named: bool) -> Row {
    let subcommands = command.spec.subcommands;
    let subcommands = (!subcommands.is_empty()).then(|| Subcommands {
        names: Names::new(subcommands.iter().map(|spec| spec.own_name())),
        indexes: subcommands.iter().map(|spec| dense_index(commands, spec.name)).collect(),
    });
    Row {
        command,
        shape: command.spec.shape(),
        name: command.spec.name.to_ascii_lowercase(),
        available: named || command.spec.is_subcommand(),
        subcommands,
    }
}

/// Every subcommand of a container is in the family's list; a test holds this, and the process does not start without it.
fn dense_index(commands: &[&Command], name: &str) -> u16 {
    let index = commands.iter().position(|command| command.spec.name == name).and_then(|index| u16::try_from(index).ok());
    index.unwrap_or_else(|| panic!("{name} is a subcommand and missing in its family's list"))
}

fn dispatch(index: usize, row: &Row) -> Dispatch {
    Dispatch {
        run: row.command.run,
        arguments_min: row.shape.arity.unsigned_abs().into(),
        arguments_more: if row.shape.arity < 0 { u32::MAX } else { 0 },
        key: if let Layout::One(key) = row.shape.layout { key } else { 0 },
        index: u16::try_from(index).unwrap_or(u16::MAX),
        flags: Flags::of(row.command, &row.shape),
    }
}
