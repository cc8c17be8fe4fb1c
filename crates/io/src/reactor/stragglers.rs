//! Connections that wait at a listener which is accepted from no more.
//!
//! The kernel wakes one of those who wait for a listener. If that one leaves before it accepts, nobody else is woken, and the connection would wait until
//! the next one comes. So who leaves takes what waits, when the kernel cannot wake it any more.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::Event;
use crate::socket::Listener;

#[derive(Default)]
pub(super) struct Stragglers(Vec<(u32, OwnedFd)>);

impl Stragglers {
    /// Takes those that wait now. What the system refuses waits for whoever still accepts.
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
