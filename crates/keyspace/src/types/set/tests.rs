//! Sets against an ordered one, in memory and on a device; effects replayed.

use crate::types::set::Sets;
use std::collections::BTreeSet;
use std::time::Duration;

use super::{Moved, SetLimits};
use crate::types::testing::{batch, keyspace};
use crate::{Accessor, Refusal};
use almandine_datatypes::set::{Algebra, Position, SetEncoding, SetOperation};
use almandine_store::Put;

const LIMITS: SetLimits = SetLimits { integers: 512, entries: 128, value: 64 };
type Model = BTreeSet<Vec<u8>>;

fn members(accessor: &mut Accessor, key: &[u8]) -> Option<Model> {
    batch(accessor, |accessor| {
        let mut reader = accessor.reader(0);
        let key = reader.key(key);
        reader.read_whole_as::<Sets, _>(key, |set| {
            let all: Result<Model, Refusal> = set.try_iter().map(|member| member.map(|member| member.to_vec())).collect();
            all.inspect(|all| assert_eq!(all.len(), set.len()))
        })
    })
}

/// Adds members, or removes them; says how many were, or were not, there.
fn change(accessor: &mut Accessor, key: &[u8], members: &[Vec<u8>], adds: bool) -> usize {
    batch(accessor, |accessor| {
        let mut writer = accessor.writer(0);
        let key = writer.key(key);
        let mut set = writer.write_as::<Sets>(key, LIMITS)?;
        let mut changed = 0;
        for member in members {
            changed += usize::from(if adds { set.add(member)? } else { set.remove(member)? });
        }
        set.commit().map(|()| changed)
    })
}

