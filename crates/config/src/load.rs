//! The configuration at start: file, standard input, command line, in this order; the last word on a parameter counts.
//!
//! The command line is turned into lines of the file and parsed with it, as redis-server does, so that everything that works in
//! the file
//! works there.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::config::{Config, Directive};
use crate::effectless;
use crate::kind::{Kind, Value};
use crate::manual;
use crate::parameter::{self, Index, Parameter};
use crate::suggest;
use crate::words;

/// Lines that are no parameters, with the fewest words behind the name.
const DIRECTIVES: [(&str, usize); 3] = [("user", 1), ("rename-command", 2), ("loadmodule", 1)];

/// Parameters of old versions that are skipped.
const FORGOTTEN: [&str; 3] = ["list-max-ziplist-entries", "list-max-ziplist-value", "lua-replicate-commands"];

/// Deepest nesting of `include`.
const INCLUDE_DEPTH_MAX: usize = 16;

/// What is wrong with a line that is none.
const BAD_DIRECTIVE: &str = "Bad directive or wrong number of arguments";

/// What the command line asks for.
#[derive(Debug)]
pub enum Startup {
    /// To run the server.
    Run(Box<Config>),
    /// To print this and exit.
    Print(String),
    /// To say whether the server would start.
    Check(Report),
}

/// Why the server cannot start: what to print on the standard error before exiting with status 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError(pub String);

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LoadError {}

impl Config {
    /// The configuration that the command line (without the program's name) asks for.
    ///
    /// # Errors
    /// When a file cannot be read or a line is wrong.
    pub fn load(args: &[String]) -> Result<Startup, LoadError> {
        match args.first().map(String::as_str) {
            Some("-v" | "--version") if args.len() == 1 => return Ok(Startup::Print(manual::version())),
            Some("-h" | "--help") if args.len() == 1 => return Ok(Startup::Print(manual::help())),
            Some("--check-config") => return Loaded::read(&args[1..]).map(|loaded| Startup::Check(loaded.report())),
            Some("--test-memory") => return Err(LoadError("almandine-server does not test memory: use memtest86+.\n".into())),
            _ => {}
        }
        if args.iter().any(|arg| arg == "--sentinel") {
            return Err(LoadError("almandine-server has no sentinel mode: run redis-sentinel or valkey-sentinel.\n".into()));
        }
        let loaded = Loaded::read(args)?;
        if let Some(problem) = loaded.problems.first() {
            return Err(problem.fatal());
        }
        let config = loaded.config();
        match config.snapshot().missing().next() {
            Some((parameter, value, reason)) => Err(LoadError(format!("{}'{} {value}': {reason}.\n", title(), parameter.name))),
            None => Ok(Startup::Run(Box::new(config))),
        }
    }
}

/// What a command line comes to.
struct Loaded {
    file: Option<PathBuf>,
    values: Vec<Value>,
    stated: HashMap<Index, Place>,
    directives: Vec<Directive>,
    problems: Vec<LineProblem>,
}

impl Loaded {
    /// Reads what the command line names, all of it, whatever is wrong with single lines.
    fn read(args: &[String]) -> Result<Self, LoadError> {
        let (file, rest) = match args.split_first() {
            Some((first, rest)) if !first.starts_with('-') => (Some(absolute(Path::new(first))), rest),
            _ => (None, args),
        };
        let (from_stdin, options) = command_line(rest);
        let mut text = String::new();
        if let Some(file) = &file {
            text = read(file)?;
        }
        if from_stdin {
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| LoadError(format!("Fatal error, can't read the standard input: {error}\n")))?;
        }
        let file_lines = text.split('\n').count();
        text.push('\n');
        text.push_str(&options);
        let origin = file.as_ref().map_or_else(|| "standard input".to_owned(), |file| file.display().to_string());
        let mut loader = Loader::new();
        loader.text(&Origin { name: origin, lines: file_lines }, &text, 0);
        let Loader { values, stated, directives, problems } = loader;
        Ok(Self { file, values, stated, directives, problems })
    }

    fn config(mut self) -> Config {
        self.settle_save_points();
        Config::new(self.values, self.file, self.directives)
    }

    /// What has a log is no worse off without snapshots, and a tier of many gigabytes is not to be dumped each minute: there, save
    /// points are as they are stated, and there are none by default.
    fn settle_save_points(&mut self) {
        let changed = |name: &str| {
            let (index, parameter) = parameter::lookup(name)?;
            (self.values[index] != parameter.default_value()).then_some(())
        };
        let elsewhere = ["storage-dir", "storage-device", "storage-object-url", "appendonly"];
        if let Some((index, _)) = parameter::lookup("save")
            && !self.stated.contains_key(&index)
            && elsewhere.iter().any(|name| changed(name).is_some())
        {
            self.values[index] = Value::Save(Vec::new());
        }
    }

    /// Everything that is wrong, and what is worth knowing.
    fn report(self) -> Report {
        let mut errors: Vec<String> = self.problems.iter().map(LineProblem::line).collect();
        let stated = self.stated.clone();
        let config = self.config();
        let snapshot = config.snapshot();
        let place = |parameter: &Parameter| {
            let (index, _) = parameter::lookup(parameter.name)?;
            stated.get(&index)
        };
        for (parameter, value, reason) in snapshot.missing() {
            let place = place(parameter).map_or_else(String::new, |place| format!("{place}: "));
            errors.push(format!("{place}'{} {value}': {reason}.", parameter.name));
        }
        let missing = |parameter: &Parameter| snapshot.missing().any(|(other, ..)| other.name == parameter.name);
        let mut notes = Vec::new();
        for parameter in snapshot.without_effect().filter(|parameter| !missing(parameter)) {
            if let (Some(place), Some(reason)) = (place(parameter), effectless::reason(parameter)) {
                notes.push(format!("{place}: '{}' has no effect. {reason}", parameter.name));
            }
        }
        Report { errors, notes, config }
    }
}

