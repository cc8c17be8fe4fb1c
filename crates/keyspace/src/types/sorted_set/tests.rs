//! Sorted sets against a naive one, in memory and on a device.

use super::{Edge, LexRange, ScoreRange, SortedSet, SortedSetLimits, Update};
use crate::types::sorted_set::SortedSets;
use crate::types::testing::{batch_at as batch, keyspace};
use crate::{Accessor, Refusal};
use almandine_datatypes::packed::Due;
use almandine_store::Put;
use std::collections::BTreeMap;
use std::time::Duration;

const LIMITS: SortedSetLimits = SortedSetLimits { entries: 128, value: 64 };
/// Scores with expiries.
type Model = BTreeMap<Vec<u8>, (f64, Option<u64>)>;
type Row = (Vec<u8>, f64, Option<u64>);

fn look<R>(accessor: &mut Accessor, now_ms: i64, key: &[u8], look: impl Fn(&SortedSet<'_>) -> Result<R, Refusal>) -> Option<R> {
    batch(accessor, now_ms, |accessor| {
        let mut reader = accessor.reader(0);
        let key = reader.key(key);
        reader.read_as::<SortedSets, _>(key, &look)
    })
}

fn set(accessor: &mut Accessor, now_ms: i64, key: &[u8], pairs: &[(Vec<u8>, f64)]) -> Vec<Update> {
    batch(accessor, now_ms, |accessor| {
        let mut writer = accessor.writer(0);
        let key = writer.key(key);
        let mut set = writer.write_as::<SortedSets>(key, LIMITS)?;
        let updates = pairs.iter().map(|(member, score)| set.set(member, *score, Due::Keep)).collect::<Result<_, _>>()?;
        set.commit().map(|()| updates)
    })
}

fn rows(set: &SortedSet<'_>) -> Result<Vec<Row>, Refusal> {
    set.iter().map(|entry| entry.map(|e| (e.member.to_vec(), e.score, e.due))).collect()
}

fn sorted(model: &Model, now: u64) -> Vec<Row> {
    let live = model.iter().filter(|(_, (_, due))| due.is_none_or(|due| due > now));
    let mut rows: Vec<Row> = live.map(|(member, (score, due))| (member.clone(), *score, *due)).collect();
    rows.sort_by(|one, other| one.1.total_cmp(&other.1));
    rows
}

/// A small generator, so that a failure repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Whatever a sorted set is asked is what a sorted list of its live members says.
fn assert_same(set: &SortedSet<'_>, rows: &[Row]) -> Result<(), Refusal> {
    assert_eq!((set.len(), set.is_empty()), (rows.len(), rows.is_empty()));
    assert_eq!(self::rows(set)?, rows);
    for (rank, (member, score, due)) in rows.iter().enumerate().step_by(1 + rows.len() / 50) {
        let (found, entry) = set.rank(member)?.expect("a member");
        assert_eq!((found, entry.score, entry.due), (rank, *score, *due));
        assert_eq!(set.nth(rank)?.map(|entry| entry.member.to_vec()).as_ref(), Some(member));
        assert_eq!(set.rank_of(&Edge::before_member(*score, member))?, rank);
        let below = rows.iter().filter(|row| row.1 < *score).count();
        let same = rows.iter().filter(|row| row.1 == *score).count();
        assert_eq!(set.by_score(&ScoreRange::closed(*score, *score))?, below..below + same);
        for end in [rank, rank + 1, rows.len().min(rank + 7), rows.len()] {
            let names = |rows: &[Row]| rows.iter().map(|row| row.0.clone()).collect::<Vec<_>>();
            let found: Vec<_> = set.range(rank..end).map(|entry| entry.map(|e| e.member.to_vec())).collect::<Result<_, _>>()?;
            assert_eq!(found, names(&rows[rank..end]));
            let mut back: Vec<_> =
                set.range_back(rank..end).map(|entry| entry.map(|e| e.member.to_vec())).collect::<Result<_, _>>()?;
            back.reverse();
            assert_eq!(back, names(&rows[rank..end]));
        }
    }
    assert!(set.nth(rows.len())?.is_none());
    let mut scanned = Vec::new();
    let mut cursor = 0;
    loop {
        cursor = set.scan(cursor, 10, &mut |entry| scanned.push(entry.member.to_vec()))?;
        if cursor == 0 {
            break;
        }
    }
    scanned.sort();
    let mut all: Vec<_> = rows.iter().map(|row| row.0.clone()).collect();
    all.sort();
    assert_eq!(scanned, all);
    Ok(())
}

/// Random changes of sorted sets of all sizes are those of a map; with a device, all of it leaves memory now and then. Members
/// expire and are not removed, so that looks and changes meet them.
fn changes_are_those_of_a_map(cold: bool) {
    let keyspace = keyspace(cold);
    let mut accessor = keyspace.accessor().expect("an accessor");
    keyspace.store.settings().set_reclaiming(false);
    let mut random = Random(0x00DD_BA11 + u64::from(cold));
    let mut models: Vec<Model> = vec![Model::new(); 4];
    let sizes = [6, 60, 400, 3000];
    for round in 0..2000u64 {
        let now = 1000 + round;
        let which = random.below(4) as usize;
        let (key, model) = ([b'k', which as u8], &mut models[which]);
        let live = |model: &Model, member: &[u8]| model.get(member).copied().filter(|(_, due)| due.is_none_or(|due| due > now));
        let member = |random: &mut Random| format!("member:{}", random.below(sizes[which])).into_bytes();
        let change = |accessor: &mut Accessor, change: &dyn Fn(&mut super::SortedSetMut<'_>) -> Result<Vec<Row>, Refusal>| {
            batch(accessor, now as i64, |accessor| {
                let mut writer = accessor.writer(0);
                let key = writer.key(&key);
                let mut set = writer.write_as::<SortedSets>(key, LIMITS)?;
                let rows = change(&mut set)?;
                set.commit().map(|()| rows)
            })
        };
        match random.below(12) {
            0..6 => {
                let pairs: Vec<_> =
                    (0..=random.below(sizes[which] / 4 + 1)).map(|_| (member(&mut random), random.below(40) as f64)).collect();
                let mut expected = Vec::new();
                for (member, score) in &pairs {
                    let before = live(model, member);
                    expected.push(match before {
                        None => Update::Added,
                        Some((before, _)) if before == *score => Update::Same,
                        Some(_) => Update::Changed,
                    });
                    model.insert(member.clone(), (*score, before.and_then(|(_, due)| due)));
                }
                assert_eq!(set(&mut accessor, now as i64, &key, &pairs), expected, "round {round}");
            }
            6..8 => {
                let member = member(&mut random);
                let removed = change(&mut accessor, &|set| {
                    Ok(set.remove(&member)?.map(|score| (member.clone(), score, None)).into_iter().collect())
                });
                let expected = live(model, &member);
                assert_eq!(removed.first().map(|row| row.1), expected.map(|(score, _)| score), "round {round}");
                if expected.is_some() {
                    model.remove(&member);
                }
            }
            8 => {
                let (member, due) = (member(&mut random), Some(now + 1 + random.below(300)).filter(|_| round % 3 != 0));
                change(&mut accessor, &|set| set.set_due(&member, due).map(|_| Vec::new()));
                if live(model, &member).is_some() {
                    model.entry(member).and_modify(|(_, at)| *at = due);
                }
            }
            9 => {
                let all = sorted(model, now);
                let from = random.below(all.len() as u64 + 1) as usize;
                let to = (from + random.below(20) as usize).min(all.len());
                let taken = change(&mut accessor, &|set| {
                    let mut taken = Vec::new();
                    set.remove_range(from..to, &mut |entry| taken.push((entry.member.to_vec(), entry.score, entry.due)))?;
                    Ok(taken)
                });
                assert_eq!(taken, all[from..to], "round {round}");
                for row in &taken {
                    model.remove(&row.0);
                }
            }
            _ => {
                let rows = sorted(model, now);
                let seen = look(&mut accessor, now as i64, &key, |set| assert_same(set, &rows));
                assert_eq!(seen.is_some(), !rows.is_empty(), "round {round}");
            }
        }
        if round % 100 == 0 && cold {
            assert!(keyspace.store.empty_memory(Duration::from_secs(20)));
        }
    }
    accessor.begin_batch(0);
    for which in 0..4u8 {
        let key = [b'k', which];
        let mut writer = accessor.writer(0);
        let key = writer.key(&key);
        assert!(writer.delete(key).is_ok());
    }
    accessor.end_batch();
}

#[test]
fn changes_are_those_of_a_map_in_memory() {
    changes_are_those_of_a_map(false);
}

#[test]
fn changes_are_those_of_a_map_on_a_device() {
    changes_are_those_of_a_map(true);
}

#[test]
fn ranges_of_bytes_are_the_same_in_both_forms() {
    let keyspace = keyspace(false);
    let mut accessor = keyspace.accessor().expect("an accessor");
    for count in [5u32, 500] {
        let key = count.to_le_bytes();
        let pairs: Vec<_> = (0..count).map(|n| (format!("{n:05}").into_bytes(), 1.0)).collect();
        set(&mut accessor, 0, &key, &pairs);
        for (min, max, expected) in
            [("-", "+", 0..count), ("[00002", "(00004", 2..4), ("(00002", "[00004", 3..5), ("[9", "+", count..count)]
        {
            for backwards in [false, true] {
                let range = LexRange::parse(min.as_bytes(), max.as_bytes()).expect("a range");
                let found = look(&mut accessor, 0, &key, |set| set.by_lex(&range, backwards)).expect("a sorted set");
                let expected = expected.start as usize..expected.end as usize;
                assert!(found == expected || (found.is_empty() && expected.is_empty()), "{min} {max} of {count}: {found:?}");
            }
        }
    }
}

#[test]
fn another_type_is_refused() {
    let keyspace = keyspace(false);
    let mut accessor = keyspace.accessor().expect("an accessor");
    accessor.begin_batch(0);
    let mut writer = accessor.writer(0);
    let key = writer.key(b"s");
    writer.upsert(key, b"string", Put::default()).expect("room");
    assert_eq!(writer.read_as::<SortedSets, _>(key, |_| Ok(())), Err(Refusal::WrongKind));
    assert!(writer.write_as::<SortedSets>(key, LIMITS).is_err_and(|refusal| refusal == Refusal::WrongKind));
    drop(writer);
    accessor.end_batch();
}
