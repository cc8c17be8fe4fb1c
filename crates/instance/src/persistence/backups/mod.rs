//! Backups of the operation log: a base and what was logged behind it, as files that nothing changes any more.
//!
//! One is taken at a time, by the thread that writes bases: it is *pending* until that thread is free, *snapshotting* while a new
//! base is written, *incrementing* while the log behind that base grows, and *sealed* when its files are complete. In between the
//! log is not rewritten: its files are the backup's.
//!
//! With data on a device, what the base names there is copied before it is incrementing. That may take long, so the log is
//! rewritten meanwhile and behind it, as space of the device asks for, and its files are kept for the backup.
//!
//! With object storage a sealed one is an *upload* until it is there, too: its files stay until then.

mod upload;

use std::path::PathBuf;
use std::sync::{OnceLock, PoisonError};
use std::time::Duration;

use almandine_io::clock;
use almandine_io::sync::{Mutex, MutexGuard};

pub use self::upload::{UploadFigures, UploadState, Uploads};

/// How long a sealed one stays that could not be removed when its time was over.
const RETRY: Duration = Duration::from_secs(60);

/// How far a backup is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackupState {
    /// There is none.
    #[default]
    Idle,
    /// It waits for the thread that writes bases.
    Pending,
    /// Its base is being written.
    Snapshotting,
    /// Its base is there, and what that names on a device is copied.
    Copying,
    /// Its base is there, and the log behind it grows.
    Incrementing,
    /// Its files are complete.
    Sealed,
    /// It has failed, or was given up.
    Failed,
}

impl BackupState {
    /// As BACKUP STATUS names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Pending => "pending",
            Self::Snapshotting | Self::Copying => "snapshotting",
            Self::Incrementing => "incrementing",
            Self::Sealed => "sealed",
            Self::Failed => "failed",
        }
    }

    /// Whether it is under way.
    #[must_use]
    pub fn is_begun(self) -> bool {
        matches!(self, Self::Pending | Self::Snapshotting) || self.has_base()
    }

    /// Whether it has its base, and needs the log behind that.
    fn has_base(self) -> bool {
        matches!(self, Self::Copying | Self::Incrementing)
    }
}

/// The directory of backups, which sessions look at, and the workers, which hear of their ends.
pub trait BackupFiles: Send + Sync {
    /// Why no backup can be begun in it.
    ///
    /// # Errors
    /// With the reason.
    fn check(&self) -> Result<(), String>;

    /// Removes the files of a backup.
    ///
    /// # Errors
    /// With the reason.
    fn clear(&self) -> Result<(), String>;

    /// The backup that is uploaded is to be no more, over a restart, too.
    ///
    /// # Errors
    /// With the reason.
    fn give_up(&self) -> Result<(), String>;

    /// Tells the worker of a client that there is an answer for it ([`Backups::take_answer`]).
    fn tell(&self, client: Sealer);
}

/// A client that waits until a backup is sealed, and the worker of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealer {
    /// The client.
    pub id: u64,
    /// Its worker.
    pub worker: usize,
}

/// What BACKUP STATUS and LIST tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupFigures {
    /// How far it is.
    pub state: BackupState,
    /// Why it has failed; empty if it has not.
    pub error: String,
    /// When it was begun, Unix seconds; 0: none was.
    pub start_s: i64,
    /// When it was sealed, Unix seconds; 0: it was not.
    pub end_s: i64,
    /// Its files that nothing changes any more.
    pub files: Vec<PathBuf>,
}

/// A backup that is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sealed {
    /// Files that it has besides.
    pub files: Vec<PathBuf>,
    /// The name that it is to have in object storage; none: it is not to be there.
    pub upload: Option<String>,
}

/// See the module.
#[derive(Default)]
pub struct Backups {
    /// Held while files are made, looked at or removed, as long as that takes; the state's mutex is not, and is taken behind this.
    files_are_used: Mutex<()>,
    state: Mutex<State>,
    files: OnceLock<Box<dyn BackupFiles>>,
    /// Those that are sealed, on their way to object storage.
    pub uploads: Uploads,
}

#[derive(Default)]
struct State {
    figures: BackupFigures,
    /// Clients that wait for its end, with the answer once there is one and until it is taken.
    sealers: Vec<(Sealer, Option<Result<(), String>>)>,
    /// The log may get further bases meanwhile, for its files are kept.
    keeps_files: bool,
    /// Backups that were begun: what belongs to one that was given up is known by it.
    number: u64,
}

impl std::fmt::Debug for Backups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backups").field("figures", &self.figures()).finish_non_exhaustive()
    }
}

impl Backups {
    /// Their directory. Once, before there are clients.
    pub fn install(&self, files: Box<dyn BackupFiles>) {
        let _ = self.files.set(files);
    }

