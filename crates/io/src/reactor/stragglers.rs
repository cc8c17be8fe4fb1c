//! Connections that still wait at a listener when this reactor stops accepting from it.
//!
//! For a new connection the kernel wakes one of the threads that wait for the listener. If that thread leaves before it
//! accepts, no other thread is woken, and the connection would wait until the next one comes. So a reactor that leaves a
//! listener accepts what waits there, after the kernel has stopped waking it.

use std::sync::Arc;

use super::Event;
use crate::socket::{Descriptor, Listener};

#[derive(Default)]
pub(super) struct Stragglers(Vec<(u32, Descriptor)>);

impl Stragglers {
    /// Accepts the connections that wait now. One that the system refuses is left to the other reactors.
    pub(super) fn take(&mut self, index: u32, listener: &Arc<Listener>) {
        while let Ok(Some(descriptor)) = listener.accept() {
            self.0.push((index, descriptor));
        }
    }

    pub(super) fn are_left(&self) -> bool {
        !self.0.is_empty()
    }

    pub(super) fn next(&mut self) -> Option<Event<'static>> {
        self.0.pop().map(|(listener, descriptor)| Event::Accepted { listener, descriptor })
    }
}
