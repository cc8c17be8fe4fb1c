//! A server that crashes while clients write, in each way, and boots again.

use std::sync::Arc;
use std::time::Duration;

use almandine_io::sim::choice::Subsystem;
use almandine_io::sim::world::{CrashKind, NodeId, World};
use almandine_testkit::history::{self, History};
use almandine_testkit::{Runtime, Value};

use super::{Check, Medium, loads, reach, server_settings};
use crate::runtime::Simulated;
use crate::scenario::Scenario;
use crate::server;

/// How often the server crashes.
const CRASHES: u64 = 3;
/// How long it is away.
const AWAY_NS: u64 = 200_000_000;

/// Has the server crash again and again: at a time that is drawn, or in place of a change of its disk.
pub(super) fn plan_crashes(world: &Arc<World>, node: NodeId, scenario: &Scenario) {
    let mut at_ns = 0;
    for _ in 0..CRASHES {
        let life_ns = scenario.millis * 1_000_000;
        at_ns += 20_000_000 + world.turn().below(Subsystem::Clients, life_ns);
        let kinds = [CrashKind::Process, CrashKind::Container, CrashKind::Machine];
        let kind = kinds[world.turn().below(Subsystem::Clients, 3) as usize];
        let change = (scenario.medium != Medium::Memory).then(|| world.turn().below(Subsystem::Clients, 40));
        let (first, second) = (Arc::downgrade(world), Arc::downgrade(world));
        let crash = move || {
            let Some(world) = first.upgrade() else { return };
            match change {
                // If the disk does not change so often, the server goes on, and crashes when it is to boot again.
                Some(change) => world.disk(node).crash_at(world.disk(node).changes() + change, kind),
                None => world.crash(node, kind),
            }
        };
        world.turn().at(at_ns, crash);
        at_ns += AWAY_NS;
        let settings = server_settings(scenario);
        let boot = move || {
            let Some(world) = second.upgrade() else { return };
            world.disk(node).crash_at(u64::MAX, CrashKind::Process);
            world.crash(node, CrashKind::Process);
            drop(server::start(&world, node, &settings));
        };
        world.turn().at(at_ns, boot);
    }
}

/// Records histories in each life of the server. Clients end with the server that they know, and what was not answered then may
/// have happened or not.
pub(super) fn record(scenario: &Scenario, server: &Simulated) -> Check {
    let end_ns = CRASHES * (scenario.millis * 1_000_000 + 20_000_000 + AWAY_NS);
    let mut recorded: Vec<History> = Vec::new();
    while server.now_ns() < end_ns {
        let mut control = reach(server);
        // The boot is not over before the server answers.
        if control.call(&["PING"]).is_ok_and(|reply| reply != Value::Closed) {
            recorded.extend(history::record(server.clone(), loads::history_settings(scenario)).unwrap_or_default());
        }
        server.sleep(Duration::from_millis(5));
    }
    Box::new(move || recorded.iter().map(history::check).sum())
}
