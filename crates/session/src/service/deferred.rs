//! Messages that wait for the operation log: what they tell of a unit of work is not heard before the unit is as durable as replies
//! promise. Published messages, keyspace events and invalidations of tracked keys are such.
//!
//! A message may come while its unit is open and has no number. So it waits twice. First for the commit epoch of its arrival: the
//! cut of that one is closed only when each session that was in its batch has left it, so the unit has been published. Then for the
//! commit epoch of that moment, which the unit's number does not exceed. Messages go on in the order in which they came.

use std::collections::VecDeque;

use almandine_base::step;
use almandine_handler::Context;
use almandine_instance::{Hearing, LogSeal, Message, OperationLog};

/// Messages that may wait, and bytes of them. Beyond, they are dropped as those are for which a worker's mailbox has no room.
const MESSAGES_MAX: usize = 1 << 16;
const BYTES_MAX: usize = 32 << 20;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    /// Until their units have numbers.
    unnumbered: VecDeque<(LogSeal, Message)>,
    /// Until the units are in the log.
    numbered: VecDeque<(LogSeal, Message)>,
    /// What both tell.
    bytes: usize,
}

/// What is to be done with a message that has come.
pub(crate) enum Arrival {
    /// It waits.
    Waits,
    /// It is delivered now.
    Goes(Message),
    /// Too many wait, or it may tell of what the log never has.
    Dropped(Message),
}

impl Deferred {
    /// Takes a message, if it has to wait. `heard`: breaks of the log that this worker has heard of.
    #[inline]
    pub(crate) fn take(&mut self, message: Message, context: &Context, heard: u64) -> Arrival {
        let log = &context.instance.persistence.log;
        match message.breaks() {
            Some(sent) if log.is_on() || self.is_any() => self.take_told(message, log, log.hearing(heard, sent)),
            _ => Arrival::Goes(message),
        }
    }

    /// Whether messages wait.
    fn is_any(&self) -> bool {
        !self.unnumbered.is_empty() || !self.numbered.is_empty()
    }

    #[cold]
    fn take_told(&mut self, message: Message, log: &OperationLog, hearing: Hearing) -> Arrival {
        let seal = match step!(DeferMessages, hearing, else Hearing::Now) {
            Hearing::Behind(seal) => Some(seal),
            // None overtakes those that wait, also when the log's mode is another one meanwhile.
            Hearing::Now => self.unnumbered.back().or(self.numbered.back()).map(|(seal, _)| *seal),
            Hearing::Never => return Arrival::Dropped(message),
        };
        let Some(seal) = seal else { return Arrival::Goes(message) };
        let bytes = told_bytes(&message);
        if self.unnumbered.len() + self.numbered.len() >= MESSAGES_MAX || self.bytes + bytes > BYTES_MAX {
            return Arrival::Dropped(message);
        }
        self.bytes += bytes;
        self.unnumbered.push_back((seal, message));
        log.urge(seal);
        Arrival::Waits
    }

    /// The next message that need not wait any longer; asked for again until there is none, when more is written or durable.
    pub(crate) fn next(&mut self, log: &OperationLog, heard: u64) -> Option<Message> {
        while let Some((_, message)) = self.unnumbered.pop_front_if(|(seal, _)| log.has_reached(*seal)) {
            match log.seal(None, heard) {
                Some(seal) => {
                    log.urge(seal);
                    self.numbered.push_back((seal, message));
                }
                None if self.numbered.is_empty() => return Some(self.leaves(message)),
                None => {
                    let last = self.numbered.back().map(|(seal, _)| *seal);
                    self.numbered.extend(last.map(|seal| (seal, message)));
                }
            }
        }
        let next = self.numbered.pop_front_if(|(seal, _)| log.has_reached(*seal));
        if next.is_none()
            && let Some((seal, _)) = self.numbered.front().or(self.unnumbered.front())
        {
            log.urge(*seal);
        }
        next.map(|(_, message)| self.leaves(message))
    }

    fn leaves(&mut self, message: Message) -> Message {
        self.bytes -= told_bytes(&message);
        message
    }

    /// The log is broken and given up: what became of what they tell is not known.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Message> {
        self.bytes = 0;
        self.numbered.drain(..).chain(self.unnumbered.drain(..)).map(|(_, message)| message)
    }
}

