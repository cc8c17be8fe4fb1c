//! Segments that are ready before they are needed: a thread of its own makes them, of what the log no longer needs or of zeroes.
//!
//! They are also the reserve for a full disk: what is ready takes no more space when it is written.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use almandine_base::step;
use almandine_io::sync::{Condvar, Mutex, MutexGuard};
use almandine_io::{files, thread};

use crate::directory::{SPARE, UNFINISHED};
use crate::errands::Tell;
use crate::fault::Fault;
use crate::segment::fill;

/// Segments that are kept ready for a log that fills them.
pub(crate) const READY: usize = 2;
/// How long it waits before it tries again.
const PAUSE: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Spares {
    shared: Arc<Shared>,
    /// Segments that are to be ready.
    wanted: usize,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
    /// Called when one is ready, or cannot be made.
    tell: Tell,
}

/// Takes files that the log gives up.
pub(crate) struct Recycler(Arc<Shared>);

#[derive(Debug, Default)]
struct State {
    /// Of each, those that are ready.
    bytes: u64,
    ready: Vec<PathBuf>,
    /// As many are made, and one while the log waits for it.
    wanted: usize,
    waits: bool,
    /// Their zeroes are written, and not only reserved.
    writes_zeroes: bool,
    /// The number of the next one.
    next: u64,
    /// How often one was begun.
    tries: u64,
    /// None could be made, by the try of this number.
    failure: Option<(u64, Fault)>,
    stops: bool,
}

impl Spares {
    /// Starts with what an earlier run has left, and makes none before it is waited for or [wanted](Self::want).
    pub(crate) fn start(directory: &Path, (bytes, writes_zeroes): (u64, bool), tell: Tell) -> Result<Self, Fault> {
        let mut state = State { bytes, writes_zeroes, ..State::default() };
        for name in files::names(directory).map_err(|error| Fault::io("list", directory, error))? {
            let Some(number) = name.strip_prefix(SPARE).and_then(|number| number.parse::<u64>().ok()) else { continue };
            state.next = state.next.max(number + 1);
            let path = directory.join(name);
            // One of another size was made before the size of segments was changed.
            if state.ready.len() < READY && length(&path)? == bytes {
                state.ready.push(path);
            } else {
                files::remove(&path).map_err(|error| Fault::io("remove", &path, error))?;
            }
        }
        let directory = directory.to_owned();
        let shared = Arc::new(Shared { directory, state: Mutex::new(state), changed: Condvar::new(), tell });
        let own = Arc::clone(&shared);
        let thread = thread::spawn("log-spare", move || own.run())
            .map_err(|error| Fault::io("start a thread for", &shared.directory, error))?;
        Ok(Self { shared, wanted: 0, thread: Some(thread) })
    }

    /// Has at least this many kept ready from now on, at most [`READY`].
    pub(crate) fn want(&mut self, wanted: usize) {
        if wanted > self.wanted {
            debug_assert!(wanted <= READY, "what is ready beyond that is removed by the next start");
            self.wanted = wanted;
            self.shared.state().wanted = wanted;
            self.shared.changed.notify_all();
        }
    }

    /// Whether the zeroes of those that are made from now on are written.
    pub(crate) fn write_zeroes(&self, written: bool) {
        self.shared.state().writes_zeroes = written;
    }

    /// The size of those that the log gets from now on. Those that are ready are made anew.
    pub(crate) fn set_bytes(&self, bytes: u64) {
        let mut state = self.shared.state();
        if state.bytes != bytes {
            (state.bytes, state.failure) = (bytes, None);
            // What cannot be removed goes with the next start.
            state.ready.drain(..).for_each(|path| _ = files::remove(&path));
            self.shared.changed.notify_all();
        }
    }

    /// Drops those that are ready, because of what they held before.
    pub(crate) fn discard(&self) {
        let mut state = self.shared.state();
        state.ready.drain(..).for_each(|path| _ = files::remove(&path));
        self.shared.changed.notify_all();
    }

