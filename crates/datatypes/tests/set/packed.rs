//! Packed sets against an ordered set, and against bytes that are no packed set.

use std::collections::BTreeSet;

use almandine_datatypes::packed::{ELEMENTS_MAX, Full, PACKED_MAX_BYTES};
use almandine_datatypes::set::packed::INTEGERS_MAX;
use almandine_datatypes::set::{PackedSet, SetEncoding};
use almandine_testkit::random::Random;

fn any_member(random: &mut Random, texts: usize) -> Vec<u8> {
    if random.below(100) < texts {
        let len = *random.pick(&[0, 1, 2, 40, 300]);
        return vec![b'a' + random.below(9) as u8; len];
    }
    let bits = random.below(64);
    (random.bits() as i64 >> bits).to_string().into_bytes()
}

fn assert_is(bytes: &[u8], model: &BTreeSet<Vec<u8>>) {
    let set = PackedSet::new(bytes);
    assert!(model.is_empty() || set.is_sound(bytes), "{bytes:?}");
    let all: Vec<Vec<u8>> = set.iter().map(|member| member.to_vec()).collect();
    assert_eq!((set.len(), all.len()), (model.len(), model.len()));
    assert!(all.iter().enumerate().all(|(i, member)| set.nth(i).as_deref() == Some(member) && set.contains(member)));
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), *model);
}

#[test]
fn packed_sets_do_as_the_model() {
    for seed in 0..120 {
        let random = &mut Random::new(seed);
        let texts = [0, 0, 3, 100][seed as usize % 4];
        let (mut model, mut bytes) = (BTreeSet::new(), Vec::new());
        for _ in 0..400 {
            let member = any_member(random, texts);
            if random.chance(70) {
                let before = bytes.clone();
                match PackedSet::add(&mut bytes, &member) {
                    Ok(is_new) => assert_eq!(is_new, model.insert(member)),
                    Err(Full) => {
                        assert_eq!(bytes, before);
                        let is_full = model.len() >= ELEMENTS_MAX || before.len() + member.len() + 3 > PACKED_MAX_BYTES;
                        assert!(is_full && !model.contains(&member), "{} members", model.len());
                    }
                }
            } else {
                let member = if random.chance(50) { model.first().cloned().unwrap_or(member) } else { member };
                assert_eq!(PackedSet::remove(&mut bytes, &member), model.remove(&member));
            }
            assert_is(&bytes, &model);
        }
        let encoding = SetEncoding::from_number(random.below(3) as u8);
        PackedSet::set_encoding(&mut bytes, encoding);
        assert_eq!(PackedSet::new(&bytes).encoding(), encoding);
        assert_is(&bytes, &model);
    }
}

#[test]
fn integers_ascend_and_are_many() {
    let (mut bytes, mut model) = (Vec::new(), BTreeSet::new());
    for i in 0..INTEGERS_MAX as i64 {
        let number = (i * 7919 % 1000) - 500;
        assert_eq!(PackedSet::add(&mut bytes, number.to_string().as_bytes()), Ok(model.insert(number)));
    }
    assert_eq!(PackedSet::add(&mut bytes, b"7000"), Err(Full));
    assert_eq!(PackedSet::add(&mut bytes, b"text"), Err(Full));
    assert!(
        PackedSet::new(&bytes).iter().map(|member| member.to_vec()).eq(model.iter().map(|number| number.to_string().into_bytes()))
    );
    assert_eq!(bytes.len(), 1 + 2 * INTEGERS_MAX);
    // Texts of numbers that are not their decimal forms are other members.
    let mut bytes = Vec::new();
    for member in ["7", "07", "-0", "0", " 7"] {
        assert_eq!(PackedSet::add(&mut bytes, member.as_bytes()), Ok(true), "{member}");
    }
    assert_eq!(PackedSet::new(&bytes).len(), 5);
}

#[test]
fn set_bytes_are_pinned() {
    let set = |members: &[&[u8]]| {
        let mut bytes = Vec::new();
        members.iter().for_each(|member| assert_eq!(PackedSet::add(&mut bytes, member), Ok(true)));
        PackedSet::set_encoding(&mut bytes, SetEncoding::ListPack);
        bytes
    };
    assert_eq!(set(&[b"300", b"-1"]), [0x22, 0xFF, 0xFF, 0x2C, 0x01]);
    assert_eq!(set(&[b"ab", b"", b"7"]), b"\x02\x03\x02ab\x00\x017");
}

#[test]
fn small_sets_take_few_bytes() {
    let bytes = |member: &dyn Fn(usize) -> String| {
        let mut bytes = Vec::new();
        (0..10).for_each(|i| assert_eq!(PackedSet::add(&mut bytes, member(i).as_bytes()), Ok(true)));
        // A record adds 8 bytes of header, 16 for a key of 14 bytes and 11 in the index.
        bytes.len().next_multiple_of(8) + 35
    };
    assert!(bytes(&|i| format!("{i:08}")) <= 136);
    assert!(bytes(&|i| (100_000_000 + i).to_string()) <= 86);
}

#[test]
fn any_bytes_are_read_without_panic() {
    for seed in 0..20_000 {
        let random = &mut Random::new(seed);
        let mut bytes = Vec::new();
        for _ in 0..random.below(8) {
            let _ = PackedSet::add(&mut bytes, &any_member(random, 50));
        }
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() + 1);
            let byte = *random.pick(&[0, 1, 7, 0x10, 0x32, 0x7F, 0x80, 0x90, 0xFC, 0xFD, 0xFE, 0xFF]);
            match random.below(3) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, byte),
                _ => bytes.get_mut(at).into_iter().for_each(|old| *old = byte),
            }
        }
        let set = PackedSet::new(&bytes);
        assert!(set.iter().count() <= set.len());
        let _ = (set.is_sound(&bytes), set.nth(2), set.contains(b"7"), set.contains(b"a"));
        for member in [&b"7"[..], b"a", b"-300000", b""] {
            let _ = PackedSet::add(&mut bytes.clone(), member);
            let _ = PackedSet::remove(&mut bytes.clone(), member);
        }
    }
}
