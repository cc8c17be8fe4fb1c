//! The command table: from a name to a handler in a few nanoseconds, and everything that is derived from the list of commands.
//!
//! A command's *index* is its position in the list; it is dense, differs between versions, and names counters and table rows. A
//! command's *id* is pinned for ever (see the server's `ids.txt`) and is what the operation log will hold.

use almandine_acl::Catalog;
use almandine_command_spec::{CommandSpec, Layout, Shape, Table as Names};

use crate::command::{Command, Handler};
use crate::flags::Flags;

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
    /// Names of commands that are not served, whose rows begin at [`Table::served`].
    unserved: Names,
    dispatches: Box<[Dispatch]>,
    /// Those that are served come first.
    rows: Box<[Row]>,
    served: usize,
}

impl Table {
    /// The table of the commands in `families`, some under other names by `rename-command`: `renames` has old and new names, an
    /// empty new one for none. `unserved` is what rules may name and clients cannot call. The table lives as long as the process,
    /// because workers keep references.
    ///
    /// # Errors
    /// When there is no command of the old name, or the new one is taken.
    pub fn new(
        families: &[&[&'static Command]],
        unserved: &[&[CommandSpec]],
        renames: &[(&str, &str)],
    ) -> Result<&'static Self, String> {
        let unserved: Vec<&'static Command> = unserved.iter().flat_map(|specs| specs.iter()).flat_map(without_handler).collect();
        let families = [families, &[&unserved]].concat();
        let mut named = named_as_specified(&families);
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
        Ok(Box::leak(Box::new(Self::build(&families, named))))
    }

    fn build(families: &[&[&'static Command]], named: Vec<(&'static str, &'static Command)>) -> Self {
        let has_name = |command: &Command| named.iter().any(|(_, named)| named.spec.name == command.spec.name);
        let mut commands: Vec<&'static Command> = families.iter().flat_map(|family| family.iter().copied()).collect();
        // Only what has a name comes first: `config|get` has none, as a client sends it.
        let position = |command: &Command| named.iter().position(|(_, named)| named.spec.name == command.spec.name);
        commands.sort_by_cached_key(|command| (!command.is_served(), position(command).unwrap_or(usize::MAX)));
        let served = commands.partition_point(|command| command.is_served());
        let names =
            |served: bool| Names::new(named.iter().filter(|(_, command)| command.is_served() == served).map(|(name, _)| *name));
        let (names, unserved) = (names(true), names(false));
        let rows: Box<[Row]> = commands.iter().map(|command| row(command, &commands, has_name(command))).collect();
        let dispatches = rows.iter().enumerate().map(|(index, row)| dispatch(index, row)).collect();
        Self { names, unserved, dispatches, rows, served }
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

    /// The same, of commands that are not served, too.
    #[must_use]
    pub fn resolve_known(&self, name: &[u8], subcommand: Option<&[u8]>) -> Option<&Dispatch> {
        if let Some(index) = self.unserved.lookup(name) {
            let dispatch = &self.dispatches[self.served + index];
            return subcommand
                .filter(|_| dispatch.flags.any(Flags::CONTAINER))
                .map_or(Some(dispatch), |subcommand| self.subcommand(dispatch, subcommand));
        }
        self.resolve(name, subcommand).or_else(|| {
            // A subcommand that is not served, of a container that is.
            let full = [self.row(self.lookup(name)?.index).name.as_bytes(), b"|", subcommand?].concat();
            let index = self.known()[self.served..].iter().position(|row| row.name.as_bytes().eq_ignore_ascii_case(&full))?;
            Some(&self.dispatches[self.served + index])
        })
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

    /// The commands as the rules of access control name them.
    #[must_use]
    pub fn catalog(&self) -> Catalog {
        Catalog::new(self.known().iter().map(|row| (row.name.as_str(), row.shape.categories)))
    }

    /// All commands that are served, subcommands included, by dense index.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows[..self.served]
    }

    /// All commands that rules may name: first those that are served, then the others.
    #[must_use]
    pub fn known(&self) -> &[Row] {
        &self.rows
    }
}

/// A command that is not served, and its subcommands.
fn without_handler(spec: &CommandSpec) -> Vec<&'static Command> {
    let command = |spec: &CommandSpec| -> &'static Command { Box::leak(Box::new(Command { spec: *spec, run: Handler::Unserved })) };
    std::iter::once(spec).chain(spec.subcommands.iter().copied()).map(command).collect()
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
        flags: flags_of(row.command, &row.shape),
    }
}

fn flags_of(command: &Command, shape: &Shape) -> Flags {
    let traits = command.spec.traits;
    [
        (traits.fast || (traits.self_locking && matches!(shape.layout, Layout::One(_))), Flags::FAST),
        (traits.denyoom, Flags::DENY_OOM),
        (traits.write || traits.may_replicate, Flags::MAY_WRITE),
        (matches!(command.run, Handler::Admin(_) | Handler::Script(_)), Flags::BARRIER),
        (command.spec.is_container(), Flags::CONTAINER),
        (shape.layout == Layout::Many, Flags::MANY_KEYS),
        (traits.self_locking, Flags::SELF_LOCKING),
        (traits.skip_monitor || traits.admin, Flags::SKIP_MONITOR),
        (traits.skip_slowlog, Flags::SKIP_SLOWLOG),
        (traits.no_auth, Flags::NO_AUTH),
        (traits.not_queued, Flags::NOT_QUEUED),
        (traits.no_multi, Flags::NO_MULTI),
        (traits.executes, Flags::EXECUTES),
        ((traits.element || traits.element_pair) && matches!(shape.layout, Layout::One(_)), Flags::ELEMENT),
        (traits.element_pair && matches!(shape.layout, Layout::One(_)), Flags::ELEMENT_PAIR),
        (traits.subscribed, Flags::SUBSCRIBED),
        (traits.element_last && matches!(shape.layout, Layout::One(_)), Flags::ELEMENT_LAST),
        (traits.publishes || traits.subscribes || traits.subscribes_patterns, Flags::CHANNELS),
        (traits.all_keyspace || !traits.selects && matches!(command.run, Handler::Admin(_) | Handler::Script(_)), Flags::ANY_KEY),
        (!traits.loading, Flags::NOT_LOADING),
        (traits.write || traits.health, Flags::NOT_UNSAVED),
        (traits.selects, Flags::SELECTS),
        (traits.noscript, Flags::NO_SCRIPT),
        (traits.runs_script, Flags::RUNS_SCRIPT),
        (traits.write, Flags::WRITES),
        (traits.allow_busy, Flags::ALLOW_BUSY),
        (traits.database_option || traits.database_last, Flags::OTHER_DATABASE),
    ]
    .into_iter()
    .fold(Flags::default(), |flags, (holds, flag)| flags.with(Flags::when(holds, flag)))
}