/// The outcome of `--check-config`.
#[derive(Debug)]
pub struct Report {
    /// Why the server would not start, each with its place.
    pub errors: Vec<String>,
    /// What it would say at its start, each with its place.
    pub notes: Vec<String>,
    /// What there is of the configuration.
    pub config: Config,
}

/// Whether the standard input is to be read, and the lines that the options stand for.
fn command_line(args: &[String]) -> (bool, String) {
    let mut from_stdin = false;
    let mut lines = String::new();
    // An option's first value may begin with dashes.
    let mut name_expected = true;
    for (at, arg) in args.iter().enumerate() {
        let next = args.get(at + 1);
        if arg == "-" && (at == 0 || next.is_none()) {
            from_stdin = true;
        } else if let Some(option) = arg.strip_prefix("--").filter(|_| name_expected) {
            if !lines.is_empty() {
                lines.push('\n');
            }
            lines.push_str(option);
            lines.push(' ');
            // `--port 7000` may be one argument.
            let name_only = words::split(arg).is_some_and(|words| words.len() == 1);
            let valueless = next.is_none_or(|next| next.starts_with("--"));
            if name_only && valueless && option.eq_ignore_ascii_case("save") {
                // Scripts pass an empty schedule as nothing at all.
                lines.push_str("\"\"");
                name_expected = true;
            } else {
                name_expected = !name_only;
            }
        } else {
            lines.push_str(&words::quote(arg));
            lines.push(' ');
            name_expected = true;
        }
    }
    (from_stdin, lines)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn read(file: &Path) -> Result<String, LoadError> {
    let fail = |error: String| LoadError(format!("Fatal error, can't open config file '{}': {error}\n", file.display()));
    let bytes = almandine_io::files::read(file).map_err(|error| fail(reason(&error)))?;
    String::from_utf8(bytes).map_err(|_| fail("not UTF-8".into()))
}

/// The system's words for an error, without its number.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" (os error").map_or(text.as_str(), |(words, _)| words).to_owned()
}

/// Where lines come from.
struct Origin {
    name: String,
    /// Lines behind these are the command line's.
    lines: usize,
}

/// A line's place.
#[derive(Clone, Debug)]
struct Place {
    origin: String,
    line: usize,
    /// It is an option of the command line.
    option: bool,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.option { f.write_str("command line") } else { write!(f, "{}:{}", self.origin, self.line) }
    }
}

/// A line that is wrong.
struct LineProblem {
    place: Place,
    line: String,
    problem: String,
}

impl LineProblem {
    /// As one line, or more where there is something to add.
    fn line(&self) -> String {
        let line = if self.line.is_empty() { String::new() } else { format!("'{}': ", self.line) };
        format!("{}: {line}{}", self.place, self.problem.replace('\n', " "))
    }

    /// As what ends a start.
    fn fatal(&self) -> LoadError {
        let Self { place, line, problem } = self;
        if line.is_empty() {
            return LoadError(format!("{problem}\n"));
        }
        let read = if place.option {
            "Reading the command line".to_owned()
        } else {
            format!("Reading the configuration file, at line {}", place.line)
        };
        LoadError(format!("{}{read}\n>>> '{line}'\n{problem}\n", title()))
    }
}

/// The state of parsing: the values so far.
struct Loader {
    values: Vec<Value>,
    /// Where each parameter was stated last.
    stated: HashMap<Index, Place>,
    directives: Vec<Directive>,
    problems: Vec<LineProblem>,
}

