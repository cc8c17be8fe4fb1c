//! Libraries of functions: their texts, and the one machine that has all of them.
//!
//! Functions may change what their library keeps between calls, so there is one instance of it: it lives in one machine, which
//! goes to the worker that runs such a function. These run alone, so none waits for it. A library that keeps nothing is loaded
//! once more by each worker that calls it, and its functions run beside others.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, OnceLock, PoisonError};

use almandine_io::entropy;
use almandine_io::sync::{Mutex, MutexGuard};
use hashbrown::HashMap;

use crate::ScriptError;
use crate::engine::register::{Registered, compile_library};
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
        for code in codes {
            state.add(&mut set, code, clash, memory_limit)?;
        }
        state.set = set;
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
    pub fn give_engine(&self, engine: Box<Engine>) {
        let mut state = self.lock();
        state.machine_bytes = engine.memory_used();
        (state.engine, state.in_use) = (Some(engine), false);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
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
        let library = Arc::new(LibraryCode { number: self.loaded, proto });
        let keeps_nothing = registered.iter().all(|registered| engine.keeps_nothing(registered.callback));
        let functions = registered.into_iter().enumerate().map(|(place, registered)| {
            let Registered { name, callback, flags, description } = registered;
            let sole = library.proto.sole_call_of(&name);
            let (library, footprint) = (Arc::clone(&library), OnceLock::new());
            Arc::new(Function { name, flags, description, callback, library, place, keeps_nothing, sole, footprint })
        });
        set.insert(name.clone(), Library { code: code.into(), functions: functions.collect() });
        Ok(name)
    }
}

impl Set {
    /// Puts a library in the place of the one of its name.
    fn insert(&mut self, name: Vec<u8>, library: Library) {
        self.remove(&name);
        let functions = library.functions.iter();
        self.functions.extend(functions.map(|function| (function.name.to_ascii_lowercase(), Arc::clone(function))));
        self.bytes += library.code.len();
        self.libraries.insert(name, library);
    }

    /// Removes a library; false if there is none of the name.
    fn remove(&mut self, name: &[u8]) -> bool {
        let Some(library) = self.libraries.remove(name) else { return false };
        for function in &library.functions {
            self.functions.remove(&function.name.to_ascii_lowercase());
        }
        self.bytes -= library.code.len();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 16 << 20;

    fn library(name: &str, function: &str) -> Vec<u8> {
        format!("#!lua name={name}\nredis.register_function('{function}', function(keys, args) return keys[1] end)").into_bytes()
    }

    #[test]
    fn libraries_come_whole_or_not_at_all() {
        let libraries = Libraries::default();
        assert_eq!(libraries.load(&library("one", "f"), false, LIMIT).unwrap().0, b"one");
        assert!(libraries.find(b"F").is_some() && libraries.find(b"g").is_none());
        let refused = libraries.load(&library("one", "g"), false, LIMIT).unwrap_err();
        assert_eq!(refused.0, b"ERR Library 'one' already exists");
        let refused = libraries.load(&library("two", "f"), false, LIMIT).unwrap_err();
        assert_eq!(refused.0, b"ERR Function f already exists");
        assert!(libraries.load(&library("one", "g"), true, LIMIT).is_ok());
        assert!(libraries.find(b"f").is_none() && libraries.find(b"g").is_some());
        let both = [library("three", "h"), library("four", "g")];
        assert!(libraries.restore(&both, RestorePolicy::Append, LIMIT).is_err() && libraries.totals().0 == 1);
        assert!(libraries.restore(&both, RestorePolicy::Flush, LIMIT).is_ok());
        assert_eq!((libraries.totals().0, libraries.totals().1), (2, 2));
        assert!(libraries.delete(b"four").is_some() && libraries.delete(b"four").is_none() && libraries.find(b"g").is_none());
        let (version, texts) = libraries.texts();
        assert_eq!(texts, [library("three", "h")]);
        libraries.flush();
        assert_eq!((libraries.totals(), libraries.texts()), ((0, 0, 0), (version + 1, vec![])));
        libraries.go_on_from(100);
        assert!(libraries.load(&library("one", "f"), false, LIMIT).is_ok() && libraries.texts().0 == 101);
    }

    /// As long as a change may be in the log before the one that it follows, the next one says which libraries there are.
    #[test]
    fn a_change_is_logged_alone_where_the_log_has_all_before() {
        use ChangeKind::{Any, Deleted, Loaded};
        let libraries = Libraries::default();
        let load = |name: &str| libraries.load(&library(name, name), true, LIMIT).unwrap().1;
        let logged = |change: LibraryChange| {
            libraries.logged(change.version);
            change.kind
        };
        assert_eq!(logged(load("one")), Any, "there were none: nothing says their version");
        assert_eq!((logged(load("two")), logged(libraries.delete(b"one").unwrap())), (Loaded, Deleted));
        let (before, behind) = (load("three"), load("four"));
        assert_eq!((before.kind, behind.kind), (Loaded, Any), "the one before is not in the log");
        assert_eq!((logged(before), load("five").kind, logged(behind)), (Loaded, Any, Any));
        assert_eq!(load("six").kind, Any, "the fifth is not in the log");
        libraries.logged(libraries.texts().0);
        let restored = libraries.restore(&[library("seven", "g")], RestorePolicy::Append, LIMIT).unwrap();
        assert_eq!((logged(restored), restored.version), (Loaded, libraries.texts().0));
        assert_eq!(libraries.restore(&[library("a", "b")], RestorePolicy::Flush, LIMIT).unwrap().kind, Any);
        assert_eq!(logged(libraries.flush().unwrap()), Any);
        libraries.go_on_from(100);
        assert_eq!((load("one").kind, libraries.texts().0), (Any, 101));
    }

    #[test]
    fn libraries_are_told_apart_by_whether_they_keep_anything() {
        let libraries = Libraries::default();
        for (number, (code, keeps_nothing)) in [
            ("redis.register_function('f', function(keys) return keys[1] end)", true),
            (
                "local most = 3 local function g(n) return n + most end redis.register_function('f', function() return g(1) end)",
                true,
            ),
            ("local s = string redis.register_function('f', function() return s.rep('x', 3) end)", true),
            ("redis.register_function('f', function() local n = 0 local function up() n = n + 1 end up() return n end)", true),
            ("local n = 0 redis.register_function('f', function() n = n + 1 return n end)", false),
            ("local t = {} redis.register_function('f', function() t[1] = 1 return #t end)", false),
            ("local n = 0 local function up() n = n + 1 end redis.register_function('f', function() up() return n end)", false),
            ("local t = {} local function g() return t end redis.register_function('f', function() g()[1] = 1 end)", false),
            ("local w = string.gmatch('a b', '%a') redis.register_function('f', function() return w() end)", false),
        ]
        .into_iter()
        .enumerate()
        {
            let before = libraries.generation();
            let loaded = libraries.load(format!("#!lua name=one\n{code}").as_bytes(), number > 0, LIMIT);
            assert_eq!(loaded.unwrap().0, b"one", "{code}");
            assert_eq!(libraries.find(b"f").unwrap().keeps_nothing, keeps_nothing, "{code}");
            assert_ne!(libraries.generation(), before);
        }
    }

    #[test]
    fn what_never_ends_is_not_loaded() {
        let libraries = Libraries::default();
        let refused = libraries.load(b"#!lua name=a\nwhile true do end", false, LIMIT).unwrap_err();
        assert_eq!(refused.0, b"ERR FUNCTION LOAD timeout");
        assert!(libraries.load(&library("a", "f"), false, LIMIT).is_ok());
    }
}
