//! Any bytes are no manifest of a log, or one that is the same when it is written again; no body of a group and no unit panics in
//! redo, as what it is and as entries of a whole unit.

use std::cell::RefCell;
use std::path::Path;

use almandine_keyspace::{Accessor, Keyspace, Options};
use almandine_oplog::UnitHead;
use almandine_oplog::group::{PartHead, Slices};
use almandine_oplog::manifest::Manifest;
use almandine_oplog::read::LogGroup;
use almandine_recovery::redo::{LogLanes, Redo};

fn accessor() -> Accessor {
    let store = almandine_store::Options { memory_bytes_max: 1 << 28, background: false, ..Default::default() };
    let keyspace = Keyspace::open(Options { store, databases: 2, ..Options::default() }).expect("a keyspace");
    keyspace.accessor().expect("an accessor")
}

thread_local! {
    static ACCESSOR: RefCell<Accessor> = RefCell::new(accessor());
}

/// Whether the entries were done.
pub(crate) fn run(data: &[u8]) -> bool {
    if let Ok(manifest) = Manifest::decode(Path::new("MANIFEST"), data) {
        let text = manifest.encode();
        assert_eq!(Manifest::decode(Path::new("MANIFEST"), text.as_bytes()).expect("what was written is read").encode(), text);
    }
    let _ = PartHead::decode(data);
    for slice in Slices::new(data).flatten() {
        let _ = slice.heads().count();
    }
    let unit = UnitHead { number: 1 << 20, bytes: data.len() as u32, entries: 1 };
    let units = [&unit.encode()[..], data].concat();
    let mut slice = [0; 16];
    slice[0] = 1;
    slice[12..].copy_from_slice(&(units.len() as u32).to_le_bytes());
    let whole = [&slice[..], &units].concat();
    ACCESSOR.with_borrow_mut(|accessor| {
        let mut redo = Redo::new(vec![1, 2]);
        let mut lanes = LogLanes::start(accessor, 1);
        let of = |body| LogGroup { lsn: 0, end_lsn: 0, head: PartHead::default(), body, is_opaque: false, units: 1 };
        let _ = redo.group(&mut lanes, &of(data));
        let is_done = redo.group(&mut lanes, &of(&whole)).is_ok();
        let is_done = lanes.end().is_ok() && is_done;
        accessor.begin_batch(0);
        accessor.flush(&[0, 1]);
        accessor.end_batch();
        accessor.keyspace().maintain(1);
        is_done
    })
}
