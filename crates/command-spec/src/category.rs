//! Groups of the documentation and categories of access control, and how the second follow from the first.
//!
//! A command is in its group's category and in those that its traits imply. The few commands that Redis files differently state
//! their categories in the spec.

use crate::traits::Traits;

/// A command's chapter in the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are Redis' own")]
pub enum Group {
    Generic,
    String,
    List,
    Set,
    SortedSet,
    Hash,
    PubSub,
    Transactions,
    Connection,
    Server,
    Scripting,
    HyperLogLog,
    Cluster,
    Geo,
    Stream,
    Bitmap,
}

impl Group {
    /// The name in COMMAND DOCS.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::String => "string",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "sorted-set",
            Self::Hash => "hash",
            Self::PubSub => "pubsub",
            Self::Transactions => "transactions",
            Self::Connection => "connection",
            Self::Server => "server",
            Self::Scripting => "scripting",
            Self::HyperLogLog => "hyperloglog",
            Self::Cluster => "cluster",
            Self::Geo => "geo",
            Self::Stream => "stream",
            Self::Bitmap => "bitmap",
        }
    }

    /// The category that membership in the group implies.
    #[must_use]
    pub const fn category(self) -> Option<Category> {
        Some(match self {
            Self::Generic => Category::Keyspace,
            Self::String => Category::String,
            Self::List => Category::List,
            Self::Set => Category::Set,
            Self::SortedSet => Category::SortedSet,
            Self::Hash => Category::Hash,
            Self::PubSub => Category::PubSub,
            Self::Transactions => Category::Transaction,
            Self::Connection => Category::Connection,
            Self::Scripting => Category::Scripting,
            Self::HyperLogLog => Category::HyperLogLog,
            Self::Geo => Category::Geo,
            Self::Stream => Category::Stream,
            Self::Bitmap => Category::Bitmap,
            Self::Server | Self::Cluster => return None,
        })
    }
}

/// An access-control category. The order is that of COMMAND INFO; the discriminant is the bit in [`Categories`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are Redis' own")]
pub enum Category {
    Keyspace,
    Read,
    Write,
    Set,
    SortedSet,
    List,
    Hash,
    String,
    Bitmap,
    HyperLogLog,
    Geo,
    Stream,
    PubSub,
    Admin,
    Fast,
    Slow,
    Blocking,
    Dangerous,
    Connection,
    Transaction,
    Scripting,
}

impl Category {
    /// Every category, in the order of COMMAND INFO and ACL CAT.
    pub const ALL: [Self; 21] = [
        Self::Keyspace,
        Self::Read,
        Self::Write,
        Self::Set,
        Self::SortedSet,
        Self::List,
        Self::Hash,
        Self::String,
        Self::Bitmap,
        Self::HyperLogLog,
        Self::Geo,
        Self::Stream,
        Self::PubSub,
        Self::Admin,
        Self::Fast,
        Self::Slow,
        Self::Blocking,
        Self::Dangerous,
        Self::Connection,
        Self::Transaction,
        Self::Scripting,
    ];

    /// The name as rules and replies write it, with its `@`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keyspace => "@keyspace",
            Self::Read => "@read",
            Self::Write => "@write",
            Self::Set => "@set",
            Self::SortedSet => "@sortedset",
            Self::List => "@list",
            Self::Hash => "@hash",
            Self::String => "@string",
            Self::Bitmap => "@bitmap",
            Self::HyperLogLog => "@hyperloglog",
            Self::Geo => "@geo",
            Self::Stream => "@stream",
            Self::PubSub => "@pubsub",
            Self::Admin => "@admin",
            Self::Fast => "@fast",
            Self::Slow => "@slow",
            Self::Blocking => "@blocking",
            Self::Dangerous => "@dangerous",
            Self::Connection => "@connection",
            Self::Transaction => "@transaction",
            Self::Scripting => "@scripting",
        }
    }
}

/// A set of categories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Categories(u32);

impl Categories {
    /// The categories of a command of `group` with `traits`; `stated` replaces the group's own. A container is in none but @slow.
    #[must_use]
    pub const fn derive(group: Group, traits: Traits, stated: Option<&[Category]>, container: bool) -> Self {
        let mut set = match (stated, group.category()) {
            (Some(stated), _) => Self::of(stated),
            (None, Some(category)) if !container => Self(0).with(category),
            _ => Self(0),
        };
        if traits.write {
            set = set.with(Category::Write);
        }
        // A script that only reads is not in @read, because what it reads is not known before it runs.
        if traits.readonly && !set.contains(Category::Scripting) {
            set = set.with(Category::Read);
        }
        if traits.admin {
            set = set.with(Category::Admin).with(Category::Dangerous);
        }
        if traits.pubsub {
            set = set.with(Category::PubSub);
        }
        if traits.blocking {
            set = set.with(Category::Blocking);
        }
        set.with(if traits.fast { Category::Fast } else { Category::Slow })
    }

    /// The set of the listed categories.
    #[must_use]
    pub const fn of(list: &[Category]) -> Self {
        let mut set = Self(0);
        let mut i = 0;
        while i < list.len() {
            set = set.with(list[i]);
            i += 1;
        }
        set
    }

    /// This set and `category`.
    #[must_use]
    pub const fn with(self, category: Category) -> Self {
        Self(self.0 | 1 << category as u32)
    }

    /// Whether `category` is in the set.
    #[must_use]
    pub const fn contains(self, category: Category) -> bool {
        self.0 & (1 << category as u32) != 0
    }

    /// The categories of the set, in the order of COMMAND INFO.
    pub fn iter(self) -> impl Iterator<Item = Category> {
        Category::ALL.into_iter().filter(move |c| self.contains(*c))
    }
}
