//! A user: a name, passwords, and selectors.

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::error::{RuleError, UserError};
use crate::password::Password;
use crate::selector::Selector;

/// What the configuration says of new users.
#[derive(Clone, Copy, Debug, Default)]
pub struct Defaults {
    /// `acl-pubsub-default allchannels`.
    pub all_channels: bool,
}

/// A user. What clients hold does not change: ACL SETUSER makes another one of the same [`User::id`].
#[derive(Clone, Debug)]
pub struct User {
    /// Tells a user from one that was made under the same name after it was deleted.
    pub id: u64,
    /// The name.
    pub name: Arc<[u8]>,
    enabled: bool,
    /// Any password is right.
    no_password: bool,
    sanitize: Option<Sanitize>,
    passwords: Vec<Password>,
    /// The first one has the rules outside of parentheses.
    selectors: Vec<Selector>,
}

/// Whether payloads of RESTORE are checked in depth. They always are; the words are kept and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sanitize {
    Skip,
    Check,
}

impl User {
    /// A new user, which may do nothing.
    pub(crate) fn new(id: u64, name: &[u8], catalog: &Catalog, defaults: Defaults) -> Self {
        Self {
            id,
            name: name.into(),
            enabled: false,
            no_password: false,
            sanitize: None,
            passwords: Vec::new(),
            selectors: vec![Selector::new(catalog, defaults)],
        }
    }

    /// Whether one can authenticate as this user.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether any password is right.
    #[must_use]
    pub fn needs_no_password(&self) -> bool {
        self.no_password
    }

    /// Whether a new connection may be of this user at once.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.enabled && self.no_password
    }

    /// Whether nothing is forbidden.
    #[must_use]
    pub fn is_unrestricted(&self) -> bool {
        self.selectors.iter().any(Selector::is_unrestricted)
    }

    /// The selectors. The first one has the rules outside of parentheses.
    #[must_use]
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// The hashes of the passwords.
    #[must_use]
    pub fn passwords(&self) -> &[Password] {
        &self.passwords
    }

    /// Whether `password` lets one authenticate as this user. All hashes are compared, whichever is right.
    #[must_use]
    pub fn accepts(&self, password: &[u8]) -> bool {
        if !self.enabled {
            return false;
        }
        let given = Password::hash(password);
        let right = self.passwords.iter().fold(false, |right, known| right | known.equals(&given));
        self.no_password || right
    }

    /// The flags, as ACL GETUSER shows them.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        [
            (self.enabled, "on"),
            (!self.enabled, "off"),
            (self.no_password, "nopass"),
            (self.sanitize == Some(Sanitize::Skip), "skip-sanitize-payload"),
            (self.sanitize == Some(Sanitize::Check), "sanitize-payload"),
        ]
        .into_iter()
        .filter(|(holds, _)| *holds)
        .map(|(_, flag)| flag)
    }

    /// Applies the rules of ACL SETUSER one after the other; those of a selector may be spread over several words.
    ///
    /// # Errors
    /// The first rule that is wrong. The user may have been changed by those before it.
    pub(crate) fn apply_all(&mut self, words: &[&[u8]], catalog: &Catalog, defaults: Defaults) -> Result<(), UserError> {
        for rule in merge_selectors(words).map_err(|at| UserError::Unmatched(words[at].to_vec()))? {
            self.apply(&rule, catalog, defaults).map_err(|error| UserError::Rule(rule, error))?;
        }
        Ok(())
    }

    /// Applies one rule.
    ///
    /// # Errors
    /// When it is wrong: nothing is changed then.
    pub fn apply(&mut self, rule: &[u8], catalog: &Catalog, defaults: Defaults) -> Result<(), RuleError> {
        let is = |name: &str| rule.eq_ignore_ascii_case(name.as_bytes());
        match rule {
            [] => {}
            _ if is("on") => self.enabled = true,
            _ if is("off") => self.enabled = false,
            _ if is("skip-sanitize-payload") => self.sanitize = Some(Sanitize::Skip),
            _ if is("sanitize-payload") => self.sanitize = Some(Sanitize::Check),
            _ if is("nopass") => self.reset_passwords(true),
            _ if is("resetpass") => self.reset_passwords(false),
            [b'>', password @ ..] => self.add_password(Password::hash(password)),
            [b'#', digits @ ..] => self.add_password(Password::stated(digits)?),
            [b'<', password @ ..] => return self.remove_password(&Password::hash(password)),
            [b'!', digits @ ..] => return self.remove_password(&Password::stated(digits)?),
            [b'(', rules @ .., b')'] => self.selectors.push(selector(rules, catalog, defaults)?),
            _ if is("clearselectors") => self.selectors.truncate(1),
            _ if is("reset") => {
                *self = Self { sanitize: Some(Sanitize::Check), ..Self::new(self.id, &self.name, catalog, defaults) }
            }
            _ => return self.selectors[0].apply(rule, catalog),
        }
        Ok(())
    }

    fn reset_passwords(&mut self, no_password: bool) {
        self.no_password = no_password;
        self.passwords.clear();
    }

    fn add_password(&mut self, password: Password) {
        if !self.passwords.contains(&password) {
            self.passwords.push(password);
        }
        self.no_password = false;
    }

    fn remove_password(&mut self, password: &Password) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|known| known == password).ok_or(RuleError::NoSuchPassword)?;
        self.passwords.remove(at);
        Ok(())
    }

    /// The line of ACL LIST and of ACL files, which makes the same user again.
    #[must_use]
    pub fn describe(&self) -> Vec<u8> {
        let mut line = [b"user ", &self.name[..]].concat();
        for flag in self.flags() {
            line.push(b' ');
            line.extend_from_slice(flag.as_bytes());
        }
        for password in &self.passwords {
            line.extend_from_slice(b" #");
            line.extend_from_slice(password.hex().as_bytes());
        }
        let (root, others) = self.selectors.split_first().unwrap_or_else(|| unreachable!("a user has a selector"));
        line.push(b' ');
        root.describe(&mut line);
        for selector in others {
            line.extend_from_slice(b" (");
            selector.describe(&mut line);
            line.push(b')');
        }
        line
    }
}

