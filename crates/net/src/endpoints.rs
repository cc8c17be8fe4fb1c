//! Where connections are accepted, and by how many workers: both can change while the workers run.
//!
//! The list is behind a mutex, which is taken once per change and worker. A running worker gets mail about a change; one that
//! begins reads the list after it has said that it runs. So none misses a change: it is told of those behind its first look.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use almandine_io::socket::{Address, Listener};
use almandine_io::sync::Mutex;

use crate::transport::TransportFactory;

/// A listening socket and what its connections speak below the protocol.
#[derive(Clone)]
pub struct Endpoint {
    /// Where to accept.
    pub listener: Arc<Listener>,
    /// `None` for plain bytes.
    pub transport: Option<TransportFactory>,
}

/// What an endpoint's connections need to know of it; it may be gone when they begin.
pub(crate) struct Origin {
    pub(crate) address: Address,
    pub(crate) transport: Option<TransportFactory>,
}

/// An endpoint under its number, by which reactors know it. A number is used once.
#[derive(Clone)]
pub(crate) struct Numbered {
    pub(crate) number: u32,
    pub(crate) endpoint: Arc<Endpoint>,
}

/// Reactors take numbers below this; after that many changes the first are used again.
const NUMBERS: u32 = 0xFFF0;

/// The endpoints of all workers.
pub(crate) struct Endpoints {
    list: Mutex<List>,
    /// Number of workers, from the first on, that accept and take connections. Changed under the lock of
    /// [`crate::mailbox::Shared::assign`].
    active: AtomicUsize,
}

#[derive(Default)]
struct List {
    endpoints: Vec<Numbered>,
    next: u32,
}

impl Endpoints {
    pub(crate) fn new(endpoints: Vec<Arc<Endpoint>>, active: usize) -> Self {
        let all = Self { list: Mutex::default(), active: AtomicUsize::new(active) };
        all.replace(endpoints);
        all
    }

    /// Replaces the endpoints. Those that were there before keep their numbers. Returns those that are not among them any more.
    pub(crate) fn replace(&self, endpoints: Vec<Arc<Endpoint>>) -> Vec<Arc<Endpoint>> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = std::mem::take(&mut list.endpoints);
        for endpoint in endpoints {
            let kept = left.iter().position(|known| Arc::ptr_eq(&known.endpoint, &endpoint));
            let numbered = kept.map(|position| left.swap_remove(position)).unwrap_or_else(|| list.numbered(endpoint, &left));
            list.endpoints.push(numbered);
        }
        left.into_iter().map(|numbered| numbered.endpoint).collect()
    }

    /// What the worker of this index accepts from.
    pub(crate) fn of_worker(&self, worker: usize) -> Vec<Numbered> {
        if worker < self.active() { self.list.lock().unwrap_or_else(PoisonError::into_inner).endpoints.clone() } else { Vec::new() }
    }

    pub(crate) fn active(&self) -> usize {
        self.active.load(Ordering::SeqCst)
    }

    pub(crate) fn set_active(&self, active: usize) {
        self.active.store(active, Ordering::SeqCst);
    }
}

impl List {
    fn numbered(&mut self, endpoint: Arc<Endpoint>, others: &[Numbered]) -> Numbered {
        loop {
            let number = self.next;
            self.next = (self.next + 1) % NUMBERS;
            if self.endpoints.iter().chain(others).all(|known| known.number != number) {
                return Numbered { number, endpoint };
            }
        }
    }
}

/// The endpoints as one worker knows them.
#[derive(Default)]
pub(crate) struct Known(Vec<KnownEndpoint>);

struct KnownEndpoint {
    number: u32,
    origin: Arc<Origin>,
    /// While the worker accepts from it.
    listener: Option<Arc<Listener>>,
}

/// Number of former endpoints that a worker remembers, for connections that were on their way.
const LEFT_MAX: usize = 16;

impl Known {
    /// What connections of an endpoint need to know.
    pub(crate) fn origin(&self, number: u32) -> Option<&Arc<Origin>> {
        self.0.iter().find(|known| known.number == number).map(|known| &known.origin)
    }

    /// The listener of an endpoint that the worker accepts from.
    pub(crate) fn listener(&self, number: u32) -> Option<&Arc<Listener>> {
        self.0.iter().find(|known| known.number == number)?.listener.as_ref()
    }

    /// Makes `wanted` what the worker accepts from. Returns the numbers that it is to leave, and those that it is to listen on.
    pub(crate) fn follow(&mut self, wanted: Vec<Numbered>) -> (Vec<u32>, Vec<u32>) {
        let mut left = Vec::new();
        for known in &mut self.0 {
            if known.listener.is_some() && !wanted.iter().any(|wanted| wanted.number == known.number) {
                known.listener = None;
                left.push(known.number);
            }
        }
        let mut begun = Vec::new();
        for Numbered { number, endpoint } in wanted {
            if self.listener(number).is_some() {
                continue;
            }
            self.0.retain(|known| known.number != number);
            let origin = Origin { address: endpoint.listener.address().clone(), transport: endpoint.transport.clone() };
            let listener = Some(Arc::clone(&endpoint.listener));
            self.0.push(KnownEndpoint { number, origin: Arc::new(origin), listener });
            begun.push(number);
        }
        let surplus = self.0.iter().filter(|known| known.listener.is_none()).count().saturating_sub(LEFT_MAX);
        for _ in 0..surplus {
            if let Some(oldest) = self.0.iter().position(|known| known.listener.is_none()) {
                self.0.remove(oldest);
            }
        }
        (left, begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Arc<Endpoint> {
        let listener = Arc::new(almandine_io::socket::bind(&["127.0.0.1"], 0, 16).unwrap().remove(0));
        Arc::new(Endpoint { listener, transport: None })
    }

    #[test]
    fn what_stays_keeps_its_number_and_what_comes_gets_a_new_one() {
        let (first, second) = (endpoint(), endpoint());
        let endpoints = Endpoints::new(vec![Arc::clone(&first)], 2);
        let mut known = Known::default();
        assert_eq!(known.follow(endpoints.of_worker(0)), (vec![], vec![0]));
        assert!(endpoints.replace(vec![Arc::clone(&second), Arc::clone(&first)]).is_empty());
        assert_eq!(known.follow(endpoints.of_worker(0)), (vec![], vec![1]));
        assert!(Arc::ptr_eq(&endpoints.replace(vec![Arc::clone(&second)])[0], &first));
        assert_eq!(known.follow(endpoints.of_worker(0)), (vec![0], vec![]));
        assert!(known.listener(0).is_none() && known.origin(0).is_some(), "a connection may still come from it");
        endpoints.replace(vec![first]);
        assert_eq!(known.follow(endpoints.of_worker(0)), (vec![1], vec![2]));
        endpoints.set_active(1);
        assert!(endpoints.of_worker(1).is_empty());
    }
}
