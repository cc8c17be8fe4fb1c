//! Notes: a session writes down what it changes, and what it removes by itself, and counts it.

use super::batch::Session;
use super::view::View;
use crate::changes::events::Event;
use crate::changes::{Body, Change, Effect, RemovalReason};
use crate::copying::COPY;
use crate::counters::add;
use crate::index::Index;
use crate::namespace::NO_NAMESPACE;
use crate::record::key::{GlanceId, Key};
use crate::record::put::Put;
use crate::record::{Header, Kind, Record};
use crate::session::open_unit::{LogOf, OpenUnit};
use crate::session::thread_state::ThreadState;
use crate::shared::Shared;
use crate::shared::consumers::Consumer;
use almandine_base::step;
use almandine_oplog::LibraryForm;
use almandine_oplog::{Attributes, LogEntry, LogValue, Operation, PlainSet};

/// Consumers for which changes are noted.
const NOTED: u32 = Consumer::Keys as u32 | Consumer::Effects as u32;
/// Consumers for which units of work are ordered.
const ORDERED: u32 = Consumer::Effects as u32 | LOG;
/// The operation log.
const LOG: u32 = Consumer::Log as u32;
/// The consumer of events.
const EVENTS: u32 = Consumer::Events as u32;
/// The consumer for waiters.
const WAIT: u32 = Consumer::Wait as u32;

/// What a session does to a key, as it is noted when it is done: what it was is taken from the record.
#[derive(Clone, Copy)]
pub(crate) enum Act<'a> {
    /// The record has another value.
    Set(Record, Header),
    /// As [`Act::Set`], of a string with these bytes: what has just been written to a record is slow to read back.
    Replace(Record, Header, &'a [u8]),
    /// This many bytes of its value from an offset on were written.
    Write(Record, Header, usize, usize),
    /// It has another expiry or entity tag.
    Put(Record, Header),
    /// It is gone.
    Remove,
    /// Nothing that lasts: another act of the same unit of work follows.
    Nothing,
    /// Elements of its value were changed, in the words of its type.
    Edit(Kind, &'a [u8], Concerns),
    /// Elements of its value have expired.
    Expire(Kind, &'a [u8]),
    /// It was made, with this record.
    Make(Record, Header),
}

/// Which clients a change of elements concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Concerns {
    /// Those that wait for the key, and those that watch or track it.
    #[default]
    All,
    /// Those that watch or track it: nothing is there now that a waiter waits for.
    Watchers,
    /// Neither.
    Neither,
}

impl Act<'_> {
    /// The record that has all of the value from now on, and its bytes where they are at hand.
    #[inline(always)]
    fn small(&self) -> Option<(Record, Header, Option<&[u8]>)> {
        let (record, header, bytes) = match *self {
            Self::Set(record, header) | Self::Make(record, header) => (record, header, None),
            Self::Replace(record, header, bytes) => (record, header, Some(bytes)),
            _ => return None,
        };
        (!header.has(Header::HEAP_VALUE)).then_some((record, header, bytes))
    }

    /// What the key is now; none if it is gone.
    fn kind(self) -> Option<Kind> {
        match self {
            Self::Set(_, header)
            | Self::Replace(_, header, _)
            | Self::Write(_, header, ..)
            | Self::Put(_, header)
            | Self::Make(_, header) => Some(header.kind()),
            Self::Edit(kind, ..) | Self::Expire(kind, _) => Some(kind),
            Self::Remove | Self::Nothing => None,
        }
    }
}

impl Shared {
    /// Counts a change that the session was asked for, and tells the consumers. The key's bucket is latched exclusively.
    #[inline]
    pub(crate) fn note_change(&self, local: &mut ThreadState, key: &Key<'_>, act: Act<'_>) {
        let wanted = self.count_change(local);
        self.tell_counted(local, wanted, key, act);
    }

    /// Counts a change. Says which consumers want it; a copy wants what was there before.
    #[inline(always)]
    fn count_change(&self, local: &ThreadState) -> u32 {
        debug_assert!(local.participant.is_inside(), "INV-CHANGE-1: a change belongs to a batch, which tells it at its end");
        add(&self.thread(local).changes, 1);
        self.consumers.wanted() & !COPY
    }

    #[inline(always)]
    fn tell_counted(&self, local: &mut ThreadState, wanted: u32, key: &Key<'_>, act: Act<'_>) {
        if wanted == LOG
            && let Some((record, header, bytes)) = act.small()
        {
            self.log_small(local, key, (record, header), bytes, matches!(act, Act::Make(..)));
        } else if wanted != 0 {
            self.tell_change(local, wanted, key, act);
        }
    }

