//! The steps of the protocol that a test can leave out, to prove that it would notice.
//!
//! Outside of `cfg(loom)` nothing can be left out: `Epoch::keeps` is the constant `true` and costs nothing.

/// One step on which soundness rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The fence between a participant's reservation store and its first load of shared data.
    EnterFence,
    /// The fence between a retirement and the load of the epoch that tags it.
    TagFence,
    /// The fence between reading the current epoch and scanning the reservations.
    ScanFence,
    /// The release order of the store that leaves an epoch.
    LeaveRelease,
    /// Looking at the oldest action and taking it off the list under one lock.
    OneLock,
    /// Publishing the phase before the epoch is bumped.
    PublishBeforeBump,
    /// The fence between closing the gate and looking for participants inside.
    GateFence,
    /// Waiting for the participants that are inside.
    GateWait,
}
