//! Fields that expire, which redis-server 7.0 does not have: random commands to our server and to a naive [`model`].
//!
//! The model is a map of maps with a time beside each value, and says what Redis 7.4 and 8 answer by their documentation. The
//! server's clock is the machine's: times are hundreds of seconds away, past, or over within milliseconds, which the [`stream`]
//! then waits for. The model has faults on demand, each of which a run must notice.

pub mod model;
pub mod stream;

pub use model::{Fault, Model};
pub use stream::{Report, Settings, run};
