//! Backups in object storage: whatever fails, is killed or given up, what counts there is whole, and the newest one that was said
//! to be there is: INV-SHIPPED-1.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use almandine_oplog::archive::Objects;
use almandine_oplog::backup_store::{
    Inventory, Keep, Ledger, Outgoing, Retained, Shipment, StoreFault, StoredBackups, StoredName, Wanted, choose, restore, retain,
    ship,
};
use almandine_oplog::directory::Directory;

use super::Folder;
use super::archive::{Random, Store};

/// What files have, by their paths.
type Contents = BTreeMap<String, Vec<u8>>;

/// A server that takes backups.
struct Owner {
    log: Folder,
    directory: Folder,
    ledger: Ledger,
    sealed: u64,
    /// What is to be shipped has.
    outgoing: Contents,
}

impl Owner {
    fn new(name: &str) -> Self {
        let (log, directory) = (Folder::quick(&format!("{name}-log")), Folder::quick(&format!("{name}-backup")));
        std::fs::create_dir_all(&log.0).unwrap();
        let ledger = Ledger::open(&log.0).unwrap();
        Self { log, directory, ledger, sealed: 0, outgoing: Contents::new() }
    }

    /// Its process ends, and another one begins.
    fn restart(&mut self) {
        self.ledger = Ledger::open(&self.log.0).unwrap();
    }

    /// Seals one of these files.
    fn seal(&mut self, contents: Contents) -> Outgoing {
        let _ = std::fs::remove_dir_all(&self.directory.0);
        for (path, bytes) in &contents {
            let to = self.directory.0.join(path.strip_prefix("log/").unwrap_or(path));
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::write(to, bytes).unwrap();
        }
        self.sealed += 1;
        self.outgoing = contents;
        // Times of clocks that are set back say nothing.
        let end_s = 1_000_000 - self.sealed * 100;
        self.ledger.begin((end_s, 8192 * self.sealed), (7, end_s - 50)).unwrap()
    }

    fn shipment(&self) -> Option<Shipment> {
        let outgoing = self.ledger.outgoing()?;
        let files = self.outgoing.keys().map(|path| self.directory.0.join(path.strip_prefix("log/").unwrap_or(path))).collect();
        Some(Shipment { outgoing, directory: self.directory.0.clone(), files })
    }

    fn ship(&self, store: &Store) -> Result<Inventory, StoreFault> {
        let made = ship(store, &self.shipment().unwrap(), &mut |_| true)?;
        assert!(self.ledger.shipped(made.name).unwrap());
        Ok(made)
    }

    fn retain(&self, store: &Store, count: u64) -> Result<Retained, StoreFault> {
        retain(store, &self.ledger, Keep { count, seconds: 0 }, 1_000_000)
    }
}

fn contents(random: &mut Random) -> Contents {
    let mut file = |path: &str| {
        let bytes = (0..random.next(5_000)).map(|_| random.next(256) as u8).collect();
        (path.to_owned(), bytes)
    };
    let mut all: Contents =
        ["log/MANIFEST", "log/base-00000002.0", "log/log-00000004", "storage/log/0.segment", "storage/values/0.segment"]
            .map(&mut file)
            .into();
    all.insert("log/log-00000005".to_owned(), vec![0; 8192]);
    all
}

/// Restores a backup: what its files have.
fn restored(store: &Store, name: StoredName, folder: &Folder) -> Result<Contents, StoreFault> {
    let _ = std::fs::remove_dir_all(&folder.0);
    let (log, storage) = (folder.0.join("appendonlydir"), folder.0.join("storage"));
    let directory = Directory::take(&log).unwrap();
    restore(store, Inventory::read(store, name)?, &directory, Some(&storage))?;
    let mut all = Contents::new();
    for (from, to) in [(&log, "log"), (&storage.join("log"), "storage/log"), (&storage.join("values"), "storage/values")] {
        for entry in std::fs::read_dir(from).unwrap().flatten().filter(|entry| entry.file_name() != "LOCK") {
            all.insert(format!("{to}/{}", entry.file_name().to_string_lossy()), std::fs::read(entry.path()).unwrap());
        }
    }
    Ok(all)
}

fn counting(store: &Store) -> Vec<StoredName> {
    StoredBackups::read(store).unwrap().counting().copied().collect()
}

