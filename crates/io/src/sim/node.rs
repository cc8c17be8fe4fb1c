//! What the parts of a world call a node and its crashes.

/// A node of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// What ends when a node crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashKind {
    /// The process, as by SIGKILL: the kernel keeps what was written, and shared mappings.
    Process,
    /// The process and the mappings, as when a container is made anew.
    Container,
    /// The machine, as when power fails.
    Machine,
}
