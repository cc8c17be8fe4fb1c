//! Backups, without files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

struct Folder(Arc<AtomicU64>);

impl BackupFiles for Folder {
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    fn clear(&self) -> Result<(), String> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn give_up(&self) -> Result<(), String> {
        self.0.fetch_add(100, Ordering::Relaxed);
        Ok(())
    }

    fn tell(&self, client: Sealer) {
        assert_eq!(client, CLIENT);
        self.0.fetch_add(10_000, Ordering::Relaxed);
    }
}

const CLIENT: Sealer = Sealer { id: 7, worker: 1 };

fn ask(backups: &Backups) -> Result<(), String> {
    backups.ask_to_seal(CLIENT, || ())
}

fn backups() -> (Arc<Backups>, Arc<AtomicU64>) {
    let (backups, cleared) = (Arc::new(Backups::default()), Arc::default());
    backups.install(Box::new(Folder(Arc::clone(&cleared))));
    (backups, cleared)
}

#[test]
fn a_backup_goes_through_its_states_in_order() {
    let (backups, cleared) = backups();
    assert_eq!(ask(&backups), Err("no backup is in progress".to_owned()));
    assert!(backups.abort().is_err() && backups.begin().is_none());
    backups.start().unwrap();
    assert!(backups.is_pending() && backups.start().is_err() && ask(&backups).is_err() && backups.clean().is_err());
    let number = backups.begin().unwrap();
    let state = |backups: &Backups| backups.figures().state;
    backups.pin(number, false, || {
        assert_eq!(state(&backups), BackupState::Snapshotting, "it is told while files are made");
        assert!(backups.start().is_err() && backups.clean().is_err(), "and nobody waits for them");
        Ok(vec!["base".into()])
    });
    assert!(backups.holds_log() && backups.asked_to_seal().is_none());
    let mut woken = false;
    assert_eq!(backups.ask_to_seal(CLIENT, || woken = true), Ok(()));
    assert!(woken && backups.asked_to_seal() == Some(number) && backups.take_answer(CLIENT.id).is_none());
    let other = Arc::clone(&backups);
    let mut late = None;
    backups.end(number, || {
        // It waits until the files are there, and comes too late.
        late = Some(std::thread::spawn(move || other.abort()));
        assert_eq!(state(&backups), BackupState::Incrementing);
        Ok(Sealed { files: vec!["segment".into()], upload: None })
    });
    assert!(late.unwrap().join().unwrap().is_err());
    assert_eq!(cleared.swap(0, Ordering::Relaxed), 10_000, "told once, and nothing is cleared");
    // Its command runs twice: it is sealed by the second time, and that changes nothing.
    assert_eq!(backups.ask_to_seal(CLIENT, || panic!("nobody is woken")), Ok(()));
    assert_eq!((backups.take_answer(CLIENT.id), backups.take_answer(CLIENT.id)), (Some(Ok(())), None));
    assert!(ask(&backups).is_err_and(|why| why.contains("no backup")));
    let figures = backups.figures();
    assert_eq!((figures.state, figures.files.len()), (BackupState::Sealed, 2));
    assert!(figures.end_s >= figures.start_s && figures.start_s > 0);
    assert!(backups.start().is_err() && backups.abort().is_err());
    assert_eq!(backups.clean_after(0), None);
    assert!(backups.clean_after(1000).is_some_and(|left| left.as_secs() > 900) && cleared.load(Ordering::Relaxed) == 0);
    backups.clean().unwrap();
    assert_eq!((backups.figures(), cleared.load(Ordering::Relaxed)), (BackupFigures::default(), 1));
}

