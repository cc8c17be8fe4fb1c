//! Both forms against each other, and against registers of one byte.

use super::sparse::SparseEdit;
use super::*;
use proptest::prelude::*;

fn added(value: &mut Vec<u8>, elements: impl IntoIterator<Item = u64>, sparse_bytes_max: usize) {
    for element in elements {
        let _ = add(value, Observation::of(format!("{element}").as_bytes()), sparse_bytes_max).unwrap();
    }
}

fn raw(value: &[u8], way: Way) -> Vec<u8> {
    let mut registers = Registers::default();
    registers.merge(Hll::open(value).unwrap(), way).unwrap();
    registers.iter().collect()
}

#[test]
fn hashes_are_those_of_redis() {
    // By PFADD and PFDEBUG DECODE.
    assert_eq!(Observation::of(b"a"), Observation { index: 12711, count: 2 });
    assert_eq!(Observation::of(b"b"), Observation { index: 15780, count: 1 });
}

#[test]
fn all_ways_through_dense_registers_agree() {
    for elements in [0, 1, 100, 20_000, 1_000_000] {
        let mut value = to_dense(&EMPTY).unwrap();
        added(&mut value, 0..elements, 0);
        assert_eq!(raw(&value, Way::Words), raw(&value, Way::Single));
        let hll = Hll::open(&value).unwrap();
        let mut merged = Registers::default();
        merged.merge(hll, Way::Words).unwrap();
        let single = hll.cardinality(Way::Single).unwrap();
        let others = [hll.cardinality(Way::Words).unwrap(), merged.cardinality(Way::Words), merged.cardinality(Way::Single)];
        assert_eq!(others, [single; 3]);
        assert!(single.abs_diff(elements) as f64 <= elements as f64 * 0.03, "{single} for {elements}");
        let mut packed = value.clone();
        assert_eq!(merged.write_to(&mut packed, 0), Ok(Merged::Dense));
        invalidate(&mut value);
        assert_eq!(packed, value);
    }
}

#[test]
fn unions_of_sparse_and_dense_values_are_counted_in_every_way() {
    for kinds in [&[50, 50][..], &[1, 200, 300], &[300, 20_000, 100], &[20_000, 10]] {
        let mut merged = Registers::default();
        merged.merge(Hll::Sparse(&EMPTY[HEADER_BYTES..]), Way::Words).unwrap();
        for (number, elements) in kinds.iter().enumerate() {
            let mut value = EMPTY.to_vec();
            // Half of them are in the one before, too.
            let first = number as u64 * elements / 2;
            added(&mut value, first..first + elements, 3000);
            let hll = Hll::open(&value).unwrap();
            assert_eq!(hll.cardinality(Way::Words), hll.cardinality(Way::Single));
            merged.merge(hll, Way::Words).unwrap();
            merged.add(format!("more of {number}").as_bytes());
            assert_eq!(merged.cardinality(Way::Words), merged.cardinality(Way::Single), "{kinds:?}");
        }
        merged.clear();
        assert_eq!(merged.cardinality(Way::Words), 0);
    }
}

#[test]
fn the_self_test_passes() {
    assert_eq!(self_test::run(), Ok(()));
}

#[test]
fn a_sparse_value_becomes_dense_when_it_is_too_long_or_a_register_too_large() {
    let mut value = EMPTY.to_vec();
    added(&mut value, 0..3, 18 + 4);
    assert_eq!(value.len(), DENSE_BYTES);
    let mut value = EMPTY.to_vec();
    assert_eq!(add(&mut value, Observation { index: 5, count: 32 }, 3000), Ok(Some(16..20)));
    assert_eq!(value.len(), 18 + 2);
    assert_eq!(add(&mut value, Observation { index: 6, count: 33 }, 3000), Ok(Some(0..DENSE_BYTES)));
    assert_eq!((value.len(), raw(&value, Way::Words)[5..7].to_vec()), (DENSE_BYTES, vec![32, 33]));
}

#[test]
fn runs_are_split_and_merged() {
    let decoded = |value: &[u8]| sparse::opcodes(&value[HEADER_BYTES..]).map(|(run, _)| (run.value, run.len)).collect::<Vec<_>>();
    let mut value = EMPTY.to_vec();
    for index in [100, 101, 103, 102, 104] {
        assert!(add(&mut value, Observation { index, count: 3 }, 3000).unwrap().is_some());
    }
    assert_eq!(decoded(&value), [(0, 100), (3, 4), (3, 1), (0, 16384 - 105)]);
    assert!(add(&mut value, Observation { index: 102, count: 4 }, 3000).unwrap().is_some());
    assert_eq!(decoded(&value), [(0, 100), (3, 2), (4, 1), (3, 2), (0, 16384 - 105)]);
    assert_eq!(add(&mut value, Observation { index: 102, count: 4 }, 3000), Ok(None));
}

