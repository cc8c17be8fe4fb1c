//! The configuration of a running server: read through snapshots, changed as a whole.
//!
//! Readers never wait: they hold a snapshot and compare a generation number to learn of a change. Writers take turns.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use almandine_io::sync::Mutex;
use arc_swap::ArcSwap;

use crate::kind::{Problem, Value};
use crate::missing;
use crate::parameter::{self, Index, Parameter};
use crate::rewrite::{self, Stated};
use crate::settings::Settings;

/// The values of all parameters at one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// Those that have an effect, typed.
    pub settings: Settings,
    values: Vec<Value>,
}

impl Snapshot {
    pub(crate) fn new(values: Vec<Value>) -> Self {
        Self { settings: Settings::of(&values), values }
    }

    /// The value of the parameter called `name` as CONFIG GET writes it.
    #[must_use]
    pub fn show(&self, name: &str) -> Option<String> {
        parameter::lookup(name).map(|(index, parameter)| parameter.kind.show(&self.values[index]))
    }

    /// The parameters that do not have their default and yet have no effect: what the start-up log warns of. An empty `save` asks
    /// for nothing.
    pub fn without_effect(&self) -> impl Iterator<Item = &'static Parameter> {
        let asks = |value: &Value| !matches!(value, Value::Save(points) if points.is_empty());
        let stated = parameter::all().zip(&self.values);
        stated.filter(move |(p, value)| !p.effective && asks(value) && **value != p.default_value()).map(|(parameter, _)| parameter)
    }

    /// The parameters that rely on what does not exist yet: each with its value, and what is missing.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (&'static Parameter, String, &'static str)> {
        parameter::all().zip(&self.values).filter_map(|(parameter, value)| {
            missing::refusal(parameter, value).map(|reason| (parameter, parameter.kind.show(value), reason))
        })
    }

    pub(crate) fn values(&self) -> &[Value] {
        &self.values
    }
}

/// A line of the file that is no parameter: `user`, `rename-command`, `loadmodule`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Its first word, in lower case.
    pub name: &'static str,
    /// The words behind it.
    pub words: Vec<String>,
}

/// What one thread does at a time.
#[derive(Debug, Default)]
struct Change;

/// The configuration.
#[derive(Debug)]
pub struct Config {
    current: ArcSwap<Snapshot>,
    /// Grows with each change, after the snapshot is in place.
    generation: AtomicU64,
    /// Held while the configuration or its file changes, by a thread that is outside of epochs and has no latch.
    writer: Mutex<Change>,
    file: Option<PathBuf>,
    directives: Vec<Directive>,
}

/// A reader's view, refreshed only when something changed: one per thread.
#[derive(Clone, Debug)]
pub struct View {
    generation: u64,
    snapshot: Arc<Snapshot>,
}

impl View {
    /// The view of `config` as it is.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        // The number is read first: a change in between makes the view old, never too new.
        let generation = config.generation();
        Self { generation, snapshot: config.snapshot() }
    }

    /// Follows a change; returns whether there was one. Costs one load when there was none.
    #[inline]
    pub fn refresh(&mut self, config: &Config) -> bool {
        let changed = self.generation != config.generation();
        if changed {
            *self = Self::new(config);
        }
        changed
    }

    /// Whether nothing has changed since.
    #[inline]
    #[must_use]
    pub fn is_current(&self, config: &Config) -> bool {
        self.generation == config.generation()
    }

    /// The settings.
    #[inline]
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.snapshot.settings
    }
}

/// Why CONFIG SET changed nothing. Displays as the error reply without its prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// There is no such parameter.
    Unknown(String),
    /// The parameter cannot have that value, or not now.
    Failed {
        /// The parameter, as the client wrote it.
        name: String,
        /// What is wrong.
        problem: Problem,
    },
}

impl SetError {
    /// A failure of the parameter called `name`.
    #[must_use]
    pub fn failed(name: &str, problem: impl Into<Problem>) -> Self {
        Self::Failed { name: name.to_owned(), problem: problem.into() }
    }
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "Unknown option or number of arguments for CONFIG SET - '{name}'"),
            Self::Failed { name, problem } => {
                write!(f, "CONFIG SET failed (possibly related to argument '{name}') - {problem}")
            }
        }
    }
}

impl std::error::Error for SetError {}

impl Config {
    pub(crate) fn new(values: Vec<Value>, file: Option<PathBuf>, directives: Vec<Directive>) -> Self {
        Self {
            current: ArcSwap::from_pointee(Snapshot::new(values)),
            generation: AtomicU64::new(0),
            writer: Mutex::default(),
            file,
            directives,
        }
    }

    /// The configuration with nothing stated: every parameter has its default.
    #[must_use]
    pub fn defaults() -> Self {
        Self::new(parameter::all().map(Parameter::default_value).collect(), None, Vec::new())
    }

