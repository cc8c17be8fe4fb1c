//! Mutants: builds that leave a step of a protocol out, to show that the proofs and the models notice.
//!
//! [`step!`](crate::step) stands around such a step. It expands to the step alone, except in a crate that is built with the
//! feature `mutants` or for the model checker (`cfg(loom)`). With the feature, `ALMANDINE_MUTANT` names the steps that a process
//! leaves out; under the model checker, `choose` the one that the models of a thread leave out. `docs/HACKING.md` says how to run
//! them. In a simulation each step is a point (see [`crate::points`]), and the simulation says which steps a crate with
//! the feature leaves out.

/// Performs a step, unless a mutant leaves it out.
///
/// `step!(Name, step)` leaves it out. With `else other` the mutant does something else instead. With `then next`, whose value is
/// the result, it performs both in the wrong order. `step!(Name)` goes on at once where the mutant gives other threads time.
#[macro_export]
macro_rules! step {
    ($name:ident) => {
        $crate::step!($name, (), else $crate::mutants::pause())
    };
    ($name:ident, $step:expr) => {
        $crate::step!($name, $step, else ())
    };
    ($name:ident, $step:expr, then $next:expr) => {
        $crate::step!($name, {
            $step;
            $crate::points::point(stringify!($name));
            $next
        }, else {
            let next = $next;
            $crate::points::point(stringify!($name));
            $step;
            next
        })
    };
    ($name:ident, $step:expr, else $other:expr) => {{
        $crate::points::point(stringify!($name));
        #[cfg(any(feature = "mutants", loom))]
        {
            if $crate::mutants::leaves_out($crate::mutants::Mutant::$name) { $other } else { $step }
        }
        #[cfg(not(any(feature = "mutants", loom)))]
        {
            $step
        }
    }};
}

macro_rules! table {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// A mutant, by the step that it leaves out.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $($(#[$doc])* $name,)+
        }

        const NAMES: &[(&str, Mutant)] = &[$((stringify!($name), Mutant::$name),)+];
    };
}

