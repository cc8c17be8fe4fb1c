//! The [`Control`] that a service gets with a message or a tick.
//!
//! All connections share the worker's scratch output here too: asking for the next connection sends what was written for the
//! one before.

use almandine_base::Output;

use crate::connection::Life;
use crate::connection_table::ConnectionTable;
use crate::service::{ConnectionId, Control, Service};

pub(crate) struct TableControl<'a, S: Service> {
    table: &'a mut ConnectionTable<S>,
    /// The connection of the scratch output.
    current: Option<ConnectionId>,
}

impl<'a, S: Service> TableControl<'a, S> {
    pub(crate) fn new(table: &'a mut ConnectionTable<S>) -> Self {
        Self { table, current: None }
    }

    /// Sends what was written for the current connection.
    pub(crate) fn finish(&mut self) {
        let Some(id) = self.current.take() else { return };
        if self.table.scratch.is_empty() {
            return;
        }
        let Some(token) = self.table.slab.by_id(id).map(|connection| connection.token) else { return };
        let Some(mut connection) = self.table.slab.take(token) else { return };
        connection.output.pushed += self.table.scratch.len();
        self.table.deliver(&mut connection);
        ConnectionTable::<S>::list(&mut self.table.listed, &mut connection);
        self.table.slab.put(connection);
    }
}

impl<S: Service> Control<S::Connection> for TableControl<'_, S> {
    fn connection(&mut self, id: ConnectionId) -> Option<(&mut S::Connection, &mut Output)> {
        if self.current != Some(id) {
            self.finish();
        }
        let table = &mut *self.table;
        let session = table.slab.by_id(id).filter(|connection| connection.life == Life::Open)?.session.as_mut()?;
        self.current = Some(id);
        Some((session, &mut table.scratch))
    }

    fn kill(&mut self, id: ConnectionId, after_flush: bool) -> bool {
        self.finish();
        let Some(connection) = self.table.slab.by_id(id).filter(|connection| connection.session.is_some()) else { return false };
        if connection.life == Life::Open || !after_flush {
            connection.life = if after_flush { Life::Closing } else { Life::Dead };
        }
        ConnectionTable::<S>::list(&mut self.table.listed, connection);
        true
    }

    fn resume(&mut self, id: ConnectionId) {
        self.finish();
        if let Some(connection) = self.table.slab.by_id(id) {
            (connection.paused, connection.awaits) = (false, false);
            ConnectionTable::<S>::list(&mut self.table.listed, connection);
        }
    }

    fn hold(&mut self, id: ConnectionId) {
        if self.current != Some(id) {
            self.finish();
        }
        if let Some(connection) = self.table.slab.by_id(id) {
            connection.output.holds += 1;
        }
    }

    fn release(&mut self, id: ConnectionId) {
        self.finish();
        if let Some(connection) = self.table.slab.by_id(id) {
            debug_assert!(connection.output.holds > 0, "what is released was held");
            connection.output.holds = connection.output.holds.saturating_sub(1);
            ConnectionTable::<S>::list(&mut self.table.listed, connection);
        }
    }

    fn each(&mut self, visit: &mut dyn FnMut(ConnectionId, &mut S::Connection)) {
        self.finish();
        for place in 0..self.table.slab.places() {
            if let Some(connection) = self.table.slab.by_place(place)
                && let Some(session) = &mut connection.session
            {
                visit(connection.id, session);
            }
        }
    }
}
