//! The users of a running server, and their log.
//!
//! Users are one immutable value behind a pointer, with a number that grows with each change. A client holds its user, and looks
//! for a newer one when the number is not the one that it knows: once per batch, one load while nothing changes.
//!
//! A change of users is followed by a search for the clients that it is about. Authentication works in the other order: the client
//! publishes its user, then reads the users once more. Both take the mutex of the client's identity in between, so that at least
//! one of them sees the other: no client keeps what its user has lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use almandine_acl::{AclLog, Catalog, Users};
use almandine_io::sync::Mutex;
use arc_swap::ArcSwap;

use crate::client::{ClientShared, Clients};
use crate::lock::lock;

/// Users, and what they were denied.
#[derive(Debug)]
pub struct Acl {
    catalog: Catalog,
    users: ArcSwap<Users>,
    /// Grows with each change, after the users are in place.
    version: AtomicU64,
    /// Held while users change.
    writer: Mutex<()>,
    /// What was denied lately.
    pub log: AclLog,
}

impl Acl {
    /// The users to begin with, whose rules are about the commands of the catalog.
    #[must_use]
    pub fn new(catalog: Catalog, users: Users) -> Self {
        Self {
            catalog,
            users: ArcSwap::from_pointee(users),
            version: AtomicU64::new(0),
            writer: Mutex::new(()),
            log: AclLog::default(),
        }
    }

    /// The default user alone, which may do everything.
    #[must_use]
    pub fn open(catalog: Catalog) -> Self {
        let users = Users::new(b"", &catalog);
        Self::new(catalog, users)
    }

    /// The commands.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// A number that grows with each change.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The users as they are now.
    #[must_use]
    pub fn users(&self) -> Arc<Users> {
        self.users.load_full()
    }

    /// Changes the users, and returns what `change` does; none of it takes effect when that fails.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn change<T, E>(&self, change: impl FnOnce(&mut Users, &Catalog) -> Result<T, E>) -> Result<T, E> {
        let _turn = lock(&self.writer);
        let mut users = Users::clone(&self.users.load());
        let changed = change(&mut users, &self.catalog)?;
        self.users.store(Arc::new(users));
        self.version.fetch_add(1, Ordering::Release);
        Ok(changed)
    }

    /// `requirepass`: the only password of the default user; empty for none.
    pub fn set_default_password(&self, password: &[u8]) {
        let changed: Result<(), std::convert::Infallible> = self.change(|users, catalog| {
            users.set_default_password(password, catalog);
            Ok(())
        });
        changed.unwrap_or_else(|never| match never {});
    }
}

/// The clients of one of these users, after these were changed.
#[must_use]
pub fn clients_of(clients: &Clients, user_ids: &[u64]) -> Vec<Arc<ClientShared>> {
    let mut all = clients.all();
    all.retain(|client| user_ids.contains(&client.identity().user_id));
    all
}
