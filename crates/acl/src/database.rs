//! Which databases may be used: Valkey 9.1's rules `db=`, `alldbs` and `resetdbs`.

use std::collections::BTreeSet;
use std::num::IntErrorKind;

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

    /// The databases that `list`, numbers with commas, names, and no others.
    pub(crate) fn set(&mut self, list: &[u8]) -> Result<(), RuleError> {
        let text = std::str::from_utf8(list).map_err(|_| RuleError::Syntax)?;
        let ids: Result<BTreeSet<u32>, RuleError> = text.split(',').map(id).collect();
        (self.all, self.ids) = (false, ids?);
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

fn id(number: &str) -> Result<u32, RuleError> {
    let number: i64 = match number.parse() {
        Ok(number) => number,
        Err(error) if matches!(error.kind(), IntErrorKind::PosOverflow | IntErrorKind::NegOverflow) => i64::MAX,
        Err(_) => return Err(RuleError::Syntax),
    };
    let id = i32::try_from(number).ok().and_then(|id| u32::try_from(id).ok());
    id.ok_or(RuleError::DatabaseOutOfRange)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_takes_the_place_of_the_one_before() {
        let mut databases = Databases::ALL;
        assert!(databases.contains(7) && databases.describe().is_empty());
        databases.set(b"7").unwrap();
        databases.set(b"3,1,2,1").unwrap();
        assert_eq!(databases.describe(), "db=1,2,3");
        assert!(databases.contains(2) && !databases.contains(0) && !databases.contains(7) && !databases.contains(-1));
        assert_eq!(databases.set(b"5,"), Err(RuleError::Syntax));
        assert_eq!(databases.set(b""), Err(RuleError::Syntax));
        assert_eq!(databases.set(b"5,2147483648"), Err(RuleError::DatabaseOutOfRange));
        assert_eq!(databases.set(b"99999999999999999999"), Err(RuleError::DatabaseOutOfRange));
        assert_eq!(databases.set(b"-1"), Err(RuleError::DatabaseOutOfRange));
        assert_eq!(databases.describe(), "db=1,2,3");
        databases.clear();
        assert_eq!(databases.describe(), "resetdbs");
    }
}
