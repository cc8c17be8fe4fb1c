//! What a round of a connection has seen of the order of units of work, so that replies to looks at durable keys need not wait.
//!
//! While the operation log is on, each group of commands notes the greatest number of the units that have last changed its keys,
//! behind its looks: what a look has met had its number before, under the latch. That is enough for commands that look at the one
//! key which they name and at nothing else, and for those that look at none; a round with any other command depends on all that
//! was done before its end.

use almandine_base::step;
use almandine_command_spec::Group;
use almandine_handler::{Context, Dispatch, Flags, Handler, Table};

use crate::steps::plan::Planned;

/// Commands beside those on the connection whose replies depend on no data, with the subcommands of those that have some: operators
/// and monitors are answered while a disk or an object store is away, and clients connect.
const BLIND: [&str; 16] = [
    "TIME",
    "INFO",
    "CONFIG",
    "COMMAND",
    "ACL",
    "LATENCY",
    "SHUTDOWN",
    "BGREWRITEAOF",
    "MULTI",
    "DISCARD",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "PSUBSCRIBE",
    "PUNSUBSCRIBE",
    "SSUBSCRIBE",
    "SUNSUBSCRIBE",
];

/// Whether the reply to a command depends on no data.
fn is_blind(dispatch: &Dispatch, table: &Table) -> bool {
    let spec = table.row(dispatch.index).command.spec;
    let name = spec.name.split('|').next().unwrap_or_default();
    dispatch.key == 0 && (spec.group == Group::Connection || BLIND.contains(&name))
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    number: u64,
    /// Whether there is a log that replies may wait for.
    is_asked: bool,
    /// Whether the number is all that the replies depend on.
    is_known: bool,
}

impl Seen {
    /// Begins a round.
    #[inline]
    pub(crate) fn begin(&mut self, is_asked: bool) {
        *self = Self { number: 0, is_asked, is_known: is_asked };
    }

    /// Whether commands are to be noted.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// The round does more than to look at keys that it names.
    #[inline]
    pub(crate) fn forget(&mut self) {
        self.is_known = false;
    }

    /// The greatest number that the replies of the round depend on; none where that is not known.
    pub(crate) fn number(&self) -> Option<u64> {
        self.is_known.then_some(self.number)
    }

    /// Notes what a group of commands has seen, behind the last of them.
    #[cold]
    pub(crate) fn note(&mut self, group: &[Planned], context: &Context) {
        let log = &context.instance.persistence.log;
        for planned in group {
            let looks = planned.dispatch.is_some_and(|dispatch| {
                dispatch.key != 0 && matches!(dispatch.run, Handler::Read(_)) && !dispatch.flags.any(Flags::ANY_KEY)
            });
            if !looks {
                if planned.dispatch.is_some_and(|dispatch| is_blind(dispatch, context.table)) {
                    continue;
                }
                return self.forget();
            }
            step!(AskSeen, self.number = self.number.max(log.seen(planned.key.hash)));
        }
    }
}
