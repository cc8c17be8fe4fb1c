//! Any string is refused or is a HyperLogLog, whatever its opcodes are: counting, merging and adding never panic, and what is added to registers
//! that are all there is there afterwards.
//!
//! The first bytes are elements to add; the rest is the value, which gets a right header unless the first bit says otherwise.

#![no_main]

use almandine_datatypes::hyperloglog::{EMPTY, HEADER_BYTES, Hll, Observation, Registers, Way, sparse, self};
use libfuzzer_sys::fuzz_target;

fn merged(value: &[u8]) -> Option<Vec<u8>> {
    let mut registers = Registers::default();
    registers.merge(Hll::open(value)?, Way::Words).ok()?;
    Some(registers.iter().collect())
}

fuzz_target!(|data: &[u8]| {
    let Some((elements, rest)) = data.split_at_checked(8) else { return };
    let header = if elements[0] & 1 == 0 { &EMPTY[..HEADER_BYTES] } else { &[] };
    let mut value = [header, rest].concat();
    let Some(opened) = Hll::open(&value) else { return };
    let before = merged(&value);
    assert_eq!(opened.cardinality(Way::Words), opened.cardinality(Way::Single));
    assert_eq!(opened.cardinality(Way::Words).is_ok(), before.is_some());
    let _ = sparse::opcodes(&value[HEADER_BYTES..]).count();
    if matches!(opened, Hll::Sparse(_)) {
        assert_eq!(hyperloglog::to_dense(&value).is_ok(), before.is_some());
    }
    let mut model = before;
    for element in elements.chunks(2) {
        let observation = Observation::of(element);
        let added = hyperloglog::add(&mut value, observation, 3000);
        if let Some(model) = &mut model {
            model[observation.index] = model[observation.index].max(observation.count);
            assert!(added.is_ok());
        }
    }
    if model.is_some() {
        assert_eq!(merged(&value), model);
        let mut registers = Registers::default();
        registers.merge(Hll::open(&value).expect("still one"), Way::Words).expect("all there");
        let mut target = EMPTY.to_vec();
        registers.write_to(&mut target, 3000).expect("written");
        assert_eq!(merged(&target), model);
    }
});