table! {
    /// Bases with a device: space of pages that a base may name is kept.
    RetainPages,
    /// Bases with a device: numbers of pages go on behind those that earlier bases have named.
    GoOnPages,
    /// A log that ends with a device: what lies there says that it belongs to none before some of it goes back.
    LabelEnded,
    /// Backups with a device: what their base names stays until it is copied.
    HoldLease,
    /// Backups with a device: the log's files that a new base drops are kept for them.
    KeepSegments,
    /// Walks: reading a bucket's records on the device again with those that were not staged.
    StageWhole,
    /// Bases with a device: coming to the pages that keys have moved to since the walk noted where they were.
    FollowMoved,
    /// Bases with a device: what they name is durable before they are.
    SyncDevice,
    /// Bases with a device: one is given up whose device could not be made durable.
    HeedSync,
    /// Device: a page that could not be written stays in memory.
    HeedWrite,
    /// Device: blocks that are read are compared with their checksums.
    CompareSums,
    /// Bases with a device: swept namespaces are not used again while a walk is under way.
    HoldNamespaces,
    /// Waker, w2: the fence between the work and the question whether a signal is there.
    AskFence,
    /// Waker, w5: the fence between the signal and the question whether the thread waits.
    SignalFence,
    /// Waker, t2: the fence between saying that it waits and looking for a signal.
    WaitFence,
    /// Waker, t6: the fence between taking the signal and looking for work.
    TakeFence,
    /// Waker, t1: saying that the thread waits before it looks for a signal.
    SayWaiting,
    /// Epoch: the fence between a participant's reservation store and its first load of shared data.
    EnterFence,
    /// Epoch: the fence between a retirement and the load of the epoch that tags it.
    TagFence,
    /// Epoch: the fence between reading the current epoch and scanning the reservations.
    ScanFence,
    /// Epoch: the release order of the store that leaves it.
    LeaveRelease,
    /// Epoch: looking at the oldest action and taking it off the list under one lock.
    OneLock,
    /// Machine: publishing the phase before the epoch is bumped.
    PublishBeforeBump,
    /// Gate: the fence between closing it and looking for participants inside.
    GateFence,
    /// Gate: waiting for the participants that are inside.
    GateWait,
    /// Session: entering the epoch before the head is loaded.
    HeadInEpoch,
    /// Session: keeping the latch from the look at a key to its change.
    LookUnderLatch,
    /// Session: comparing a key with each entry that may be its own before it gets one.
    CompareWithAll,
    /// Effects: giving them their places in the order under the latch.
    NumberUnderLatch,
    /// Units of work: asking for the numbers of the units before that changed the same keys.
    AskStripes,
    /// Messages that tell of units of work: waiting for the operation log.
    DeferMessages,
    /// Units of several commands: holding what they tell until they are published.
    HoldMessages,
    /// Replies of rounds that only look at keys: asking for the last units that have changed these.
    AskSeen,
    /// Cuts of the operation log: waiting for the threads that may have a number and have published nothing.
    DrainBeforeClose,
    /// Rings that lie with the files of their log: a start takes those of another boot of the machine for none.
    MatchBoot,
    /// Effects: noting a change of the expiry.
    NoteExpiry,
    /// Effects: keeping those of a unit of work together.
    OneGroup,
    /// Latching out of order: one session at a time.
    OneServer,
    /// Latching out of order: a plan that grows latches a key that has shown.
    LatchFurther,
    /// Latching out of order: a session that holds latches does not wait for one meanwhile.
    GiveWay,
    /// Latching out of order: the server takes what it was given before it ends.
    TakeGiven,
    /// Latching out of order: a session that has given its ready keys away waits until they are served.
    AwaitServer,
    /// Computations: a result is written only if its sources are what it was computed from.
    CompareSources,
    /// ACL: checking each key of a command.
    CheckEveryKey,
    /// ACL: a client takes changes of its user over.
    RefreshRights,
    /// ACL: clients that listen to what their users may not listen to any more are disconnected.
    CutListenersOff,
    /// Publish/subscribe: posting a message under the lock of its channel.
    PostUnderLock,
    /// Tracking: remembering keys before they are read.
    RememberFirst,
    /// Keyspace events: latching the keys of a command of one verb until its events are told.
    LatchForEvents,
    /// Transactions: keeping the latches from the comparison of watched keys to the last command.
    WatchUnderLatch,
    /// Transactions: latching the declared keys.
    PlanKeys,
    /// Transactions: latching what their scripts use.
    PlanScripts,
    /// Transactions that may use any key: keeping other workers out.
    KeepOthersOut,
    /// Blocking: serving the waiters of every ready key.
    ServeEveryKey,
    /// Blocking: keeping the latches of ready keys until their waiters are served.
    KeepLatches,
    /// Blocking: not serving a waiter whose wait has ended meanwhile.
    ClaimWaiter,
    /// Blocking: not saying that a client was served before all others of its unit of work are.
    ShowServed,
    /// Blocking: serving waiters in the order of their arrival.
    OldestFirst,
    /// Blocking: a transaction latches exclusively what its waiters may change.
    HoldForWaiters,
    /// Blocking: serving a waiter that moves elements takes no time.
    MoveAtOnce,
    /// Blocking: telling the waiters of a key that the store has removed it.
    ServeLost,
    /// Blocking: telling a waiter's worker that there may be something for it sooner.
    LookSooner,
    /// Blocking: having the destinations of waiters at hand when they are served.
    SecureDestinations,
    /// Copies of one moment: saving that a key had no record before the walk came.
    SaveAbsence,
    /// Copies of one moment: saving what expires or is evicted before the walk has come.
    SaveRemoved,
    /// Copies of one moment: keeping what was saved until the walk has passed it.
    KeepSaved,
    /// Copies of one moment: raising the flag while all sessions are kept out.
    RaiseAlone,
    /// Bases: keeping with each key the number of the last effect that the copy has.
    DumpedNumber,
    /// Bases: passing over changes of databases that the base has, when the log is done again.
    SkipMapped,
    /// Bases: a floor that is not above the cut before the walk.
    FloorAtCut,
    /// Bases: making the log durable up to the end of the walk before the base is named.
    SyncThrough,
    /// Bases: naming a base before the files that it replaces are removed.
    NameFirst,
    /// Log: saying that the disk is full when what is pending finds no room.
    TellPending,
    /// Log: files that a backup has are not written again.
    KeepLinked,
    /// Archive: shipping what a file has before the catalog names it.
    ShipFirst,
    /// Archive: naming a base when the log that completes it is shipped.
    ShipThrough,
    /// Archive: naming no segment with a base that it does not continue.
    NamedBefore,
    /// Archive: going on with one of the own only.
    CompareOwner,
    /// Archive: keeping the catalog with which it was taken over.
    KeepClaim,
    /// Archive: keeping the seals of former owners.
    KeepSeal,
    /// Archive: sealing the last segment of one that is taken over.
    SealArchive,
    /// Archive: adding nothing behind a seal.
    HeedSeal,
    /// Archive: asking behind a list whether another owner has come meanwhile.
    ListAgain,
    /// Archive: shipping a base only when it is named durably.
    AwaitNamed,
    /// Archive with pages: shipping those that a base names before the catalog names it.
    ShipPages,
    /// Archive with pages: keeping those that the catalog names while the next base is shipped.
    KeepPages,
    /// Archive with pages: an owner's pages have its name.
    OwnPages,
    /// Archive with pages: the first piece of a page is made last.
    PageBeginLast,
    /// Archive with pages: what was read counts only if the manifest still names the base.
    ConfirmPages,
    /// Archive that keeps bases: of those that are kept the oldest is before the time that is wanted.
    KeepBefore,
    /// Archive that keeps bases: a time that is to come is of no age.
    HeedClock,
    /// Archive: nothing is deleted before the catalog that does without it is there.
    DropBehind,
    /// Archive that keeps bases: no log is gone on with behind where it is broken.
    KeepBreaks,
    /// Archive that keeps bases: what former bases need is not deleted.
    KeepFormer,
    /// Archive that keeps bases: nor are pages that they name.
    KeepFormerPages,
    /// Archive that keeps bases: the log is kept up to the next base.
    KeepPieces,
    /// Backups in object storage: the inventory is made last.
    InventoryLast,
    /// Backups in object storage: none is dropped behind one that may still be given up.
    HeedOutgoing,
    /// Backups in object storage: older ones are dropped when the newest is seen to be whole.
    LookAtNewest,
    /// Backups in object storage: one that is dropped loses its inventory first.
    DropInventoryFirst,
    /// Backups in object storage: comparing the sums of pieces that are restored.
    ComparePieces,
    /// Log: syncing the directory before the manifest names a file in it.
    SyncNames,
    /// Log: comparing the sum of the part before with what a part follows.
    CheckChain,
    /// Log: a part belongs to the segment that it lies in.
    CheckSegment,
    /// Encryption: a salt for each file.
    FreshSalt,
    /// Log: a cut that was asked for has all that was done before, also where an earlier one is not closed.
    AwaitOwnCut,
    /// Log: what a sync makes durable ends with a block of the file.
    EndBlock,
    /// Encryption: a salt for each run that writes to a device.
    FreshStorageSalt,
    /// Encryption: a count for each image of a page.
    FreshCount,
    /// Encryption: pages and large values are encrypted before they are written.
    EncryptPages,
    /// Encryption: what is encrypted is read with the key that it names.
    MatchKeys,
    /// Log: what a sync beside the writer makes durable is durable when it is done.
    AwaitSync,
    /// Log: not trying a sync again that has failed.
    TrustNoSync,
    /// Log: not appending behind a group where the manifest on the disk may name a segment that begins there.
    CheckNames,
    /// Log: leaving the rings where the manifest may name them.
    KeepRings,
    /// Log: what a ring has left is appended without what is in the log already.
    AppendOnce,
    /// Log: saying that an epoch is durable when it is.
    SyncFirst,
    /// Log: giving the room of units back when they are written.
    WriteFirst,
    /// Log: holding replies until what they acknowledge is as durable as the mode promises.
    HoldReplies,
    /// Messages while the log is broken: telling of no unit of work that may have been done before its worker heard of the break.
    CompareBreaks,
    /// Events: telling what the store did to a key when that is published.
    TellPublished,
    /// Log: holding replies until one that broke is healed.
    AwaitHealing,
    /// Log: waiting for a base that heals one that broke, however long that takes.
    AwaitBase,
    /// Log: not taking the end of one that is broken for the durable end of all.
    EndBroken,
    /// Log: closing connections whose replies acknowledge what a log that broke meanwhile may not have.
    CloseUnlogged,
    /// Scripts: watching what one that is suspended may use.
    WatchScript,
    /// Script: what it has read is kept back from its client's tracking while it may begin anew.
    KeepRead,
    /// Scripts: noting that one has changed or told something, which does not begin anew then.
    NoteSeen,
    /// Scripts: another thread goes on with one that has written and runs for long.
    CarryScript,
    /// Scripts: one that another thread goes on with lets the log close its cuts.
    RenewEpoch,
    /// Scripts: a client that needs a key of such a one does not wait for it with its worker.
    PassLongUnits,
    /// Scripts: all workers hear of the end of such a one.
    TellAllOfEnd,
    /// Scripts: beginning anew when a key of one that was suspended has changed.
    CompareScript,
    /// Scripts: one that was killed does not write.
    RefuseKilled,
    /// Scripts: one that was killed while it was suspended calls nothing when it goes on.
    EndKilled,
}

