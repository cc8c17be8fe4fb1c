//! A log of the tests, without a server.

use std::sync::Arc;

use almandine_epoch::Epoch;
use almandine_instance::{LogPurpose, OperationLog};
use almandine_oplog::append::{Appender, LogOptions};
use almandine_oplog::directory::Directory;
use almandine_oplog::writer::{LogListener, LogProgress, LogState, LogWriter, SyncMode, WriterOptions};
use almandine_oplog::{Asked, Order, RingOptions, Rings, UnitHead, read::read};

struct Silent;

impl LogListener for Silent {
    fn advanced(&self) {}

    fn changed(&self, state: LogState) {
        assert!(!state.is_broken());
    }
}

/// A log with `always`, written in a directory of its own.
pub(crate) struct LogRig {
    pub(crate) log: OperationLog,
    pub(crate) progress: Arc<LogProgress>,
    pub(crate) rings: Arc<Rings>,
    pub(crate) order: Arc<Order>,
    pub(crate) epoch: Arc<Epoch>,
    writer: Option<LogWriter>,
    path: std::path::PathBuf,
}

impl LogRig {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("almandine-session-log-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let directory = Directory::take(&path).unwrap();
        let manifest = directory.manifest().unwrap();
        let end = read(&path, &manifest, 0, &mut |_| Ok(())).unwrap();
        let options = LogOptions { segment_bytes: 64 << 10, ..LogOptions::default() };
        let appender = Appender::begin(directory, manifest, &end, &options, &[], Box::new(|| {})).unwrap();
        let (order, epoch, progress) = (Arc::<Order>::default(), Arc::new(Epoch::new(4)), Arc::<LogProgress>::default());
        let options = RingOptions { directory: None, bytes: 1 << 16, log: 1, run: 1, boot: 1, first_epoch: 5 };
        let rings = Rings::new(options, 2, Arc::clone(&order), Arc::clone(&epoch));
        rings.open(0).unwrap();
        let options = WriterOptions { mode: SyncMode::Always, rings_survive: true };
        let source = Box::new(rings.source());
        let writer = LogWriter::start(appender, source, options, Box::new(Silent), Arc::clone(&progress)).unwrap();
        let log = OperationLog::default();
        log.begin(LogPurpose::Durability, Arc::clone(&progress), Arc::clone(&rings), Arc::clone(&order));
        Self { log, progress, rings, order, epoch, writer: Some(writer), path }
    }

    /// What a unit of work does at its end. Returns its number.
    pub(crate) fn end_unit(&self) -> u64 {
        let place = self.rings.announce(0, 5);
        let number = self.order.take(Asked { changed: &[7], ..Asked::default() });
        self.rings.publish(0, UnitHead { number, bytes: 5, entries: 1 }, b"entry", place);
        number
    }
}

impl Drop for LogRig {
    fn drop(&mut self) {
        drop(self.writer.take());
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
