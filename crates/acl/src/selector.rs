//! One set of permissions. A user has at least one; a call is permitted when one of them permits all of it.

use crate::catalog::Catalog;
use crate::commands::CommandSet;
use crate::database::Databases;
use crate::error::RuleError;
use crate::pattern::{KeyPattern, Pattern, has_blanks};
use crate::user::Defaults;

/// Commands, keys, channels and databases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// The commands.
    pub commands: CommandSet,
    /// The databases.
    pub databases: Databases,
    all_keys: bool,
    keys: Vec<KeyPattern>,
    /// All patterns permit reading and writing, so that it does not matter what a command does to its key.
    keys_are_plain: bool,
    all_channels: bool,
    channels: Vec<Pattern>,
}

impl Selector {
    /// What a new user or selector may do: nothing, but for channels, where the configuration says so, and databases.
    pub(crate) fn new(catalog: &Catalog, defaults: Defaults) -> Self {
        Self {
            commands: CommandSet::none(catalog),
            databases: Databases::ALL,
            all_keys: false,
            keys: Vec::new(),
            keys_are_plain: true,
            all_channels: defaults.all_channels,
            channels: Vec::new(),
        }
    }

    /// Everything.
    #[must_use]
    pub fn is_unrestricted(&self) -> bool {
        self.commands.is_all() && self.all_keys && self.all_channels && self.databases.are_all()
    }

    /// Whether all keys are permitted.
    #[inline]
    #[must_use]
    pub fn has_all_keys(&self) -> bool {
        self.all_keys
    }

    /// Whether all channels are permitted.
    #[inline]
    #[must_use]
    pub fn has_all_channels(&self) -> bool {
        self.all_channels
    }

    /// Whether a key may be read and written. False may mean that only one of both is permitted.
    #[inline]
    #[must_use]
    pub fn permits_key_fully(&self, key: &[u8]) -> bool {
        self.keys_are_plain && self.keys.iter().any(|pattern| pattern.pattern.matches(key))
    }

    /// Whether a call may use a key whose value it reads, or writes, or both; neither when it only asks whether the key is there.
    #[must_use]
    pub fn permits_key(&self, key: &[u8], read: bool, write: bool) -> bool {
        self.all_keys || self.keys.iter().any(|pattern| pattern.permits(key, read, write))
    }

    /// Whether the values of all keys may be read.
    #[must_use]
    pub fn reads_any_key(&self) -> bool {
        self.all_keys || self.keys.iter().any(|pattern| pattern.read && pattern.pattern.text() == b"*")
    }

    /// Whether a channel may be used; of patterns to listen to, only those that a rule has word for word.
    #[must_use]
    pub fn permits_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all_channels
            || self.channels.iter().any(|rule| if is_pattern { rule.text() == channel } else { rule.matches(channel) })
    }

    /// The patterns of channels.
    #[must_use]
    pub fn channels(&self) -> &[Pattern] {
        &self.channels
    }

    /// Applies a rule about what may be done.
    pub(crate) fn apply(&mut self, rule: &[u8], catalog: &Catalog) -> Result<(), RuleError> {
        let is = |name: &str| rule.eq_ignore_ascii_case(name.as_bytes());
        match rule.first() {
            _ if is("allkeys") || is("~*") => self.set_keys(true),
            _ if is("resetkeys") => self.set_keys(false),
            _ if is("allchannels") || is("&*") => self.set_channels(true),
            _ if is("resetchannels") => self.set_channels(false),
            _ if is("allcommands") || is("+@all") => self.commands.set_all(true),
            _ if is("nocommands") || is("-@all") => self.commands.set_all(false),
            _ if is("alldbs") => self.databases = Databases::ALL,
            _ if is("resetdbs") => self.databases.clear(),
            Some(b'~' | b'%') => return self.add_keys(rule),
            Some(b'&') => return self.add_channels(&rule[1..]),
            Some(b'+' | b'-') => return self.commands.apply(rule, catalog),
            _ if rule.get(..3).is_some_and(|prefix| prefix.eq_ignore_ascii_case(b"db=")) => return self.databases.set(&rule[3..]),
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    fn set_keys(&mut self, all: bool) {
        (self.all_keys, self.keys_are_plain) = (all, true);
        self.keys.clear();
    }

    pub(crate) fn set_channels(&mut self, all: bool) {
        self.all_channels = all;
        self.channels.clear();
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::KeyPatternBesideAll);
        }
        let new = KeyPattern::parse(rule).ok_or(RuleError::Syntax)?;
        match self.keys.iter_mut().find(|old| old.pattern == new.pattern) {
            Some(old) => (old.read, old.write) = (old.read || new.read, old.write || new.write),
            None => self.keys.push(new),
        }
        self.keys_are_plain = self.keys.iter().all(|pattern| pattern.read && pattern.write);
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::ChannelPatternBesideAll);
        }
        if has_blanks(pattern) {
            return Err(RuleError::Syntax);
        }
        if !self.channels.iter().any(|old| old.text() == pattern) {
            self.channels.push(Pattern::new(pattern));
        }
        Ok(())
    }

    /// The rules about keys.
    #[must_use]
    pub fn describe_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let mut text = Vec::new();
        for pattern in &self.keys {
            separate(&mut text);
            pattern.describe(&mut text);
        }
        text
    }

    /// The rules about channels.
    #[must_use]
    pub fn describe_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let mut text = Vec::new();
        for pattern in &self.channels {
            separate(&mut text);
            text.push(b'&');
            text.extend_from_slice(pattern.text());
        }
        text
    }

    /// Appends all rules, as ACL LIST shows them.
    pub(crate) fn describe(&self, out: &mut Vec<u8>) {
        let mut parts = vec![self.describe_keys()];
        if !self.all_channels {
            parts.push(b"resetchannels".to_vec());
        }
        parts.extend([self.describe_channels(), self.databases.describe().into_bytes(), self.commands.describe()]);
        parts.retain(|part| !part.is_empty());
        out.extend_from_slice(&parts.join(&b' '));
    }
}

/// A blank between two rules.
fn separate(text: &mut Vec<u8>) {
    if !text.is_empty() {
        text.push(b' ');
    }
}
