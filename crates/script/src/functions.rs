//! Libraries of functions: their texts, and the one machine that runs them.
//!
//! Functions may change what their library keeps between calls, so there is one instance of each: all libraries live in one
//! machine, which goes to the worker that runs a function. Functions run alone, so none waits for it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use almandine_io::entropy;
use almandine_io::sync::{Mutex, MutexGuard};
use hashbrown::HashMap;

use crate::ScriptError;
use crate::engine::{Engine, EngineOptions};
use crate::program::Function;
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
    libraries: BTreeMap<Vec<u8>, Library>,
    /// By their names in lower case.
    functions: Functions,
    engine: Option<Box<Engine>>,
    /// A worker runs a function.
    in_use: bool,
    /// Grows with each change.
    version: u64,
}

/// The libraries of a server.
#[derive(Debug, Default)]
pub struct Libraries {
    state: Mutex<State>,
}

impl Libraries {
    /// Loads a library. Returns its name.
    ///
    /// # Errors
    /// When it is none, or there is one of its name, or a function of another library has the name of one of its functions; then
    /// nothing has changed.
    pub fn load(&self, code: &[u8], replace: bool, memory_limit: usize) -> Result<Vec<u8>, ScriptError> {
        let state = &mut *self.lock();
        let mut libraries = state.libraries.clone();
        let clash = if replace { Clash::Replace } else { Clash::Refuse };
        let name = state.add(&mut libraries, code, clash, memory_limit)?;
        state.take_over(libraries);
        Ok(name)
    }

    /// Loads several libraries, or none.
    ///
    /// # Errors
    /// For the reasons for which one is not loaded.
    pub fn restore(&self, codes: &[Vec<u8>], policy: RestorePolicy, memory_limit: usize) -> Result<(), ScriptError> {
        let state = &mut *self.lock();
        let mut libraries = if policy == RestorePolicy::Flush { BTreeMap::new() } else { state.libraries.clone() };
        let clash = if policy == RestorePolicy::Replace { Clash::Replace } else { Clash::RefuseRestored };
        for code in codes {
            state.add(&mut libraries, code, clash, memory_limit)?;
        }
        state.take_over(libraries);
        Ok(())
    }

    /// Removes a library; false if there is none of the name.
    pub fn delete(&self, name: &[u8]) -> bool {
        let state = &mut *self.lock();
        let mut libraries = std::mem::take(&mut state.libraries);
        let removed = libraries.remove(name).is_some();
        state.take_over(libraries);
        removed
    }

    /// Removes all libraries.
    pub fn flush(&self) {
        let mut state = self.lock();
        if !state.in_use {
            *state = State { version: state.version + 1, ..State::default() };
        }
    }

    /// The function of a name.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<Arc<Function>> {
        self.lock().functions.get(&name.to_ascii_lowercase()).cloned()
    }

    /// All libraries by their names.
    #[must_use]
    pub fn all(&self) -> Vec<(Vec<u8>, Library)> {
        self.lock().libraries.iter().map(|(name, library)| (name.clone(), library.clone())).collect()
    }

    /// The texts of all libraries, and a number that grows with each change.
    #[must_use]
    pub fn texts(&self) -> (u64, Vec<Vec<u8>>) {
        let state = self.lock();
        (state.version, state.libraries.values().map(|library| library.code.to_vec()).collect())
    }

    /// What changes from now on has greater numbers than this one.
    pub fn go_on_from(&self, version: u64) {
        let mut state = self.lock();
        state.version = state.version.max(version);
    }

    /// How many libraries and functions there are, and the bytes of their texts.
    #[must_use]
    pub fn totals(&self) -> (usize, usize, usize) {
        let state = self.lock();
        (state.libraries.len(), state.functions.len(), state.libraries.values().map(|library| library.code.len()).sum())
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
        (state.engine, state.in_use) = (Some(engine), false);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Adds a library to those that are to be.
    fn add(
        &mut self,
        libraries: &mut BTreeMap<Vec<u8>, Library>,
        code: &[u8],
        clash: Clash,
        memory_limit: usize,
    ) -> Result<Vec<u8>, ScriptError> {
        if self.in_use {
            return Err(ScriptError::new(
                "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.",
            ));
        }
        let (name, body) = shebang::of_library(code)?;
        if clash != Clash::Replace && libraries.contains_key(&name) {
            let quote = if clash == Clash::Refuse { "'" } else { "" };
            return Err(ScriptError::quoting(&format!("ERR Library {quote}"), &name, &format!("{quote} already exists")));
        }
        let engine = self
            .engine
            .get_or_insert_with(|| Box::new(Engine::new(EngineOptions { seed: entropy::seed(), memory_limit, deprecated: false })));
        let registered = engine.load_library(body)?;
        let others = || libraries.iter().filter(|(other, _)| **other != name).flat_map(|(_, library)| &library.functions);
        for function in &registered {
            if others().any(|other| other.name.eq_ignore_ascii_case(&function.name)) {
                return Err(ScriptError::quoting("ERR Function ", &function.name, " already exists"));
            }
        }
        let functions = registered.into_iter().map(|registered| {
            let (name, flags, description) = (registered.name, registered.flags, registered.description);
            Arc::new(Function { name, flags, description, callback: registered.callback })
        });
        libraries.insert(name.clone(), Library { code: code.into(), functions: functions.collect() });
        Ok(name)
    }

    fn take_over(&mut self, libraries: BTreeMap<Vec<u8>, Library>) {
        let all = libraries.values().flat_map(|library| &library.functions);
        self.functions = all.map(|function| (function.name.to_ascii_lowercase(), Arc::clone(function))).collect();
        self.libraries = libraries;
        self.version += 1;
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
        assert_eq!(libraries.load(&library("one", "f"), false, LIMIT), Ok(b"one".to_vec()));
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
        assert!(libraries.delete(b"four") && !libraries.delete(b"four") && libraries.find(b"g").is_none());
        let (version, texts) = libraries.texts();
        assert_eq!(texts, [library("three", "h")]);
        libraries.flush();
        assert_eq!((libraries.totals(), libraries.texts()), ((0, 0, 0), (version + 1, vec![])));
        libraries.go_on_from(100);
        assert!(libraries.load(&library("one", "f"), false, LIMIT).is_ok() && libraries.texts().0 == 101);
    }

    #[test]
    fn what_never_ends_is_not_loaded() {
        let libraries = Libraries::default();
        let refused = libraries.load(b"#!lua name=a\nwhile true do end", false, LIMIT).unwrap_err();
        assert_eq!(refused.0, b"ERR FUNCTION LOAD timeout");
        assert!(libraries.load(&library("a", "f"), false, LIMIT).is_ok());
    }
}