fn member(number: u64, integers: bool) -> Vec<u8> {
    if integers { number.to_string().into_bytes() } else { format!("member {number}").into_bytes() }
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

/// Random changes of sets of all sizes are those of an ordered set; with a device, all of it leaves memory now and then.
#[test]
fn sets_are_those_of_the_model() {
    for (seed, storage) in [(1, false), (2, false), (3, true), (4, true)] {
        let keyspace = keyspace(storage);
        let mut accessor = keyspace.accessor().expect("an accessor");
        let mut random = Random(seed);
        let mut models = vec![Model::new(); 6];
        for step in 0..1500 {
            let which = random.below(6) as usize;
            let (key, range) = (format!("set:{which}"), [20, 200, 3000][which % 3]);
            let mut picked: Vec<Vec<u8>> =
                (0..1 + random.below(20)).map(|_| member(random.below(range), which < 3 || random.below(9) == 0)).collect();
            let adds = random.below(100) < [70, 20][step / 500 % 2];
            if !adds && random.below(20) == 0 {
                picked = models[which].iter().cloned().collect();
            }
            let changed = change(&mut accessor, key.as_bytes(), &picked, adds);
            let model = &mut models[which];
            let expected = picked.iter().filter(|m| if adds { model.insert(m.to_vec()) } else { model.remove(*m) }).count();
            assert_eq!(changed, expected, "seed {seed}, step {step}");
            if step % 10 == 0 {
                let expected = Some(model.clone()).filter(|model| !model.is_empty());
                assert!(members(&mut accessor, key.as_bytes()) == expected, "seed {seed}, step {step}");
            }
            if storage && step % 300 == 299 {
                assert!(keyspace.store.empty_memory(Duration::from_secs(20)));
            }
        }
    }
}

#[test]
fn encodings_are_named_as_redis_would() {
    let keyspace = keyspace(false);
    let mut accessor = keyspace.accessor().expect("an accessor");
    let encoding = |accessor: &mut Accessor| {
        batch(accessor, |accessor| {
            let mut reader = accessor.reader(0);
            let key = reader.key(b"s");
            reader.read_as::<Sets, _>(key, |set| Ok(set.encoding()))
        })
    };
    let numbers = |range: std::ops::Range<u64>| range.map(|number| member(number, true)).collect::<Vec<_>>();
    assert_eq!(encoding(&mut accessor), None);
    change(&mut accessor, b"s", &numbers(0..100), true);
    assert_eq!(encoding(&mut accessor), Some(SetEncoding::IntSet));
    change(&mut accessor, b"s", &[b"text".to_vec()], true);
    assert_eq!(encoding(&mut accessor), Some(SetEncoding::ListPack), "though it is an object");
    change(&mut accessor, b"s", &numbers(100..200), true);
    assert_eq!(encoding(&mut accessor), Some(SetEncoding::HashTable));
    change(&mut accessor, b"s", &numbers(2..200), false);
    assert_eq!(encoding(&mut accessor), Some(SetEncoding::HashTable), "though it is packed");
}

#[test]
fn a_member_is_moved_or_nothing_happens() {
    let keyspace = keyspace(false);
    let mut accessor = keyspace.accessor().expect("an accessor");
    change(&mut accessor, b"a", &[b"1".to_vec(), b"x".to_vec()], true);
    change(&mut accessor, b"b", &[b"1".to_vec()], true);
    accessor.begin_batch(0);
    let mut writer = accessor.writer(0);
    let (a, b, string) = (writer.key(b"a"), writer.key(b"b"), writer.key(b"string"));
    writer.plan().lock_all([&b"a"[..], b"b", b"string"].into_iter());
    writer.upsert(string, b"", Put::default()).expect("room");
    assert_eq!(writer.move_member(a, b, b"missing", LIMITS), Ok(None));
    assert_eq!(writer.move_member(a, string, b"x", LIMITS), Err(Refusal::WrongKind));
    assert_eq!(writer.move_member(string, a, b"x", LIMITS), Err(Refusal::WrongKind));
    let moved = |added, emptied| Ok(Some(Moved { added, emptied }));
    assert_eq!(writer.move_member(a, a, b"x", LIMITS), moved(false, false));
    assert_eq!(writer.move_member(a, b, b"x", LIMITS), moved(true, false));
    assert_eq!(writer.move_member(a, b, b"1", LIMITS), moved(false, true));
    assert_eq!(writer.exists(a), Ok(false));
    drop(writer);
    accessor.end_batch();
    assert_eq!(members(&mut accessor, b"b"), Some([b"1".to_vec(), b"x".to_vec()].into()));
}

#[test]
fn sources_are_of_one_moment_and_a_result_is_stored() {
    let keyspace = keyspace(false);
    let mut accessor = keyspace.accessor().expect("an accessor");
    let many: Vec<Vec<u8>> = (0..20_000).map(|number| member(number, false)).collect();
    change(&mut accessor, b"large", &many, true);
    change(&mut accessor, b"small", &[b"x".to_vec(), many[7].clone()], true);
    let sources = batch(&mut accessor, |accessor| {
        let mut reader = accessor.reader(0);
        let keys = [&b"large"[..], b"none", b"small"].map(|key| reader.key(key));
        let frozen = keys.map(|key| reader.freeze(key));
        frozen.into_iter().map(|frozen| Ok(frozen?)).collect::<Result<Vec<_>, Refusal>>()
    });
    let frozen = |at: usize| sources[at].collection::<Sets>().expect("a set");
    assert_eq!((0..3).map(|at| frozen(at).is_some()).collect::<Vec<_>>(), [true, false, true]);
    let sets = || [0, 2].into_iter().filter_map(frozen).map(|set| set.source()).collect();
    change(&mut accessor, b"large", &many[..10_000], false);
    change(&mut accessor, b"small", &[b"y".to_vec()], true);
    let union = Algebra::new(SetOperation::Union, sets());
    let mut all = Model::new();
    union.visit(Position::default(), usize::MAX, &mut |member| all.insert(member.to_vec())).expect("in memory");
    assert_eq!(all.len(), 20_001);
    batch(&mut accessor, |accessor| {
        let mut writer = accessor.writer(0);
        let mut new = writer.new_set(LIMITS);
        let next = new.add_result(&Algebra::new(SetOperation::Difference, sets()), Position::default(), usize::MAX)?;
        assert!(next.is_none());
        let key = writer.key(b"result");
        writer.put_set(key, new, Put::default())
    });
    drop(sources);
    all.remove(&b"x"[..]);
    all.remove(&many[7]);
    assert!(members(&mut accessor, b"result") == Some(all));
}
