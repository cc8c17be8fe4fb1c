//! Points: places between two steps of a protocol, where a simulation may let another thread run. Nothing in every other build.
//!
//! Each [`step!`](crate::step) is one. The simulation is above this crate, so it says here what it does at a point, and which
//! steps it leaves out.

#[cfg(feature = "sim")]
pub use self::simulated::{Simulation, install};

/// Another thread may run here, if the calling one is simulated.
#[inline(always)]
pub fn point(name: &'static str) {
    #[cfg(feature = "sim")]
    simulated::point(name);
    let _ = name;
}

/// Says that something rare has happened, which a night of simulations must have seen: `sometimes!("an index halves")`. Nothing in
/// every other build. `cargo xtask sim` knows the names by the sources, and tells those that never happened.
#[macro_export]
macro_rules! sometimes {
    ($what:literal) => {
        $crate::points::happens($what)
    };
}

/// See [`sometimes!`](crate::sometimes).
#[inline(always)]
pub fn happens(what: &'static str) {
    #[cfg(feature = "sim")]
    simulated::happens(what);
    let _ = what;
}

/// Says that the caller has computed for this long without coming to a point. A simulation lets so much of its time pass, in which
/// other threads run. Nothing in every other build.
#[inline(always)]
pub fn works(time_ns: u64) {
    #[cfg(feature = "sim")]
    simulated::works(time_ns);
    let _ = time_ns;
}

/// What becomes of the request of a client: the witness of the order in which requests take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// It begins to run, and nothing of it has happened. What has to be read first lets it begin again.
    Begins,
    /// It has taken effect, and the clients that waited for that are served.
    Ran,
    /// Its client waits.
    Waits,
    /// The wait of its client may end now for nothing that another one has done.
    Leaves,
    /// The wait of its client has ended.
    Left,
    /// It runs once more to be answered, and has taken effect before.
    Answered,
}

/// Says what becomes of the request of a client, by the client's number. Nothing in every other build.
#[inline(always)]
pub fn witness(what: Witness, client: u64) {
    #[cfg(feature = "sim")]
    simulated::witness(what, client);
    let _ = (what, client);
}

#[cfg(feature = "sim")]
pub(crate) mod simulated {
    use std::sync::OnceLock;

    use super::Witness;
    use crate::mutants::Mutant;

    /// What a simulation does.
    #[derive(Clone, Copy, Debug)]
    pub struct Simulation {
        /// At a point of this name.
        pub point: fn(&'static str),
        /// Something of this name has happened in the calling thread.
        pub happens: fn(&'static str),
        /// This has become of the request of this client.
        pub witness: fn(Witness, u64),
        /// Whether the calling thread leaves a step out.
        pub leaves_out: fn(Mutant) -> bool,
        /// Gives other threads some nanoseconds; false when the calling thread is not simulated.
        pub pause: fn(u64) -> bool,
    }

    static SIMULATION: OnceLock<Simulation> = OnceLock::new();

    /// Has points go to a simulation from now on. The first call wins.
    pub fn install(simulation: Simulation) {
        SIMULATION.get_or_init(|| simulation);
    }

    pub(super) fn point(name: &'static str) {
        if let Some(simulation) = SIMULATION.get() {
            (simulation.point)(name);
        }
    }

    pub(super) fn happens(what: &'static str) {
        if let Some(simulation) = SIMULATION.get() {
            (simulation.happens)(what);
        }
    }

    pub(super) fn witness(what: Witness, client: u64) {
        if let Some(simulation) = SIMULATION.get() {
            (simulation.witness)(what, client);
        }
    }

    pub(super) fn works(time_ns: u64) {
        if let Some(simulation) = SIMULATION.get() {
            (simulation.pause)(time_ns);
        }
    }

    pub(crate) fn leaves_out(mutant: Mutant) -> bool {
        SIMULATION.get().is_some_and(|simulation| (simulation.leaves_out)(mutant))
    }

    pub(crate) fn pause(time_ns: u64) -> bool {
        SIMULATION.get().is_some_and(|simulation| (simulation.pause)(time_ns))
    }
}
