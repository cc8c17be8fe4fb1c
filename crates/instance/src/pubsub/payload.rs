//! Payloads that listeners share: each counts once against `maxmemory`, as long as one of them has still to be sent it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use almandine_base::limits::REPLY_COPY_BYTES_MAX;
use bytes::Bytes;

/// Bytes of all payloads that are too large to be copied for each listener. Smaller ones count where they are copied to.
#[derive(Clone, Debug, Default)]
pub(super) struct Payloads(Arc<AtomicU64>);

struct Payload {
    bytes: Box<[u8]>,
    all: Payloads,
}

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.bytes.len() as u64, Relaxed);
    }
}

impl Payloads {
    /// A payload that counts while one message holds it.
    pub(super) fn share(&self, payload: &[u8]) -> Bytes {
        if payload.len() <= REPLY_COPY_BYTES_MAX {
            return Bytes::copy_from_slice(payload);
        }
        self.0.fetch_add(payload.len() as u64, Relaxed);
        Bytes::from_owner(Payload { bytes: payload.into(), all: self.clone() })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_payload_counts_once_until_the_last_listener_has_it() {
        let payloads = Payloads::default();
        let small = payloads.share(b"small");
        assert_eq!((&small[..], payloads.bytes()), (&b"small"[..], 0));
        let first = payloads.share(&[1; REPLY_COPY_BYTES_MAX + 1]);
        let second = first.clone();
        drop(first);
        assert_eq!((second.len(), payloads.bytes()), (REPLY_COPY_BYTES_MAX + 1, second.len() as u64));
        drop(second);
        assert_eq!(payloads.bytes(), 0);
    }
}
