//! Random streams of operations. INV-TREE-1 is checked throughout, INV-TREE-2 by snapshots that are compared when they end.

use almandine_base::object::{Object, PREFETCH_STEPS};
use almandine_datatypes::hash::{HashObject, PackedHash, Placement};
use almandine_datatypes::packed::{Due, HashEncoding};
use almandine_testkit::random::Random;

use crate::model::{Model, assert_equal, owned};

struct Run {
    random: Random,
    hash: HashObject,
    model: Model,
    snapshots: Vec<(HashObject, Model)>,
    fields: usize,
    value_len: usize,
}

impl Run {
    fn new(seed: u64, placement: Placement) -> Self {
        let mut random = Random::new(seed);
        let fields = *random.pick(&[30, 300, 3000, 20_000]);
        let value_len = *random.pick(&[1, 12, 12, 100, 700]);
        let hash = HashObject::new(placement);
        Self { random, hash, model: Model::default(), snapshots: Vec::new(), fields, value_len }
    }

    fn field(&mut self) -> Vec<u8> {
        let number = self.random.below(self.fields);
        let pad = if number.is_multiple_of(97) { 130 } else { 0 };
        format!("{number}{}", "x".repeat(pad)).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let most = match self.random.below(2000) {
            0 => 100_000,
            1..5 => 9000,
            _ => self.value_len,
        };
        let len = self.random.below(most + 1);
        vec![self.random.bits() as u8; len]
    }

    fn due(&mut self) -> Due {
        match self.random.below(12) {
            0 => Due::At(1 + self.random.below(1000) as u64),
            1 => Due::Never,
            _ => Due::Keep,
        }
    }

    /// One operation; of those that add and remove, `growth` of 100 add.
    fn step(&mut self, growth: usize) {
        let field = self.field();
        match self.random.below(100) {
            0..70 if self.random.chance(growth) => {
                let (value, due) = (self.value(), self.due());
                let is_new = self.hash.set(&field, &value, due).unwrap();
                assert_eq!(is_new, self.model.set(&field, &value, due));
            }
            0..70 => assert_eq!(self.hash.remove(&field).unwrap(), self.model.0.remove(&field).is_some()),
            70..80 => {
                let due = self.random.chance(50).then(|| 1 + self.random.below(1000) as u64);
                let has = self.model.0.get_mut(&field).map(|(_, old)| *old = due).is_some();
                assert_eq!(self.hash.set_due(&field, due).unwrap(), has);
            }
            80..99 => {
                let found = self.hash.find(&field).unwrap().map(|entry| owned(entry).1);
                assert_eq!(found.as_ref(), self.model.0.get(&field));
            }
            _ if self.random.chance(10) => self.expire(),
            _ => {}
        }
        if self.random.below(1500) == 0 {
            self.snapshot();
        }
    }

    fn expire(&mut self) {
        let (now, limit) = (self.random.below(600) as u64, self.random.below(200));
        let mut removed = Vec::new();
        let count = self.hash.expire(now, limit, &mut |field| removed.push(field.to_vec())).unwrap();
        assert_eq!(count, removed.len());
        for field in removed {
            let (_, due) = self.model.0.remove(&field).expect("what expires was there");
            assert!(due.is_some_and(|due| due <= now));
        }
        let due = self.model.0.values().filter(|(_, due)| due.is_some_and(|due| due <= now)).count();
        assert!(count == limit || due == 0, "{due} are left");
    }

    /// Takes a snapshot, and lets older ones go: at once or in steps, and unchanged.
    fn snapshot(&mut self) {
        self.snapshots.push((self.hash.clone(), self.model.clone()));
        if self.snapshots.len() > 3 {
            let at = self.random.below(4);
            let (mut hash, mut model) = self.snapshots.swap_remove(at);
            assert_equal(&hash, &model);
            if self.random.chance(50) {
                // A snapshot may be changed too; what it changes is its own.
                for i in 0..50 {
                    let field = format!("{}", i * 7).into_bytes();
                    assert_eq!(hash.set(&field, b"snapshot", Due::Keep).unwrap(), model.set(&field, b"snapshot", Due::Keep));
                    assert_eq!(hash.remove(&field).unwrap(), model.0.remove(&field).is_some());
                }
                assert_equal(&hash, &model);
                drop_in_steps(hash);
            }
        }
    }
}

/// Drops a hash in steps, and counts them.
fn drop_in_steps(mut hash: HashObject) -> usize {
    let mut steps = 1;
    while !hash.drop_step(3) {
        steps += 1;
    }
    assert!(hash.is_empty() && hash.memory() < 1000);
    steps
}

#[test]
fn hashes_do_as_the_model() {
    for seed in 0..24 {
        let bits = [64, 64, 64, 64, 9, 4, 1, 0][seed as usize % 8];
        let mut run = Run::new(seed, Placement::weak(seed, bits));
        // Where all hashes are alike there is one chunk, and everything is slow.
        let steps = if bits < 4 { 1000 } else { 8000 };
        for growth in [90, 50, 70, 10, 60, 0] {
            for step in 0..steps {
                run.step(growth);
                if step % 1000 == 0 {
                    run.hash.check();
                }
            }
            assert_equal(&run.hash, &run.model);
        }
        for (hash, model) in std::mem::take(&mut run.snapshots) {
            assert_equal(&hash, &model);
        }
        let steps = drop_in_steps(run.hash);
        assert!(bits < 64 || steps >= run.model.0.len() / (3 * 64));
    }
}

