//! Entropy of the kernel. Seeds and random ids of the process come from here, so that a simulator can replace them.

use std::io;

/// Fills `bytes` with random bytes.
///
/// # Errors
/// When the kernel has no random source (a sandbox that forbids `getrandom`).
pub fn fill(mut bytes: &mut [u8]) -> io::Result<()> {
    #[cfg(feature = "sim")]
    if let Some(turn) = crate::sim::turn::simulation() {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&turn.number().to_ne_bytes()[..part.len()]);
        }
        return Ok(());
    }
    while !bytes.is_empty() {
        match rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => bytes = &mut bytes[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A random number to seed a generator with. Without a random source it is made of clocks, which is no secret.
#[must_use]
pub fn seed() -> u64 {
    let mut bytes = [0; 8];
    match fill(&mut bytes) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => crate::clock::unix_us().cast_unsigned().rotate_left(32) ^ crate::clock::monotonic_ns(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_everything() {
        let mut bytes = [0; 1000];
        fill(&mut bytes).unwrap();
        assert!(bytes.iter().filter(|byte| **byte == 0).count() < 100);
        assert_ne!(seed(), seed());
    }
}
