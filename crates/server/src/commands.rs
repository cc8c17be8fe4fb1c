//! The list of all commands, put together from the crates that have some.
//!
//! `ids.txt` pins each command's number for ever: the operation log will hold it.

use std::sync::PoisonError;

use almandine_handler::Table;
use almandine_io::sync::Mutex;

use crate::unserved::UNSERVED;

/// Tables that there are already: they live as long as the process, and its nodes share those with the same names.
static TABLES: Mutex<Vec<(Renames, &'static Table)>> = Mutex::new(Vec::new());

/// Old and new names.
type Renames = Vec<(String, String)>;

/// The table of all commands, with the names that `renames` gives.
///
/// # Errors
/// See [`Table::new`].
pub(crate) fn table(renames: &[(&str, &str)]) -> Result<&'static Table, String> {
    let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |known: &Renames| known.iter().map(|(old, new)| (old.as_str(), new.as_str())).eq(renames.iter().copied());
    if let Some((_, table)) = tables.iter().find(|(known, _)| same(known)) {
        return Ok(table);
    }
    let table = Table::new(&[almandine_commands::COMMANDS, almandine_admin::COMMANDS].concat(), UNSERVED, renames)?;
    tables.push((renames.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect(), table));
    Ok(table)
}

/// The names of all commands and subcommands as their specs state them, in lower case, as `config|get`.
///
/// # Panics
/// Never: without renames every name is free.
#[must_use]
pub fn command_names() -> Vec<&'static str> {
    let table = table(&[]).unwrap_or_else(|error| unreachable!("the table of commands: {error}"));
    table.known().iter().map(|row| row.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use almandine_handler::Handler;

    use super::*;

    fn all() -> &'static Table {
        table(&[]).unwrap()
    }

    /// The pinned ids. A new command takes the next free number of its family's block; a line is never changed or removed.
    const IDS: &str = include_str!("../ids.txt");

    #[test]
    fn ids_are_pinned() {
        let pinned: BTreeMap<&str, u16> = IDS
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once(' '))
            .map(|(id, name)| (name, id.parse().unwrap()))
            .collect();
        let numbers: BTreeSet<u16> = pinned.values().copied().collect();
        assert_eq!(numbers.len(), pinned.len(), "an id is used twice in ids.txt");
        for entry in all().rows() {
            let spec = &entry.command.spec;
            assert_eq!(pinned.get(spec.name), Some(&spec.id), "{} has id {}: see ids.txt", spec.name, spec.id);
        }
    }

    #[test]
    fn containers_and_subcommands_agree() {
        let table = all();
        for entry in table.rows() {
            let spec = &entry.command.spec;
            // COMMAND has subcommands and also runs alone.
            assert!(spec.is_container() || !matches!(entry.command.run, Handler::Container), "{}", spec.name);
            if let Some((container, own)) = spec.name.split_once('|') {
                let found = table.resolve(container.as_bytes(), Some(own.as_bytes())).expect(spec.name);
                assert_eq!(table.row(found.index).name, entry.name);
            }
        }
    }

    #[test]
    fn a_handler_writes_exactly_where_its_spec_says_so() {
        for entry in all().rows() {
            let (name, traits) = (&entry.name, entry.command.spec.traits);
            match entry.command.run {
                Handler::Read(_) => assert!(!traits.write && !entry.shape.writes_keys, "{name} writes by spec, not by type"),
                // PFCOUNT writes what follows from the value.
                Handler::Write(_) => {
                    assert!(traits.write || traits.readonly && entry.shape.writes_keys, "{name} writes by type, not by spec")
                }
                Handler::Admin(_) | Handler::Script(_) | Handler::Container | Handler::Unserved => {}
            }
            assert!(!(traits.write && traits.readonly), "{name}");
        }
    }

    #[test]
    fn names_are_found_in_any_case() {
        let table = all();
        for name in [b"get".as_slice(), b"GET", b"GeT"] {
            assert_eq!(table.lookup(name).map(|dispatch| table.row(dispatch.index).name.as_str()), Some("get"));
        }
        assert!(table.lookup(b"nosuch").is_none() && table.lookup(b"config|get").is_none());
        assert!(table.resolve(b"client", Some(b"nosuch")).is_none());
    }
}
