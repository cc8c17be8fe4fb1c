//! Libraries of functions: their texts, and the one machine that has all of them.
//!
//! Functions may change what their library keeps between calls, so there is one instance of it: it lives in one machine, which
//! goes to the worker that runs such a function. These run alone, so none waits for it. A library that keeps nothing is loaded
//! once more by each worker that calls it, and its functions run beside others.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, OnceLock, PoisonError};

use almandine_io::entropy;
use almandine_io::sync::{Mutex, MutexGuard};
use hashbrown::{HashMap, HashSet};

use crate::ScriptError;
use crate::engine::register::{LITTER_BYTES, Registered, compile_library};
use crate::engine::{Engine, EngineOptions};
use crate::program::{Function, LibraryCode};
use crate::shebang;

/// A library.
#[derive(Clone, Debug)]
pub struct Library {
    /// Its text, with the first line.
    pub code: Arc<[u8]>,
    /// Its functions, in the order in which they were registered.
    pub functions: Vec<Arc<Function>>,
}

/// What becomes of the libraries that there are when others are restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePolicy {
    /// They stay; one of the same name is an error.
    Append,
    /// One of the same name is replaced.
    Replace,
    /// All of them go.
    Flush,
}

/// What becomes of a library whose name another one has; the words of a refusal are not the same for RESTORE.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clash {
    Replace,
    Refuse,
    RefuseRestored,
}

type Functions = HashMap<Vec<u8>, Arc<Function>, rapidhash::fast::RandomState>;

#[derive(Debug, Default)]
struct State {
    set: Set,
    /// How many libraries have been loaded.
    loaded: u64,
    engine: Option<Box<Engine>>,
    /// Bytes that the machine takes between calls.
    machine_bytes: usize,
    /// Of the texts that it has compiled and that may have been replaced since: their code is not among its bytes.
    text_bytes: usize,
    /// A worker runs a function.
    in_use: bool,
    /// Grows by one with each change.
    version: u64,
    /// All changes up to this one are in the log of writes.
    logged: u64,
    /// Whether there were libraries behind the last change.
    was_any: bool,
}

/// A change of the libraries, for the log of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LibraryChange {
    /// What [`Libraries::texts`] says from this change on until the next.
    pub version: u64,
    /// Which it is.
    pub kind: ChangeKind,
}

/// What has to be logged of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Which libraries there are: all have changed, or it is not known that the log has the change before.
    Any,
    /// Which were loaded, each in place of the one of its name.
    Loaded,
    /// Which were deleted.
    Deleted,
}

/// Libraries and their functions. Adding and removing one costs the same however many others there are.
#[derive(Clone, Debug, Default)]
struct Set {
    libraries: BTreeMap<Vec<u8>, Library>,
    /// By which the machine knows them.
    numbers: HashSet<u64, rapidhash::fast::RandomState>,
    /// By their names in lower case.
    functions: Functions,
    /// Of all texts.
    bytes: usize,
}

/// The libraries of a server.
#[derive(Debug, Default)]
pub struct Libraries {
    state: Mutex<State>,
    /// How often the libraries have changed.
    generation: AtomicU64,
}

impl Libraries {
    /// Loads a library. Returns its name and what has to be logged.
    ///
    /// # Errors
    /// When it is none, or there is one of its name, or a function of another library has the name of one of its functions; then
    /// nothing has changed.
    pub fn load(&self, code: &[u8], replace: bool, memory_limit: usize) -> Result<(Vec<u8>, LibraryChange), ScriptError> {
        let state = &mut *self.lock();
        let mut set = std::mem::take(&mut state.set);
        let clash = if replace { Clash::Replace } else { Clash::Refuse };
        let added = state.add(&mut set, code, clash, memory_limit);
        state.set = set;
        state.tidy_up();
        let name = added?;
        Ok((name, self.changed(state, ChangeKind::Loaded)))
    }

