//! Every error text that a command answers.
//!
//! The texts are an interface: clients and suites compare prefix and wording with Redis. What commands of several families
//! answer, and what the engine of a session asks for, is a variant of [`CommandError`], here. What one family answers is a
//! constant of that family's file, or a function of it where something is inserted. Spelled elsewhere: the range errors of
//! [`crate::number`], protocol errors (`resp`), the refusal of a connection (`net`), and the reasons of a refused CONFIG SET
//! (`config`).

use std::borrow::Cow;
use std::fmt;

use almandine_datatypes::hyperloglog::Corrupted;
use almandine_keyspace::{Full, WrongKind};
use almandine_resp::Args;

pub mod acl;
pub mod bitmap;
pub mod client;
pub mod cluster;
pub mod generic;
pub mod geo;
pub mod hash;
pub mod hyperloglog;
pub mod list;
pub mod script;
pub mod server;
pub mod sorted_set;
pub mod stream;
pub mod string;
pub mod tracking;
pub mod transaction;

/// Declares the texts of several families: variant and wording side by side.
macro_rules! common_errors {
    ($($(#[$doc:meta])* $variant:ident => $text:literal,)+) => {
        /// Why a command failed, as the client will read it.
        #[derive(Debug, PartialEq, Eq)]
        pub enum CommandError {
            $($(#[$doc])* $variant,)+
            /// A text of one family, without anything inserted.
            Fixed(&'static &'static str),
            /// A text with something inserted. Bytes, because a client's words need not be UTF-8.
            Text(Box<Vec<u8>>),
        }

        impl CommandError {
            /// The error line without the leading `-`.
            #[must_use]
            pub fn bytes(&self) -> &[u8] {
                match self {
                    $(Self::$variant => $text.as_bytes(),)+
                    Self::Fixed(text) => text.as_bytes(),
                    Self::Text(text) => text,
                }
            }
        }
    };
}

common_errors! {
    /// A record cannot be read from the device, or is damaged.
    StorageUnreadable => "ERR the storage device cannot give a record that this command needs; see INFO storage",
    /// A command would bring too many records from the device into memory at once.
    TooManyCold => "ERR this needs too many keys from the storage device at once; use SCAN",
    /// A command needs values from the device that are too large to be in memory together.
    NoRoomForCold => "ERR what this command needs from the storage device does not fit into 'maxmemory'",
    /// Data is being loaded.
    Loading => "LOADING Redis is loading the dataset in memory",
    /// The last snapshot has failed.
    Unsaved => "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may \
        modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting \
        fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.",
    /// The key holds another type than the command works on.
    WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
    /// Unknown, misplaced or contradicting options.
    Syntax => "ERR syntax error",
    /// An argument or a value that must be a 64-bit integer is not.
    NotInteger => "ERR value is not an integer or out of range",
    /// An argument or a value that must be a number is not.
    NotFloat => "ERR value is not a valid float",
    /// A LIMIT below zero.
    LimitNegative => "ERR LIMIT can't be negative",
    /// A COUNT that is no positive number.
    CountNotPositive => "ERR count should be greater than 0",
    /// INCR and its relatives would leave the 64-bit range.
    IncrementOverflow => "ERR increment or decrement would overflow",
    /// INCRBYFLOAT would leave the range of numbers.
    IncrementNotFinite => "ERR increment would produce NaN or Infinity",
    /// A string would exceed `proto-max-bulk-len`.
    StringTooLong => "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
    /// A number that must be ≥ 0 is not.
    NotPositive => "ERR value is out of range, must be positive",
    /// An index beyond the collection or its type.
    OutOfRange => "ERR value is out of range",
    /// RENAME, OBJECT … of a key that does not exist.
    NoSuchKey => "ERR no such key",
    /// Memory is used up because the storage device, where data would go, is full.
    StorageFull => "OOM command not allowed: memory is used up and the storage device is full; free space there or delete keys, \
        see INFO storage",
    /// As above, but it refuses writes for another reason.
    StorageFailing => "OOM command not allowed: memory is used up and the storage device refuses writes; see the log and INFO \
        storage",
    /// A command that grows memory while `maxmemory` is exceeded.
    OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
    /// SELECT, MOVE, COPY, SWAPDB outside `databases`.
    DatabaseOutOfRange => "ERR DB index is out of range",
    /// A timeout beyond the range of times.
    TimeoutOutOfRange => "ERR timeout is out of range",
    /// A time to pause or to wait that is no integer.
    TimeoutNotInteger => "ERR timeout is not an integer or out of range",
    /// A time to wait that is no number of seconds.
    TimeoutNotFloat => "ERR timeout is not a float or out of range",
    /// CLIENT UNBLOCK with ERROR, for the client that waited.
    Unblocked => "UNBLOCKED client unblocked via CLIENT UNBLOCK",
    /// A negative time.
    TimeoutNegative => "ERR timeout is negative",
    /// A count of keys that is no positive integer.
    KeyCountNotPositive => "ERR numkeys should be greater than 0",
    /// A count of keys beyond the arguments.
    TooManyKeys => "ERR Number of keys can't be greater than number of args",
}

impl CommandError {
    /// An error whose text is put together. `text` starts with the prefix, as in `ERR …`.
    #[cold]
    #[must_use]
    pub fn new(text: impl Into<Vec<u8>>) -> Self {
        Self::Text(Box::new(text.into()))
    }

    /// `before`, the beginning of a client's own words, `after`.
    fn quoting(before: &str, words: &[u8], after: &str) -> Self {
        Self::new([before.as_bytes(), &repeated(words, REPEATED_BYTES_MAX), after.as_bytes()].concat())
    }

    /// `before` and all of `words`.
    fn quoting_whole(before: &str, words: &[u8]) -> Self {
        Self::new([before.as_bytes(), &repeated(words, usize::MAX)].concat())
    }

    /// The error line for people.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.bytes())
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl std::error::Error for CommandError {}

impl From<WrongKind> for CommandError {
    fn from(_: WrongKind) -> Self {
        Self::WrongType
    }
}

impl From<Corrupted> for CommandError {
    fn from(_: Corrupted) -> Self {
        hyperloglog::CORRUPTED
    }
}

impl From<Full> for CommandError {
    fn from(_: Full) -> Self {
        Self::OutOfMemory
    }
}

/// Most bytes of a client's own words that an error repeats.
const REPEATED_BYTES_MAX: usize = 128;

/// A name that no command has, with the first arguments, as the client sent them.
#[cold]
#[must_use]
pub fn unknown_command(args: Args<'_>) -> CommandError {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(&repeated(&args[0], REPEATED_BYTES_MAX));
    text.extend_from_slice(b"', with args beginning with: ");
    let beginning = text.len();
    for argument in args.iter().skip(1) {
        let written = text.len() - beginning;
        if written >= REPEATED_BYTES_MAX {
            break;
        }
        text.push(b'\'');
        text.extend_from_slice(&repeated(argument, REPEATED_BYTES_MAX - written));
        text.extend_from_slice(b"' ");
    }
    CommandError::new(text)
}

/// A command of Redis that is not served yet, as an unknown one with the reason behind it.
#[cold]
#[must_use]
pub fn unserved(args: Args<'_>, reason: &str) -> CommandError {
    CommandError::new(format!("{} ({reason})", unknown_command(args).text().trim_end()))
}

/// A name that no subcommand of `container` has.
#[cold]
#[must_use]
pub fn unknown_subcommand(container: &str, name: &[u8]) -> CommandError {
    CommandError::quoting("ERR unknown subcommand '", name, &format!("'. Try {} HELP.", container.to_ascii_uppercase()))
}

/// A wrong number of arguments. `command` is the full name in lower case, as in `client|kill`.
#[cold]
#[must_use]
pub fn wrong_arity(command: &str) -> CommandError {
    CommandError::new(format!("ERR wrong number of arguments for '{command}' command"))
}

/// An expiry that is zero, negative or too far away, for `command` in lower case.
#[cold]
#[must_use]
pub fn invalid_expiry(command: &str) -> CommandError {
    CommandError::new(format!("ERR invalid expire time in '{command}' command"))
}

/// A subcommand of `container` that does not exist, or does not take these arguments.
#[cold]
#[must_use]
pub fn subcommand_syntax(container: &str, name: &[u8]) -> CommandError {
    CommandError::quoting("ERR unknown subcommand or wrong number of arguments for '", name, &format!("'. Try {container} HELP."))
}

/// A command whose effect does not exist yet, and why.
#[cold]
#[must_use]
pub fn not_supported_yet(command: &str, reason: &str) -> CommandError {
    CommandError::new(format!("ERR {command} is not supported yet: {reason}"))
}

/// A value longer than `proto-max-bulk-len`, or anything else that would be a protocol violation in a reply line, is cut and made
/// printable: line ends become spaces.
fn repeated(bytes: &[u8], bytes_max: usize) -> Vec<u8> {
    let cut = &bytes[..bytes.len().min(bytes_max)];
    let printable = cut.iter().take_while(|byte| **byte != 0);
    printable.map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}
