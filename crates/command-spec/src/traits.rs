//! The traits of a command: what it needs from, and what it does to, the server. The session branches on these and never on a name.
//!
//! The names are Redis' command flags; those that only Almandine knows have no Redis name and do not appear in COMMAND INFO.

macro_rules! traits {
    ($($field:ident $redis:literal $doc:literal)*) => {
        /// The traits of one command. Write `Traits { fast: true, ..Traits::NONE }`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Traits { $(#[doc = $doc] pub $field: bool,)* }

        impl Traits {
            /// No trait at all.
            pub const NONE: Self = Self { $($field: false,)* };

            /// Redis' names of the traits that hold, in the order of COMMAND INFO. `movablekeys` also holds when `movable` does.
            pub fn names(self, movable: bool) -> impl Iterator<Item = &'static str> {
                let derived = Self { movablekeys: self.movablekeys || movable, ..self };
                [$(($redis, derived.$field),)*].into_iter().filter(|(name, holds)| *holds && !name.is_empty()).map(|(name, _)| name)
            }
        }
    };
}

traits! {
    write "write" "Changes keys or values. A replica refuses it; a transaction with it is propagated."
    readonly "readonly" "Reads keys or values and changes nothing."
    denyoom "denyoom" "May need memory: refused when the memory budget is exhausted."
    admin "admin" "For operators; in the categories @admin and @dangerous."
    pubsub "pubsub" "Belongs to publish/subscribe."
    noscript "noscript" "Not allowed in scripts."
    blocking "blocking" "May wait for data."
    loading "loading" "Allowed while the data set is being loaded."
    stale "stale" "Allowed on a replica whose link to its primary is down."
    skip_monitor "skip_monitor" "Not fed to MONITOR, or fed by its own handler."
    skip_slowlog "skip_slowlog" "Not logged as slow, because its time is not its own."
    asking "asking" "Accepted for a slot under import, as if ASKING came before."
    fast "fast" "Constant or logarithmic time; in the category @fast instead of @slow."
    no_auth "no_auth" "Allowed before authentication."
    may_replicate "" "Not a write, but may replicate what it does."
    no_mandatory_keys "no_mandatory_keys" "May be called with no key at all."
    protected "" "Available only when the configuration enables it for the peer."
    no_async_loading "no_async_loading" "Refused while a replica loads a data set beside the one it serves."
    no_multi "no_multi" "Not allowed in a transaction."
    movablekeys "movablekeys"
        "Has keys that first, last and step cannot describe. Follows from the key specs; state only what they miss."
    allow_busy "allow_busy" "Allowed while a script runs too long."
    all_keyspace "" "Sees or changes any key: the session gives it the keyspace as a whole instead of a lock plan."
    self_locking "" "Takes its own locks: the session must not lock the keys that the spec declares."
    element "" "The argument behind the key names an element of the collection there: it is fetched ahead."
    element_pair "" "As element, and the argument behind that names another one."
    element_last "" "The last argument names an element of the collection: it is fetched ahead."
    health "" "Asks whether all is well: refused like a write while snapshots fail."
    not_queued "" "Runs at once inside a transaction, too."
    runs_script "" "Runs a script, whose commands are not known before."
    executes "" "Executes the commands that the client has queued."
    system "" "Internal: for other servers and developers, not for applications."
    subscribed "" "Allowed on a RESP2 connection with subscriptions."
    publishes "" "The first argument is a channel that it sends to."
    subscribes "" "The arguments are channels that it begins to listen to."
    subscribes_patterns "" "The arguments are patterns of channels that it begins to listen to."
    databases "" "The arguments are databases that it uses."
    selects "" "The only argument is the database that the commands behind it use."
    database_last "" "The last argument is a database that it uses, beside the selected one."
    database_option "" "It uses the databases behind the words DB, beside the selected one."
    all_databases "" "It uses all databases."
}
