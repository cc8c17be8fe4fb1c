//! The parameters that take one word of a list, as enums.

/// A type whose values are the words of a list.
pub trait Choice: Sized + Copy + 'static {
    /// The words, in the order of the error message.
    const NAMES: &'static [&'static str];
    /// The value of the word at `index`.
    fn at(index: usize) -> Self;
}

macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident $word:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* #[doc = concat!("`", $word, "`")] $variant,)* }

        impl Choice for $name {
            const NAMES: &'static [&'static str] = &[$($word),*];
            fn at(index: usize) -> Self {
                [$(Self::$variant),*][index]
            }
        }

        impl $name {
            /// The word that stands for the value.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }
    )*};
}

choices! {
    /// What gives way when the memory budget is exhausted.
    EvictionPolicy {
        VolatileLru "volatile-lru", VolatileLfu "volatile-lfu", VolatileRandom "volatile-random", VolatileTtl "volatile-ttl",
        AllkeysLru "allkeys-lru", AllkeysLfu "allkeys-lfu", AllkeysRandom "allkeys-random", NoEviction "noeviction",
    }
    /// How much is logged.
    LogLevel { Debug "debug", Verbose "verbose", Notice "notice", Warning "warning", Nothing "nothing" }
    /// How a line of the log looks.
    LogFormat { Legacy "legacy", Logfmt "logfmt", Json "json" }
    /// How a time is written in the log.
    LogTimestamp { Legacy "legacy", Iso8601 "iso8601", Milliseconds "milliseconds" }
    /// What kind of program syslog takes the server for.
    Facility {
        User "user", Local0 "local0", Local1 "local1", Local2 "local2", Local3 "local3", Local4 "local4", Local5 "local5",
        Local6 "local6", Local7 "local7",
    }
    /// How the score of the kernel's out-of-memory killer is changed.
    OomScoreAdj { No "no", Yes "yes", Relative "relative", Absolute "absolute" }
    /// Which clients may use something guarded.
    Allowed { No "no", Yes "yes", Local "local" }
    /// Channels of a new user.
    ChannelsByDefault { All "allchannels", None "resetchannels" }
    /// How the process is supervised.
    Supervised { Upstart "upstart", Systemd "systemd", Auto "auto", No "no" }
    /// Whether something must be shown.
    Demand { No "no", Yes "yes", Optional "optional" }
    /// The field of a certificate that names a user.
    CertificateName { Off "off", CommonName "CN", Uri "URI" }
    /// Which clients hear that a script runs for long: those that cannot be served, or all.
    BusyScope { Affected "affected", Node "node" }
    /// What data beyond the memory budget is kept on.
    StorageDevice { File "file", Memory "memory", Null "null", Faulty "faulty" }
    /// What becomes of records read from storage.
    CopyReads { None "none", ReadCache "read-cache", Tail "tail" }
    /// Which of two tiers must have a page before it may leave memory, or a group of the log before it is acknowledged.
    CommitTier { Directory "directory", ObjectStore "object-store" }
    /// As of which version of Redis OBJECT ENCODING names lists and sets.
    EncodingNames { Before72 "7.0", Since72 "7.2" }
    /// The version of the snapshots that are written.
    SnapshotVersion { Redis10 "10", Redis11 "11", Redis12 "12", Valkey80 "valkey-80" }
    /// Whether payloads of versions that are not known are refused.
    VersionCheck { Strict "strict", Relaxed "relaxed" }
    /// When the log of writes is made durable.
    LogSync { EverySecond "everysec", Always "always", Never "no" }
    /// What BGREWRITEAOF writes beside the log's own base.
    AofFormat { Native "native", Redis "redis" }
    /// How connections are read and written.
    IoBackend { Auto "auto", IoUring "io_uring", Epoll "epoll" }
}

impl Allowed {
    /// Whether a peer may, given whether it is on this machine.
    #[must_use]
    pub const fn permits(self, local: bool) -> bool {
        match self {
            Self::No => false,
            Self::Yes => true,
            Self::Local => local,
        }
    }
}