impl Loader {
    fn new() -> Self {
        Self {
            values: parameter::all().map(Parameter::default_value).collect(),
            stated: HashMap::new(),
            directives: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Follows all lines, and notes those that are wrong.
    fn text(&mut self, origin: &Origin, text: &str, depth: usize) {
        for (index, line) in text.split('\n').enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let place = Place { origin: origin.name.clone(), line: index + 1, option: index >= origin.lines };
            if let Err(Problem(problem)) = self.line(&place, line, depth) {
                self.problems.push(LineProblem { place, line: line.to_owned(), problem });
            }
        }
    }

    fn line(&mut self, place: &Place, line: &str, depth: usize) -> Result<(), Problem> {
        let words = words::split(line).ok_or("Unbalanced quotes in configuration line")?;
        let Some((name, values)) = words.split_first() else { return Ok(()) };
        let name = name.to_ascii_lowercase();
        if let Some((index, parameter)) = parameter::lookup(&name) {
            return self.parameter(place, index, parameter, values);
        }
        if let Some((name, least)) = DIRECTIVES.into_iter().find(|directive| directive.0 == name) {
            if values.len() < least {
                return Err(BAD_DIRECTIVE.into());
            }
            self.directives.push(Directive { name, words: values.to_vec() });
            return Ok(());
        }
        match (name.as_str(), values) {
            ("include", [pattern]) => self.include(place, pattern, depth),
            _ if FORGOTTEN.contains(&name.as_str()) && values.len() == 1 => Ok(()),
            ("include", _) => Err(BAD_DIRECTIVE.into()),
            _ => Err(unknown(&name).into()),
        }
    }

    fn parameter(&mut self, place: &Place, index: Index, parameter: &Parameter, values: &[String]) -> Result<(), Problem> {
        let first = self.stated.insert(index, place.clone()).is_none();
        let mut words: Vec<&str> = values.iter().map(String::as_str).collect();
        // A list may be one quoted word.
        if let (true, [one]) = (parameter.kind.takes_words(), words.as_slice()) {
            words = one.split(' ').collect();
        }
        let value = parameter.kind.parse(&words, &self.values[index])?;
        // Snapshot points add up over lines; the first line replaces the default, an empty one all before.
        let value = match (parameter.kind, value, &mut self.values[index]) {
            (Kind::Save, Value::Save(more), Value::Save(points)) if !first && !more.is_empty() => {
                Value::Save([points.as_slice(), &more].concat())
            }
            (_, value, _) => value,
        };
        self.values[index] = value;
        Ok(())
    }

    fn include(&mut self, place: &Place, pattern: &str, depth: usize) -> Result<(), Problem> {
        if depth == INCLUDE_DEPTH_MAX {
            return Err("Too many nested include directives".into());
        }
        let files: Vec<PathBuf> = if pattern.contains(['*', '?', '[']) {
            // A pattern that matches nothing includes nothing; matches come in alphabetical order.
            let paths = glob::glob(pattern).map_err(|error| error.to_string())?;
            paths.filter_map(Result::ok).collect()
        } else {
            vec![PathBuf::from(pattern)]
        };
        for file in files {
            match read(&file) {
                Ok(text) => self.text(&Origin { name: file.display().to_string(), lines: usize::MAX }, &text, depth + 1),
                // It says which file.
                Err(LoadError(problem)) => {
                    let problem = problem.trim_end().to_owned();
                    self.problems.push(LineProblem { place: place.clone(), line: String::new(), problem });
                }
            }
        }
        Ok(())
    }
}

/// What is wrong with a line.
struct Problem(String);

impl<T: Into<std::borrow::Cow<'static, str>>> From<T> for Problem {
    fn from(problem: T) -> Self {
        Self(problem.into().into_owned())
    }
}

/// What is wrong with a line whose first word is no parameter, and what may have been meant.
fn unknown(name: &str) -> String {
    match suggest::nearest(name.trim_start_matches('-')) {
        _ if name.starts_with('-') && !name.starts_with("--") => {
            format!("{BAD_DIRECTIVE}\nParameters on the command line begin with two dashes; --help lists them.")
        }
        Some(meant) => format!("{BAD_DIRECTIVE}\nThere is no parameter '{name}'. Did you mean '{meant}'?"),
        None => BAD_DIRECTIVE.to_owned(),
    }
}

fn title() -> String {
    format!("\n*** FATAL CONFIG FILE ERROR (Almandine {}) ***\n", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(args: &[&str]) -> String {
        command_line(&args.iter().map(ToString::to_string).collect::<Vec<_>>()).1
    }

    #[test]
    fn options_become_lines() {
        assert_eq!(lines(&["--port", "7000", "--dir", "/x"]), "port \"7000\" \ndir \"/x\" ");
        assert_eq!(lines(&["--save", ""]), "save \"\" ");
        assert_eq!(lines(&["--save", "--port", "1"]), "save \"\"\nport \"1\" ");
        assert_eq!(lines(&["--port", "1", "--save"]), "port \"1\" \nsave \"\"");
        assert_eq!(lines(&["--port 7000", "--requirepass", "--secret"]), "port 7000 \nrequirepass \"--secret\" ");
        assert!(command_line(&["-".to_owned()]).0);
    }
}
