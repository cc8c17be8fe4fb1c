//! The list family: elements in order.
//!
//! Ends are in [`push`] and [`pop`], places in [`index`], searches in [`search`], elements on their way to another list in
//! [`transfer`], commands that wait for elements in [`blocking`].

mod access;
mod blocking;
mod index;
mod pop;
mod push;
mod range;
mod search;
mod stream;
mod transfer;

use almandine_handler::Command;

pub(crate) use access::limits;

/// The family.
pub const COMMANDS: &[&Command] = &[
    &push::LPUSH,
    &push::RPUSH,
    &push::LPUSHX,
    &push::RPUSHX,
    &pop::LPOP,
    &pop::RPOP,
    &index::LLEN,
    &index::LINDEX,
    &index::LSET,
    &range::LRANGE,
    &range::LTRIM,
    &search::LINSERT,
    &search::LREM,
    &search::LPOS,
    &transfer::LMOVE,
    &transfer::RPOPLPUSH,
    &pop::LMPOP,
    &transfer::LMOVEM,
    &blocking::BLPOP,
    &blocking::BRPOP,
    &blocking::BLMPOP,
    &blocking::BLMOVE,
    &blocking::BRPOPLPUSH,
    &blocking::BLMOVEM,
];
