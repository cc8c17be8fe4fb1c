//! The user of a client, and the newest that the client knows of it.

use std::sync::Arc;

use almandine_acl::User;
use almandine_base::step;
use almandine_instance::Acl;

/// The user of a client, and what the client may do.
#[derive(Clone, Debug)]
pub struct Access {
    user: Arc<User>,
    /// Which users these are; see [`Acl::version`].
    version: u64,
    /// The client has authenticated, or did not have to when it connected.
    authenticated: bool,
    /// It may run commands beyond those without authentication: it has authenticated, or does not have to now.
    admitted: bool,
    /// Something is forbidden to it.
    restricted: bool,
}

impl Access {
    /// A new connection: the default user's.
    #[must_use]
    pub fn of_default(acl: &Acl) -> Self {
        // The number is read first: a change in between makes the user old, never too new.
        let version = acl.version();
        let user = Arc::clone(acl.users().default_user());
        let open = user.is_open();
        let restricted = !user.is_unrestricted();
        Self { user, version, authenticated: open, admitted: open, restricted }
    }

    /// A connection that has authenticated as `user`.
    pub(crate) fn of(user: Arc<User>) -> Self {
        let restricted = !user.is_unrestricted();
        Self { user, version: 0, authenticated: true, admitted: true, restricted }
    }

    /// Whether no user has changed since.
    #[inline]
    pub(crate) fn is_current(&self, acl: &Acl) -> bool {
        self.version == acl.version()
    }

    /// Takes changes of users over. False when the client's user is gone: the client has none then.
    #[cold]
    pub(crate) fn refresh(&mut self, acl: &Acl) -> bool {
        let version = acl.version();
        let users = acl.users();
        let same = users.find(&self.user.name).filter(|user| user.id == self.user.id);
        let exists = same.is_some();
        let user = Arc::clone(same.unwrap_or_else(|| users.default_user()));
        let authenticated = exists && self.authenticated;
        let admitted = authenticated || exists && users.default_user().is_open();
        let fresh = Self { version, authenticated, admitted, restricted: !user.is_unrestricted(), user };
        step!(RefreshRights, *self = fresh, else self.version = version);
        exists
    }

    /// The user.
    #[must_use]
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// Whether the client has authenticated.
    #[must_use]
    pub fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// Whether it may run commands beyond AUTH, HELLO, QUIT and RESET.
    #[inline]
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.admitted
    }

    /// Whether commands have to be checked.
    #[inline]
    #[must_use]
    pub fn is_restricted(&self) -> bool {
        self.restricted
    }
}
