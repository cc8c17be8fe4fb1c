//! What happens between two steps of shipping and fetching, one case each: INV-ARCHIVE-3, and lists that take their time.

use almandine_oplog::manifest::Manifest;

use super::*;

const PAGE_BYTES: usize = 20 << 20;

fn with_page(name: &str) -> (Store, Writer) {
    let mut writer = Writer::with_device(name, Some(Device::default()));
    writer.device.as_ref().unwrap().write(1, 77);
    (writer.pages, writer.next_page) = (Table::from([(1, 77)]), 2);
    (Store::default(), writer)
}

fn ship_all(store: &Store, writer: &mut Writer) {
    writer.look();
    let shipped = (0..50).map(|_| writer.advance(store).unwrap()).find(|shipped| !shipped.more).unwrap();
    assert_eq!(shipped, Shipped { through: Some(writer.durable), ..Shipped::default() });
}

fn has_pages(store: &Store) -> bool {
    store.names().iter().any(|name| name.starts_with("page-"))
}

/// The manifest as another thread or a crash may find it.
fn put_manifest(writer: &Writer, change: impl FnOnce(&mut Manifest)) {
    let mut manifest = read_manifest(&writer.folder.0).unwrap().unwrap();
    change(&mut manifest);
    std::fs::write(writer.folder.0.join("MANIFEST"), manifest.encode()).unwrap();
}

#[test]
fn a_page_with_large_values_is_there_as_a_whole_or_not_at_all() {
    let (store, mut writer) = (Store::default(), Writer::with_device("archive-large", Some(Device::default())));
    ship_all(&store, &mut writer);
    let bytes: Vec<u8> = (0..PAGE_BYTES).map(|at| (at / 7) as u8).collect();
    writer.device.as_ref().unwrap().put_bytes(1, bytes.clone());
    (writer.pages, writer.next_page) = (Table::from([(1, 0)]), 2);
    writer.name_base();
    writer.look();
    store.0.lock().unwrap().refuses_end = "-000016777216";
    assert!((0..10).any(|_| writer.ship(&store).is_err()));
    look_at_copy(&store, &writer, 0, u64::MAX - 1);
    // What is there already is not asked for again, and only as a whole it counts.
    writer.shipper = None;
    let before = store.names().into_iter().filter(|name| name.starts_with("page-")).count();
    assert_eq!(before, 1);
    store.0.lock().unwrap().refuses_end = "";
    ship_all(&store, &mut writer);
    let fetched = take_over(&store, "archive-large-fetched").unwrap().unwrap();
    assert!(fetched.device.unwrap().bytes(1) == bytes);
}

/// The space of a page that was freed may have another large value, which has its checksum.
#[test]
fn what_is_read_behind_the_next_base_is_not_shipped() {
    let (store, mut writer) = with_page("archive-freed");
    writer.name_base();
    writer.look();
    let (manifest, number) = (read_manifest(&writer.folder.0).unwrap().unwrap(), writer.base);
    let path = writer.folder.0.join("MANIFEST");
    let (device, later) = (writer.device.clone().unwrap(), path.clone());
    device.meanwhile(move |pages| {
        let mut manifest = manifest;
        manifest.base.as_mut().unwrap().number = number + 1;
        std::fs::write(later, manifest.encode()).unwrap();
        pages.insert(1, b"of another page".to_vec());
    });
    let own = std::fs::read(&path).unwrap();
    for _ in 0..5 {
        writer.advance(&store).unwrap();
        assert!(!has_pages(&store));
    }
    device.free(1);
    device.write(1, 77);
    std::fs::write(path, own).unwrap();
    ship_all(&store, &mut writer);
    look_at_copy(&store, &writer, writer.units.len(), u64::MAX - 2);
}