fn is_of_store<T>(result: Result<T, StoreFault>, seed: u64) -> Option<T> {
    match result {
        Ok(done) => Some(done),
        Err(StoreFault::Store(_) | StoreFault::Stopped) => None,
        Err(fault) => panic!("seed {seed}: {fault}"),
    }
}

struct Play {
    store: Store,
    seed: u64,
    owners: [Owner; 2],
    /// What each backup has that was begun.
    sealed: BTreeMap<StoredName, Contents>,
    /// The last one of each owner that was said to be there.
    newest: [Option<StoredName>; 2],
    folder: Folder,
}

impl Play {
    fn step(&mut self, random: &mut Random) {
        let (store, at) = (self.store.clone(), random.next(2) as usize);
        let owner = &mut self.owners[at];
        store.fail_one_in([0, 3, 10, 30][random.next(4) as usize]);
        match (random.next(8), owner.shipment()) {
            (0, _) => owner.restart(),
            (1, Some(_)) => owner.ledger.give_up().unwrap(),
            (2, _) => _ = is_of_store(owner.retain(&store, 1 + random.next(2)), self.seed),
            (_, None) => {
                let outgoing = owner.seal(contents(random));
                self.sealed.insert(outgoing.name, owner.outgoing.clone());
            }
            (_, Some(shipment)) => {
                let mut steps = random.next(12);
                let mut go_on = |_| {
                    steps = steps.saturating_sub(1);
                    steps > 0
                };
                if let Some(made) = is_of_store(ship(&store, &shipment, &mut go_on), self.seed) {
                    assert!(owner.ledger.shipped(made.name).unwrap());
                    self.newest[at] = Some(made.name);
                }
            }
        }
        store.fail_one_in(0);
        self.look();
    }

    /// What counts is whole, and what was said to be there counts.
    fn look(&self) {
        let there = counting(&self.store);
        for name in &there {
            let found = restored(&self.store, *name, &self.folder);
            assert!(found.is_ok_and(|found| found == self.sealed[name]), "seed {}: {name} is not whole", self.seed);
        }
        for newest in self.newest.iter().flatten() {
            assert!(there.contains(newest), "seed {}: {newest} was dropped before there is a newer one", self.seed);
        }
    }

    /// Nothing fails any more: what is kept is there, and nothing else.
    fn end(&mut self) {
        for (owner, newest) in self.owners.iter_mut().zip(&mut self.newest) {
            owner.restart();
            if owner.shipment().is_some() {
                *newest = Some(owner.ship(&self.store).unwrap().name);
            }
            owner.retain(&self.store, 2).unwrap();
            assert!(owner.ledger.drops().is_empty());
            let own = counting(&self.store).into_iter().filter(|name| name.owner == owner.ledger.owner()).count();
            assert!(own <= 2 && (own > 0) == newest.is_some(), "seed {}: {own}", self.seed);
        }
        self.look();
        let found = StoredBackups::read(&self.store).unwrap();
        assert!(found.all.values().all(|objects| objects.counts), "seed {}: something is left", self.seed);
    }
}

