//! What the session asks of a command.

/// What the session asks of a command, one bit each, so that the ordinary case is one comparison with zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u32);

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)+) => {
        impl Flags { $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)+ }
    };
}

flags! {
    /// Takes about constant time, so it is timed together with its neighbours instead of alone: what Redis calls fast, and
    /// writes of one key by one verb (SET, which Redis calls slow).
    FAST = 0;
    /// Refused beyond the memory limit.
    DENY_OOM = 1;
    /// May change keys: held back by CLIENT PAUSE WRITE.
    MAY_WRITE = 2;
    /// An [`Handler::Admin`]: it may change what the rest of the batch means, so planning stops behind it.
    BARRIER = 3;
    /// Has subcommands.
    CONTAINER = 4;
    /// Has several keys, or keys at places that the arguments decide.
    MANY_KEYS = 5;
    /// Locks its keys itself.
    SELF_LOCKING = 6;
    /// Not shown to MONITOR.
    SKIP_MONITOR = 7;
    /// Not in the slow log.
    SKIP_SLOWLOG = 8;
    /// Allowed before authentication.
    NO_AUTH = 9;
    /// Runs at once inside a transaction, too.
    NOT_QUEUED = 10;
    /// Refused inside a transaction.
    NO_MULTI = 11;
    /// Executes what the client has queued: EXEC.
    EXECUTES = 12;
    /// May touch more than the keys that it declares: a transaction with it runs alone.
    ANY_KEY = 13;
    /// Looks an element up, which the argument behind the key names.
    ELEMENT = 14;
    /// Allowed to clients that only listen.
    SUBSCRIBED = 15;
    /// Looks an element up, which the last argument names.
    ELEMENT_LAST = 16;
    /// Looks two elements up, which the two arguments behind the key name. Beside [`Flags::ELEMENT`].
    ELEMENT_PAIR = 17;
    /// Only says which database the commands behind it use: SELECT.
    SELECTS = 18;
    /// May put a value to a key of another database, which [`crate::database::other_key`] finds.
    OTHER_DATABASE = 19;
    /// Refused while data is loaded.
    NOT_LOADING = 20;
    /// Refused while snapshots fail, as the settings say: writes, and what asks whether all is well.
    NOT_UNSAVED = 21;
    /// Not to be called by scripts.
    NO_SCRIPT = 22;
    /// Runs a script.
    RUNS_SCRIPT = 23;
    /// Changes keys or values.
    WRITES = 26;
    /// Allowed while a script runs for long.
    ALLOW_BUSY = 25;
    /// Some arguments are channels, which users may not be permitted.
    CHANNELS = 24;
}

impl Flags {
    /// Whether any flag of `other` is set.
    #[inline]
    #[must_use]
    pub const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without those of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// `flag` when `condition` holds, else none.
    #[must_use]
    pub(crate) const fn when(condition: bool, flag: Self) -> Self {
        if condition { flag } else { Self(0) }
    }
}
