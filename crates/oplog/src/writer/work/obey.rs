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
        let is_broken = self.progress.state().is_broken();
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
                self.healing.tries = 0;
                let recovered = if is_broken { self.recover() } else { Ok(()) };
                answer(reply, recovered.and_then(|()| self.here()));
            }
            Order::AbandonBase => self.healing.is_base_made = false,
            Order::Resize(bytes) => self.log.iter_mut().for_each(|log| log.set_segment_bytes(bytes)),
            Order::Rekey(keys) => self.log.iter_mut().for_each(|log| log.set_keys(Arc::clone(&keys))),
            Order::End(reply) => {
                let cut = if is_broken { Err(Fault::Stopped) } else { self.cut(true) };
                let is_durable = cut.is_ok();
                self.end_cuts();
                let ended = cut.and_then(|cut| {
                    self.log.take().map_or(Err(Fault::Stopped), Appender::end)?;
                    Ok(cut)
                });
                // What is not durable now is not said to be.
                self.set_state(if step!(EndBroken, is_durable, else true) { LogState::Ended } else { LogState::GivenUp });
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

    pub(super) fn here(&mut self) -> Result<Cut, Fault> {
        let epoch = self.written;
        Ok(Cut { place: self.log()?.ends().0, epoch })
    }

    /// Closes a cut of all that was done, and writes it; durably, or where that heals a broken log as that has it.
    fn cut(&mut self, durable: bool) -> Result<Cut, Fault> {
        let is_broken = self.progress.state().is_broken();
        if is_broken && self.healing.through.is_none() {
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
}
