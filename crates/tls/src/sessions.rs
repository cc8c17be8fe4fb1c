//! Sessions that clients resume without another key exchange.
//!
//! What is needed for it is mostly in a ticket that the client keeps, encrypted by a key that changes. Clients of TLS 1.2 without
//! tickets name a session by a number, and the server keeps it.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, PoisonError};

use almandine_io::clock;
use almandine_io::sync::{Mutex, MutexGuard};
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::{ProducesTickets, ServerConfig, StoresServerSessions};
use rustls::ticketer::TicketRotator;

use crate::options::Sessions;

/// Makes connections of `config` resumable.
pub(crate) fn resume(config: &mut ServerConfig, sessions: Sessions) -> Result<(), rustls::Error> {
    // A ticket is good for up to twice the time that its key is in use.
    config.ticketer = Arc::new(TicketRotator::new((sessions.seconds / 2).max(1), || {
        let ticketer = Ticketer::new().map_err(|_| rustls::crypto::GetRandomFailed)?;
        Ok(Box::new(Shared(ticketer)))
    })?);
    config.session_storage = Arc::new(Kept { sessions, inner: Mutex::default() });
    Ok(())
}

/// A ticketer that several may hold.
#[derive(Debug)]
struct Shared(Arc<dyn ProducesTickets>);

impl ProducesTickets for Shared {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.encrypt(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.0.decrypt(cipher)
    }
}

/// The last sessions by their numbers.
struct Kept {
    sessions: Sessions,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    by_number: HashMap<Vec<u8>, Session>,
    /// Their numbers, oldest first; of some, the session is gone.
    order: VecDeque<Vec<u8>>,
}

struct Session {
    value: Vec<u8>,
    until_ms: u64,
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now_ms() -> u64 {
    clock::monotonic_ns() / 1_000_000
}

impl StoresServerSessions for Kept {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let until_ms = now_ms() + u64::from(self.sessions.seconds) * 1000;
        let mut inner = self.lock();
        inner.by_number.insert(key.clone(), Session { value, until_ms });
        inner.order.push_back(key);
        while inner.order.len() > self.sessions.kept_max
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.by_number.remove(&oldest);
        }
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let inner = self.lock();
        inner.by_number.get(key).filter(|session| now_ms() < session.until_ms).map(|session| session.value.clone())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.lock().by_number.remove(key).filter(|session| now_ms() < session.until_ms).map(|session| session.value)
    }

    fn can_cache(&self) -> bool {
        self.sessions.kept_max > 0
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Sessions are secret.
        f.debug_struct("Kept").field("sessions", &self.sessions).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_sessions_are_kept_than_are_allowed_and_no_longer() {
        let kept = |kept_max, seconds| Kept { sessions: Sessions { kept_max, seconds }, inner: Mutex::default() };
        let three = kept(3, 100);
        (0..10_u8).for_each(|number| assert!(three.put(vec![number], vec![number; 2])));
        assert_eq!((three.get(&[6]), three.get(&[9])), (None, Some(vec![9, 9])));
        assert_eq!((three.take(&[7]), three.take(&[7])), (Some(vec![7, 7]), None));
        assert!(three.lock().by_number.len() == 2 && three.lock().order.len() == 3);
        let over = kept(3, 0);
        over.put(vec![1], vec![1]);
        assert_eq!((over.get(&[1]), over.take(&[1])), (None, None));
        assert!(!kept(0, 1).can_cache());
    }
}