/// The selector of the rules between parentheses.
fn selector(rules: &[u8], catalog: &Catalog, defaults: Defaults) -> Result<Selector, RuleError> {
    let mut selector = Selector::new(catalog, defaults);
    for rule in rules.split(u8::is_ascii_whitespace).filter(|rule| !rule.is_empty()) {
        // Where it was saved, it would end the selector.
        if rule.ends_with(b")") {
            return Err(RuleError::Syntax);
        }
        selector.apply(rule, catalog)?;
    }
    Ok(selector)
}

/// The rules that `words` are, when a selector may be spread over several of them. Fails with the place of the word that begins a
/// selector without an end.
pub(crate) fn merge_selectors(words: &[&[u8]]) -> Result<Vec<Vec<u8>>, usize> {
    let mut rules = Vec::with_capacity(words.len());
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (at, word) in words.iter().enumerate() {
        if let Some((begin, mut rule)) = open.take() {
            rule.push(b' ');
            rule.extend_from_slice(word);
            if word.ends_with(b")") { rules.push(rule) } else { open = Some((begin, rule)) }
        } else if word.starts_with(b"(") && !word.ends_with(b")") {
            open = Some((at, word.to_vec()));
        } else {
            rules.push(word.to_vec());
        }
    }
    open.map_or(Ok(rules), |(begin, _)| Err(begin))
}

#[cfg(test)]
mod tests {
    use almandine_command_spec::{Categories, Category};

    use super::*;

    fn catalog() -> Catalog {
        let string = Categories::default().with(Category::String);
        Catalog::new([("get", string), ("set", string), ("ping", Categories::default().with(Category::Connection))])
    }

    fn user(line: &str) -> Result<User, UserError> {
        let mut user = User::new(1, b"u", &catalog(), Defaults::default());
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        user.apply_all(&words, &catalog(), Defaults::default())?;
        Ok(user)
    }

    fn described(line: &str) -> String {
        String::from_utf8(user(line).unwrap().describe()).unwrap()
    }

