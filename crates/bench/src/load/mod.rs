//! Driving load: threads, connections, clocks and what they measured.
//!
//! One thread owns its connections, its pool and its histogram; threads share a phase word and a counter each. *Closed*
//! load keeps a fixed number of batches in flight per connection and finds the maximum throughput. *Open* load sends at a
//! fixed rate whatever the server does, and measures from the moment a request was due: a stall of the server is seen by every
//! request that should have been sent during it (no coordinated omission).

mod closed;
mod connecting;
mod connection;
mod filler;
mod open;
mod preload;
mod run;

pub use connecting::Connecting;
pub use filler::Filling;
pub use preload::{Preload, preload};
pub use run::{Arrivals, Load, Measurement, Pace, Progress, run};