#[test]
fn a_tree_of_three_levels_grows_and_shrinks() {
    let mut hash = HashObject::new(Placement::new(7));
    let field = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
    const COUNT: u64 = 400_000;
    for i in 0..COUNT {
        assert!(hash.set(&field(i), b"v", Due::Keep).unwrap());
    }
    hash.check();
    let snapshot = hash.clone();
    for i in 0..COUNT {
        assert!(hash.remove(&field(i)).unwrap());
        if i % 50_000 == 0 {
            hash.check();
        }
    }
    assert_equal(&hash, &Model::default());
    snapshot.check();
    assert_eq!(snapshot.len() as u64, COUNT);
    assert_eq!(hash.memory(), HashObject::new(Placement::new(7)).memory(), "an emptied hash is as small as a new one");
    assert!(drop_in_steps(snapshot) > 1000);
}

#[test]
fn large_fields_lie_in_chunks_of_their_own() {
    let mut hash = HashObject::new(Placement::new(1));
    let mut model = Model::default();
    for i in 0..200u32 {
        let value = vec![i as u8; if i % 20 == 0 { 300_000 } else { 30 }];
        let field = i.to_le_bytes();
        assert_eq!(hash.set(&field, &value, Due::Keep).unwrap(), model.set(&field, &value, Due::Keep));
    }
    assert_equal(&hash, &model);
    for i in 0..200u32 {
        assert_eq!(hash.set(&i.to_le_bytes(), b"small", Due::At(9)).unwrap(), model.set(&i.to_le_bytes(), b"small", Due::At(9)));
    }
    assert_equal(&hash, &model);
}

#[test]
fn packed_hashes_become_objects_and_packed_again() {
    let mut object = HashObject::new(Placement::new(3));
    let mut model = Model::default();
    for i in 0..32u32 {
        let (field, due) = (i.to_le_bytes(), if i % 3 == 0 { Due::At(u64::from(i) + 1) } else { Due::Keep });
        model.set(&field, b"some value", due);
        object.set(&field, b"some value", due).unwrap();
    }
    object.set_encoding(HashEncoding::ListPackEx);
    let mut bytes = Vec::new();
    assert!(object.pack(&mut bytes).unwrap());
    let packed = PackedHash::new(&bytes);
    assert!(packed.is_sound() && packed.len() == 32 && packed.encoding() == HashEncoding::ListPackEx);
    let mut object = HashObject::from_packed(&packed, Placement::new(4));
    assert_equal(&object, &model);
    assert_eq!(object.encoding(), HashEncoding::ListPackEx);
    bytes.clear();
    object.set(b"one more", b"", Due::Never).unwrap();
    assert!(!object.pack(&mut bytes).unwrap() && bytes.is_empty());
    object.remove(b"one more").unwrap();
    object.set(b"field", &[0; 20_000], Due::Keep).unwrap();
    object.remove(&0u32.to_le_bytes()).unwrap();
    assert!(!object.pack(&mut bytes).unwrap() && bytes.is_empty());
}

#[test]
fn a_write_after_a_snapshot_copies_one_path() {
    let mut hash = HashObject::new(Placement::new(5));
    for i in 0..100_000u32 {
        hash.set(&i.to_le_bytes(), b"0123456789", Due::Keep).unwrap();
    }
    let entry = |hash: &HashObject, i: u32| hash.find(&i.to_le_bytes()).unwrap().expect("it is there").value.as_ptr();
    let snapshot = hash.clone();
    let before: Vec<_> = (0..100_000).map(|i| entry(&hash, i)).collect();
    hash.set(&0u32.to_le_bytes(), b"9876543210", Due::Keep).unwrap();
    let moved = (0..100_000).filter(|i| entry(&hash, *i) != before[*i as usize]).count();
    assert!((1..=64).contains(&moved), "{moved} fields have moved");
    assert!((0..100_000).all(|i| entry(&snapshot, i) == before[i as usize]), "INV-TREE-2: nothing of a snapshot moves");
    drop(snapshot);
    let at = entry(&hash, 0);
    hash.set(&0u32.to_le_bytes(), b"abcdefghij", Due::Keep).unwrap();
    assert_eq!(entry(&hash, 0), at, "with one owner a chunk changes in place");
}

#[test]
fn prefetching_tells_where_an_element_is() {
    for (count, bits) in [(70, 64), (70, 0), (50_000, 64)] {
        let mut hash = HashObject::new(Placement::weak(2, bits));
        for i in 0..count {
            hash.set(&u32::to_le_bytes(i), b"0123456789", Due::Keep).unwrap();
        }
        let (mut right, mut all) = (0, 0);
        for i in (0..2 * count).step_by(7) {
            let field = u32::to_le_bytes(i);
            let mut told = Vec::new();
            (0..PREFETCH_STEPS).for_each(|step| hash.prefetch(step, hash.hash(&field), &mut |line| told.push(line)));
            assert!((3..=11).contains(&told.len()), "{told:?}");
            let entry = hash.find(&field).unwrap().map(|entry| entry.field.as_ptr().wrapping_sub(2));
            right += usize::from(entry.is_some_and(|entry| told.contains(&entry)));
            all += usize::from(entry.is_some());
        }
        // The first field with the same byte of its hash is told; seldom it is another one.
        assert!(bits == 0 || right * 10 > all * 8, "{right} of {all}");
        hash.drop_step(usize::MAX);
        (0..PREFETCH_STEPS).for_each(|step| hash.prefetch(step, 5, &mut |line| assert!(!line.is_null())));
    }
}
