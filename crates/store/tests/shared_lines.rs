//! Which cache lines that all workers share each verb writes: a read none, a change its bucket's, and the stripe's while effects
//! are wanted.

#![cfg(all(not(loom), debug_assertions))]

use almandine_store::{Consumer, Kind, Options, Put, Session, SharedLine, Slot, Store, shared_lines_written};

fn named(store: &Store) -> u16 {
    store.allocate_namespace().expect("a namespace")
}

/// The lines that a verb writes, each with its count.
fn lines(session: &mut Session, verb: impl FnOnce(&mut Session)) -> Vec<(SharedLine, u64)> {
    use SharedLine::{Bucket, Heat, Region, Stripe, Tail};
    session.enter(0);
    let before = shared_lines_written();
    verb(session);
    let after = shared_lines_written();
    session.leave();
    let counts = [Bucket, Heat, Stripe, Region, Tail].map(|line| (line, after[line as usize] - before[line as usize]));
    counts.into_iter().filter(|(_, count)| *count != 0).collect()
}

#[test]
fn a_read_writes_no_shared_line_and_a_change_its_bucket() {
    use SharedLine::{Bucket, Stripe};
    let store = Store::open(Options { background: false, ..Options::default() }).expect("a store");
    let (namespace, mut session) = (named(&store), store.session().expect("a session"));
    let set = |value: &'static [u8]| {
        move |session: &mut Session| session.upsert(session.key(namespace, b"key"), value, Put::default()).expect("room")
    };
    let get = |session: &mut Session| assert!(session.read(session.key(namespace, b"key"), |_| ()).unwrap().is_some());
    let miss = |session: &mut Session| assert!(session.read(session.key(namespace, b"none"), |_| ()).unwrap().is_none());
    let append = |session: &mut Session| match session.entry(session.key(namespace, b"key")).unwrap() {
        Slot::Occupied(mut entry) => entry.append(b"!").expect("room"),
        Slot::Vacant(_) => panic!("the key is there"),
    };
    let delete = |session: &mut Session| assert!(session.delete(session.key(namespace, b"key")).unwrap());
    let make = |session: &mut Session| match session.entry(session.key(namespace, b"key")).unwrap() {
        Slot::Vacant(entry) => entry.insert(Kind::String, b"value", Put::default()).expect("room"),
        Slot::Occupied(_) => panic!("the key is gone"),
    };
    // The first key of its region, and of the session's chunk.
    let first = lines(&mut session, set(b"value"));
    assert_eq!(first.iter().find(|(line, _)| *line == Bucket), Some(&(Bucket, 1)), "{first:?}");
    for effects in [false, true] {
        store.listeners().tell_changes(Consumer::Effects, effects);
        let changed = if effects { vec![(Bucket, 1), (Stripe, 1)] } else { vec![(Bucket, 1)] };
        for _ in 0..3 {
            assert_eq!(lines(&mut session, get), [], "a GET, effects: {effects}");
            assert_eq!(lines(&mut session, miss), [], "a GET of a missing key, effects: {effects}");
            assert_eq!(lines(&mut session, set(b"other")), changed, "a SET in place");
            assert_eq!(lines(&mut session, append), changed, "an APPEND");
            assert_eq!(lines(&mut session, delete), changed, "a DEL");
            assert_eq!(lines(&mut session, make), changed, "a SET of a new key");
        }
    }
    // Several keys under one plan: each bucket once, whatever is done there.
    let hashes = [&b"key"[..], b"none"].map(|name| session.key(namespace, name).hash);
    let planned = lines(&mut session, |session| {
        session.plan().lock_all(&hashes, true);
        get(session);
        set(b"third")(session);
        session.plan().unlock_all();
    });
    assert_eq!(planned, [(Bucket, 2), (Stripe, 1)]);
}
