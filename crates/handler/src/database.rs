//! Databases that commands name: the one that SELECT makes the client's, and the one that COPY and MOVE put a value to.

use almandine_command_spec::Traits;
use almandine_resp::Args;

use crate::errors::CommandError;
use crate::number;

/// A database of `databases`.
///
/// # Errors
/// When it is no number, or there is no such database.
pub fn parse(argument: &[u8], databases: usize) -> Result<u16, CommandError> {
    let number = number::integer_within(argument, i32::MIN.into(), i32::MAX.into())?;
    u16::try_from(number).ok().filter(|db| usize::from(*db) < databases).ok_or(CommandError::DatabaseOutOfRange)
}

/// The key of another database that a call may put a value to: the database, and the place of the key among the arguments. None
/// for a call that names none, or that fails before it looks at a key.
#[must_use]
pub fn other_key(traits: Traits, args: Args<'_>, databases: usize) -> Option<(u16, usize)> {
    let database = |at: usize| args.get(at).and_then(|argument| parse(argument, databases).ok());
    if traits.database_last {
        return Some((database(args.len() - 1)?, 1));
    }
    let (mut named, mut at) = (None, 3);
    while let Some(option) = args.get(at).filter(|_| traits.database_option) {
        let is_database = option.eq_ignore_ascii_case(b"DB");
        if is_database {
            named = Some(database(at + 1)?);
        }
        at += if is_database { 2 } else { 1 };
    }
    Some((named?, 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use almandine_resp::ArgsBuf;

    #[test]
    fn the_key_of_another_database_is_found_as_the_command_finds_it() {
        let copy = Traits { database_option: true, ..Traits::NONE };
        let moves = Traits { database_last: true, ..Traits::NONE };
        let other = |traits: Traits, words: &str| {
            let mut args = ArgsBuf::new();
            words.split(' ').for_each(|word| args.push(word.as_bytes()));
            other_key(traits, args.as_args(), 16)
        };
        assert_eq!(other(moves, "MOVE key 7"), Some((7, 1)));
        assert_eq!([other(moves, "MOVE key 16"), other(moves, "MOVE key x"), other(copy, "COPY from to")], [None; 3]);
        assert_eq!(other(copy, "COPY from to DB 3"), Some((3, 2)));
        assert_eq!(other(copy, "COPY from to replace db 3 DB 4"), Some((4, 2)));
        assert_eq!([other(copy, "COPY DB 3 REPLACE"), other(copy, "COPY from to DB"), other(copy, "COPY a b DB -1")], [None; 3]);
        assert_eq!(other(Traits::NONE, "SET key 7"), None);
    }
}