/// Bytes that a message tells.
fn told_bytes(message: &Message) -> usize {
    match message {
        Message::Publish(publication) => publication.bytes(),
        Message::Invalidate { keys, .. } => keys.as_ref().map_or(0, |keys| keys.len()),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use almandine_instance::pubsub::Publication;
    use almandine_oplog::epoch_of;
    use bytes::Bytes;

    use super::*;
    use crate::service::log_rig::LogRig;

    fn waits(deferred: &mut Deferred, message: Message, log: &OperationLog) -> bool {
        matches!(deferred.take_told(message, log, log.hearing(0, 0)), Arrival::Waits)
    }

    /// INV-OPLOG-4: a message of a unit that is still open is heard when the unit is durable, whatever its number will be.
    #[test]
    fn messages_are_heard_when_their_units_are_durable() {
        let rig = LogRig::new("durable");
        let session = rig.epoch.register().unwrap();
        let mut deferred = Deferred::default();
        for round in 0..20 {
            session.enter();
            assert!(waits(&mut deferred, Message::LookAgain(round), &rig.log));
            // Others end their units meanwhile, and the commit epoch is raised for whatever reason.
            for _ in 0..round {
                rig.order.begin_epoch();
                std::thread::yield_now();
                assert!(deferred.next(&rig.log, 0).is_none(), "the unit has no number");
            }
            let number = rig.end_unit();
            assert!(deferred.next(&rig.log, 0).is_none(), "the unit is in its batch");
            session.leave();
            assert!(waits(&mut deferred, Message::LookAgain(round + 100), &rig.log));
            let mut heard = Vec::new();
            while heard.len() < 2 {
                let durable = rig.progress.durable_epoch();
                match deferred.next(&rig.log, 0) {
                    Some(Message::LookAgain(told)) => heard.push(told),
                    Some(_) => unreachable!(),
                    None => assert!(durable < u64::MAX),
                }
                assert!(heard.is_empty() || rig.progress.durable_epoch() >= epoch_of(number), "round {round}");
                std::thread::yield_now();
            }
            assert_eq!(heard, [round, round + 100], "in their order");
        }
    }

    #[test]
    fn messages_that_wait_are_bounded_by_what_they_tell() {
        let rig = LogRig::new("bytes");
        let session = rig.epoch.register().unwrap();
        session.enter();
        let mut deferred = Deferred::default();
        let payload = Bytes::from(vec![0; 1 << 20]);
        let publication = || {
            let (channel, payload) = (Bytes::from_static(b"channel"), payload.clone());
            Message::Publish(Arc::new(Publication { shard: false, channel, payload, patterns: Box::default(), breaks: 0 }))
        };
        let fill = |deferred: &mut Deferred| (0..40).take_while(|_| waits(deferred, publication(), &rig.log)).count();
        assert_eq!(fill(&mut deferred), 31, "each is longer than a mebibyte");
        session.leave();
        while deferred.is_any() {
            let _ = deferred.next(&rig.log, 0);
            std::thread::yield_now();
        }
        session.enter();
        assert_eq!(fill(&mut deferred), 31, "those that have left do not count");
        assert_eq!(deferred.drain().count(), 31);
        assert_eq!(fill(&mut deferred), 31);
        session.leave();
    }

    /// A reply to a look waits for the units that have changed its key, and for no others.
    #[test]
    fn looks_wait_for_what_they_have_seen() {
        let rig = LogRig::new("looks");
        let session = rig.epoch.register().unwrap();
        session.enter();
        let number = rig.end_unit();
        // Nothing becomes durable while a session stays in its batch.
        assert!(rig.log.seal(None, 0).is_some(), "something is pending");
        assert_eq!(rig.log.seal(Some(rig.log.seen(8 << 32)), 0), None, "another key is durable");
        let seal = rig.log.seal(Some(rig.log.seen(7)), 0).unwrap();
        assert_eq!((rig.log.seen(7), seal.epoch), (number, epoch_of(number)));
        assert!(!rig.log.has_reached(seal));
        session.leave();
        rig.log.urge(seal);
        while !rig.log.has_reached(seal) {
            std::thread::yield_now();
        }
        assert_eq!(rig.log.seal(Some(rig.log.seen(7)), 0), None);
    }
}
