//! The machine of a server that crashes and boots again, as a proof drives it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use almandine_io::sim::choice::Subsystem;
use almandine_io::sim::disk::Disk;
use almandine_io::sim::turn::SimThread;
use almandine_io::sim::world::{self, CrashKind, NodeId, World};
use almandine_testkit::{Client, Runtime};

use crate::runtime::{Connection, Simulated};
use crate::server::{self, Refused};

/// How long a server is away that has crashed.
pub(crate) const AWAY: Duration = Duration::from_millis(200);
/// How long a start may take, with a disk that is slow and threads that are starved.
const START_MAX: Duration = Duration::from_secs(120);

/// See the module.
pub(crate) struct Machine {
    pub(crate) world: Arc<World>,
    pub(crate) node: NodeId,
    /// All that the server is told.
    settings: Vec<String>,
    refused: Refused,
    /// The server that was booted last.
    running: Mutex<Option<SimThread<()>>>,
}

impl Machine {
    /// The one of a server, which is told this when it boots again.
    pub(crate) fn of(server: &Simulated, settings: Vec<String>) -> Self {
        let (world, _) = world::current().expect("a proof runs in a simulated thread");
        Self { world, node: server.server(), settings, refused: Refused::default(), running: Mutex::default() }
    }

    pub(crate) fn draw(&self, limit: u64) -> u64 {
        self.world.turn().below(Subsystem::Clients, limit)
    }

    pub(crate) fn disk(&self) -> Arc<Disk> {
        self.world.disk(self.node)
    }

    /// Has the server crash after some time, or at a change of its disk before.
    pub(crate) fn plan_crash(&self, kind: CrashKind, time_ns: u64, changes: u64) {
        let disk = self.disk();
        if self.draw(2) == 1 {
            disk.crash_at(disk.changes() + self.draw(changes), kind);
        }
        let (world, node) = (Arc::downgrade(&self.world), self.node);
        let crash = move || {
            let Some(world) = world.upgrade() else { return };
            world.disk(node).crash_at(u64::MAX, kind);
            world.crash(node, kind);
        };
        self.world.turn().at(self.world.turn().now_ns() + time_ns, crash);
    }

    pub(crate) fn boot(&self) {
        let running = server::start_or_tell(&self.world, self.node, &self.settings, &self.refused);
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
    }

    /// Has the server crash now.
    pub(crate) fn crash(&self, kind: CrashKind) {
        self.world.crash(self.node, kind);
    }

    /// Why the server has refused to start; it may be booted again.
    pub(crate) fn forget_refusal(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends the server, over a connection that ends with it.
    pub(crate) fn shut_down(&self, control: &mut Client<Connection>) {
        let _ = control.send(&[["SHUTDOWN", "NOSAVE"]]);
        let _ = control.receive();
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        running.into_iter().for_each(|server| _ = server.join());
    }

    /// Why the server has refused to start.
    pub(crate) fn refused(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A client of the server when it has read its data; none when it has refused to start.
    pub(crate) fn reach(&self, server: &Simulated) -> Option<Client<Connection>> {
        let begun_ns = server.now_ns();
        while self.refused().is_none() {
            let ready = |client: &mut Client<Connection>| client.call(&["DBSIZE"]).is_ok_and(|reply| reply.integer().is_some());
            if let Some(client) = Client::of(server).ok().and_then(|mut client| ready(&mut client).then_some(client)) {
                return Some(client);
            }
            assert!(server.now_ns() - begun_ns < START_MAX.as_nanos() as u64, "the server does not serve after {START_MAX:?}");
            server.sleep(Duration::from_millis(5));
        }
        None
    }
}