    /// Begins one. The thread that writes bases is to be woken then.
    ///
    /// # Errors
    /// With the reason why there can be none.
    pub fn start(&self) -> Result<(), String> {
        let refuse = |now: BackupState, how: &str| Err(format!("a backup is {} already: {how} ends it", now.name()));
        let check_begun = || {
            let now = self.state().figures.state;
            if now.is_begun() { refuse(now, "BACKUP SEAL or BACKUP ABORT") } else { Ok(()) }
        };
        // At once, where the thread that makes files has their mutex: a worker is not to wait for that.
        check_begun()?;
        let _used = self.use_files();
        self.uploads.check()?;
        check_begun()?;
        if self.state().figures.state == BackupState::Sealed {
            return refuse(BackupState::Sealed, "BACKUP CLEANUP");
        }
        self.files()?.check()?;
        let mut state = self.state();
        // What was not taken is of an earlier one.
        state.sealers.clear();
        state.number += 1;
        state.figures = BackupFigures { state: BackupState::Pending, start_s: clock::unix_ms() / 1000, ..BackupFigures::default() };
        Ok(())
    }

    /// One that an earlier process has sealed is there, and is uploaded from now on under this name. Before there are clients.
    pub fn resume(&self, name: String, files: Vec<PathBuf>, (start_s, end_s): (i64, i64)) {
        let error = String::new();
        self.state().figures = BackupFigures { state: BackupState::Sealed, error, start_s, end_s, files };
        self.uploads.begin(name);
    }

    /// One is to be ended with a complete set of files. The client is told when it is ([`BackupFiles::tell`]); asking again until
    /// it has taken its answer changes nothing. `wake` wakes the thread that does it.
    ///
    /// # Errors
    /// When there is none to be ended.
    pub fn ask_to_seal(&self, client: Sealer, wake: impl FnOnce()) -> Result<(), String> {
        let mut state = self.state();
        if state.sealers.iter().any(|(sealer, _)| *sealer == client) {
            return Ok(());
        }
        match state.figures.state {
            BackupState::Incrementing => {}
            BackupState::Pending | BackupState::Snapshotting | BackupState::Copying => {
                return Err("the base of the backup is not written yet: BACKUP STATUS tells when it is".to_owned());
            }
            BackupState::Idle | BackupState::Sealed | BackupState::Failed => return Err("no backup is in progress".to_owned()),
        }
        state.sealers.push((client, None));
        drop(state);
        wake();
        Ok(())
    }

    /// Takes what a client is answered that has asked: that the backup is sealed, or why it is not.
    #[must_use]
    pub fn take_answer(&self, client: u64) -> Option<Result<(), String>> {
        let sealers = &mut self.state().sealers;
        let place = sealers.iter().position(|(sealer, answer)| sealer.id == client && answer.is_some())?;
        sealers.swap_remove(place).1
    }

    /// Answers the clients that wait.
    fn answer(&self, state: &mut State, answer: &Result<(), String>) {
        for (client, unanswered) in state.sealers.iter_mut().filter(|(_, before)| before.is_none()) {
            *unanswered = Some(answer.clone());
            let _ = self.files().map(|files| files.tell(*client));
        }
    }

    /// Gives one up that is not sealed, or the upload of one that is. True: its base is being written, which is to be ended.
    ///
    /// # Errors
    /// When there is none, or it cannot be noted.
    pub fn abort(&self) -> Result<bool, String> {
        let _used = self.use_files();
        if self.uploads.is_any() {
            self.files()?.give_up()?;
            return self.uploads.give_up().map(|()| false);
        }
        let mut state = self.state();
        if !state.figures.state.is_begun() {
            return Err("no backup is in progress".to_owned());
        }
        let writes = state.figures.state == BackupState::Snapshotting;
        self.fail_with(&mut state, "it was aborted by BACKUP ABORT");
        drop(state);
        self.files()?.clear()?;
        Ok(writes)
    }

    /// Removes one that is sealed or has failed, and what an earlier process has left.
    ///
    /// # Errors
    /// When one is under way, or its files cannot be removed.
    pub fn clean(&self) -> Result<(), String> {
        let check_begun = || {
            let is_begun = self.state().figures.state.is_begun();
            if is_begun { Err("a backup is in progress: BACKUP ABORT gives it up".to_owned()) } else { Ok(()) }
        };
        // At once, as in `start`.
        check_begun()?;
        let _used = self.use_files();
        check_begun()?;
        self.uploads.check()?;
        self.files()?.clear()?;
        self.state().figures = BackupFigures::default();
        self.uploads.forget();
        Ok(())
    }

    /// Removes a sealed one after this time, in seconds; 0: never. In what time it would.
    pub fn clean_after(&self, seconds: u64) -> Option<Duration> {
        let figures = self.figures();
        // The uploader wakes the thread when it is done.
        if seconds == 0 || figures.state != BackupState::Sealed || self.uploads.is_any() {
            return None;
        }
        let passed_s = u64::try_from(clock::unix_ms() / 1000 - figures.end_s).unwrap_or(0);
        if passed_s < seconds {
            return Some(Duration::from_secs(seconds - passed_s));
        }
        // What cannot be removed now is tried again.
        self.clean().is_err().then_some(RETRY)
    }