    /// Waits for one and says its bytes, unless it cannot be made. A failure of before says nothing of the disk now: there is a new
    /// try.
    pub(crate) fn wait(&self) -> Result<(PathBuf, u64), Fault> {
        let mut state = self.shared.state();
        let before = state.tries;
        loop {
            if let Some(spare) = state.ready.pop() {
                state.waits = false;
                self.shared.changed.notify_all();
                return Ok((spare, state.bytes));
            }
            state.waits = true;
            if let Some((_, failure)) = state.failure.as_ref().filter(|(number, _)| *number > before) {
                let error = std::io::Error::other(failure.to_string());
                return Err(Fault::io("have a further segment ready in", &self.shared.directory, error));
            }
            state.failure = None;
            self.shared.changed.notify_all();
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// One that is ready, and its bytes.
    pub(crate) fn take(&self) -> Option<(PathBuf, u64)> {
        let mut state = self.shared.state();
        let spare = state.ready.pop()?;
        self.shared.changed.notify_all();
        Some((spare, state.bytes))
    }

    /// Whether none is ready because none could be made.
    pub(crate) fn is_out(&self) -> bool {
        let state = self.shared.state();
        state.ready.is_empty() && state.failure.is_some()
    }

    /// For files that the log gives up.
    pub(crate) fn recycler(&self) -> Recycler {
        Recycler(Arc::clone(&self.shared))
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        self.shared.state().stops = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Recycler {
    /// A file of the log that is not needed any more. One that has another name, in a backup, is not written again.
    pub(crate) fn recycle(&self, path: &Path) -> Result<(), Fault> {
        let names = files::links(path).map_err(|error| Fault::io("look at", path, error))?;
        let is_free = step!(KeepLinked, names == 1, else true);
        let mut state = self.0.state();
        let is_wanted = is_free && state.ready.len() < READY && length(path)? == state.bytes;
        if !is_wanted {
            return files::remove(path).map_err(|error| Fault::io("remove", path, error));
        }
        let spare = state.name(&self.0.directory);
        files::rename(path, &spare).map_err(|error| Fault::io("rename", path, error))?;
        state.ready.push(spare);
        // The log may wait for one.
        self.0.changed.notify_all();
        Ok(())
    }
}

impl State {
    fn name(&mut self, directory: &Path) -> PathBuf {
        self.next += 1;
        directory.join(format!("{SPARE}{}", self.next - 1))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let (spare, bytes, writes_zeroes) = {
                let mut state = self.state();
                while !state.stops && state.ready.len() >= state.wanted.max(usize::from(state.waits)) {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                if state.stops {
                    return;
                }
                state.tries += 1;
                (state.name(&self.directory), state.bytes, state.writes_zeroes)
            };
            let made = self.make(&spare, bytes, writes_zeroes);
            let mut state = self.state();
            match made {
                // Another size was asked for meanwhile.
                _ if state.bytes != bytes => _ = files::remove(&spare),
                Ok(()) => {
                    state.ready.push(spare);
                    state.failure = None;
                }
                Err(failure) => state.failure = Some((state.tries, failure)),
            }
            let failed = state.failure.is_some();
            self.changed.notify_all();
            drop(state);
            self.tell.call();
            if failed {
                let state = self.state();
                drop(self.changed.wait_timeout_while(state, PAUSE, |state| !state.stops && state.failure.is_some()));
            }
        }
    }

    fn make(&self, spare: &Path, bytes: u64, writes_zeroes: bool) -> Result<(), Fault> {
        let mut name = spare.as_os_str().to_owned();
        name.push(UNFINISHED);
        let unfinished = PathBuf::from(name);
        let made = fill(&unfinished, bytes, writes_zeroes)
            .and_then(|()| files::rename(&unfinished, spare).map_err(|error| Fault::io("rename", &unfinished, error)));
        if made.is_err() {
            // What it takes may be what the rest of the server lacks.
            let _ = files::remove(&unfinished);
        }
        made
    }
}

fn length(path: &Path) -> Result<u64, Fault> {
    let file = almandine_io::file::open(path, false).map_err(|error| Fault::io("open", path, error))?;
    file.len().map_err(|error| Fault::io("look at", path, error))
}

#[cfg(all(test, not(feature = "sim")))]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_waited_for_is_tried_when_the_disk_is_sound_again() {
        let directory = std::env::temp_dir().join(format!("almandine-spare-{}", std::process::id()));
        files::make_directories(&directory).unwrap();
        let spares = Spares::start(&directory, (1 << 20, false), Tell::new(|| ())).unwrap();
        for _ in 0..3 {
            std::fs::remove_dir_all(&directory).unwrap();
            assert!(spares.wait().is_err() && spares.is_out());
            files::make_directories(&directory).unwrap();
            let (path, bytes) = spares.wait().unwrap();
            assert_eq!((length(&path).unwrap(), bytes, spares.is_out()), (1 << 20, 1 << 20, false));
        }
        drop(spares);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