    /// As [`Shared::note_change`], of the last change of a verb, which has latched its key by itself: its unit may end here.
    #[inline]
    pub(crate) fn note_last_change(&self, local: &mut ThreadState, key: &Key<'_>, act: Act<'_>) {
        let wanted = self.count_change(local);
        let is_ended = wanted == LOG
            && act.small().is_some_and(|(record, header, bytes)| {
                self.log_unit(local, key, (record, header), bytes, matches!(act, Act::Make(..)))
            });
        if !is_ended {
            self.tell_counted(local, wanted, key, act);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_change(&self, local: &mut ThreadState, wanted: u32, key: &Key<'_>, act: Act<'_>) {
        debug_assert_ne!(wanted, 0, "INV-CHANGE-1: while nobody wants to know nothing is noted");
        let concerns = if let Act::Edit(_, _, concerns) = act { concerns } else { Concerns::All };
        if wanted & Consumer::Watch as u32 != 0
            && concerns != Concerns::Neither
            && let Some(listener) = self.consumers.under_latch.get()
        {
            listener(key);
        }
        if wanted & WAIT != 0 && concerns == Concerns::All {
            self.note_ready(local, key, act.kind());
        }
        if wanted & EVENTS != 0 && matches!(act, Act::Make(..)) {
            self.note_event(local, key.namespace, key.bytes, Event::Created);
        }
        if wanted & (NOTED | ORDERED) == 0 {
            return;
        }
        if let Act::Put(..) = act {
            step!(NoteExpiry, self.tell_effect(local, wanted, key, act));
        } else {
            self.tell_effect(local, wanted, key, act);
        }
    }

    /// Notes what was done to a key, and appends it to the entries of its unit.
    fn tell_effect(&self, local: &mut ThreadState, wanted: u32, key: &Key<'_>, act: Act<'_>) {
        if wanted & NOTED == 0
            && let Some((record, header, bytes)) = act.small()
        {
            return self.log_small(local, key, (record, header), bytes, matches!(act, Act::Make(..)));
        }
        let (view, shared);
        let put = |view: &View<'_>| Put { expiry_ms: view.expiry_ms(), etag: view.etag(), edited: view.is_edited() };
        let effect = match act {
            Act::Nothing => return,
            Act::Set(record, header) | Act::Make(record, header) | Act::Replace(record, header, _) => {
                view = View::latched(record, header);
                shared = view.shared();
                let value = match &shared {
                    Some(value) => Body::Shared(value),
                    None => Body::Bytes(view.bytes().unwrap_or_default()),
                };
                Effect::Set { kind: view.kind(), value, put: put(&view) }
            }
            Act::Write(record, header, offset, len) => {
                view = View::latched(record, header);
                debug_assert!(
                    view.bytes().is_some_and(|value| offset + len <= value.len()),
                    "INV-EFFECT-1: what was written is in the value"
                );
                Effect::Write { offset, bytes: view.bytes().and_then(|value| value.get(offset..offset + len)).unwrap_or_default() }
            }
            Act::Put(record, header) => Effect::Put(put(&View::latched(record, header))),
            Act::Remove => Effect::Remove,
            Act::Edit(kind, edits, _) => Effect::Edit { kind, edits },
            Act::Expire(kind, elements) => Effect::Expire { kind, elements },
        };
        if wanted & ORDERED != 0 {
            local.notes.unit.note(key.hash);
        }
        if let Some(log) = self.log_of(local, wanted) {
            let contents = self.consumers.generation(key.namespace);
            local.notes.unit.append(log, (contents, key.bytes), &effect, matches!(act, Act::Make(..)), None);
        }
        if matches!(act, Act::Edit(_, _, Concerns::Neither)) {
            if wanted & Consumer::Effects as u32 != 0 {
                let change = self.change(wanted, key, None, effect);
                local.notes.changes.push(&Change { effect_only: true, ..change });
            }
        } else if wanted & NOTED != 0 {
            self.push(local, wanted, key, None, effect);
        }
    }

    /// Appends that a key has a value which lies in its record: what nearly all writes are.
    #[inline(never)]
    fn log_small(
        &self,
        local: &mut ThreadState,
        key: &Key<'_>,
        (record, header): (Record, Header),
        bytes: Option<&[u8]>,
        made: bool,
    ) {
        let view = View::latched(record, header);
        let set = self.set_of(key, &view, bytes, made);
        let unit = &mut local.notes.unit;
        unit.note(key.hash);
        let Some(rings) = self.consumers.log() else { return };
        let log = LogOf { rings, thread: local.thread };
        let is_plain = !header.has(Header::EXPIRY | Header::ETAG);
        if !(is_plain && unit.append_plain(log, set)) {
            log_value(unit, log, &set, &view);
        }
    }

    /// That a key has a value which lies in its record, as an entry of the log, but for expiry and entity tag.
    #[inline(always)]
    fn set_of<'e>(&self, key: &Key<'e>, view: &'e View<'_>, bytes: Option<&'e [u8]>, made: bool) -> PlainSet<'e> {
        debug_assert!(bytes.is_none() || view.bytes() == bytes, "INV-EFFECT-1: the effect has the value of the record");
        debug_assert!(view.shared().is_none(), "INV-EFFECT-1: what lies in a record is logged as it lies there");
        let value = bytes.or_else(|| view.bytes()).unwrap_or_default();
        let contents = self.consumers.generation(key.namespace);
        PlainSet { contents, key: key.bytes, kind: view.kind() as u8, edited: view.is_edited(), made, value }
    }

    /// Logs a unit of work that is nothing but that a key has a value which lies in its record: what nearly all writes are. It is
    /// encoded, numbered and published in one piece ([`Shared::close_unit`] says when), and none has been open. False: this is no
    /// such unit, and nothing has happened.
    #[inline(never)]
    fn log_unit(
        &self,
        local: &mut ThreadState,
        key: &Key<'_>,
        (record, header): (Record, Header),
        bytes: Option<&[u8]>,
        made: bool,
    ) -> bool {
        debug_assert!(self.is_latched(key.hash), "INV-ORDER-1: a number is taken under the latches of what was changed");
        debug_assert!(local.held.is_empty(), "INV-ORDER-1: what has other latches has read under them");
        let is_alone = local.participant.has_gate_closed();
        let is_plain = !header.has(Header::EXPIRY | Header::ETAG);
        if is_alone || !is_plain || local.notes.unit.is_open() || step!(NumberUnderLatch, false, else true) {
            return false;
        }
        let Some(rings) = self.consumers.log() else { return false };
        let view = View::latched(record, header);
        let set = self.set_of(key, &view, bytes, made);
        let log = LogOf { rings, thread: local.thread };
        local.notes.unit.publish_plain(log, &set, |after| self.consumers.number_of_one(key.hash, after))
    }

    /// Where the session logs its units, if they are wanted there.
    #[inline]
    fn log_of(&self, local: &ThreadState, wanted: u32) -> Option<LogOf<'_>> {
        let thread = local.thread;
        self.consumers.log().filter(|_| wanted & LOG != 0).map(|rings| LogOf { rings, thread })
    }

    fn push(&self, local: &mut ThreadState, wanted: u32, key: &Key<'_>, removal: Option<RemovalReason>, effect: Effect<'_>) {
        let change = self.change(wanted, key, removal, effect);
        local.notes.changes.push(&change);
    }

    /// A change with its effect, if effects are wanted.
    fn change<'c>(&self, wanted: u32, key: &Key<'c>, removal: Option<RemovalReason>, effect: Effect<'c>) -> Change<'c> {
        let Key { namespace, bytes, hash, .. } = *key;
        let mut change = Change { namespace, key: bytes, removal, ..Change::default() };
        if wanted & Consumer::Effects as u32 != 0 {
            debug_assert!(
                self.index.bucket(Index::bucket_of(hash, self.index.len())).is_latched_exclusively(),
                "INV-EFFECT-1: an effect is noted under the latch"
            );
            change.effect = Some(effect);
            change.generation = self.consumers.generation(namespace);
            change.ends_group = step!(OneGroup, false, else true);
        }
        change
    }

    /// Counts an expired record that is about to be removed, and notes it. Its bucket is latched exclusively.
    #[inline]
    pub(crate) fn note_expired(&self, local: &mut ThreadState, record: Record, header: Header) {
        debug_assert!(record.is_expired(header, local.now_ms), "INV-EXP-1: only what is due is removed");
        add(&self.thread(local).expired, 1);
        self.note_removal(local, record, header, RemovalReason::Expired);
    }

    /// As [`Shared::note_expired`], for a record that is evicted.
    #[inline]
    pub(crate) fn note_evicted(&self, local: &mut ThreadState, record: Record, header: Header) {
        debug_assert!(self.tier.is_none(), "INV-TIER-1: with a device nothing is evicted");
        add(&self.thread(local).evicted, 1);
        self.note_removal(local, record, header, RemovalReason::Evicted);
    }

    /// Notes a record that is given up because its bytes on the device are damaged, but for its key. Its bucket is latched
    /// exclusively.
    pub(crate) fn note_damaged(&self, local: &mut ThreadState, record: Record, header: Header) {
        debug_assert!(!header.has(Header::HEAP_KEY), "INV-EFFECT-1: the key of what is removed by name can be read");
        self.note_removal(local, record, header, RemovalReason::Damaged);
    }

    /// Notes that a record is given up of which nothing tells the key. `namespace` is 0 when nothing tells that either.
    pub(crate) fn note_lost(&self, local: &mut ThreadState, namespace: u16) {
        let wanted = self.consumers.wanted();
        if wanted & COPY != 0 {
            self.consumers.copying.count_lost();
        }
        if wanted & ORDERED == 0 {
            return;
        }
        local.notes.unit.note_lost();
        let generation = if namespace == NO_NAMESPACE { 0 } else { self.consumers.generation(namespace) };
        if let Some(log) = self.log_of(local, wanted) {
            local.notes.unit.append(log, (generation, &[]), &Effect::Lost, false, None);
        }
        if wanted & Consumer::Effects as u32 == 0 {
            return;
        }
        let (effect, removal) = (Some(Effect::Lost), Some(RemovalReason::Damaged));
        local.notes.changes.push(&Change { namespace, generation, removal, effect, ..Change::default() });
    }

    #[inline]
    fn note_removal(&self, local: &mut ThreadState, record: Record, header: Header, reason: RemovalReason) {
        let wanted = self.consumers.wanted();
        if wanted & (NOTED | ORDERED | EVENTS | WAIT | COPY) != 0 {
            self.note_wanted(local, wanted, record, header, reason);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_wanted(&self, local: &mut ThreadState, wanted: u32, record: Record, header: Header, reason: RemovalReason) {
        let hash = self.hash_of(record, header);
        debug_assert!(
            self.index.bucket(Index::bucket_of(hash, self.index.len())).is_latched_exclusively(),
            "INV-CHANGE-1: a removal is noted under its latch"
        );
        let (namespace, bytes) = (header.namespace(), self.key_of(record, header));
        let key = Key { namespace, glance: GlanceId::default(), bytes, hash };
        match reason {
            _ if wanted & COPY == 0 => {}
            RemovalReason::Damaged => self.consumers.copying.count_lost(),
            RemovalReason::Expired | RemovalReason::Evicted => {
                step!(SaveRemoved, self.save_before(local.thread, &key, Some((record, header, 0))));
            }
        }
        if wanted & EVENTS != 0 && reason != RemovalReason::Damaged {
            self.note_event(local, namespace, bytes, Event::Removed(reason));
        }
        if wanted & WAIT != 0
            && let Some(lost) = self.consumers.lost.get()
        {
            lost(&key);
        }
        if wanted & ORDERED != 0 {
            local.notes.unit.note(hash);
        }
        if let Some(log) = self.log_of(local, wanted) {
            let contents = self.consumers.generation(namespace);
            local.notes.unit.append(log, (contents, bytes), &Effect::Remove, false, Some(reason));
        }
        if wanted & NOTED != 0 {
            self.push(local, wanted, &key, Some(reason), Effect::Remove);
        }
    }
}

/// Appends that a key has a value, with all that may go with it.
#[cold]
#[inline(never)]
fn log_value(unit: &mut OpenUnit, log: LogOf<'_>, set: &PlainSet<'_>, view: &View<'_>) {
    let PlainSet { contents, key, kind, edited, made, value } = *set;
    let attributes = Attributes { expiry_ms: view.expiry_ms(), etag: view.etag(), edited };
    let operation = Operation::Set { kind, value: LogValue::Bytes(value), attributes, made };
    unit.append_entry(log, &LogEntry { contents, key, operation });
}

impl Shared {
    /// Whether events are told. The key's bucket is latched exclusively.
    #[inline]
    pub(crate) fn tells_events(&self) -> bool {
        self.consumers.wanted() & EVENTS != 0
    }

    /// Tells an event of a key whose bucket is latched exclusively: where the latch is for this one verb at once, or when its unit
    /// is published; else when the owner of the latches says so, which is before they are released (INV-EVENT-1).
    pub(crate) fn note_event(&self, local: &mut ThreadState, namespace: u16, key: &[u8], event: Event<'_>) {
        debug_assert!(
            self.index.bucket(Index::bucket_of(self.hash(namespace, key), self.index.len())).is_latched_exclusively(),
            "INV-EVENT-1: what the store does is told before anybody else can change the key"
        );
        if !local.held.is_empty() || local.participant.has_gate_closed() {
            local.notes.events.push(namespace, key, event);
        } else if step!(TellPublished, self.consumers.wanted() & ORDERED != 0, else false) {
            local.notes.unit.note(self.hash(namespace, key));
            local.notes.unit.events.push(namespace, key, event);
        } else if let Some(listener) = self.consumers.events.get() {
            listener(namespace, key, event);
            step!(TellPublished);
        }
    }
}

impl Session {
    /// What the session has noted: changes, events, and records past their time that reads have met.
    #[inline]
    pub fn notes(&mut self) -> Notes<'_> {
        Notes { session: self }
    }

    /// Whether the batch leaves changes for the listener.
    #[inline]
    pub(super) fn leaves_changes(&self) -> bool {
        !self.local.notes.changes.is_empty() && !self.local.notes.group_open
    }

    /// Gives the changes that the owner has not taken to the listener. Outside of every latch and epoch.
    #[cold]
    #[inline(never)]
    pub(super) fn hand_over_changes(&mut self) {
        debug_assert!(!self.local.participant.is_inside(), "a listener may take its time");
        debug_assert!(!self.local.notes.group_open, "INV-EFFECT-1: the effects of a unit of work come together");
        step!(NumberUnderLatch, (), else self.local.notes.changes.number_late(&self.store));
        if let Some(listener) = self.store.consumers.afterwards.get() {
            listener(&self.local.notes.changes);
        }
        self.local.notes.changes.clear();
    }
}

/// What the session has noted: changes, events, and records past their time that reads have met.
pub struct Notes<'s> {
    pub(crate) session: &'s mut Session,
}

impl Notes<'_> {
    /// States an event of a key that is latched, or that all others are kept from. `elements` as [`crate::elements`] reads them.
    pub fn state_event(&mut self, namespace: u16, key: &[u8], class: u32, name: &'static str, elements: &[u8]) {
        self.session.local.notes.events.push(namespace, key, Event::Stated { class, name, elements });
    }

