//! What a call runs: a script, or a function of a library.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use almandine_lua::{Calls, Part, Proto, SoleArgument, Unseen, compile};
use almandine_resp::Args;
use sha1::{Digest, Sha1};

use crate::ScriptError;
use crate::engine::NAMES;
use crate::flags::ScriptFlags;
use crate::running::ProgramKind;
use crate::shebang;

/// Longest text of a script.
const TEXT_BYTES_MAX: usize = 4 << 20;
/// What a script takes beside its text, about: its code is several times as large as that.
const OVERHEAD_BYTES: usize = 512;
const CODE_SHARE: usize = 4;

/// The SHA-1 of a script's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha([u8; 20]);

impl Sha {
    /// That of a text.
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        Self(Sha1::digest(text).into())
    }

    /// The one that 40 hexadecimal digits of either case name.
    #[must_use]
    pub fn parse(digits: &[u8]) -> Option<Self> {
        let digits: &[u8; 40] = digits.try_into().ok()?;
        let mut bytes = [0; 20];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = (digit(0)? << 4 | digit(1)?) as u8;
        }
        Some(Self(bytes))
    }

    /// The 40 digits, in lower case.
    #[must_use]
    pub fn hex(&self) -> [u8; 40] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; 40];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        hex
    }
}

/// What reaches globals without their names.
const REFLECTIVE: [&[u8]; 5] = [b"_G", b"getfenv", b"setfenv", b"load", b"loadstring"];

/// What a script touches, as far as its code says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Footprint {
    /// Anything, for what stands in this line.
    Any(Unseen),
    /// Keys that are known before it runs.
    Declared {
        /// Those of its call are among them.
        keys: bool,
        /// These are, too.
        constants: Vec<Box<[u8]>>,
        /// And those that are built of these parts.
        built: Vec<Box<[Part]>>,
        /// It may write them.
        writes: bool,
        /// It reads one key once, and does nothing else with any.
        reads_once: bool,
        /// It may leave something behind beside its reply.
        leaves: bool,
        /// It may do far more than its code and its call are long.
        nests: bool,
        /// It may have no end. It leaves nothing behind then.
        endless: bool,
        /// It uses further keys, for what stands in this line.
        grows: Option<Unseen>,
    },
}

impl Footprint {
    /// The keys of a call that are built of what it is given. What is built of something that it is not given is none.
    #[must_use]
    pub fn built_keys(&self, keys: Args<'_>, args: Args<'_>) -> Vec<Box<[u8]>> {
        let Self::Declared { built, .. } = self else { return Vec::new() };
        let mut all = Vec::new();
        for parts in built {
            let is_any = |part: &Part, words: Args<'_>| match part {
                Part::Key(None) => Some(keys.len()),
                Part::Argument(None) => Some(words.len()),
                _ => None,
            };
            let count = parts.iter().find_map(|part| is_any(part, args)).unwrap_or(1);
            all.extend((0..count).filter_map(|any| {
                let text = |part| match part {
                    &Part::Key(number) => keys.get(number.map_or(any, |number| usize::from(number) - 1)),
                    &Part::Argument(number) => args.get(number.map_or(any, |number| usize::from(number) - 1)),
                    Part::Constant(bytes) => Some(&**bytes),
                };
                parts.iter().map(text).collect::<Option<Vec<&[u8]>>>().map(|texts| texts.concat().into())
            }));
        }
        all
    }
}

/// A script that is loaded.
#[derive(Debug)]
pub struct Script {
    /// What EVALSHA names it by.
    pub sha: Sha,
    /// Its text.
    pub text: Box<[u8]>,
    /// What its first line says.
    pub flags: ScriptFlags,
    /// Its code.
    pub proto: Arc<Proto>,
    /// Whether it may look at its keys, and at its arguments: no table is made of what it does not name.
    pub(crate) uses: [bool; 2],
    /// The arguments of the one call that it consists of, if it does.
    pub(crate) sole: Option<Box<[SoleArgument]>>,
    /// What it touches, once that was asked for.
    pub(crate) footprint: OnceLock<Footprint>,
    /// It is not evicted.
    pub(crate) kept: AtomicBool,
    /// It is not loaded any more.
    pub(crate) gone: AtomicBool,
    /// When it was used last, in scripts that were brought since.
    pub(crate) used: AtomicU64,
}

