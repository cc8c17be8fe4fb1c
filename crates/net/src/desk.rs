//! The [`Control`] that a service gets with a message or a tick.
//!
//! All connections share the worker's scratch output here too: asking for the next connection sends what was written for the
//! one before.

use almandine_base::Output;

use crate::connection::Life;
use crate::room::Room;
use crate::service::{ConnectionId, Control, Service};

pub(crate) struct Desk<'a, S: Service> {
    room: &'a mut Room<S>,
    /// For whom the scratch output is.
    current: Option<ConnectionId>,
}

impl<'a, S: Service> Desk<'a, S> {
    pub(crate) fn new(room: &'a mut Room<S>) -> Self {
        Self { room, current: None }
    }

    /// Sends what was written for the current connection.
    pub(crate) fn finish(&mut self) {
        let Some(id) = self.current.take() else { return };
        if self.room.scratch.is_empty() {
            return;
        }
        let Some(token) = self.room.slab.by_id(id).map(|connection| connection.token) else { return };
        let Some(mut connection) = self.room.slab.take(token) else { return };
        self.room.deliver(&mut connection);
        Room::<S>::list(&mut self.room.listed, &mut connection);
        self.room.slab.put(connection);
    }
}

impl<S: Service> Control<S::Connection> for Desk<'_, S> {
    fn connection(&mut self, id: ConnectionId) -> Option<(&mut S::Connection, &mut Output)> {
        if self.current != Some(id) {
            self.finish();
        }
        let room = &mut *self.room;
        let session = room.slab.by_id(id).filter(|connection| connection.life == Life::Open)?.session.as_mut()?;
        self.current = Some(id);
        Some((session, &mut room.scratch))
    }

    fn kill(&mut self, id: ConnectionId, after_flush: bool) -> bool {
        self.finish();
        let Some(connection) = self.room.slab.by_id(id).filter(|connection| connection.session.is_some()) else { return false };
        if connection.life == Life::Open || !after_flush {
            connection.life = if after_flush { Life::Closing } else { Life::Dead };
        }
        Room::<S>::list(&mut self.room.listed, connection);
        true
    }

    fn resume(&mut self, id: ConnectionId) {
        self.finish();
        if let Some(connection) = self.room.slab.by_id(id) {
            (connection.paused, connection.awaits) = (false, false);
            Room::<S>::list(&mut self.room.listed, connection);
        }
    }

    fn each(&mut self, visit: &mut dyn FnMut(ConnectionId, &mut S::Connection)) {
        self.finish();
        for slot in 0..self.room.slab.slots() {
            if let Some(connection) = self.room.slab.by_slot(slot)
                && let Some(session) = &mut connection.session
            {
                visit(connection.id, session);
            }
        }
    }
}