    /// Whether events are kept that have not been told.
    #[inline]
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.session.local.notes.events.is_empty()
    }

    /// Tells the events of a command, while its keys are latched still. One that is `void` begins anew, and will state its own
    /// again.
    #[cold]
    #[inline(never)]
    pub fn tell_events(&mut self, void: bool) {
        let Session { store, local } = &mut *self.session;
        local.notes.events.tell(void, store.consumers.events.get());
    }

    /// Takes the events out that say that a key was made, for a command that states them itself.
    pub fn take_created(&mut self, each: impl FnMut(&[u8])) {
        self.session.local.notes.events.take_created(each);
    }

    /// Whether changes have been noted since [`Notes::drain_changes`].
    #[inline]
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.session.local.notes.changes.has_untold()
    }

    /// Tells the changes that have been noted, in their order, once. Within the batch; what is left when it ends goes to the
    /// listener of [`crate::Listeners::on_changes`].
    pub fn drain_changes(&mut self, each: impl FnMut(Change<'_>)) {
        debug_assert!(self.session.local.participant.is_inside(), "INV-CHANGE-1: what a batch has left is given to the listener");
        self.session.local.notes.changes.untold().for_each(each);
        self.session.local.notes.changes.set_told();
    }

    /// Takes the changes with their effects, behind a unit of work and behind [`Notes::drain_changes`]. What is left when the
    /// batch ends goes to the listener of [`crate::Listeners::on_changes`].
    pub fn drain_effects(&mut self, each: impl FnMut(Change<'_>)) {
        debug_assert!(self.session.local.participant.is_inside(), "INV-CHANGE-1: what a batch has left is given to the listener");
        debug_assert!(!self.session.local.notes.group_open, "INV-EFFECT-1: the effects of a unit of work come together");
        self.session.local.notes.changes.iter().for_each(each);
        self.session.local.notes.changes.clear();
    }

    /// Says that the last two verbs, which have changed two latched keys, were one change, of the second key first.
    pub fn join_changes(&mut self) {
        debug_assert!(
            self.session.holds_latches() || self.session.local.participant.has_gate_closed(),
            "INV-CHANGE-1: nobody sees one key changed alone"
        );
        self.count_changes(-1);
        if self.session.store.consumers.wanted() & NOTED != 0 {
            self.session.local.notes.changes.swap_last();
        }
    }

    /// Whether a unit of work goes on although the batch ends: its changes are kept meanwhile.
    pub fn hold_group(&mut self, open: bool) {
        debug_assert!(self.session.local.participant.is_inside(), "INV-CHANGE-1: a batch that ends gives what it has noted");
        self.session.local.notes.group_open = open;
    }

    /// Notes that a database consists of a namespace from now on. No other session changes databases meanwhile.
    pub fn note_database(&mut self, db: u16, namespace: u16) {
        debug_assert!(
            self.session.local.participant.is_inside(),
            "INV-CHANGE-1: a change belongs to a batch, which tells it at its end"
        );
        let Session { store, local } = &mut *self.session;
        let consumers = &store.consumers;
        if consumers.wanted() & ORDERED != 0 {
            let log = store.log_of(local, consumers.wanted());
            let unit = &mut local.notes.unit;
            unit.note_databases();
            if let Some(log) = log {
                unit.append(log, (consumers.generation(namespace), &[]), &Effect::Database(db), false, None);
            }
        }
        if consumers.wanted() & Consumer::Effects as u32 != 0 {
            let (effect, generation) = (Some(Effect::Database(db)), consumers.generation(namespace));
            let change = Change { namespace, generation, effect, ..Change::default() };
            self.session.local.notes.changes.push(&change);
        }
    }

    /// Logs a change of the libraries of functions: the version that they have by it, and texts or names, each behind its length.
    pub fn log_functions(&mut self, version: u64, form: LibraryForm, libraries: &[u8]) {
        let Session { store, local } = &mut *self.session;
        debug_assert!(
            local.held.is_empty() || local.participant.has_gate_closed(),
            "INV-ORDER-1: no other session changes libraries before the unit has its number"
        );
        let Some(log) = store.log_of(local, store.consumers.wanted()) else { return };
        local.notes.unit.append_functions(log, version, form, libraries);
        if local.held.is_empty() {
            store.end_unit(local);
        }
    }

    /// The number that a namespace has for as long as it has these contents ([`Change::generation`]).
    #[must_use]
    pub fn generation(&self, namespace: u16) -> u64 {
        self.session.store.consumers.generation(namespace)
    }

    /// The number of the last unit that changed a key whose bucket is latched: a copy of the value made under the same latch has
    /// all effects of the units up to this one, and none behind it.
    #[must_use]
    pub fn last_sequence(&self, key: Key<'_>) -> u64 {
        debug_assert!(self.session.holds_latches(), "INV-EFFECT-1: value and sequence are of the same moment");
        self.session.store.consumers.last_sequence(key.hash)
    }

    /// Adds to the count of changes: of those that concern no single key, or where one step is several changes, or several are one.
    pub fn count_changes(&mut self, more: i64) {
        debug_assert!(self.session.local.participant.is_inside(), "INV-CHANGE-1: a change belongs to a batch");
        add(&self.session.store.thread(&self.session.local).changes, more);
    }

    /// Counts a key that was set with a time that has passed: it has expired, though the store never had it.
    pub fn count_expired(&mut self) {
        add(&self.session.store.thread(&self.session.local).expired, 1);
    }

    /// Removes `key` if a read since the last call has met an expired record, so that counts follow what readers see. Where its
    /// bucket is latched shared it is left to a later call, or to the background.
    #[inline]
    pub fn remove_met_expired(&mut self, key: Key<'_>) {
        if self.session.local.notes.met_expired.get() && !self.session.holds_expiry() && self.session.may_change(key.hash) {
            self.session.local.notes.met_expired.set(false);
            // Looking the key up for a change removes it if it is due.
            let _ = self.session.entry(key);
        }
    }

    /// Forgets that a read has met one.
    pub fn forget_met_expired(&mut self) {
        self.session.local.notes.met_expired.set(false);
    }

    /// Whether a read has met an expired record that is not removed yet.
    #[inline]
    #[must_use]
    pub fn has_met_expired(&self) -> bool {
        self.session.local.notes.met_expired.get()
    }

    /// Whether what has expired is to stay for now.
    #[must_use]
    pub fn holds_expiry(&self) -> bool {
        self.session.holds_expiry()
    }
}
