//! The product in a deterministic simulation: runs of a seed, their schedules, and checks of what came of them.
//!
//! **Is**: what drives the simulation of `almandine_io::sim`: [`run`] starts product code in a world and repeats it, [`scenario`]
//! says what a seed means for a whole server and its clients, [`proofs`] runs that, [`shrink`] makes one that fails small.
//! **Is not**: part of the product. Everything here is built with the feature `sim` only; a build of the workspace has none of it.
//! **Invariants**: a run follows from its scenario alone; each check has a mutant that it must catch.
//! **Start reading at**: [`run::run`], then [`proofs::run`].

#[cfg(feature = "sim")]
pub mod coverage;
#[cfg(feature = "sim")]
pub mod media;
#[cfg(feature = "sim")]
pub mod proofs;
#[cfg(feature = "sim")]
pub mod run;
#[cfg(feature = "sim")]
pub mod runtime;
#[cfg(feature = "sim")]
pub mod scenario;
#[cfg(feature = "sim")]
pub mod schedules;
#[cfg(feature = "sim")]
pub mod server;
#[cfg(feature = "sim")]
pub mod shrink;
#[cfg(feature = "sim")]
pub mod witness;
