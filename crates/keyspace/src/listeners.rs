//! Who is told of changes, and of what.

use almandine_store::{Changes, RemovalReason};
use std::sync::OnceLock;

/// A key that a command has changed, that has expired, or gave way because memory was scarce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedKey<'c> {
    /// The database that it is in.
    pub db: u16,
    /// The key.
    pub key: &'c [u8],
    /// Why it was removed without a command.
    pub removal: Option<RemovalReason>,
}

type KeyListener = Box<dyn Fn(&[ChangedKey<'_>]) + Send + Sync>;
type EffectListener = Box<dyn Fn(&Changes) + Send + Sync>;

/// Who is told of what no accessor takes.
#[derive(Default)]
pub(crate) struct Listeners {
    pub(crate) keys: OnceLock<KeyListener>,
    pub(crate) effects: OnceLock<EffectListener>,
}
