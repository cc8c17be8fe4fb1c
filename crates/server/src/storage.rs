//! The devices below memory, as the settings say.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use almandine_config::Settings;
use almandine_config::choices::{CopyReads, StorageDevice};
use almandine_device::{Device, FaultPlan, FaultyDevice, FileOptions, MemoryDevice, NullDevice, ShardedDevice};
use almandine_keyspace::Storage;

/// Consecutive bytes on one of several directories: a page of the log.
const STRIPE_BYTES: u64 = 2 << 20;

/// Opens what `storage-dir` and `storage-device` ask for; nothing when they ask for nothing.
///
/// # Errors
/// When a directory cannot be used.
pub(crate) fn open(settings: &Settings) -> io::Result<Option<Storage>> {
    let storage = &settings.storage;
    let pair = |make: &dyn Fn(&str) -> io::Result<Arc<dyn Device>>| -> io::Result<Option<Storage>> {
        Ok(Some(Storage { pages: make("log")?, values: make("values")? }))
    };
    match storage.device {
        StorageDevice::File if storage.directories.is_empty() => Ok(None),
        StorageDevice::File => pair(&|part| files(settings, part)),
        StorageDevice::Memory => pair(&|_| Ok(Arc::new(MemoryDevice::new()))),
        StorageDevice::Null => pair(&|_| Ok(Arc::new(NullDevice))),
        StorageDevice::Faulty => {
            let plan = faults(&storage.faults)?;
            pair(&|part| {
                let device: Arc<dyn Device> =
                    if storage.directories.is_empty() { Arc::new(MemoryDevice::new()) } else { files(settings, part)? };
                Ok(Arc::new(FaultyDevice::new(device, storage.fault_seed, plan.clone())))
            })
        }
    }
}

fn files(settings: &Settings, part: &str) -> io::Result<Arc<dyn Device>> {
    let directories: Vec<PathBuf> = settings.storage.directories.iter().map(|directory| Path::new(directory).join(part)).collect();
    for directory in &directories {
        std::fs::create_dir_all(directory).map_err(|error| {
            io::Error::new(error.kind(), format!("storage-dir: cannot create '{}': {error}", directory.display()))
        })?;
    }
    let options = FileOptions { segment_bytes: settings.storage.segment_bytes, ..FileOptions::default() };
    match &directories[..] {
        [one] => Ok(Arc::new(almandine_device::FileDevice::open(one.clone(), &options)?)),
        several => {
            let options = FileOptions { segment_bytes: options.segment_bytes.next_multiple_of(STRIPE_BYTES), ..options };
            Ok(Arc::new(ShardedDevice::open(several, &options)?))
        }
    }
}

/// Reads `name=number` pairs.
fn faults(text: &str) -> io::Result<FaultPlan> {
    let mut plan = FaultPlan::default();
    for word in text.split_whitespace() {
        let wrong = || io::Error::new(io::ErrorKind::InvalidInput, format!("storage-faults: '{word}' is not known"));
        let (name, number) = word.split_once('=').ok_or_else(wrong)?;
        let number: u32 = number.parse().map_err(|_| wrong())?;
        match name {
            "read-errors" => plan.read_errors = number,
            "short-reads" => plan.short_reads = number,
            "flipped-bits" => plan.flipped_bits = number,
            "write-errors" => plan.write_errors = number,
            "torn-writes" => plan.torn_writes = number,
            "discard-errors" => plan.discard_errors = number,
            _ => return Err(wrong()),
        }
    }
    Ok(plan)
}

/// What becomes of records read from storage.
pub(crate) fn copy_reads(settings: &Settings) -> almandine_keyspace::CopyReads {
    match settings.storage.copy_reads {
        CopyReads::None => almandine_keyspace::CopyReads::None,
        CopyReads::ReadCache => almandine_keyspace::CopyReads::ReadCache,
        CopyReads::Tail => almandine_keyspace::CopyReads::Tail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_or_refused() {
        let plan = faults("read-errors=5 torn-writes=7").unwrap();
        assert_eq!((plan.read_errors, plan.torn_writes, plan.write_errors), (5, 7, 0));
        assert!(faults("read-errors").is_err() && faults("sparks=1").is_err() && faults("read-errors=x").is_err());
        assert_eq!(faults("").unwrap(), FaultPlan::default());
    }
}
