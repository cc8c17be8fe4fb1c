//! SORT and SORT_RO: the elements of a list, a set or a sorted set in the order of numbers or bytes, theirs or those of keys
//! that they name.
//!
//! [`options`] has what is asked for, [`table`] the elements and their order, [`pattern`] and [`values`] other keys. The result
//! is answered ([`answer`]) or stored ([`store`]); many elements are sorted beside the commands of others ([`large`]).

mod answer;
mod large;
mod options;
mod pattern;
mod store;
mod table;
mod values;

use almandine_command_spec::{Access, Arg, Category, CommandSpec, KeySpec, Keys, Traits};
use almandine_handler::{Command, Handler, KeyCall, Outcome, ReadCall, Word, WriteCall, rights};

use crate::traits::{CHANGE, READ};
use answer::answer;
use options::Sorting;
use store::store;

const CATEGORIES: &[Category] = &[Category::Set, Category::SortedSet, Category::List, Category::Dangerous];

const KEY: KeySpec = KeySpec::one(1, Access::Read);
const PATTERN_KEYS: KeySpec = KeySpec::unknown(Access::Read).notes(
    "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort",
);
const DESTINATION: KeySpec = KeySpec::unknown(Access::Overwrite)
    .notes("For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument array");

const BY: Arg = Arg::pattern("by-pattern").display("pattern").token("BY").optional().key_spec(1);
const LIMIT: Arg = Arg::block("limit", &[Arg::integer("offset"), Arg::integer("count")]).token("LIMIT").optional();
const GET: Arg = Arg::pattern("get-pattern").display("pattern").token("GET").optional().multiple_token().key_spec(1);
const ORDER: Arg = Arg::one_of("order", &[Arg::pure_token("asc", "ASC"), Arg::pure_token("desc", "DESC")]).optional();
const ALPHA: Arg = Arg::pure_token("sorting", "ALPHA").optional();

pub(super) const SORT: Command = Command {
    spec: CommandSpec {
        name: "SORT",
        id: 227,
        complexity: "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned \
                     elements. When the elements are not sorted, complexity is O(N).",
        summary: "Sorts the elements in a list, a set, or a sorted set, optionally storing the result.",
        args: &[
            Arg::key("key", Access::Read),
            BY,
            LIMIT,
            GET,
            ORDER,
            ALPHA,
            Arg::key("destination", Access::Overwrite).token("STORE").optional().key_spec(2),
        ],
        // It finds keys at run time, and latches them together with those that it names.
        traits: Traits { fast: false, denyoom: true, all_keyspace: true, self_locking: true, ..CHANGE },
        keys: Keys::Computed(&[KEY, PATTERN_KEYS, DESTINATION], next_key),
        categories: Some(CATEGORIES),
        ..CommandSpec::BLANK
    },
    run: Handler::Write(sort),
};

pub(super) const SORT_RO: Command = Command {
    spec: CommandSpec {
        name: "SORT_RO",
        id: 228,
        since: "7.0.0",
        summary: "Returns the sorted elements of a list, a set, or a sorted set.",
        args: &[Arg::key("key", Access::Read), BY, LIMIT, GET, ORDER, ALPHA],
        traits: Traits { fast: false, all_keyspace: true, ..READ },
        keys: Keys::Specs(&[KEY, PATTERN_KEYS]),
        ..SORT.spec
    },
    run: Handler::Read(sort_ro),
};

/// How many arguments follow the option.
fn operands(option: Word<'_>) -> Option<usize> {
    match option {
        o if o.is("ASC") || o.is("DESC") || o.is("ALPHA") => Some(0),
        o if o.is("BY") || o.is("GET") || o.is("STORE") => Some(1),
        o if o.is("LIMIT") => Some(2),
        _ => None,
    }
}

/// The key, then the destination of the last STORE.
fn next_key<'a>(count: usize, arg: &dyn Fn(usize) -> &'a [u8], after: usize) -> Option<(usize, Access)> {
    match after {
        0 => Some((1, Access::Read)),
        1 => {
            let (mut at, mut destination) = (2, None);
            while at < count {
                let option = Word(arg(at));
                if option.is("STORE") && at + 1 < count {
                    destination = Some((at + 1, Access::Overwrite));
                }
                at += 1 + operands(option).unwrap_or(0);
            }
            destination
        }
        _ => None,
    }
}

/// Whether patterns may lead to keys: access control cannot know which before the command runs.
fn reads_any_key<K>(call: &KeyCall<'_, K>) -> bool {
    rights::permits_any_key(&call.client.access, call.context.table, call.args, call.client.db)
}

fn sort(call: &mut WriteCall<'_>) -> Outcome {
    let sorting = Sorting::read(call.args, true, reads_any_key(call))?;
    match sorting.destination {
        Some(destination) => store(call, destination, sorting),
        None => answer(call, sorting),
    }
}

fn sort_ro(call: &mut ReadCall<'_>) -> Outcome {
    let sorting = Sorting::read(call.args, false, reads_any_key(call))?;
    answer(call, sorting)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(words: &str) -> Option<usize> {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        next_key(words.len(), &|at| words[at], 1).map(|(at, _)| at)
    }

    #[test]
    fn the_last_destination_counts() {
        assert_eq!(destination("sort k"), None);
        assert_eq!(destination("sort k STORE d"), Some(3));
        assert_eq!(destination("sort k store d BY STORE store e"), Some(7));
        assert_eq!(destination("sort k GET STORE limit 1 2"), None);
        assert_eq!(destination("sort k STORE"), None);
    }
}
