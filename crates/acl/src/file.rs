//! ACL files: a line for each user. There are no comments, because ACL SAVE would lose them.

use crate::catalog::Catalog;
use crate::error::RuleError;
use crate::user::{Defaults, User, merge_selectors};
use crate::users::{DEFAULT_USER, Users, is_valid_name};

impl Users {
    /// The users that the text of a file describes; without a line for it, the default user may do everything. Users of the same
    /// name as one of these are the same, so that clients of theirs stay. `path` is for error messages.
    ///
    /// # Errors
    /// All that is wrong, in one line, as Redis words it.
    pub fn load(&self, path: &str, text: &[u8], catalog: &Catalog, defaults: Defaults) -> Result<Self, String> {
        let mut loaded = Self::new(b"", catalog);
        // Ids are never used again.
        loaded.next_id_at_least(self);
        let mut problems = String::new();
        let mut seen: Vec<Vec<u8>> = Vec::new();
        for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let words: Vec<&[u8]> = line.trim_ascii().split(|byte| *byte == b' ').collect();
            match words.as_slice() {
                [b""] => {}
                [b"user", name, ..] if !is_valid_name(name) => {
                    let name = String::from_utf8_lossy(name);
                    problems += &format!("'{path}:{number}: username '{name}' contains invalid characters. ");
                }
                [b"user", name, ..] if seen.iter().any(|other| other == name) => {
                    problems += &format!("WARNING: Duplicate user '{}' found on line {number}. ", String::from_utf8_lossy(name));
                }
                [b"user", name, rules @ ..] => {
                    seen.push(name.to_vec());
                    let mut user = loaded.create(name, catalog, defaults);
                    user.id = self.find(name).map_or(user.id, |old| old.id);
                    apply_line(&mut user, rules, (catalog, defaults), &format!("{path}:{number}"), &mut problems);
                    loaded.insert(user);
                }
                _ => problems += &format!("{path}:{number} should start with user keyword followed by the username. "),
            }
        }
        if !seen.iter().any(|name| name == DEFAULT_USER) {
            let mut user = User::clone(loaded.default_user());
            user.id = self.default_user().id;
            loaded.insert(user);
        }
        if problems.is_empty() {
            return Ok(loaded);
        }
        Err(problems + "WARNING: ACL errors detected, no change to the previously active ACL rules was performed")
    }

    /// The text of a file that describes these users.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for user in self.iter() {
            text.extend_from_slice(&user.describe());
            text.push(b'\n');
        }
        text
    }
}

/// Applies the rules of a line. Of errors about something else than names only the first is told: it may have led to the others,
/// and the rule may hold a password.
fn apply_line(user: &mut User, rules: &[&[u8]], (catalog, defaults): (&Catalog, Defaults), place: &str, problems: &mut String) {
    let Ok(rules) = merge_selectors(rules) else {
        *problems += &format!("{place}: Unmatched parenthesis in selector definition.");
        return;
    };
    let mut told = false;
    for rule in rules {
        let rule = rule.trim_ascii();
        match user.apply(rule, catalog, defaults) {
            Ok(()) => {}
            Err(error @ RuleError::Unknown) => {
                let rule = String::from_utf8_lossy(rule);
                *problems += &format!("{place}: Error in applying operation '{rule}': {}. ", error.text());
            }
            Err(error) if !std::mem::replace(&mut told, true) => *problems += &format!("{place}: {}. ", error.text()),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Users, String> {
        let catalog = Catalog::default();
        let mut before = Users::new(b"secret", &catalog);
        before.set(b"alice", &[], &catalog, Defaults::default()).unwrap();
        before.load("f", text.as_bytes(), &catalog, Defaults::default())
    }

    #[test]
    fn a_file_is_saved_and_loaded() {
        let users = load("\n  user alice on >a ~x  &y\r\n\nuser bob off (~z )\n").unwrap();
        let text = String::from_utf8(users.save()).unwrap();
        assert_eq!(text.lines().count(), 3);
        assert_eq!(load(&text).unwrap().save(), users.save());
        // Alice was there, the default user always is.
        assert_eq!((users.default_user().id, users.find(b"alice").unwrap().id), (1, 2));
        assert!(users.find(b"bob").unwrap().id > 2);
        // `requirepass` has no say where there is a file.
        assert!(users.default_user().is_open());
    }

    #[test]
    fn all_that_is_wrong_is_told_and_no_password() {
        let problems = load("user a >s nonsense1 ~* ~b\n# no comments\nuser a\nuser c +nosuch\nuser d (+x\nuser").unwrap_err();
        let end = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed";
        assert_eq!(
            problems,
            format!(
                "f:1: Syntax error. f:2 should start with user keyword followed by the username. WARNING: Duplicate user 'a' \
                 found on line 3. \
                 f:4: Error in applying operation '+nosuch': Unknown command or category name in ACL. \
                 f:5: Unmatched parenthesis in selector definition.f:6 should start with user keyword followed by the username. \
                 {end}"
            )
        );
    }
}
