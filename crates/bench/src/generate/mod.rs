//! What is sent: keys, values, command templates and the pools of finished request bytes made from them.
//!
//! Everything here runs before the clock starts (or, with fresh keys, costs a few nanoseconds per command), so
//! that the client is never what a benchmark measures. Nothing here touches a socket.

pub mod key;
pub mod pool;
pub mod random;
pub mod table;
pub mod template;
pub mod value;
pub mod zipf;
