//! ZCOLLECT, of Garnet: removes members that are past their time now, not when the background comes to them.

use almandine_command_spec::{Access, Arg, CommandSpec, KeySpec, Keys, Traits};
use almandine_handler::{Command, Handler};
use almandine_keyspace::Kind;
use almandine_keyspace::types::sorted_set::SortedSets;

use super::access::{SORTED_SET, limits};
use crate::hash::collect::{collect, next_key};
use crate::traits::CHANGE;

pub(super) const ZCOLLECT: Command = Command {
    spec: CommandSpec {
        name: "ZCOLLECT",
        id: 791,
        since: "1.0.0",
        complexity: "O(N*log(M)) where N is the number of expired members and M the number of members",
        summary: "Removes the expired members of sorted sets; of all of them for `*`.",
        args: &[Arg::key("key", Access::Update).multiple()],
        traits: Traits { fast: false, all_keyspace: true, ..CHANGE },
        keys: Keys::Computed(&[KeySpec::range(1, -1, 1, Access::Update)], next_key),
        ..SORTED_SET
    },
    run: Handler::Write(|call| {
        let limits = limits(call.context.settings());
        collect(call, Kind::SortedSet, |keys, key| {
            let set = keys.write_as::<SortedSets>(key, limits)?;
            Ok((set.look().raw_len(), set.look().next_due()))
        })
    }),
};
