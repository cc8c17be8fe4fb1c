//! What other threads ask of the writer.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use almandine_io::sync::{Mutex, Sender};

use super::Cut;
use crate::encryption::LogKeys;
use crate::fault::Fault;
use crate::manifest::BaseEntry;

pub(super) type Reply = Sender<Result<Cut, Fault>>;

pub(super) enum Order {
    Sync(Reply),
    Rotate(Reply),
    NameBase(BaseEntry, Reply),
    Resume(Reply),
    AbandonBase,
    Resize(u64),
    Rekey(Arc<LogKeys>),
    End(Reply),
    Stop,
}

impl Order {
    /// Answers one that has an answer.
    pub(super) fn answer(self, answer: Result<Cut, Fault>) {
        match self {
            Self::Sync(reply) | Self::Rotate(reply) | Self::NameBase(_, reply) | Self::Resume(reply) | Self::End(reply) => {
                reply.send(answer);
            }
            Self::AbandonBase | Self::Resize(_) | Self::Rekey(_) | Self::Stop => {}
        }
    }
}

/// Orders that are under way beside what is written.
#[derive(Default)]
pub(super) struct UnderWay {
    /// Cuts that are written, with the orders that wait until they are durable.
    cuts: VecDeque<(Cut, Order)>,
    /// The order that waits for the base that is being named.
    pub(super) naming: Option<Reply>,
}

impl UnderWay {
    pub(super) fn has_cuts(&self) -> bool {
        !self.cuts.is_empty()
    }

    pub(super) fn push(&mut self, cut: Cut, order: Order) {
        self.cuts.push_back((cut, order));
    }

    /// The first cut, if it ends by this epoch.
    pub(super) fn pop(&mut self, durable: u64) -> Option<(Cut, Order)> {
        self.cuts.pop_front_if(|(cut, _)| cut.epoch <= durable)
    }
}

/// In the order of their coming; none when the writer has ended.
pub(super) struct Orders(Mutex<Option<VecDeque<Order>>>);

impl Default for Orders {
    fn default() -> Self {
        Self(Mutex::new(Some(VecDeque::new())))
    }
}

impl std::fmt::Debug for Orders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Orders")
    }
}

impl Orders {
    /// One that comes too late is dropped, which ends its answer.
    pub(super) fn push(&self, order: Order) {
        if let Some(orders) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            orders.push_back(order);
        }
    }

    pub(super) fn pop(&self) -> Option<Order> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut()?.pop_front()
    }

    /// Drops those that wait, and all that come.
    pub(super) fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