#[test]
fn a_backup_that_copies_lets_the_log_go_on_and_keeps_its_files() {
    let (backups, cleared) = backups();
    let begin = || {
        backups.start().unwrap();
        let number = backups.begin().unwrap();
        backups.pin(number, true, || Ok(vec!["base".into()]));
        number
    };
    backups.keep(|| panic!("there is none"));
    let number = begin();
    assert!(backups.copies() && backups.needs_log() && !backups.holds_log());
    assert_eq!((backups.figures().state.name(), backups.figures().files.len()), ("snapshotting", 1));
    assert!(ask(&backups).is_err_and(|why| why.contains("not written yet")));
    backups.keep(|| Ok(vec!["segment".into()]));
    backups.copied(number, Ok(vec!["page".into()]));
    assert!(!backups.copies() && backups.needs_log() && !backups.holds_log());
    assert_eq!((backups.figures().state, backups.figures().files.len()), (BackupState::Incrementing, 3));
    backups.keep(|| Err("a gap".to_owned()));
    assert_eq!((backups.figures().state, &*backups.figures().error), (BackupState::Failed, "a gap"));
    assert_eq!(cleared.load(Ordering::Relaxed), 0);
    // What could not be copied leaves nothing.
    let second = begin();
    backups.copied(number, Err("of another one".to_owned()));
    assert!(backups.copies() && cleared.load(Ordering::Relaxed) == 0);
    backups.copied(second, Err("no room".to_owned()));
    assert_eq!((&*backups.figures().error, cleared.load(Ordering::Relaxed)), ("no room", 1));
    // Its base is not written any more, so nothing is to be ended.
    let third = begin();
    assert_eq!(backups.abort(), Ok(false));
    backups.copied(third, Ok(Vec::new()));
    assert_eq!(backups.figures().state, BackupState::Failed);
    // And the next one without a device holds the log.
    backups.start().unwrap();
    let fourth = backups.begin().unwrap();
    backups.pin(fourth, false, || Ok(Vec::new()));
    assert!(backups.holds_log());
}

#[test]
fn what_belongs_to_a_backup_that_was_given_up_changes_no_other() {
    let (backups, _) = backups();
    backups.start().unwrap();
    let first = backups.begin().unwrap();
    assert_eq!(backups.abort(), Ok(true));
    assert_eq!(backups.figures().state, BackupState::Failed);
    backups.start().unwrap();
    let second = backups.begin().unwrap();
    backups.pin(first, false, || panic!("it was given up"));
    backups.pin(second, false, || Ok(Vec::new()));
    backups.end(first, || panic!("it was given up"));
    assert!(backups.holds_log() && ask(&backups).is_ok());
    backups.fail("the log has ended");
    assert_eq!(backups.take_answer(CLIENT.id), Some(Err("the log has ended".to_owned())));
    assert_eq!((backups.figures().state, &*backups.figures().error), (BackupState::Failed, "the log has ended"));
}

#[test]
fn the_files_of_a_sealed_one_stay_until_it_is_in_object_storage() {
    let (backups, cleared) = backups();
    let uploads = &backups.uploads;
    assert_eq!(uploads.figures(), UploadFigures::default());
    uploads.install_waker(Arc::new(almandine_io::thread::Waker::new()));
    assert_eq!((uploads.figures().state, uploads.name()), (UploadState::Idle, None));
    let seal = |name: &str| {
        backups.start().unwrap();
        let number = backups.begin().unwrap();
        backups.pin(number, false, || Ok(vec!["base".into()]));
        backups.end(number, || Ok(Sealed { files: vec!["segment".into()], upload: Some(name.to_owned()) }));
    };
    seal("first");
    assert_eq!((uploads.name().as_deref(), backups.figures().files.len()), (Some("first"), 2));
    assert!(uploads.is("first") && !uploads.is("second"));
    let is_told = |refused: Result<(), String>| refused.is_err_and(|why| why.contains("BACKUP ABORT gives that up"));
    assert!(is_told(backups.clean()) && is_told(backups.start()) && backups.clean_after(1).is_none());
    uploads.advance("first", 5, (3, 7));
    uploads.fail("first", "the store is away".to_owned());
    let figures = uploads.figures();
    assert_eq!((figures.state, figures.shipped_bytes, figures.left_bytes, figures.errors), (UploadState::Failing, 5, 4, 1));
    assert!(is_told(backups.clean()), "it is tried again");
    assert!(!uploads.end("other") && uploads.end("first"));
    assert_eq!((uploads.figures().state, uploads.name(), uploads.figures().left_bytes), (UploadState::Shipped, None, 0));
    assert_eq!(backups.figures().state, BackupState::Sealed);
    assert!(backups.abort().is_err() && cleared.load(Ordering::Relaxed) == 0);
    backups.clean().unwrap();
    assert_eq!((uploads.figures().state, cleared.load(Ordering::Relaxed)), (UploadState::Idle, 1));
    // One that was given up stays in its directory.
    seal("second");
    assert_eq!(backups.abort(), Ok(false));
    assert_eq!((uploads.figures().state, backups.figures().state), (UploadState::GivenUp, BackupState::Sealed));
    assert!(cleared.load(Ordering::Relaxed) == 101 && !uploads.end("second") && uploads.name().is_none());
    backups.clean().unwrap();
    // And one of an earlier process goes on.
    backups.resume("third".to_owned(), vec!["base".into()], (70, 80));
    assert_eq!((backups.figures().state, backups.figures().end_s, uploads.is("third")), (BackupState::Sealed, 80, true));
}
