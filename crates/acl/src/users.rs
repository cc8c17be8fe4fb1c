//! All users, as one value.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::error::UserError;
use crate::pattern::has_blanks;
use crate::user::{Defaults, User};

/// The user of connections that have not authenticated, which always exists.
pub const DEFAULT_USER: &[u8] = b"default";
/// Its id.
pub const DEFAULT_USER_ID: u64 = 1;

/// All users by name.
#[derive(Clone, Debug)]
pub struct Users {
    by_name: BTreeMap<Arc<[u8]>, Arc<User>>,
    next_id: u64,
}

impl Users {
    /// The default user alone, which may do everything. `password` is `requirepass`; without one, every client is the default user.
    #[must_use]
    pub fn new(password: &[u8], catalog: &Catalog) -> Self {
        let mut users = Self { by_name: BTreeMap::new(), next_id: 0 };
        let mut user = users.create(DEFAULT_USER, catalog, Defaults::default());
        debug_assert_eq!(user.id, DEFAULT_USER_ID);
        for rule in [&b"+@all"[..], b"~*", b"&*", b"on", b"nopass"] {
            user.apply(rule, catalog, Defaults::default()).unwrap_or_else(|error| unreachable!("{}", error.text()));
        }
        users.insert(user);
        users.set_default_password(password, catalog);
        users
    }

    /// A user of this name, with an id of its own, which is not among the users yet.
    pub(crate) fn create(&mut self, name: &[u8], catalog: &Catalog, defaults: Defaults) -> User {
        self.next_id += 1;
        User::new(self.next_id, name, catalog, defaults)
    }

    /// Ids that `other` has given are not given again.
    pub(crate) fn next_id_at_least(&mut self, other: &Self) {
        self.next_id = self.next_id.max(other.next_id);
    }

    pub(crate) fn insert(&mut self, user: User) {
        self.by_name.insert(Arc::clone(&user.name), Arc::new(user));
    }

    /// `requirepass`: the only password of the default user; empty for none.
    pub fn set_default_password(&mut self, password: &[u8], catalog: &Catalog) {
        let mut user = User::clone(self.default_user());
        let rules = if password.is_empty() {
            [b"resetpass".to_vec(), b"nopass".to_vec()]
        } else {
            [b"resetpass".to_vec(), [b">", password].concat()]
        };
        for rule in rules {
            user.apply(&rule, catalog, Defaults::default()).unwrap_or_else(|error| unreachable!("{}", error.text()));
        }
        self.insert(user);
    }

    /// ACL SETUSER: changes a user, or makes one.
    ///
    /// # Errors
    /// The first rule that is wrong; nothing is changed then.
    pub fn set(&mut self, name: &[u8], rules: &[&[u8]], catalog: &Catalog, defaults: Defaults) -> Result<(), UserError> {
        let mut user = match self.find(name) {
            Some(user) => User::clone(user),
            None => self.create(name, catalog, defaults),
        };
        user.apply_all(rules, catalog, defaults)?;
        self.insert(user);
        Ok(())
    }

    /// Removes a user. Returns the one that there was.
    pub fn remove(&mut self, name: &[u8]) -> Option<Arc<User>> {
        self.by_name.remove(name)
    }

    /// The user of this name.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.by_name.get(name)
    }

    /// The user of connections that have not authenticated.
    #[must_use]
    pub fn default_user(&self) -> &Arc<User> {
        self.find(DEFAULT_USER).unwrap_or_else(|| unreachable!("the default user cannot be removed"))
    }

    /// All users, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.by_name.values()
    }
}

/// Whether a user may have this name: it must stand in a line of rules.
#[must_use]
pub fn is_valid_name(name: &[u8]) -> bool {
    !has_blanks(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_that_is_made_again_is_another() {
        let catalog = Catalog::default();
        let mut users = Users::new(b"", &catalog);
        users.set(b"a", &[b"on"], &catalog, Defaults::default()).unwrap();
        let first = users.find(b"a").unwrap().id;
        users.set(b"a", &[b"off"], &catalog, Defaults::default()).unwrap();
        assert_eq!(users.find(b"a").unwrap().id, first);
        assert_eq!(users.remove(b"a").unwrap().id, first);
        users.set(b"a", &[], &catalog, Defaults::default()).unwrap();
        assert_ne!(users.find(b"a").unwrap().id, first);
    }

    #[test]
    fn a_wrong_rule_changes_nothing() {
        let catalog = Catalog::default();
        let mut users = Users::new(b"secret", &catalog);
        assert!(users.default_user().accepts(b"secret") && !users.default_user().is_open());
        assert!(users.set(b"default", &[b"off", b"nonsense"], &catalog, Defaults::default()).is_err());
        assert!(users.default_user().is_enabled());
        assert!(users.set(b"b", &[b"nonsense"], &catalog, Defaults::default()).is_err());
        assert!(users.find(b"b").is_none());
        users.set_default_password(b"", &catalog);
        assert!(users.default_user().is_open());
    }
}