    #[test]
    fn what_describes_a_user_makes_it_again() {
        for line in [
            "on",
            "on nopass ~* &* +@all",
            "off skip-sanitize-payload ~a* %R~b %W~c &x &y* db=0,3 +@string -get",
            "on >one >two resetdbs (~a +get) (%R~b* &* db=1 -@all +@string)",
            "reset on",
        ] {
            let once = described(line);
            assert_eq!(described(once.strip_prefix("user u ").unwrap()), once);
        }
        assert_eq!(described("on ~a %RW~b %R~c %W~c"), "user u on ~a ~b ~c resetchannels -@all");
        assert_eq!(described("( ~key +get )"), "user u off resetchannels -@all (~key resetchannels -@all +get)");
    }

    #[test]
    fn passwords_come_and_go() {
        let mut user = user("on >a >b >a").unwrap();
        assert_eq!(user.passwords().len(), 2);
        assert!(user.accepts(b"a") && user.accepts(b"b") && !user.accepts(b"c") && !user.accepts(b""));
        user.apply(b"<a", &catalog(), Defaults::default()).unwrap();
        assert!(!user.accepts(b"a") && user.accepts(b"b"));
        assert_eq!(user.apply(b"<a", &catalog(), Defaults::default()), Err(RuleError::NoSuchPassword));
        user.apply(b"off", &catalog(), Defaults::default()).unwrap();
        assert!(!user.accepts(b"b"));
        user.apply(b"nopass", &catalog(), Defaults::default()).unwrap();
        assert!(!user.accepts(b"x") && user.passwords().is_empty());
        user.apply(b"on", &catalog(), Defaults::default()).unwrap();
        assert!(user.accepts(b"x") && user.is_open());
        user.apply(b">a", &catalog(), Defaults::default()).unwrap();
        assert!(!user.accepts(b"x") && user.accepts(b"a"));
    }

    #[test]
    fn a_user_is_unrestricted_by_one_selector() {
        assert!(!user("on +@all ~* &a").unwrap().is_unrestricted());
        assert!(user("on +@all ~* &*").unwrap().is_unrestricted());
        assert!(!user("on +@all ~* &* db=0").unwrap().is_unrestricted());
        assert!(!user("on +@all ~* &* -get").unwrap().is_unrestricted());
        assert!(user("on (+@all ~* &*)").unwrap().is_unrestricted());
        assert!(!user("on +@all (~* &*)").unwrap().is_unrestricted());
    }

    #[test]
    fn selectors_end_and_their_errors_are_theirs() {
        assert_eq!(user("on (~a +get").unwrap_err(), UserError::Unmatched(b"(~a".to_vec()));
        assert_eq!(user("(&* &x)").unwrap_err(), UserError::Rule(b"(&* &x)".to_vec(), RuleError::ChannelPatternBesideAll));
        assert_eq!(user("(nonsense)").unwrap_err(), UserError::Rule(b"(nonsense)".to_vec(), RuleError::Syntax));
        assert_eq!(user(")").unwrap_err(), UserError::Rule(b")".to_vec(), RuleError::Syntax));
        assert_eq!(user("~* ~a").unwrap_err(), UserError::Rule(b"~a".to_vec(), RuleError::KeyPatternBesideAll));
        let text = String::from_utf8(user("+nosuch").unwrap_err().text()).unwrap();
        assert_eq!(text, "Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL");
    }

    #[test]
    fn keys_are_permitted_for_what_is_done_to_them() {
        let user = user("%R~r* %W~w* ~rw*").unwrap();
        let root = &user.selectors()[0];
        assert!(
            root.permits_key(b"r1", true, false) && !root.permits_key(b"r1", false, true) && !root.permits_key(b"r1", true, true)
        );
        assert!(root.permits_key(b"w", false, true) && root.permits_key(b"w", false, false) && root.permits_key(b"rw", true, true));
        assert!(!root.permits_key(b"x", false, false) && !root.permits_key_fully(b"rw"));
        let plain = super::tests::user("~rw*").unwrap();
        assert!(plain.selectors()[0].permits_key_fully(b"rw1") && !plain.selectors()[0].permits_key_fully(b"r"));
    }
}
