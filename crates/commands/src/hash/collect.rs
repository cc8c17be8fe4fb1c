//! HCOLLECT, of Garnet: removes fields that are past their time now, not when the background comes to them.

use almandine_command_spec::{Access, Arg, CommandSpec, KeySpec, Keys, Traits};
use almandine_handler::{Command, Handler, Outcome, WriteCall};
use almandine_keyspace::types::hash::Hashes;
use almandine_keyspace::{Key, Kind, Refusal, Writer};

use super::access::{HASH, limits};
use crate::traits::CHANGE;

/// Keys that HCOLLECT * asks the keyspace for at a time.
const KEYS_AT_A_TIME: usize = 1024;

pub(super) const HCOLLECT: Command = Command {
    spec: CommandSpec {
        name: "HCOLLECT",
        id: 633,
        complexity: "O(N) where N is the number of expired fields",
        summary: "Removes the expired fields of hashes; of all of them for `*`.",
        args: &[Arg::key("key", Access::Update).multiple()],
        traits: Traits { fast: false, all_keyspace: true, ..CHANGE },
        keys: Keys::Computed(&[KeySpec::range(1, -1, 1, Access::Update)], next_key),
        ..HASH
    },
    run: Handler::Write(hcollect),
};

/// A lone star is no key.
pub(crate) fn next_key<'a>(count: usize, arg: &dyn Fn(usize) -> &'a [u8], after: usize) -> Option<(usize, Access)> {
    let at = after + 1;
    (at < count && !(count == 2 && arg(1) == b"*")).then_some((at, Access::Update))
}

fn hcollect(call: &mut WriteCall<'_>) -> Outcome {
    let limits = limits(call.context.settings());
    collect(call, Kind::Hash, |keys, key| {
        let hash = keys.write_as::<Hashes>(key, limits)?;
        Ok((hash.look().raw_len(), hash.look().next_due()))
    })
}

/// Removes what is due of the collections that the command names, or of all of a kind. `open` does so for some elements of one,
/// and says how many are left and when the next one expires.
pub(crate) fn collect(
    call: &mut WriteCall<'_>,
    kind: Kind,
    open: impl Fn(&mut Writer<'_>, Key<'_>) -> Result<(usize, Option<u64>), Refusal>,
) -> Outcome {
    let collect_one = |keys: &mut Writer<'_>, key: Key<'_>| {
        let now = keys.now_ms().unsigned_abs();
        let mut before = usize::MAX;
        loop {
            let (len, due) = open(keys, key)?;
            // Without room nothing goes.
            if due.is_none_or(|due| due > now) || len >= before {
                return Ok(());
            }
            before = len;
        }
    };
    if call.args.len() == 2 && call.args.at(1) == b"*" {
        collect_all(&mut call.keys, kind, &collect_one)?;
    } else {
        for position in 1..call.args.len() {
            let key = call.key(position);
            collect_one(&mut call.keys, key)?;
        }
    }
    call.reply.ok();
    Ok(())
}

/// Removes what is due of all collections of a kind in the database, each by itself.
fn collect_all(
    keys: &mut Writer<'_>,
    kind: Kind,
    collect_one: &dyn Fn(&mut Writer<'_>, Key<'_>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut cursor = 0;
    loop {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let scanned = keys.scan(cursor, KEYS_AT_A_TIME, &mut |key, metadata| {
            if metadata.kind == kind {
                names.push(key.to_vec());
            }
        });
        scanned.whole?;
        cursor = scanned.cursor;
        for name in &names {
            let key = keys.key(name);
            match collect_one(keys, key) {
                // It has become a key of another type meanwhile.
                Err(Refusal::WrongKind) => {}
                collected => collected?,
            }
        }
        if cursor == 0 {
            return Ok(());
        }
    }
}