    /// Loads several libraries, or none.
    ///
    /// # Errors
    /// For the reasons for which one is not loaded.
    pub fn restore(&self, codes: &[Vec<u8>], policy: RestorePolicy, memory_limit: usize) -> Result<LibraryChange, ScriptError> {
        let state = &mut *self.lock();
        let (mut set, kind) = match policy {
            RestorePolicy::Flush => (Set::default(), ChangeKind::Any),
            RestorePolicy::Append | RestorePolicy::Replace => (state.set.clone(), ChangeKind::Loaded),
        };
        let clash = if policy == RestorePolicy::Replace { Clash::Replace } else { Clash::RefuseRestored };
        let added = codes.iter().try_for_each(|code| state.add(&mut set, code, clash, memory_limit).map(drop));
        if added.is_ok() {
            state.set = set;
        }
        state.tidy_up();
        added?;
        Ok(self.changed(state, kind))
    }

    /// Removes a library; nothing if there is none of the name.
    pub fn delete(&self, name: &[u8]) -> Option<LibraryChange> {
        let state = &mut *self.lock();
        state.set.remove(name).then(|| self.changed(state, ChangeKind::Deleted))
    }

    /// Removes all libraries; nothing while a function runs.
    pub fn flush(&self) -> Option<LibraryChange> {
        let state = &mut *self.lock();
        if state.in_use {
            return None;
        }
        *state = State { version: state.version, logged: state.logged, loaded: state.loaded, ..State::default() };
        Some(self.changed(state, ChangeKind::Any))
    }

    /// The libraries were changed. Where all changes before are in the log, and it has libraries to change, it suffices to log this
    /// one: what follows from it comes behind it there.
    fn changed(&self, state: &mut State, kind: ChangeKind) -> LibraryChange {
        let follows = state.logged == state.version && state.was_any;
        state.was_any = !state.set.libraries.is_empty();
        state.version += 1;
        self.generation.fetch_add(1, Release);
        LibraryChange { version: state.version, kind: if follows { kind } else { ChangeKind::Any } }
    }

    /// A change is in the log of writes, in the unit of work of a session that has published it, or is alone.
    pub fn logged(&self, version: u64) {
        let mut state = self.lock();
        state.logged = state.logged.max(version);
    }

