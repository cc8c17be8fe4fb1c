//! Packed hashes against a list of fields, and against bytes that are no packed hash.

use almandine_datatypes::hash::PackedHash;
use almandine_datatypes::packed::{Due, ELEMENTS_MAX, Edit, FieldEntry, Full, HashEncoding, PACKED_MAX_BYTES};
use almandine_testkit::random::Random;

/// A field with its value and expiry.
type Field = (Vec<u8>, (Vec<u8>, Option<u64>));

#[derive(Default)]
struct Model {
    fields: Vec<Field>,
    encoding: HashEncoding,
}

impl Model {
    fn place(&self, field: &[u8]) -> Option<usize> {
        self.fields.iter().position(|(name, _)| name == field)
    }

    fn assert_is(&self, bytes: &[u8]) {
        let packed = PackedHash::new(bytes);
        assert!(packed.is_sound(), "{bytes:?}");
        assert_eq!((packed.len(), packed.encoding()), (self.fields.len(), self.encoding));
        assert_eq!(packed.next_due(), self.fields.iter().filter_map(|(_, (_, due))| *due).min());
        let all: Vec<Field> = packed.iter().map(owned).collect();
        assert_eq!(all, self.fields);
        for (i, (field, _)) in self.fields.iter().enumerate() {
            assert_eq!(packed.find(field).map(owned).as_ref(), Some(&self.fields[i]));
            assert_eq!(packed.nth(i), packed.find(field));
        }
    }
}

fn owned(entry: FieldEntry) -> Field {
    (entry.field.to_vec(), (entry.value.to_vec(), entry.due))
}

/// Applies an edit in place, and compares with its splices one by one.
fn apply(edit: &Edit, bytes: &mut Vec<u8>) {
    let len = edit.new_len(bytes.len());
    let mut copy = bytes.clone();
    for splice in edit.splices() {
        copy.splice(splice.offset..splice.offset + splice.remove, splice.insert().concat());
    }
    let old = bytes.len();
    bytes.resize(old.max(len), 0xDD);
    assert_eq!(edit.apply_within(bytes, old), len);
    bytes.truncate(len);
    assert_eq!(*bytes, copy, "in place and copied are the same");
}

fn any_due(random: &mut Random) -> Option<u64> {
    random.chance(30).then(|| 1 + random.below(50) as u64)
}

#[test]
fn an_edit_in_place_needs_no_more_room_than_its_result() {
    let mut bytes = Vec::new();
    PackedHash::new(&bytes).set(b"a", b"1", Due::At(1 << 40)).unwrap().0.apply(&mut bytes);
    // The expiry goes from entry and header, more bytes than the value brings; between the two there must be no more than before.
    for value in [&b"22"[..], b"333333", b"55555555555555555"] {
        let mut copy = bytes.clone();
        let (edit, is_new) = PackedHash::new(&bytes).set(b"a", value, Due::Never).unwrap();
        assert!(!is_new);
        for splice in edit.splices() {
            copy.splice(splice.offset..splice.offset + splice.remove, splice.insert().concat());
        }
        let packed = PackedHash::new(&copy);
        assert!(packed.is_sound() && packed.find(b"a").unwrap().value == value && packed.next_due().is_none());
    }
}

