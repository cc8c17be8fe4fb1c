//! Any bytes behind any type byte are refused or are a set; and what is a set, written in each form, is the same set.
//!
//! The first byte is the type byte. An odd second byte puts what follows into one string object, so that containers are reached without a right length
//! before them.

#![no_main]

use almandine_rdb::value::hash::Malformed;
use almandine_rdb::value::set::{SetForm, Set, self};
use libfuzzer_sys::fuzz_target;

fn read(value_type: u8, mut input: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
    let set = Set::read(value_type, &mut input)?;
    set.members().map(|member| member.map(|text| text.into_vec())).collect()
}

fuzz_target!(|data: &[u8]| {
    let [value_type, choice, rest @ ..] = data else { return };
    let mut input = Vec::new();
    if choice & 1 == 1 {
        input.push(0x80);
        input.extend((rest.len() as u32).to_be_bytes());
    }
    input.extend(rest);
    let Ok(mut members) = read(*value_type, &input) else { return };
    assert!(!members.is_empty());
    members.sort();
    for form in [SetForm::Table, SetForm::Intset, SetForm::Listpack] {
        let mut out = Vec::new();
        let form = set::write(form, members.iter().map(Vec::as_slice), &mut out);
        let mut again = read(form.value_type(), &out[1..]).expect("what was written is read");
        again.sort();
        assert_eq!(again, members);
    }
});