#[test]
fn what_is_no_hyperloglog_is_refused() {
    let dense = to_dense(&EMPTY).unwrap();
    assert!(Hll::open(&dense).is_some() && Hll::open(&EMPTY).is_some() && Hll::open(&EMPTY[..16]).is_some());
    assert!(Hll::open(&EMPTY[..15]).is_none() && Hll::open(b"").is_none());
    assert!(Hll::open(&dense[..DENSE_BYTES - 1]).is_none() && Hll::open(&[&dense[..], b"x"].concat()).is_none());
    let mut value = EMPTY;
    value[4] = 2;
    assert!(Hll::open(&value).is_none());
    let corrupted = |opcodes: &[u8]| {
        let value = [&EMPTY[..16], opcodes].concat();
        let hll = Hll::open(&value).unwrap();
        let refused = hll.cardinality(Way::Words).is_err();
        assert_eq!(Registers::default().merge(hll, Way::Words).is_err(), refused);
        assert_eq!(to_dense(&value).is_err(), refused);
        refused
    };
    assert!(
        corrupted(b"") && corrupted(b"\x7f") && corrupted(b"\x7f\xfe") && corrupted(b"\x7f\xff\x00") && corrupted(b"\x7f\xff\x7f")
    );
    assert!(!corrupted(b"\x7f\xff") && !corrupted(b"\x7f\xfe\x00") && !corrupted(b"\x80\x7f\xfe"));
}

/// Registers that no elements leave behind: Redis 7.0.15 answers these.
#[test]
fn estimates_of_impossible_registers() {
    let mut value = to_dense(&EMPTY).unwrap();
    value[HEADER_BYTES..].fill(0xff);
    assert_eq!(Hll::open(&value).unwrap().cardinality(Way::Words), Ok(1 << 63));
}

proptest! {
    #[test]
    fn any_opcodes_are_handled(
        opcodes in prop::collection::vec(any::<u8>(), 0..200),
        filled in any::<bool>(),
        index in 0..REGISTERS,
        count in 1u8..=51,
    ) {
        let mut value = [&EMPTY[..16], &opcodes[..]].concat();
        if filled {
            let registers: usize = sparse::opcodes(&opcodes).map(|(run, _)| run.len).sum();
            if let Some(left) = REGISTERS.checked_sub(registers + 1) {
                value.extend([0x40 | (left >> 8) as u8, left as u8]);
            }
        }
        let before = raw_of(&value);
        let observation = Observation { index, count };
        let found = sparse::would_raise(&value[HEADER_BYTES..], observation);
        let was = value.clone();
        let mut written = Vec::new();
        let edit = sparse::raised(&was, observation, 3000, &mut written);
        let result = add(&mut value, observation, 3000);
        // What is written in place leads to the same bytes.
        match edit {
            Ok(SparseEdit::Patch(at)) => prop_assert_eq!(&[&was[..at], &written[..], &was[at + written.len()..]].concat(), &value),
            Ok(SparseEdit::Tail(at)) => prop_assert_eq!(&[&was[..at], &written[..]].concat(), &value),
            Ok(SparseEdit::Unchanged) => prop_assert_eq!(&was, &value),
            Ok(SparseEdit::TooLarge) => {}
            Err(error) => prop_assert_eq!(&result, &Err(error)),
        }
        if let Ok(Some(range)) = &result {
            let behind = (value.len() == was.len()).then(|| (&value[range.end..], &was[range.end..]));
            prop_assert!(behind.map_or(range.end == value.len(), |(is, was)| is == was));
            prop_assert_eq!(&value[..range.start], &was[..range.start]);
        }
        let result = result.map(|range| range.is_some());
        match (before, result) {
            (Some(mut model), Ok(raised)) => {
                prop_assert_eq!(raised, model[index] < count);
                model[index] = model[index].max(count);
                prop_assert_eq!(raw_of(&value), Some(model));
            }
            (Some(_), Err(_)) => prop_assert!(false, "what is right is refused"),
            (None, _) => {}
        }
        if count <= 32 {
            prop_assert_eq!(found, result);
        }
    }

    #[test]
    fn registers_one_after_the_other_are_those_of_one_merge(
        first in prop::collection::btree_map(0..REGISTERS, 1u8..6, 0..60),
        second in prop::collection::btree_map(prop_oneof![0..REGISTERS, 500usize..600], 1u8..6, 0..60),
        bytes_max in prop_oneof![Just(3000usize), 18usize..200],
    ) {
        let add_all = |value: &mut Vec<u8>, registers: &std::collections::BTreeMap<usize, u8>| {
            for (&index, &count) in registers {
                add(value, Observation { index, count }, bytes_max).unwrap();
            }
        };
        let (mut left, mut right) = (EMPTY.to_vec(), EMPTY.to_vec());
        add_all(&mut left, &first);
        add_all(&mut right, &second);
        let mut merged = Registers::default();
        for value in [&left, &right] {
            merged.merge(Hll::open(value).unwrap(), Way::Words).unwrap();
        }
        let becomes_dense = right.len() == DENSE_BYTES && left.len() != DENSE_BYTES;
        let mut model = if becomes_dense { to_dense(&left).unwrap() } else { left.clone() };
        for (index, count) in merged.iter().enumerate().filter(|(_, count)| *count != 0) {
            add(&mut model, Observation { index, count }, bytes_max).unwrap();
        }
        invalidate(&mut model);
        merged.write_to(&mut left, bytes_max).unwrap();
        prop_assert_eq!(left, model);
    }
}

fn raw_of(value: &[u8]) -> Option<Vec<u8>> {
    let mut registers = Registers::default();
    registers.merge(Hll::open(value)?, Way::Words).ok()?;
    Some(registers.iter().collect())
}
