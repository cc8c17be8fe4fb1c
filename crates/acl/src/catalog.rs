//! The commands as rules name them: by their original names, whatever `rename-command` calls them.

use std::collections::HashMap;

use almandine_command_spec::{Categories, Category};

/// All commands by their dense indexes.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    commands: Vec<Command>,
    by_name: HashMap<String, u16>,
}

#[derive(Clone, Debug)]
struct Command {
    name: String,
    categories: Categories,
    /// The container of a subcommand.
    container: Option<u16>,
    subcommands: Vec<u16>,
}

impl Catalog {
    /// The catalog of commands in the order of their dense indexes: full name in lower case, as in `config|get`, and categories.
    #[must_use]
    pub fn new<'n>(commands: impl IntoIterator<Item = (&'n str, Categories)>) -> Self {
        let mut catalog = Self::default();
        for (index, (name, categories)) in (0_u16..).zip(commands) {
            catalog.by_name.insert(name.to_owned(), index);
            catalog.commands.push(Command { name: name.to_owned(), categories, container: None, subcommands: Vec::new() });
        }
        for (index, at) in (0_u16..).zip(0..catalog.commands.len()) {
            let container =
                catalog.commands[at].name.split_once('|').and_then(|(container, _)| catalog.by_name.get(container)).copied();
            if let Some(container) = container {
                catalog.commands[at].container = Some(container);
                catalog.commands[usize::from(container)].subcommands.push(index);
            }
        }
        catalog
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// The command, or subcommand, that is called `name` in any case.
    pub(crate) fn find(&self, name: &[u8]) -> Option<u16> {
        let name = std::str::from_utf8(name).ok()?;
        self.by_name.get(&name.to_ascii_lowercase()).copied()
    }

    /// The full name in lower case.
    pub(crate) fn name(&self, index: u16) -> &str {
        &self.commands[usize::from(index)].name
    }

    pub(crate) fn is_subcommand(&self, index: u16) -> bool {
        self.commands[usize::from(index)].container.is_some()
    }

    pub(crate) fn subcommands(&self, index: u16) -> &[u16] {
        &self.commands[usize::from(index)].subcommands
    }

    /// The commands of a category.
    pub(crate) fn of_category(&self, category: Category) -> impl Iterator<Item = u16> {
        (0_u16..).zip(&self.commands).filter(move |(_, command)| command.categories.contains(category)).map(|(index, _)| index)
    }
}

/// The category called `name`, without its `@`, in any case.
pub(crate) fn category(name: &[u8]) -> Option<Category> {
    Category::ALL.into_iter().find(|category| category.name().as_bytes()[1..].eq_ignore_ascii_case(name))
}