#[test]
fn what_counts_is_whole_whatever_happens() {
    let seeds = std::env::var("ALMANDINE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(30);
    for seed in 0..seeds {
        let owners = ["a", "b"].map(|owner| Owner::new(&format!("shipped-{seed}-{owner}")));
        let (sealed, folder) = (BTreeMap::new(), Folder::quick(&format!("shipped-{seed}")));
        let mut play = Play { store: Store::default(), seed, owners, sealed, newest: [None; 2], folder };
        let mut random = Random(seed * 7919 + 1);
        (0..50).for_each(|_| play.step(&mut random));
        play.end();
    }
}

/// More than one piece, with a hole between them: also a piece that was there already is not made again.
#[test]
fn a_large_file_is_shipped_in_pieces_and_without_its_holes() {
    let (store, mut owner) = (Store::default(), Owner::new("shipped-large"));
    let mut large = vec![7; 30 << 20];
    large[8 << 20..24 << 20].fill(0);
    owner.seal([("log/base-00000002.0".to_owned(), large.clone()), ("log/MANIFEST".to_owned(), b"x".to_vec())].into());
    let mut told = Vec::new();
    let stopped = ship(&store, &owner.shipment().unwrap(), &mut |shipping| {
        told.push(shipping);
        shipping.done < 1 + (30 << 20)
    });
    assert!(matches!(stopped, Err(StoreFault::Stopped)), "it is stopped behind its last piece");
    assert_eq!((store.names().len(), counting(&store).len()), (3, 0));
    assert_eq!(told.iter().map(|shipping| shipping.shipped).sum::<u64>(), (14 << 20) + 1);
    let mut again = 0;
    let made = ship(&store, &owner.shipment().unwrap(), &mut |shipping| {
        again += shipping.shipped;
        true
    });
    let made = made.unwrap();
    assert_eq!((again, made.bytes(), store.names().len()), (0, (14 << 20) + 1, 4));
    let folder = Folder::quick("shipped-large-restored");
    let found = restored_log(&store, made, &folder.0).unwrap();
    assert!(found == large);
}

fn restored_log(store: &Store, inventory: Inventory, to: &Path) -> Result<Vec<u8>, StoreFault> {
    let directory = Directory::take(to).unwrap();
    restore(store, inventory, &directory, None)?;
    Ok(std::fs::read(to.join("base-00000002.0")).unwrap())
}

fn shipped(store: &Store, owner: &mut Owner, random: &mut Random) -> StoredName {
    owner.seal(contents(random));
    owner.ship(store).unwrap().name
}

#[test]
fn older_ones_go_by_count_and_age_but_never_the_newest_nor_another_owners() {
    let (store, mut random) = (Store::default(), Random(1));
    let (mut owner, mut other) = (Owner::new("retained"), Owner::new("retained-other"));
    let foreign = shipped(&store, &mut other, &mut random);
    let all: Vec<StoredName> = (0..4).map(|_| shipped(&store, &mut owner, &mut random)).collect();
    assert_eq!(owner.retain(&store, 0).unwrap(), Retained { kept: 4, dropped: 0 });
    assert_eq!(owner.retain(&store, 3).unwrap(), Retained { kept: 3, dropped: 1 });
    assert!(!counting(&store).contains(&all[0]) && counting(&store).contains(&foreign));
    // The clock was set back between all of these; the newest is the last one that was made, and the one before is younger.
    let by_age = |now_s| retain(&store, &owner.ledger, Keep { count: 0, seconds: 10 }, now_s).unwrap();
    assert_eq!(by_age(all[2].end_s + 5), Retained { kept: 3, dropped: 0 });
    assert_eq!(by_age(all[1].end_s + 5), Retained { kept: 2, dropped: 1 });
    assert_eq!(by_age(2_000_000), Retained { kept: 1, dropped: 1 });
    let mut left = counting(&store);
    left.sort_unstable_by_key(|name| name.number);
    assert!(left.len() == 2 && left.contains(&all[3]) && left.contains(&foreign), "{left:?}");
}

#[test]
fn nothing_is_dropped_behind_one_that_is_not_whole() {
    let (store, mut random, mut owner) = (Store::default(), Random(2), Owner::new("not-whole"));
    let all: Vec<StoredName> = (0..2).map(|_| shipped(&store, &mut owner, &mut random)).collect();
    let piece = store.names().into_iter().find(|name| name.starts_with(&format!("piece-{}", all[1]))).unwrap();
    store.delete(std::slice::from_ref(&piece)).unwrap();
    let refused = owner.retain(&store, 1).unwrap_err().to_string();
    assert!(refused.contains(&piece) && refused.contains("no older backup is dropped"), "{refused}");
    assert_eq!(counting(&store).len(), 2);
    let folder = Folder::quick("not-whole-restored");
    assert!(restored(&store, all[0], &folder).is_ok());
    assert!(matches!(restored(&store, all[1], &folder), Err(StoreFault::Damaged(why)) if why.contains(&piece)));
}

#[test]
fn nothing_is_dropped_behind_one_that_may_be_given_up() {
    let (store, mut random, mut owner) = (Store::default(), Random(6), Owner::new("in-doubt"));
    let first = shipped(&store, &mut owner, &mut random);
    owner.seal(contents(&mut random));
    // It is there, and the server was killed before it knew.
    let second = ship(&store, &owner.shipment().unwrap(), &mut |_| true).unwrap().name;
    owner.restart();
    assert_eq!(owner.retain(&store, 1).unwrap(), Retained { kept: 1, dropped: 0 });
    assert_eq!(counting(&store).len(), 2);
    owner.ledger.give_up().unwrap();
    assert_eq!(owner.retain(&store, 1).unwrap(), Retained { kept: 1, dropped: 1 });
    assert_eq!(counting(&store), [first]);
    assert!(store.names().iter().all(|name| !name.contains(&second.to_string())));
}

#[test]
fn a_piece_that_was_changed_is_noticed_and_what_is_there_is_not_overwritten() {
    let (store, mut random, mut owner) = (Store::default(), Random(3), Owner::new("changed"));
    let name = shipped(&store, &mut owner, &mut random);
    let folder = Folder::quick("changed-restored");
    for piece in store.names().into_iter().filter(|name| name.starts_with("piece")) {
        let bytes = store.get(&piece).unwrap().unwrap();
        let mut other = bytes.clone();
        other[bytes.len() / 2] ^= 4;
        let put = |bytes: &[u8]| {
            store.delete(std::slice::from_ref(&piece)).unwrap();
            store.create(&piece, bytes).unwrap();
        };
        put(&other);
        assert!(matches!(restored(&store, name, &folder), Err(StoreFault::Damaged(why)) if why.contains(&piece)));
        // It is no log, and no server starts from it.
        assert!(!folder.0.join("appendonlydir/MANIFEST").exists() || piece.ends_with("-000000-000000000000"));
        put(&bytes);
    }
    // A restore goes on where one was cut off.
    let (log, storage) = (folder.0.join("appendonlydir"), folder.0.join("storage"));
    let into =
        |log: &PathBuf| restore(&store, Inventory::read(&store, name).unwrap(), &Directory::take(log).unwrap(), Some(&storage));
    assert!(into(&log).is_ok());
    let refused = into(&log).unwrap_err().to_string();
    assert!(refused.contains("has a log already"), "{refused}");
    let refused = into(&folder.0.join("other")).unwrap_err().to_string();
    assert!(refused.contains("has data already"), "{refused}");
}

#[test]
fn another_server_under_the_same_name_is_told() {
    let (store, mut random, mut owner) = (Store::default(), Random(4), Owner::new("cloned"));
    owner.seal(contents(&mut random));
    let shipment = owner.shipment().unwrap();
    // A copy of the directory, which has sealed at the same moment, and has written something else since.
    store.create(&format!("piece-{}-000000-000000000000", shipment.outgoing.name), b"other").unwrap();
    let refused = ship(&store, &shipment, &mut |_| true).unwrap_err().to_string();
    assert!(refused.contains("another server ships under the same name"), "{refused}");
    assert!(counting(&store).is_empty());
}

#[test]
fn a_backup_is_chosen_by_name_time_and_owner() {
    let (store, mut random, mut owner) = (Store::default(), Random(5), Owner::new("chosen"));
    let found = || StoredBackups::read(&store).unwrap();
    assert_eq!(choose(&found(), Wanted::Newest, None).unwrap(), None);
    let all: Vec<StoredName> = (0..3).map(|_| shipped(&store, &mut owner, &mut random)).collect();
    let choose_of = |wanted, owner| choose(&found(), wanted, owner).unwrap();
    assert_eq!(choose_of(Wanted::Newest, None), Some(all[2]), "by its number, whatever the clock said");
    assert_eq!(choose_of(Wanted::Named(all[0]), None), Some(all[0]));
    assert_eq!(choose_of(Wanted::Before(all[2].end_s - 1), None), None);
    assert_eq!(choose_of(Wanted::Before(all[2].end_s), None), Some(all[2]));
    assert_eq!(choose_of(Wanted::Covering(all[1].end_s), None), Some(all[0]), "the first that was sealed behind it");
    assert_eq!(choose_of(Wanted::Covering(all[0].end_s + 1), None), None);
    let mut other = Owner::new("chosen-other");
    let foreign = shipped(&store, &mut other, &mut random);
    let refused = choose(&found(), Wanted::Newest, None).unwrap_err().to_string();
    assert!(refused.contains("several servers"), "{refused}");
    assert_eq!(choose_of(Wanted::Newest, Some(foreign.owner)), Some(foreign));
    assert_eq!(choose_of(Wanted::Named(foreign), None), Some(foreign));
}

#[cfg(all(feature = "mutants", not(feature = "sim")))]
#[test]
fn mutants_are_noticed() {
    let own = std::env::current_exe().unwrap();
    let test = ["backup_store::", "--skip", "mutants"];
    for mutant in ["InventoryLast", "HeedOutgoing", "LookAtNewest", "DropInventoryFirst", "ComparePieces"] {
        let run = std::process::Command::new(&own).args(test).env("ALMANDINE_MUTANT", mutant).output().unwrap();
        assert!(!run.status.success(), "{mutant} is not noticed");
    }
}