    /// The function of a name.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<Arc<Function>> {
        self.lock().set.functions.get(&name.to_ascii_lowercase()).cloned()
    }

    /// How often the libraries have changed: what a worker remembers of them holds while it is the same.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }

    /// All libraries by their names.
    #[must_use]
    pub fn all(&self) -> Vec<(Vec<u8>, Library)> {
        self.lock().set.libraries.iter().map(|(name, library)| (name.clone(), library.clone())).collect()
    }

    /// The texts of all libraries, and a number that grows with each change.
    #[must_use]
    pub fn texts(&self) -> (u64, Vec<Vec<u8>>) {
        let state = self.lock();
        (state.version, state.set.libraries.values().map(|library| library.code.to_vec()).collect())
    }

    /// What there is was read from a log, where it has this version.
    pub fn go_on_from(&self, version: u64) {
        let mut state = self.lock();
        state.version = state.version.max(version);
        state.logged = version;
    }

    /// How many libraries and functions there are, and the bytes of their texts.
    #[must_use]
    pub fn totals(&self) -> (usize, usize, usize) {
        let state = self.lock();
        (state.set.libraries.len(), state.set.functions.len(), state.set.bytes)
    }

    /// Bytes that the machine of the libraries takes between calls.
    #[must_use]
    pub fn machine_bytes(&self) -> usize {
        self.lock().machine_bytes
    }

    /// The machine, to run a function; nothing while another worker does.
    #[must_use]
    pub fn take_engine(&self) -> Option<Box<Engine>> {
        let mut state = self.lock();
        let engine = state.engine.take();
        state.in_use |= engine.is_some();
        engine
    }

    /// The function has ended.
    pub fn give_engine(&self, mut engine: Box<Engine>) {
        if engine.is_littered() {
            engine.tidy_up();
        }
        let mut state = self.lock();
        state.machine_bytes = engine.memory_used();
        (state.engine, state.in_use) = (Some(engine), false);
    }

    /// Whether a function's library is there: it is not when it was replaced or removed.
    #[must_use]
    pub fn has(&self, function: &Function) -> bool {
        self.lock().set.numbers.contains(&function.library.number)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Gives the libraries a new machine when most of what is in theirs is likely to be of no use any more.
    fn tidy_up(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        if engine.is_littered() || self.text_bytes > 2 * self.set.bytes + LITTER_BYTES {
            engine.retain(|number| self.set.numbers.contains(&number));
            engine.tidy_up();
            engine.limit_memory();
            self.text_bytes = self.set.bytes;
            self.machine_bytes = engine.memory_used();
        }
    }

    /// Adds a library to a set, which an error leaves as it was.
    fn add(&mut self, set: &mut Set, code: &[u8], clash: Clash, memory_limit: usize) -> Result<Vec<u8>, ScriptError> {
        if self.in_use {
            return Err(ScriptError::new(
                "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.",
            ));
        }
        let (name, body) = shebang::of_library(code)?;
        if clash != Clash::Replace && set.libraries.contains_key(&name) {
            let quote = if clash == Clash::Refuse { "'" } else { "" };
            return Err(ScriptError::quoting(&format!("ERR Library {quote}"), &name, &format!("{quote} already exists")));
        }
        let engine = self
            .engine
            .get_or_insert_with(|| Box::new(Engine::new(EngineOptions { seed: entropy::seed(), memory_limit, deprecated: false })));
        self.text_bytes += code.len();
        let proto = compile_library(body)?;
        let registered = engine.load_library(&proto)?;
        let replaced =
            set.libraries.get(&name).and_then(|library| library.functions.first()).map(|function| function.library.number);
        for function in &registered {
            let other = set.functions.get(&function.name.to_ascii_lowercase());
            if other.is_some_and(|other| Some(other.library.number) != replaced) {
                return Err(ScriptError::quoting("ERR Function ", &function.name, " already exists"));
            }
        }
        self.machine_bytes = engine.memory_used();
        self.loaded += 1;
        engine.adopt(self.loaded, &registered);
        let library = Arc::new(LibraryCode { number: self.loaded, proto });
        let keeps_nothing = registered.iter().all(|registered| engine.keeps_nothing(registered.callback));
        let functions = registered.into_iter().enumerate().map(|(place, registered)| {
            let Registered { name, flags, description, .. } = registered;
            let sole = library.proto.sole_call_of(&name);
            let (library, footprint) = (Arc::clone(&library), OnceLock::new());
            Arc::new(Function { name, flags, description, library, place, keeps_nothing, sole, footprint })
        });
        set.insert(name.clone(), self.loaded, Library { code: code.into(), functions: functions.collect() });
        Ok(name)
    }
}

impl Set {
    /// Puts a library in the place of the one of its name.
    fn insert(&mut self, name: Vec<u8>, number: u64, library: Library) {
        self.remove(&name);
        self.numbers.insert(number);
        let functions = library.functions.iter();
        self.functions.extend(functions.map(|function| (function.name.to_ascii_lowercase(), Arc::clone(function))));
        self.bytes += library.code.len();
        self.libraries.insert(name, library);
    }

    /// Removes a library; false if there is none of the name.
    fn remove(&mut self, name: &[u8]) -> bool {
        let Some(library) = self.libraries.remove(name) else { return false };
        for function in &library.functions {
            self.numbers.remove(&function.library.number);
            self.functions.remove(&function.name.to_ascii_lowercase());
        }
        self.bytes -= library.code.len();
        true
    }
}
