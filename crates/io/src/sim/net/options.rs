//! What the network may do to its connections.

/// How often the network misbehaves, in millionths. The default never does, and is fast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetOptions {
    /// The shortest time that a parcel takes, and how much longer another one may take, in nanoseconds.
    pub latency_ns: (u64, u64),
    /// Bytes that a direction holds before a send finds no room.
    pub window_bytes: usize,
    /// Buffers of a reactor's ring. Connections that find none free receive in a later round.
    pub buffers: usize,
    /// Sends that arrive in parts, cut at any byte.
    pub cuts_per_million: u32,
    /// Sends of which a part is taken although there is room for more.
    pub short_sends_per_million: u32,
    /// Receives that give a part of what is there.
    pub short_receives_per_million: u32,
    /// Parcels that take up to half a second longer; those behind them wait.
    pub delays_per_million: u32,
    /// Sends with which the connection breaks, for both ends.
    pub resets_per_million: u32,
    /// Connections that are refused although there is a listener.
    pub refusals_per_million: u32,
    /// Connections that cannot be accepted because the process has no descriptors; they wait on.
    pub accept_failures_per_million: u32,
    /// Looks of a reactor at a connection that find no free buffer.
    pub starvations_per_million: u32,
    /// Connections on which data is still received after their reactor was told to stop.
    pub late_data_per_million: u32,
}

/// The longest delay of a parcel beyond its latency, in nanoseconds.
pub(super) const DELAY_NS_MAX: u64 = 500_000_000;

impl Default for NetOptions {
    fn default() -> Self {
        Self {
            latency_ns: (20_000, 80_000),
            window_bytes: 256 * 1024,
            buffers: 128,
            cuts_per_million: 0,
            short_sends_per_million: 0,
            short_receives_per_million: 0,
            delays_per_million: 0,
            resets_per_million: 0,
            refusals_per_million: 0,
            accept_failures_per_million: 0,
            starvations_per_million: 0,
            late_data_per_million: 0,
        }
    }
}

impl NetOptions {
    /// All that a kernel may do to a connection that stays whole: everything sent arrives, in order.
    #[must_use]
    pub fn rough() -> Self {
        Self {
            window_bytes: 64 * 1024,
            buffers: 4,
            cuts_per_million: 200_000,
            short_sends_per_million: 50_000,
            short_receives_per_million: 50_000,
            delays_per_million: 1_000,
            accept_failures_per_million: 20_000,
            starvations_per_million: 50_000,
            late_data_per_million: 500_000,
            ..Self::default()
        }
    }
}
