//! What CLIENT TRACKING was given, and what a client is sent.

use bytes::Bytes;

/// What CLIENT TRACKING ON was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackingOptions {
    /// BCAST: by prefix instead of by what was read.
    pub broadcast: bool,
    /// OPTIN: only reads that follow CLIENT CACHING YES are remembered.
    pub opt_in: bool,
    /// OPTOUT: reads that follow CLIENT CACHING NO are not.
    pub opt_out: bool,
    /// NOLOOP: the client is not notified of its own changes.
    pub no_loop: bool,
    /// REDIRECT: the connection that gets the messages; 0 for the client's own.
    pub redirect: u64,
}

/// A message: the changed keys as an encoded array, or `None` when everything has changed.
pub type Changed = Option<Bytes>;