#[cfg(loom)]
thread_local! {
    static CHOSEN: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Leaves a step out of the models that this thread runs from now on.
#[cfg(loom)]
pub fn choose(mutant: Option<Mutant>) {
    CHOSEN.set(mutant);
}

/// Whether the models of this thread leave a step out.
#[cfg(loom)]
#[must_use]
pub fn leaves_out(mutant: Mutant) -> bool {
    CHOSEN.get() == Some(mutant)
}

/// Whether this process leaves a step out.
#[cfg(not(any(loom, feature = "sim")))]
#[must_use]
pub fn leaves_out(mutant: Mutant) -> bool {
    named().is_ok_and(|named| named.contains(&mutant))
}

/// Whether the simulation in which the calling thread runs leaves a step out.
#[cfg(all(feature = "sim", not(loom)))]
#[must_use]
pub fn leaves_out(mutant: Mutant) -> bool {
    crate::points::simulated::leaves_out(mutant)
}

/// The steps that this process leaves out, with commas between their names in `ALMANDINE_MUTANT`.
///
/// # Errors
/// When it names none, or one that there is not.
pub fn named() -> Result<&'static [Mutant], &'static str> {
    static NAMED: std::sync::OnceLock<Result<Vec<Mutant>, String>> = std::sync::OnceLock::new();
    let read =
        || Mutant::parse(&std::env::var("ALMANDINE_MUTANT").unwrap_or_default()).map_err(|e| format!("ALMANDINE_MUTANT: {e}"));
    NAMED.get_or_init(read).as_deref().map_err(String::as_str)
}

impl Mutant {
    /// The steps of these names, which have commas between them.
    ///
    /// # Errors
    /// When it names none, or one that there is not.
    pub fn parse(names: &str) -> Result<Vec<Self>, String> {
        let find = |name: &str| NAMES.iter().find(|(known, _)| *known == name).map(|(_, mutant)| *mutant);
        names.split(',').map(|name| find(name).ok_or_else(|| format!("no step is named '{name}'"))).collect()
    }
}

/// Gives other threads the time in which a missing step does harm.
#[cfg_attr(not(test), expect(clippy::disallowed_methods, reason = "this crate is below `io`, and no product calls it"))]
pub fn pause() {
    const PAUSE_NS: u64 = 200_000;
    #[cfg(feature = "sim")]
    if crate::points::simulated::pause(PAUSE_NS) {
        return;
    }
    std::thread::sleep(std::time::Duration::from_nanos(PAUSE_NS));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_chosen_by_name() {
        assert_eq!(Mutant::parse("GateWait"), Ok(vec![Mutant::GateWait]));
        assert_eq!(Mutant::parse("EnterFence,GateWait"), Ok(vec![Mutant::EnterFence, Mutant::GateWait]));
        for wrong in ["", "gatewait", "GateWait,", "GateWait EnterFence"] {
            assert!(Mutant::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_build_without_mutants_performs_every_step_in_its_order() {
        let mut done = Vec::new();
        assert_eq!(step!(GateWait, done.push(1), then done.len()), 1);
        step!(GateWait, done.push(3));
        step!(GateWait);
        assert_eq!(step!(GateWait, done.len(), else 0), 2);
        assert_eq!(done, [1, 3]);
    }
}
