//! What a stream takes.

use almandine_base::object::Object;
use almandine_datatypes::stream::{NodeLimits, Pending, StreamId, StreamObject};

const LIMITS: NodeLimits = NodeLimits { bytes: 4096, entries: 100 };

fn filled(entries: u64) -> StreamObject {
    let mut stream = StreamObject::new();
    for n in 0..entries {
        let value = format!("{:08}", n % 100_000_000);
        let fields = [(&b"sensor"[..], value.as_bytes()), (b"temperature", b"19.8")];
        stream.append(StreamId::new(1_700_000_000_000 + n * 7, 0), fields.into_iter(), LIMITS);
    }
    stream
}

#[test]
fn bytes_per_entry() {
    // Two values of 12 bytes together.
    let per_entry = |entries: u64| filled(entries).memory() as f64 / entries as f64;
    assert!(filled(1).memory() <= 320, "{} bytes with one entry", filled(1).memory());
    assert!(per_entry(100) <= 30.0, "{:.1} bytes with 100", per_entry(100));
    assert!(per_entry(100_000) <= 27.0, "{:.1} bytes with 100,000", per_entry(100_000));
}

#[test]
fn bytes_per_pending_entry() {
    let mut stream = filled(10_000);
    let before = stream.memory();
    stream.groups_mut().create(b"g", StreamId::MIN, Some(0));
    let (owner, _) = stream.groups_mut().change(0, |group| group.ensure_consumer(b"c", 0)).unwrap();
    for n in 0..10_000 {
        stream
            .groups_mut()
            .change(0, |group| group.pend(Pending { id: StreamId::new(n, 0), time: n, count: 1, owner }))
            .unwrap()
            .unwrap();
    }
    let per_entry = (stream.memory() - before) as f64 / 10_000.0;
    assert!(per_entry <= 85.0, "{per_entry:.1} bytes");
}
