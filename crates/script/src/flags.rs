//! What a script says about itself in its first line.

/// Flags of a script, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags(u8);

impl ScriptFlags {
    /// It writes nothing.
    pub const NO_WRITES: Self = Self(1);
    /// It may run beyond the memory limit.
    pub const ALLOW_OOM: Self = Self(1 << 1);
    /// It may run on a replica whose data is stale.
    pub const ALLOW_STALE: Self = Self(1 << 2);
    /// It does not run in a cluster.
    pub const NO_CLUSTER: Self = Self(1 << 3);
    /// It may use keys of several slots.
    pub const CROSS_SLOT: Self = Self(1 << 4);
    /// It has no first line with flags: each of its commands is checked by itself.
    pub const COMPATIBLE: Self = Self(1 << 5);

    /// Names, as scripts write them.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("no-writes", Self::NO_WRITES),
        ("allow-oom", Self::ALLOW_OOM),
        ("allow-stale", Self::ALLOW_STALE),
        ("no-cluster", Self::NO_CLUSTER),
        ("allow-cross-slot-keys", Self::CROSS_SLOT),
    ];

    /// Whether any flag of `other` is set.
    #[must_use]
    pub const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The flag of a name.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, flag)| *flag)
    }
}