#[test]
fn packed_hashes_do_as_the_model() {
    for seed in 0..60 {
        let random = &mut Random::new(seed);
        let (mut model, mut bytes) = (Model::default(), Vec::new());
        let lens = [3, 20, 200, 700][seed as usize % 4];
        for _ in 0..600 {
            let field = vec![b'f'; random.below(3)].into_iter().chain([random.below(90) as u8]).collect::<Vec<_>>();
            let place = model.place(&field);
            let packed = PackedHash::new(&bytes);
            let snapshot = bytes.clone();
            match random.below(10) {
                0..5 => {
                    let len = random.below(lens);
                    let value = random.bytes(len);
                    let at = Due::At(1 + random.below(50) as u64);
                    let due = *random.pick(&[Due::Keep, Due::Never, at]);
                    let before = place.and_then(|i| model.fields[i].1.1);
                    match packed.set(&field, &value, due) {
                        Ok((edit, is_new)) => {
                            apply(&edit, &mut bytes);
                            assert_eq!(is_new, place.is_none());
                            let value = (value, due.resolve(before));
                            match place {
                                Some(i) => model.fields[i].1 = value,
                                None => model.fields.push((field, value)),
                            }
                        }
                        Err(Full) => {
                            let size = FieldEntry { field: &field, value: &value, due: Some(1) }.size() + 8;
                            assert!(model.fields.len() == ELEMENTS_MAX || bytes.len() + size > PACKED_MAX_BYTES);
                        }
                    }
                }
                5 => {
                    let due = any_due(random);
                    match (packed.set_due(&field, due), place) {
                        (Some(Ok(edit)), Some(i)) => {
                            apply(&edit, &mut bytes);
                            model.fields[i].1.1 = due;
                        }
                        (Some(Err(Full)), Some(_)) => assert!(bytes.len() + 12 > PACKED_MAX_BYTES),
                        (None, None) => {}
                        (edit, place) => panic!("{edit:?} for {place:?}"),
                    }
                }
                6 => {
                    model.encoding = *random.pick(&[HashEncoding::ListPack, HashEncoding::ListPackEx, HashEncoding::HashTable]);
                    apply(&packed.set_encoding(model.encoding), &mut bytes);
                }
                7 if random.chance(20) => {
                    let now = random.below(50) as u64;
                    let mut out = b"before".to_vec();
                    let removed = packed.retain(|entry| entry.due.is_none_or(|due| due > now), &mut out);
                    let len = model.fields.len();
                    model.fields.retain(|(_, (_, due))| due.is_none_or(|due| due > now));
                    assert_eq!(removed, len - model.fields.len());
                    bytes = out.split_off(6);
                }
                _ => match (packed.remove(&field), place) {
                    (Some((edit, entry)), Some(i)) => {
                        assert_eq!(owned(entry), model.fields.remove(i));
                        let edit: Edit<'static> = edit;
                        bytes = snapshot;
                        apply(&edit, &mut bytes);
                    }
                    (None, None) => {}
                    (removed, place) => panic!("{removed:?} for {place:?}"),
                },
            }
            model.assert_is(&bytes);
        }
    }
}

#[test]
fn small_hashes_take_few_bytes() {
    let pack = |count: usize, field: usize, value: usize| {
        let mut bytes = Vec::new();
        for i in 0..count {
            let field = format!("{i:0field$}");
            let value = vec![b'v'; value];
            let Ok((edit, true)) = PackedHash::new(&bytes).set(field.as_bytes(), &value, Due::Keep) else { panic!("{i}") };
            apply(&edit, &mut bytes);
        }
        bytes.len()
    };
    // A record adds 8 bytes of header, 16 for a key of 14 bytes and 11 in the index.
    assert_eq!(pack(5, 8, 8), 2 + 5 * 18);
    assert!(pack(5, 8, 8).next_multiple_of(8) + 35 <= 145);
    assert!(pack(30, 8, 16).next_multiple_of(8) + 35 <= 830);
}

/// Everything that reads, on bytes that may be anything.
fn read_all(bytes: &[u8], fields: &[Vec<u8>]) {
    let packed = PackedHash::new(bytes);
    assert!(packed.iter().count() <= packed.len());
    let _ = (packed.is_sound(), packed.nth(3));
    packed.retain(|entry| entry.due.is_none(), &mut Vec::new());
    for field in fields {
        let _ = (packed.find(field), packed.remove(field));
        packed.set_due(field, Some(7)).map(|edit| edit.map(|edit| edit.new_len(bytes.len())));
        packed.set(field, b"value", Due::Keep).map(|(edit, _)| edit.new_len(bytes.len())).ok();
    }
}

#[test]
fn any_bytes_are_read_without_panic() {
    for seed in 0..4000 {
        let random = &mut Random::new(seed);
        let fields: Vec<Vec<u8>> = (0..6).map(|i| vec![b'a'; i]).collect();
        let mut bytes = Vec::new();
        for field in &fields {
            let len = random.below(300);
            let value = random.bytes(len);
            let due = any_due(random).map_or(Due::Never, Due::At);
            let (edit, _) = PackedHash::new(&bytes).set(field, &value, due).expect("it is small");
            apply(&edit, &mut bytes);
        }
        for _ in 0..8 {
            let mut torn = bytes.clone();
            for _ in 0..1 + random.below(4) {
                let range = if random.chance(50) { 24 } else { torn.len() };
                let at = random.below(range);
                torn[at] = *random.pick(&[0, 1, 7, 0x7B, 0x7C, 0x7D, 0x7E, 0x7F, 0x80, 0xFC, 0xFD, 0xFE, 0xFF]);
            }
            torn.truncate(1 + random.below(torn.len()));
            read_all(&torn, &fields);
        }
        let len = random.below(40);
        read_all(&random.bytes(len), &fields);
    }
}
