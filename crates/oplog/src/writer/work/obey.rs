//! What the writer does on order: cuts that are durable, new segments, bases that are named, and how a base heals a broken log.

use std::sync::Arc;

use almandine_base::{sometimes, step};
use almandine_io::clock;

use super::{SOON, Work};
use crate::append::Appender;
use crate::fault::Fault;
use crate::writer::Cut;
use crate::writer::orders::{Order, Reply};
use crate::writer::progress::{LogState, SyncMode};

impl Work {
    /// True when the thread ends.
    pub(super) fn obey(&mut self, order: Order) -> bool {
        let answer = |reply: Reply, result: Result<Cut, Fault>| reply.send(result);
        let is_broken = self.progress.state() == LogState::Broken;
        match order {
            Order::Rotate(reply) if is_broken => answer(reply, self.begin_healing()),
            // What is written now is made durable beside the writer, and then what has come meanwhile with all else waiting.
            Order::Sync(_) | Order::Rotate(_) if !is_broken && self.progress.mode() != SyncMode::Always => match self.cut(false) {
                Ok(cut) => {
                    if let (Order::Rotate(_), Some(log)) = (&order, &mut self.log) {
                        log.prepare_next();
                    }
                    self.under_way.push(cut, order);
                }
                Err(fault) => order.answer(Err(fault)),
            },
            Order::Sync(reply) => answer(reply, self.cut(true)),
            Order::Rotate(reply) => self.rotate(reply),
            Order::NameBase(base, reply)
                if !is_broken && self.under_way.naming.is_none() && self.log.as_ref().is_some_and(Appender::names_beside) =>
            {
                self.log.iter_mut().for_each(|log| log.begin_naming_base(base));
                self.under_way.naming = Some(reply);
            }
            Order::NameBase(base, reply) => {
                let named = self.log().and_then(|log| log.name_base(base));
                if named.is_ok() {
                    self.end_healing();
                }
                self.answer_named(reply, named);
            }
            Order::Resume(reply) => {
                self.tries = 0;
                let recovered = if is_broken { self.recover() } else { Ok(()) };
                answer(reply, recovered.and_then(|()| self.here()));
            }
            Order::Resize(bytes) => self.log.iter_mut().for_each(|log| log.set_segment_bytes(bytes)),
            Order::Rekey(keys) => self.log.iter_mut().for_each(|log| log.set_keys(Arc::clone(&keys))),
            Order::End(reply) => {
                let cut = if is_broken { Err(Fault::Stopped) } else { self.cut(true) };
                self.end_cuts();
                let ended = cut.and_then(|cut| {
                    self.log.take().map_or(Err(Fault::Stopped), Appender::end)?;
                    Ok(cut)
                });
                self.set_state(LogState::Ended);
                answer(reply, ended);
                return true;
            }
            Order::Stop => return true,
        }
        false
    }

    /// Ends what waits for cuts that are durable now. Where the log is broken, the orders are obeyed as such that come then.
    pub(super) fn end_cuts(&mut self) {
        while let Some((cut, order)) = self.under_way.pop(self.durable) {
            match order {
                Order::Rotate(reply) => self.rotate(reply),
                order => order.answer(Ok(cut)),
            }
        }
    }

    fn rotate(&mut self, reply: Reply) {
        let cut = self.cut(true).and_then(|cut| self.log()?.rotate().map(|place| Cut { place, ..cut }));
        self.check_names(&cut);
        reply.send(cut);
    }

    /// Looks whether the base is named that is being named.
    pub(super) fn end_naming(&mut self) {
        if let Some(named) = self.log.as_mut().and_then(Appender::has_named_base)
            && let Some(reply) = self.under_way.naming.take()
        {
            self.answer_named(reply, named);
        }
    }

    fn answer_named(&mut self, reply: Reply, named: Result<(), Fault>) {
        let named = named.and_then(|()| self.here());
        self.check_names(&named);
        let bytes = self.log.as_ref().map_or(0, Appender::bytes);
        self.progress.count(|figures| figures.bytes = bytes);
        reply.send(named);
    }

    /// Where the manifest on the disk may name a segment that begins behind the last group, nothing may be appended to another one.
    fn check_names(&mut self, done: &Result<Cut, Fault>) {
        if let Err(fault) = done
            && step!(CheckNames, self.log.as_ref().is_some_and(Appender::is_unnamed), else false)
        {
            self.fail(fault, clock::monotonic_ns());
        }
    }

    fn here(&mut self) -> Result<Cut, Fault> {
        let epoch = self.written;
        Ok(Cut { place: self.log()?.ends().0, epoch })
    }

    /// Closes a cut of all that was done, and writes it; durably, or where that heals a broken log as that has it.
    fn cut(&mut self, durable: bool) -> Result<Cut, Fault> {
        let is_broken = self.progress.state() == LogState::Broken;
        if is_broken && self.healed.is_none() {
            return Err(Fault::Stopped);
        }
        self.look();
        let before = self.closed;
        let ended = self.raise(clock::monotonic_ns());
        if ended > before + 1 {
            sometimes!("a cut is asked for while an earlier one is not closed");
        }
        while self.closed < step!(AwaitOwnCut, ended, else before + 1) {
            self.progress.waker.wait(SOON);
            self.look();
        }
        if is_broken {
            return self.heal_through(self.closed);
        }
        let done = self.write(durable).and_then(|()| self.here());
        if let Err(fault) = &done {
            self.fail(fault, clock::monotonic_ns());
        }
        done
    }

    /// Begins a segment for what follows what was written. The base that is made from now on has all that was.
    fn begin_healing(&mut self) -> Result<Cut, Fault> {
        self.log()?.heal_with_base()?;
        self.healed = Some(self.written);
        self.here()
    }

    /// Writes what the base may have beside that, durably. Nothing is said of it, and nothing released, before the base is named:
    /// without it the segment does not count.
    fn heal_through(&mut self, through: u64) -> Result<Cut, Fault> {
        let source = &mut self.source;
        let Some(log) = &mut self.log else { return Err(Fault::Stopped) };
        log.append(through, true, &mut |group| source.units(through, group))?;
        self.healed = Some(through);
        Ok(Cut { epoch: through, ..self.here()? })
    }

    /// The base is named: what was written and what the new segment has is durable.
    fn end_healing(&mut self) {
        let Some(through) = self.healed.take() else { return };
        debug_assert!(self.written <= through, "INV-OPLOG-1: a base that heals the log has what was given back in the rings");
        (self.written, self.durable) = (through, through);
        self.is_sealed = false;
        self.tries = 0;
        self.progress.count(|figures| figures.last_write_failed = false);
        self.tell();
        self.source.release(through);
        self.set_state(LogState::Serving);
    }
}
