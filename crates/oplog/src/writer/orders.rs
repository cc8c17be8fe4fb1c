//! What other threads ask of the writer.

use std::collections::VecDeque;
use std::sync::PoisonError;

use almandine_io::sync::{Mutex, Sender};

use super::Cut;
use crate::fault::Fault;
use crate::manifest::BaseEntry;

pub(super) type Reply = Sender<Result<Cut, Fault>>;

pub(super) enum Order {
    Sync(Reply),
    Rotate(Reply),
    NameBase(BaseEntry, Reply),
    Resume(Reply),
    End(Reply),
    Stop,
}

/// In the order of their coming.
#[derive(Default)]
pub(super) struct Orders(Mutex<VecDeque<Order>>);

impl std::fmt::Debug for Orders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Orders")
    }
}

impl Orders {
    pub(super) fn push(&self, order: Order) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(order);
    }

    pub(super) fn pop(&self) -> Option<Order> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}
