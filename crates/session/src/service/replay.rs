//! Commands of a file, executed one after the other without a network, by a service of their own.

use std::sync::Arc;

use almandine_base::Output;
use almandine_handler::Table;
use almandine_instance::Instance;
use almandine_io::clock;
use almandine_io::socket::Address;
use almandine_keyspace::Accessor;
use almandine_net::{ConnectionId, Control, Next, Peer, Service};

use crate::service::receive::WorkerService;
use crate::state::connection::Connection;

/// The one connection.
const ID: ConnectionId = 1;

/// Which time commands are executed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayTime {
    /// Before all times, so that nothing is past its own: what happened long ago met it alive.
    Still,
    /// The present, for what counts from it.
    Present,
}

/// Why a command is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// It waits for what another client does.
    Waits,
    /// Its connection would be closed for it.
    Closed,
}

/// A client without a network. It is served by an instance that no other client has, which shares the data with the server's:
/// neither its commands nor its existence is seen in the server's figures.
pub struct Replay {
    service: WorkerService,
    connection: Connection,
    out: Output,
}

impl Replay {
    /// A client of `instance`, whose users are those of a server without any rules. None when the instance refuses it.
    #[must_use]
    pub fn new(instance: Arc<Instance>, table: &'static Table, accessor: Accessor) -> Option<Self> {
        let mut service = WorkerService::new(instance, table, accessor, 0);
        service.bulk_bytes_max = usize::MAX;
        let mut out = Output::new();
        let here = Address::Unix(std::path::PathBuf::new());
        let peer = Peer { remote: here.clone(), local: here, worker: 0, descriptor: -1, names: Vec::new() };
        let connection = service.open(ID, &peer, &mut out)?;
        Some(Self { service, connection, out })
    }

    /// Executes whole commands, and returns their replies.
    ///
    /// # Errors
    /// When one has none; then it is not known which of those behind it were executed.
    pub fn execute(&mut self, mut requests: &[u8], time: ReplayTime) -> Result<&[u8], Unanswered> {
        self.out.clear();
        while !requests.is_empty() {
            self.service.unix_ahead_ns = match time {
                ReplayTime::Still => -clock::monotonic_ns().cast_signed(),
                ReplayTime::Present => clock::unix_ahead_ns(),
            };
            let runner = &mut self.service.worker.runner;
            runner.is_past = time == ReplayTime::Still;
            runner.accessor.unit().follow_clock(!runner.is_past);
            let progress = self.service.receive(&mut self.connection, requests, &mut self.out);
            requests = &requests[progress.consumed..];
            if self.out.has_stream() && self.out.finish_stream().is_err() {
                return Err(Unanswered::Closed);
            }
            match progress.next {
                Next::Continue if progress.consumed > 0 => {}
                Next::Await => self.await_result()?,
                Next::Continue | Next::Pause => return Err(Unanswered::Waits),
                Next::Close | Next::CloseAfterFlush | Next::CloseOverInput => return Err(Unanswered::Closed),
            }
        }
        self.out.flatten();
        Ok(&self.out.bytes)
    }

    /// Does the work that a command waits for.
    fn await_result(&mut self) -> Result<(), Unanswered> {
        let mut control = Alone { connection: &mut self.connection, out: &mut self.out, resumed: false };
        while !control.resumed {
            if !self.service.has_work() {
                return Err(Unanswered::Waits);
            }
            self.service.work(&mut control);
        }
        Ok(())
    }

    /// Ends it. What waits for EXEC is not executed.
    pub fn end(mut self) {
        self.service.close(self.connection);
    }
}

/// The one connection, as its service sees it.
struct Alone<'c> {
    connection: &'c mut Connection,
    out: &'c mut Output,
    resumed: bool,
}

impl Control<Connection> for Alone<'_> {
    fn connection(&mut self, id: ConnectionId) -> Option<(&mut Connection, &mut Output)> {
        (id == ID).then_some((&mut *self.connection, &mut *self.out))
    }

    fn kill(&mut self, id: ConnectionId, _after_flush: bool) -> bool {
        id == ID
    }

    fn resume(&mut self, id: ConnectionId) {
        self.resumed |= id == ID;
    }

    fn hold(&mut self, _id: ConnectionId) {}

    fn release(&mut self, _id: ConnectionId) {}

    fn each(&mut self, visit: &mut dyn FnMut(ConnectionId, &mut Connection)) {
        visit(ID, self.connection);
    }
}
