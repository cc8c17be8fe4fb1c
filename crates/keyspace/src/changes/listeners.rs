//! The listeners for changes, and what they are told.

use almandine_base::events::Classes;
use almandine_store::{Changes, RemovalReason};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

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

/// One event of a key.
#[derive(Clone, Copy, Debug)]
pub struct KeyEvent<'e> {
    /// The classes and channels that are published.
    pub published: Classes,
    /// The database that the key is in.
    pub db: u16,
    /// The key.
    pub key: &'e [u8],
    /// What it is called.
    pub name: &'static str,
    pub(crate) elements: &'e [u8],
}

impl<'e> KeyEvent<'e> {
    /// The elements that it is about, where it tells.
    pub fn elements(&self) -> impl Iterator<Item = &'e [u8]> + use<'e> {
        almandine_store::elements(self.elements)
    }
}

type KeyListener = Box<dyn Fn(&[ChangedKey<'_>]) + Send + Sync>;
type EffectListener = Box<dyn Fn(&Changes) + Send + Sync>;
type EventListener = Box<dyn Fn(&KeyEvent<'_>) + Send + Sync>;

/// The listeners for events, and for changes that no accessor takes.
#[derive(Default)]
pub(crate) struct Listening {
    pub(crate) keys: OnceLock<KeyListener>,
    pub(crate) effects: OnceLock<EffectListener>,
    pub(crate) events: OnceLock<EventListener>,
    pub(crate) unit_end: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Which events are told ([`Classes::bits`]).
    pub(crate) published: AtomicU32,
}

impl Listening {
    /// Which events are told now.
    #[inline]
    pub(crate) fn published(&self) -> Classes {
        Classes::from_bits(self.published.load(Ordering::Relaxed))
    }
}
