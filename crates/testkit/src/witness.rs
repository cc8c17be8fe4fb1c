//! What a server under test says itself of the order in which it did what clients asked for.

/// When a request took effect, as the server says: a part of the time between its call and its return. A checker that knows it has
/// less to search, and trusts it in nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moments {
    /// Before that, nothing of it had happened.
    pub from_ns: u64,
    /// By then its client waited.
    pub waits_ns: Option<u64>,
    /// From then on its wait might end by itself.
    pub leaves_ns: Option<u64>,
    /// By then all of it had happened; none when it had not until its return.
    pub until_ns: Option<u64>,
}
