//! What a script calls, as far as its code says it before it runs: for a host that wants to know the keys of its commands.
//!
//! Each function that may run is gone through with what is known of its registers, again and again until nothing new is learnt;
//! where paths meet, what they agree on is known. Whatever could let the function of the host, or the table of the keys, out of
//! sight ends the search, with the line where that happens.

mod flow;
mod held;
mod search;
mod sole;
#[cfg(test)]
mod tests;

pub use self::sole::SoleArgument;
use crate::proto::{Constant, Proto};

/// The calls of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Where the host's function is called.
    pub sites: Vec<CallSite>,
    /// It has loops or functions of its own, so that a site may call more than once.
    pub repeats: bool,
    /// It has loops within loops, or functions of its own: it may do far more than its code and what it is given are long.
    pub nests: bool,
    /// The line of a loop that may have no end; others go through what there is.
    pub endless: Option<u32>,
}

/// A call of the host's function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// What is known of its arguments.
    pub arguments: Vec<CallArgument>,
    /// What further arguments may follow.
    pub rest: Rest,
    /// Where it stands.
    pub line: u32,
}

/// What follows the arguments of a call that its code names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing.
    Nothing,
    /// Keys, perhaps.
    Keys,
    /// Anything.
    Anything,
}

/// What is known of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallArgument {
    /// This string.
    Constant(Box<[u8]>),
    /// One of the keys.
    Key,
    /// A text of these parts, one behind the other.
    Built(Box<[Part]>),
    /// Nothing.
    Unknown,
}

/// A part of a text that is known when a script begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// This string.
    Constant(Box<[u8]>),
    /// The key of this number, from one on, or any of them.
    Key(Option<u8>),
    /// The argument of this number, from one on, or any of them.
    Argument(Option<u8>),
}

impl Part {
    /// Whether it is not known which one it is.
    fn is_any(&self) -> bool {
        matches!(self, Self::Key(None) | Self::Argument(None))
    }
}

/// Why the code of a script does not say what it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unseen {
    /// Where.
    pub line: u32,
    /// What is there.
    pub what: &'static str,
}

impl Proto {
    /// Whether the code has a string of these bytes, as it has the name of each global that it uses.
    #[must_use]
    pub fn mentions(&self, name: &[u8]) -> bool {
        let is_it = |constant: &Constant| matches!(constant, Constant::String(bytes) if **bytes == *name);
        self.constants.iter().any(is_it) || self.prototypes.iter().any(|inner| inner.mentions(name))
    }

    /// The calls of `redis.call` and `redis.pcall` in a chunk.
    ///
    /// # Errors
    /// When its code does not say all of them.
    pub fn calls(&self) -> Result<Calls, Unseen> {
        search::Search::new(self, None).run()
    }

    /// The same of a function that the chunk of a library registers by this name: its first argument is the table of the keys.
    ///
    /// # Errors
    /// When the code does not say all of them.
    pub fn calls_of(&self, name: &[u8]) -> Result<Calls, Unseen> {
        search::Search::new(self, Some(name)).run()
    }

    /// Whether the function, or one inside it, sets a variable that it has captured.
    pub(crate) fn sets_captured(&self) -> bool {
        search::sets_of(self).contains(&true)
    }
}
