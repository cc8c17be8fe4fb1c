//! Any bytes behind any type byte are refused or are a hash; and what is a hash, written in each form, is the same hash.
//!
//! The first byte chooses the version, the second is the type byte. An even version byte puts what follows into one string object, so that
//! containers are reached without a right length before them.

#![no_main]

use almandine_rdb::value::footer;
use almandine_rdb::value::hash::{EXPIRY_MS_MAX, HashEntry, HashForm, Hash, Malformed, self};
use libfuzzer_sys::fuzz_target;

type Fields = Vec<(Vec<u8>, Vec<u8>, Option<i64>)>;

fn read(value_type: u8, version: u16, mut input: &[u8]) -> Result<Fields, Malformed> {
    let hash = Hash::read(value_type, version, &mut input)?;
    hash.fields().map(|field| field.map(|f| (f.name.into_vec(), f.value.into_vec(), f.expiry_ms))).collect()
}

fuzz_target!(|data: &[u8]| {
    let [choice, value_type, rest @ ..] = data else { return };
    let version = if choice & 2 == 0 { footer::VERSION_REDIS_7_4 } else { footer::VERSION_VALKEY_9 };
    let mut input = Vec::new();
    if choice & 1 == 0 {
        input.push(0x80);
        input.extend((rest.len() as u32).to_be_bytes());
    }
    input.extend(rest);
    let Ok(mut fields) = read(*value_type, version, &input) else { return };
    assert!(!fields.is_empty());
    assert!(fields.iter().all(|(_, _, expiry_ms)| expiry_ms.is_none_or(|at_ms| (0..=EXPIRY_MS_MAX).contains(&at_ms))));
    fields.sort();
    // Zero is no expiry that Redis' forms can say.
    fields.iter_mut().for_each(|(_, _, expiry_ms)| *expiry_ms = expiry_ms.map(|at_ms| at_ms.max(1)));
    for form in [HashForm::TableWithExpiries, HashForm::ListpackWithExpiries, HashForm::Valkey] {
        let entries = fields.iter().map(|(name, value, expiry_ms)| -> HashEntry { (name, value, *expiry_ms) });
        let mut out = Vec::new();
        let form = hash::write(form, entries, &mut out);
        let mut again = read(form.value_type(), form.version(), &out[1..]).expect("what was written is read");
        again.sort();
        assert_eq!(again, fields);
    }
});
