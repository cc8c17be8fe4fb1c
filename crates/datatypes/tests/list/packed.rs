//! Packed lists against a naive list, and against bytes that are no packed list.

use almandine_datatypes::list::{End, LIST_MAX_BYTES, ListEncoding, PackedList};
use almandine_datatypes::packed::{ELEMENTS_MAX, Full};
use almandine_testkit::random::Random;

use super::any_element;

fn assert_is(bytes: &[u8], model: &[Vec<u8>]) {
    let list = PackedList::new(bytes);
    assert!(model.is_empty() || list.is_sound(bytes), "{bytes:?}");
    let all: Vec<Vec<u8>> = list.iter().map(|element| element.to_vec()).collect();
    assert_eq!(all, model);
    assert!((0..model.len()).all(|i| list.nth(i).as_deref() == Some(&model[i])) && list.nth(model.len()).is_none());
    assert!(
        list.listpack_bytes() <= list.listpack_bytes_bound() && list.listpack_bytes_bound() <= list.listpack_bytes() + list.len()
    );
}

#[test]
fn packed_lists_do_as_the_model() {
    for seed in 0..100 {
        let random = &mut Random::new(seed);
        let kinds = [2, 3, 5, 9][seed as usize % 4];
        let (mut model, mut bytes) = (Vec::new(), Vec::new());
        for _ in 0..400 {
            let (element, before) = (any_element(random, kinds), bytes.clone());
            let most = before.len() + element.len() + 5;
            let at = random.below(model.len() + 1);
            let written = match random.below(6) {
                0 => PackedList::push(&mut bytes, End::Left, &element).map(|()| model.insert(0, element)),
                1 => PackedList::push(&mut bytes, End::Right, &element).map(|()| model.push(element)),
                2 => PackedList::insert(&mut bytes, at, &element).map(|()| model.insert(at, element)),
                3 => PackedList::set(&mut bytes, at, &element).map(|is_there| {
                    assert_eq!(is_there, at < model.len());
                    model.get_mut(at).into_iter().for_each(|old| *old = element.clone());
                }),
                4 if random.chance(30) => {
                    let count = random.below(5);
                    let end = model.len().min(at + count);
                    assert_eq!(PackedList::remove(&mut bytes, at, count), end - at);
                    drop(model.drain(at..end));
                    Ok(())
                }
                _ => {
                    let wanted = model.get(at).unwrap_or(&element).clone();
                    let (mut found, most) = (Vec::new(), 1 + random.below(3));
                    PackedList::new(&bytes).find(&wanted, &mut |place| {
                        found.push(place);
                        found.len() < most
                    });
                    let expected: Vec<usize> = (0..model.len()).filter(|i| model[*i] == wanted).take(most).collect();
                    assert_eq!(found, expected);
                    Ok(())
                }
            };
            if written == Err(Full) {
                assert_eq!(bytes, before);
                assert!(model.len() >= ELEMENTS_MAX || most > LIST_MAX_BYTES, "{} elements", model.len());
            }
            assert_is(&bytes, &model);
        }
        PackedList::set_encoding(&mut bytes, ListEncoding::QuickList);
        assert_eq!(PackedList::new(&bytes).encoding(), ListEncoding::QuickList);
        assert_is(&bytes, &model);
    }
}

#[test]
fn list_bytes_are_pinned() {
    let mut bytes = Vec::new();
    for element in [&b"ab"[..], b"7", b"", b"-300", b"007"] {
        PackedList::push(&mut bytes, End::Right, element).unwrap();
    }
    PackedList::push(&mut bytes, End::Left, b"x").unwrap();
    PackedList::set_encoding(&mut bytes, ListEncoding::QuickList);
    assert_eq!(bytes, b"\x02\x06\x81x\x82ab\x07\x80\xde\xd4\x83007");
}

#[test]
fn small_lists_take_few_bytes() {
    let mut bytes = Vec::new();
    for i in 0..10 {
        PackedList::push(&mut bytes, End::Left, format!("{i:08}").as_bytes()).unwrap();
    }
    // A record adds 8 bytes of header, 16 for a key of 14 bytes and 11 in the index.
    let all = bytes.len().next_multiple_of(8) + 35;
    println!("10 x 8: {all} bytes");
    assert!(all <= 136);
}

#[test]
fn any_bytes_are_read_without_panic() {
    for seed in 0..20_000 {
        let random = &mut Random::new(seed);
        let mut bytes = Vec::new();
        for _ in 0..random.below(8) {
            let _ = PackedList::push(&mut bytes, End::Left, &any_element(random, 5));
        }
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() + 1);
            let byte = *random.pick(&[0, 1, 7, 0x7F, 0x80, 0xBF, 0xC0, 0xE0, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF]);
            match random.below(3) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, byte),
                _ => bytes.get_mut(at).into_iter().for_each(|old| *old = byte),
            }
        }
        let list = PackedList::new(&bytes);
        assert!(list.iter().count() <= list.len());
        let _ = (list.is_sound(&bytes), list.nth(2), list.listpack_bytes());
        list.find(b"7", &mut |_| true);
        for end in [End::Left, End::Right] {
            let _ = PackedList::push(&mut bytes.clone(), end, b"x");
        }
        let _ = PackedList::insert(&mut bytes.clone(), 2, b"x");
        let _ = PackedList::set(&mut bytes.clone(), 2, b"x");
        let _ = PackedList::remove(&mut bytes.clone(), 1, 2);
    }
}
