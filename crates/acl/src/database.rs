//! Which databases may be used: Valkey 9.1's rules `db=`, `alldbs` and `resetdbs`.

use std::collections::BTreeSet;

use crate::error::RuleError;

/// A set of databases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Databases {
    all: bool,
    ids: BTreeSet<u32>,
}

impl Databases {
    pub(crate) const ALL: Self = Self { all: true, ids: BTreeSet::new() };

    /// No database.
    pub(crate) fn clear(&mut self) {
        (self.all, self.ids) = (false, BTreeSet::new());
    }

    /// Adds the databases that `list`, numbers with commas, names; from all on, it begins with none.
    pub(crate) fn add(&mut self, list: &[u8]) -> Result<(), RuleError> {
        let text = std::str::from_utf8(list).map_err(|_| RuleError::Syntax)?;
        let mut named = BTreeSet::new();
        for number in text.split(',') {
            let number: i64 = number.parse().map_err(|_| RuleError::Syntax)?;
            let id = u32::try_from(number).ok().filter(|id| i32::try_from(*id).is_ok());
            named.insert(id.ok_or(RuleError::DatabaseOutOfRange)?);
        }
        self.all = false;
        self.ids.append(&mut named);
        Ok(())
    }

    /// Whether all databases are in the set.
    #[inline]
    #[must_use]
    pub fn are_all(&self) -> bool {
        self.all
    }

    /// Whether database `id` is.
    #[must_use]
    pub fn contains(&self, id: i64) -> bool {
        self.all || u32::try_from(id).is_ok_and(|id| self.ids.contains(&id))
    }

    /// The rule that makes the set; nothing for all databases, which is what a selector begins with.
    #[must_use]
    pub fn describe(&self) -> String {
        if self.all {
            return String::new();
        }
        let ids: Vec<String> = self.ids.iter().map(ToString::to_string).collect();
        if ids.is_empty() { "resetdbs".to_owned() } else { format!("db={}", ids.join(",")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_add_up() {
        let mut databases = Databases::ALL;
        assert!(databases.contains(7) && databases.describe().is_empty());
        databases.add(b"3,1").unwrap();
        databases.add(b"2").unwrap();
        assert_eq!(databases.describe(), "db=1,2,3");
        assert!(databases.contains(2) && !databases.contains(0) && !databases.contains(-1));
        assert_eq!(databases.add(b"5,"), Err(RuleError::Syntax));
        assert_eq!(databases.add(b"5,2147483648"), Err(RuleError::DatabaseOutOfRange));
        assert_eq!(databases.add(b"-1"), Err(RuleError::DatabaseOutOfRange));
        assert_eq!(databases.describe(), "db=1,2,3");
        databases.clear();
        assert_eq!(databases.describe(), "resetdbs");
    }
}