/// Behind a crash of the machine the manifest may name the base before again, and a later one has the number of this one.
#[test]
fn a_base_is_shipped_when_it_is_named_durably() {
    let (store, mut writer) = with_page("archive-named");
    ship_all(&store, &mut writer);
    let begun = writer.begin_base();
    let base = writer.prepare_base(&begun);
    writer.base -= 1;
    put_manifest(&writer, |manifest| manifest.base = Some(base));
    writer.look();
    for _ in 0..5 {
        assert_eq!(writer.advance(&store).unwrap(), Shipped::default());
    }
    assert!(!has_pages(&store) && !store.names().iter().any(|name| name.starts_with("base-00000002")));
    writer.base += 1;
    ship_all(&store, &mut writer);
    assert!(has_pages(&store));
}

/// A list may have the catalog as it was, and files of an owner that came meanwhile.
#[test]
fn what_another_owner_makes_during_a_list_is_left_to_it() {
    let (store, mut writer) = with_page("archive-list");
    writer.name_base();
    ship_all(&store, &mut writer);
    writer.shipper = None;
    let next = Arc::new(Mutex::new(None));
    let (theirs, own) = (store.clone(), Arc::clone(&next));
    store.0.lock().unwrap().amid_list = Some(Box::new(move || {
        let mut writer = take_over(&theirs, "archive-list-next").unwrap().unwrap();
        writer.append(&[10_000], true);
        ship_all(&theirs, &mut writer);
        *own.lock().unwrap() = Some(writer);
    }));
    let refused = writer.ship(&store);
    let next = next.lock().unwrap().take().unwrap();
    look_at_copy(&store, &next, next.units.len(), u64::MAX - 3);
    assert!(matches!(refused, Err(ArchiveFault::Owned(_))), "{refused:?}");
}

#[test]
fn a_damaged_page_keeps_its_base_out_and_not_the_log() {
    let (store, mut writer) = with_page("archive-damaged-page");
    ship_all(&store, &mut writer);
    writer.name_base();
    writer.device.as_ref().unwrap().free(1);
    for _ in 0..3 {
        writer.append(&[10], true);
        writer.look();
        let shipped = (0..5).map(|_| writer.advance(&store).unwrap()).find(|shipped| !shipped.more).unwrap();
        assert!(shipped.left_out.is_some_and(|why| why.contains("page 1 is damaged")));
        assert_eq!(shipped.through, Some(writer.durable));
        look_at_copy(&store, &writer, writer.units.len(), u64::MAX - 4);
    }
    assert!(!has_pages(&store));
    // The next one is without it.
    writer.pages.clear();
    writer.name_base();
    ship_all(&store, &mut writer);
}

#[test]
fn an_archive_with_pages_is_not_taken_over_without_a_place_for_them() {
    let (store, mut writer) = with_page("archive-no-place");
    writer.name_base();
    ship_all(&store, &mut writer);
    let before = store.names();
    let folder = Folder::quick("archive-no-place-next");
    let directory = Directory::take(&folder.0).unwrap();
    for fetched in [
        fetch(&store, &directory, &LogKeys::NONE, &mut almandine_oplog::archive::NoPages),
        copy_newest(&store, &directory, &mut almandine_oplog::archive::NoPages),
    ] {
        assert!(matches!(&fetched, Err(ArchiveFault::Owned(why)) if why.contains("storage-dir")), "{fetched:?}");
    }
    assert_eq!(store.names(), before);
    writer.append(&[10], true);
    ship_all(&store, &mut writer);
}

#[test]
fn a_missing_page_is_damage() {
    let (store, mut writer) = with_page("archive-missing-page");
    writer.name_base();
    ship_all(&store, &mut writer);
    let name = store.names().into_iter().find(|name| name.starts_with("page-")).unwrap();
    store.delete(std::slice::from_ref(&name)).unwrap();
    let damage = take_over(&store, "archive-missing-page-next").err().map(|fault| fault.to_string());
    assert!(damage.as_ref().is_some_and(|text| text.contains(&name)), "{damage:?}");
}