    /// A configuration of the same values. It has no file, and does not change with this one.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self::new(self.snapshot().values.clone(), None, Vec::new())
    }

    /// The values as they are now.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// A number that grows with each change.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The configuration file, as an absolute path.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The lines that are no parameters, in order.
    #[must_use]
    pub fn directives(&self) -> &[Directive] {
        &self.directives
    }

    /// CONFIG GET: name and value of every parameter that matches a pattern, sorted by name, each once. A plain name finds hidden
    /// parameters too.
    /// `glob` says whether a pattern matches a name in lower case; it must ignore case.
    pub fn get<'p>(
        &self,
        patterns: impl IntoIterator<Item = &'p [u8]>,
        glob: impl Fn(&[u8], &[u8]) -> bool,
    ) -> Vec<(&'static str, String)> {
        let snapshot = self.current.load();
        let mut found = std::collections::BTreeMap::new();
        for pattern in patterns {
            let is_glob = pattern.iter().any(|byte| b"*?[\\".contains(byte));
            for (index, parameter) in parameter::all().enumerate() {
                for name in [parameter.name, parameter.alias].into_iter().filter(|name| !name.is_empty()) {
                    let matches = match is_glob {
                        true => !parameter.flags.hidden && glob(pattern, name.as_bytes()),
                        false => name.as_bytes().eq_ignore_ascii_case(pattern),
                    };
                    if matches {
                        found.insert(name, parameter.kind.show(&snapshot.values[index]));
                    }
                }
            }
        }
        found.into_iter().collect()
    }

    /// CONFIG SET: all of `pairs` (name, value) or none. `local` says whether the peer is on this machine.
    ///
    /// `apply` makes the changed parameters effective and is called before anyone sees them. When it fails it is called again with
    /// the settings as
    /// they were. Returns the parameters whose values changed.
    ///
    /// # Errors
    /// The first thing that is wrong, in Redis' words; nothing is changed then.
    pub fn set(
        &self,
        pairs: &[(&[u8], &[u8])],
        local: bool,
        mut apply: impl FnMut(&Settings, &[&'static Parameter]) -> Result<(), SetError>,
    ) -> Result<Vec<&'static Parameter>, SetError> {
        let _turn = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.snapshot();
        let chosen = choose(pairs, &old.settings, local)?;
        let mut values = old.values.clone();
        for ((index, parameter), (name, text)) in chosen.iter().zip(pairs) {
            let failed = |problem| SetError::Failed { name: String::from_utf8_lossy(name).into_owned(), problem };
            let text = std::str::from_utf8(text).map_err(|_| failed("argument is not valid UTF-8".into()))?;
            let words = parameter.kind.words(text);
            values[*index] = parameter.kind.parse(&words, &values[*index]).map_err(failed)?;
            if parameter.flags.immutable && values[*index] != old.values[*index] {
                return Err(failed(IMMUTABLE.into()));
            }
            if let Some(reason) = missing::refusal(parameter, &values[*index]) {
                return Err(failed(reason.into()));
            }
        }
        // What a file holds may have changed under the same name, as in Redis.
        let is_changed =
            |(index, parameter): &&(Index, &'static Parameter)| parameter.names_content() || values[*index] != old.values[*index];
        let changed: Vec<_> = chosen.iter().filter(is_changed).map(|(_, parameter)| *parameter).collect();
        if changed.is_empty() {
            return Ok(changed);
        }
        let new = Snapshot::new(values);
        if let Err(error) = apply(&new.settings, &changed) {
            // What went back before the failure cannot fail to come back; an applier logs it if it does.
            let _ = apply(&old.settings, &changed);
            return Err(error);
        }
        self.current.store(Arc::new(new));
        self.generation.fetch_add(1, Ordering::Release);
        Ok(changed)
    }

    /// CONFIG REWRITE: brings the file in line with the values and with the lines that describe `users`, keeping its comments and
    /// order.
    ///
    /// # Errors
    /// The error reply without its prefix.
    pub fn rewrite(&self, which: Stated, users: &[String]) -> Result<(), String> {
        let _turn = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = &self.file else {
            return Err("The server is running without a config file".to_owned());
        };
        rewrite::rewrite(file, self.current.load().values(), which, users)
            .map_err(|error| format!("Rewriting config file: {error}"))
    }
}

/// The problem of a parameter that only a restart changes.
const IMMUTABLE: &str = "can't set immutable config";

/// The parameters that `pairs` name, if they may be changed now. An unknown name is reported before anything else.
fn choose(pairs: &[(&[u8], &[u8])], settings: &Settings, local: bool) -> Result<Vec<(Index, &'static Parameter)>, SetError> {
    let mut chosen: Vec<(Index, &'static Parameter)> = Vec::with_capacity(pairs.len());
    let mut failure = None;
    for (at, (bytes, _)) in pairs.iter().enumerate() {
        let name = String::from_utf8_lossy(bytes);
        let Some((index, parameter)) = parameter::lookup(&name) else {
            return Err(failure.unwrap_or(SetError::Unknown(name.into_owned())));
        };
        // Of ours it is only asked that they stay as they are: suites set all parameters that Redis does not know to the values
        // that they have.
        let problem = if parameter.flags.immutable && !parameter.flags.own {
            Some(IMMUTABLE)
        } else if parameter.flags.protected && !settings.security.enable_protected_configs.permits(local) {
            Some("can't set protected config")
        } else if pairs[..at].iter().any(|(other, _)| other.eq_ignore_ascii_case(bytes)) {
            Some("duplicate parameter")
        } else {
            None
        };
        failure = failure.or(problem.map(|problem| SetError::failed(&name, problem)));
        chosen.push((index, parameter));
    }
    failure.map_or(Ok(chosen), Err)
}