    /// Whether one waits for its base. For the thread that writes bases, as all below.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.state().figures.state == BackupState::Pending
    }

    /// Whether the log may not be rewritten, because its files belong to one.
    #[must_use]
    pub fn holds_log(&self) -> bool {
        let state = self.state();
        state.figures.state.has_base() && !state.keeps_files
    }

    /// Whether one has its base and needs the log behind that.
    #[must_use]
    pub fn needs_log(&self) -> bool {
        self.state().figures.state.has_base()
    }

    /// Whether what the base of one names on a device is being copied.
    #[must_use]
    pub fn copies(&self) -> bool {
        self.state().figures.state == BackupState::Copying
    }

    /// The base that is written now is that of the pending one, if there is one. Its number.
    #[must_use]
    pub fn begin(&self) -> Option<u64> {
        let mut state = self.state();
        (state.figures.state == BackupState::Pending).then(|| {
            state.figures.state = BackupState::Snapshotting;
            state.keeps_files = false;
            state.number
        })
    }

    /// The base of this one is there, in files that `pin` makes. `copies`: what it names on a device is to be copied. Not if it was
    /// given up.
    pub fn pin(&self, number: u64, copies: bool, pin: impl FnOnce() -> Result<Vec<PathBuf>, String>) {
        if copies {
            self.state().keeps_files = true;
        }
        let next = if copies { BackupState::Copying } else { BackupState::Incrementing };
        self.go_on(number, BackupState::Snapshotting, next, pin);
    }

    /// That is copied, to these files; or why it could not be. Then nothing of the backup stays: it may have filled the disk.
    pub fn copied(&self, number: u64, copied: Result<Vec<PathBuf>, String>) {
        let failed = copied.is_err();
        self.go_on(number, BackupState::Copying, BackupState::Incrementing, || copied);
        let _used = self.use_files();
        let is_this = |state: &State| state.number == number && state.figures.state == BackupState::Failed;
        if failed && is_this(&self.state()) {
            let _ = self.files().and_then(BackupFiles::clear);
        }
    }

    /// A base of the log is about to be named: the one that is under way takes the names of the files that it needs of those
    /// before.
    pub fn keep(&self, keep: impl FnOnce() -> Result<Vec<PathBuf>, String>) {
        let _used = self.use_files();
        if !self.needs_log() {
            return;
        }
        let kept = keep();
        let mut state = self.state();
        match kept {
            Ok(files) => state.figures.files.extend(files),
            Err(why) => self.fail_with(&mut state, &why),
        }
    }

    /// Whether a client asks for the end of the one that is under way; its number then.
    #[must_use]
    pub fn asked_to_seal(&self) -> Option<u64> {
        let state = self.state();
        let is_asked = state.sealers.iter().any(|(_, answer)| answer.is_none());
        (is_asked && state.figures.state == BackupState::Incrementing).then_some(state.number)
    }

    /// That one is complete, with what `seal` makes. Not if it was given up.
    pub fn end(&self, number: u64, seal: impl FnOnce() -> Result<Sealed, String>) {
        self.go_on_with(number, BackupState::Incrementing, BackupState::Sealed, seal);
        self.uploads.wake();
    }

    /// Goes from one state to the next with the files that `make` makes.
    fn go_on(&self, number: u64, from: BackupState, to: BackupState, make: impl FnOnce() -> Result<Vec<PathBuf>, String>) {
        self.go_on_with(number, from, to, || make().map(|files| Sealed { files, upload: None }));
    }

    fn go_on_with(&self, number: u64, from: BackupState, to: BackupState, make: impl FnOnce() -> Result<Sealed, String>) {
        let _used = self.use_files();
        let is_there = |state: &State| state.number == number && state.figures.state == from;
        if !is_there(&self.state()) {
            return;
        }
        let made = make();
        let mut state = self.state();
        debug_assert!(is_there(&state), "it is given up with the mutex of the files, or by the thread that makes them");
        match made {
            Ok(Sealed { files, upload }) => {
                upload.into_iter().for_each(|name| self.uploads.begin(name));
                let figures = &mut state.figures;
                figures.files.extend(files);
                figures.state = to;
                if to == BackupState::Sealed {
                    figures.end_s = clock::unix_ms() / 1000;
                    self.answer(&mut state, &Ok(()));
                }
            }
            Err(why) => self.fail_with(&mut state, &why),
        }
    }

    /// The one that is under way cannot be completed.
    pub fn fail(&self, why: &str) {
        let mut state = self.state();
        if state.figures.state.is_begun() {
            self.fail_with(&mut state, why);
        }
    }

    fn fail_with(&self, state: &mut State, why: &str) {
        let figures = &mut state.figures;
        (figures.state, figures.error) = (BackupState::Failed, why.to_owned());
        figures.files.clear();
        self.answer(state, &Err(why.to_owned()));
    }

    /// What is told of it.
    #[must_use]
    pub fn figures(&self) -> BackupFigures {
        self.state().figures.clone()
    }

    fn use_files(&self) -> MutexGuard<'_, ()> {
        self.files_are_used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self) -> Result<&dyn BackupFiles, String> {
        self.files.get().map(|files| &**files).ok_or_else(|| "this server takes no backups".to_owned())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