impl Script {
    pub(crate) fn compile(text: &[u8], sha: Sha, used: u64) -> Result<Self, ScriptError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(ScriptError::new("ERR Error compiling script (new function): the script is longer than 4 MiB"));
        }
        let (flags, code) = shebang::of_script(text)?;
        let proto = compile(code, b"@user_script")
            .map_err(|error| ScriptError::quoting("ERR Error compiling script (new function): ", &error.message, ""))?;
        let is_hidden = REFLECTIVE.iter().any(|name| proto.mentions(name));
        let uses = NAMES.map(|name| is_hidden || proto.mentions(name.as_bytes()));
        let (kept, gone, used) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(used));
        let (sole, footprint) = (proto.sole_call(), OnceLock::new());
        Ok(Self { sha, text: text.into(), flags, proto, uses, sole, footprint, kept, gone, used })
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.text.len() * CODE_SHARE + OVERHEAD_BYTES
    }
}

/// What a call runs.
#[derive(Clone, Debug)]
pub enum Program {
    /// A script by its text or its digits.
    Script(Arc<Script>),
    /// A function of a library.
    Function(Arc<Function>),
}

impl Program {
    /// What it says about itself.
    #[must_use]
    pub fn flags(&self) -> ScriptFlags {
        match self {
            Self::Script(script) => script.flags,
            Self::Function(function) => function.flags,
        }
    }

    /// Its name in errors: the digits of a script.
    #[must_use]
    pub fn name(&self) -> Vec<u8> {
        match self {
            Self::Script(script) => script.sha.hex().to_vec(),
            Self::Function(function) => function.name.clone(),
        }
    }

    /// What it touches, once that was asked for.
    #[must_use]
    pub fn footprint(&self) -> &OnceLock<Footprint> {
        match self {
            Self::Script(script) => &script.footprint,
            Self::Function(function) => &function.footprint,
        }
    }

    /// The arguments of the one call that it consists of, if it does.
    pub(crate) fn sole_call(&self) -> Option<&[SoleArgument]> {
        match self {
            Self::Script(script) => script.sole.as_deref(),
            Self::Function(function) => function.sole.as_deref(),
        }
    }

    /// The code that it is in.
    #[must_use]
    pub fn code(&self) -> &Proto {
        match self {
            Self::Script(script) => &script.proto,
            Self::Function(function) => &function.library.proto,
        }
    }

    /// The calls that its code says.
    ///
    /// # Errors
    /// When it does not say all of them.
    pub fn calls(&self) -> Result<Calls, Unseen> {
        match self {
            Self::Script(script) => script.proto.calls(),
            Self::Function(function) => function.library.proto.calls_of(&function.name),
        }
    }

    /// How it is called.
    #[must_use]
    pub fn kind(&self) -> ProgramKind {
        match self {
            Self::Script(_) => ProgramKind::Script,
            Self::Function(_) => ProgramKind::Function,
        }
    }
}

/// A function of a library.
#[derive(Debug)]
pub struct Function {
    /// Its name. FCALL finds it by any case.
    pub name: Vec<u8>,
    /// What it was registered with.
    pub flags: ScriptFlags,
    /// The same.
    pub description: Option<Vec<u8>>,
    /// The code of its library.
    pub(crate) library: Arc<LibraryCode>,
    /// Its place among the functions that the library registers.
    pub(crate) place: usize,
    /// Its library keeps nothing from one call to the next: each worker may have it in a machine of its own.
    pub keeps_nothing: bool,
    /// The arguments of the one call that it consists of, if it does.
    pub(crate) sole: Option<Box<[SoleArgument]>>,
    /// What it touches, once that was asked for.
    pub(crate) footprint: OnceLock<Footprint>,
}

/// The code of a library.
#[derive(Debug)]
pub(crate) struct LibraryCode {
    /// By which machines know it.
    pub(crate) number: u64,
    pub(crate) proto: Arc<Proto>,
}
