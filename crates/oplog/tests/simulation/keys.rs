//! Keys of simulated logs, and what was encrypted with them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use almandine_io::files;
use almandine_oplog::group::PartHead;
use almandine_oplog::{LogKeys, crc32c};

const ONE: &str = "one 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
const TWO: &str = "two 100102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";

/// Those that read all runs.
pub(crate) fn all_keys() -> LogKeys {
    LogKeys::parse(format!("{TWO}{ONE}").as_bytes()).unwrap()
}

/// Those that a run writes with: the first one is plain, then keys take turns.
pub(crate) fn keys_of(run: u64) -> Arc<LogKeys> {
    Arc::new(match run % 3 {
        0 => all_keys().for_reading(),
        1 => LogKeys::parse(format!("{ONE}{TWO}").as_bytes()).unwrap(),
        _ => all_keys(),
    })
}

/// Parts that were found in files, by key, salt and count.
#[derive(Default)]
pub(crate) struct Encrypted(BTreeMap<([u8; 24], [u8; 16], u64), Vec<u8>>);

impl Encrypted {
    /// Looks at all parts of a directory.
    pub(crate) fn look(&mut self, path: &Path) {
        for name in files::names(path).unwrap().iter().filter(|name| name.starts_with("log-")) {
            let bytes = files::read(path.join(name)).unwrap();
            for at in (0..bytes.len()).step_by(4096) {
                let Ok(head) = PartHead::decode(&bytes[at..]) else { continue };
                let Some(part) = head.encryption else { continue };
                let Some(whole) = bytes.get(at..at + head.head_bytes() + head.body_bytes as usize) else { continue };
                // What has not come to the disk as a whole is as it is.
                if head.sum != crc32c::sum(&[&head.before.to_le_bytes()[..], &whole[128..]].concat()) {
                    continue;
                }
                let before = self.0.insert((part.mark.encode(), part.salt, part.count), whole.to_vec());
                assert!(before.is_none_or(|before| before == whole), "INV-ENCRYPTION-1: {name} encrypts twice with the same nonce");
            }
        }
    }
}
