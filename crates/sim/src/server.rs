//! A whole server on a machine of a world.

use std::sync::{Arc, Mutex, PoisonError};

use almandine_config::{Config, Startup};
use almandine_io::files;
use almandine_io::sim::turn::SimThread;
use almandine_io::sim::world::{NodeId, World};
use almandine_io::socket::Address;
use almandine_server::Node;

/// The working directory of each server.
pub const DIRECTORY: &str = "/data";

/// What each server is told: small tables.
const SETTINGS: &[&str] =
    &["--dir", DIRECTORY, "--port", "6379", "--bind", "0.0.0.0", "--protected-mode", "no", "--index-size", "64kb"];
const NO_SNAPSHOTS: &[&str] = &["--save", ""];

/// Where clients find the server of a machine.
#[must_use]
pub fn address() -> Address {
    Address::Ip(([127, 0, 0, 1], 6379).into())
}

/// Why a server has not started.
pub type Refused = Arc<Mutex<Option<String>>>;

/// Starts a server with these settings beside those that each has, and lets it run until SHUTDOWN. The thread ends with it.
///
/// The world fails when the server does not start.
pub fn start<S: AsRef<str>>(world: &Arc<World>, node: NodeId, settings: &[S]) -> SimThread<()> {
    run(world, node, settings, |error| panic!("the server does not start: {error}"))
}

/// As [`start`], but tells why the server does not start.
pub fn start_or_tell<S: AsRef<str>>(world: &Arc<World>, node: NodeId, settings: &[S], refused: &Refused) -> SimThread<()> {
    let refused = Arc::clone(refused);
    run(world, node, settings, move |error| *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(error))
}

fn run<S: AsRef<str>>(
    world: &Arc<World>,
    node: NodeId,
    settings: &[S],
    refuse: impl FnOnce(String) + Send + 'static,
) -> SimThread<()> {
    let own = [SETTINGS, NO_SNAPSHOTS].concat();
    let args: Vec<String> = own.into_iter().chain(settings.iter().map(AsRef::as_ref)).map(str::to_owned).collect();
    world.spawn(node, "main", move || {
        if let Err(error) = files::make_directories(DIRECTORY) {
            return refuse(format!("{DIRECTORY} cannot be made: {error}"));
        }
        let config = match Config::load(&args) {
            Ok(Startup::Run(config)) => *config,
            Ok(_) => panic!("{args:?} start no server"),
            Err(error) => return refuse(error.to_string()),
        };
        let server = match Node::start(config) {
            Ok(server) => server,
            Err(error) => return refuse(error.to_string()),
        };
        server.wait();
        server.stop().expect("the server ends");
    })
}
