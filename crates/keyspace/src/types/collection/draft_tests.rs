//! A command that fails behind a change of an object: what it has changed is told.

use std::sync::{Arc, Mutex};

use almandine_datatypes::packed::Due;
use almandine_store::{Effect, Kind};

use super::Collection;
use crate::types::hash::Hashes;
use crate::types::list::{End, Lists};
use crate::types::set::Sets;
use crate::types::sorted_set::SortedSets;
use crate::types::testing::{batch, keyspace};
use crate::{Accessor, Keyspace, Refusal, Watcher};

const KINDS: [Kind; 4] = [Kind::Hash, Kind::Set, Kind::SortedSet, Kind::List];
/// More than a record holds.
const ELEMENTS: usize = 1000;

fn element(number: usize) -> Vec<u8> {
    format!("{number:0100}").into_bytes()
}

/// Adds elements to a key, and fails behind them if `fails` says so.
fn add(accessor: &mut Accessor, kind: Kind, numbers: std::ops::Range<usize>, fails: bool) -> Result<(), Refusal> {
    let mut writer = accessor.writer(0);
    let key = writer.key(b"k");
    let failed = if fails { Err(Refusal::Full) } else { Ok(()) };
    let mut numbers = numbers.map(element);
    match kind {
        Kind::Hash => {
            let mut hash = writer.write_as::<Hashes>(key, Hashes::UNLIMITED)?;
            numbers.try_for_each(|element| hash.set(&element, b"v", Due::Keep).map(drop))?;
            failed?;
            hash.commit()
        }
        Kind::Set => {
            let mut set = writer.write_as::<Sets>(key, Sets::UNLIMITED)?;
            numbers.try_for_each(|element| set.add(&element).map(drop))?;
            failed?;
            set.commit()
        }
        Kind::SortedSet => {
            let mut set = writer.write_as::<SortedSets>(key, SortedSets::UNLIMITED)?;
            numbers.try_for_each(|element| set.set(&element, 1.0, Due::Keep).map(drop))?;
            failed?;
            set.commit()
        }
        _ => {
            let mut list = writer.write_as::<Lists>(key, Lists::UNLIMITED)?;
            numbers.try_for_each(|element| list.push(End::Right, &element))?;
            failed?;
            list.commit()
        }
    }
}

fn elements(accessor: &mut Accessor, kind: Kind) -> Option<usize> {
    batch(accessor, |accessor| {
        let mut reader = accessor.reader(0);
        let key = reader.key(b"k");
        match kind {
            Kind::Hash => reader.read_as::<Hashes, _>(key, |hash| Ok(hash.len())),
            Kind::Set => reader.read_as::<Sets, _>(key, |set| Ok(set.len())),
            Kind::SortedSet => reader.read_as::<SortedSets, _>(key, |set| Ok(set.len())),
            _ => reader.read_as::<Lists, _>(key, |list| Ok(list.len())),
        }
    })
}

/// Edits in their order, with the type of their key.
type Edits = Arc<Mutex<Vec<(Kind, Vec<u8>)>>>;

/// Effects of a keyspace, as edits; what is set as a whole is none.
fn edits(keyspace: &Keyspace) -> Edits {
    let edits: Edits = Arc::default();
    let sink = Arc::clone(&edits);
    keyspace.listeners().on_effects(move |changes| {
        sink.lock().unwrap().extend(changes.iter().filter_map(|change| match change.effect {
            Some(Effect::Edit { kind, edits }) => Some((kind, edits.to_vec())),
            _ => None,
        }));
    });
    keyspace.listeners().note_effects(true);
    edits
}

#[test]
fn what_a_failed_command_has_changed_is_told_and_leads_to_the_same_value() {
    for kind in KINDS {
        let (keyspace, replica) = (keyspace(false), keyspace(false));
        let (mut accessor, mut copy) = (keyspace.accessor().unwrap(), replica.accessor().unwrap());
        for accessor in [&mut accessor, &mut copy] {
            batch(accessor, |accessor| add(accessor, kind, 0..ELEMENTS, false));
        }
        let (edits, watcher) = (edits(&keyspace), Arc::new(Watcher::default()));
        accessor.begin_batch(0);
        accessor.watching().watch(0, b"k", &watcher).unwrap();
        assert_eq!(add(&mut accessor, kind, ELEMENTS..ELEMENTS + 7, true), Err(Refusal::Full));
        accessor.end_batch();
        assert!(watcher.has_changed(), "{kind:?}");
        assert_eq!(elements(&mut accessor, kind), Some(ELEMENTS + 7), "{kind:?}");
        let edits = std::mem::take(&mut *edits.lock().unwrap());
        assert_eq!(edits.len(), 1, "{kind:?}");
        for (kind, edits) in edits {
            let key = copy.key(0, b"k");
            batch(&mut copy, |copy| copy.writer(0).replay(key, &Effect::Edit { kind, edits: &edits }));
        }
        assert_eq!(elements(&mut copy, kind), Some(ELEMENTS + 7), "{kind:?}");
    }
}
