//! The users at start: from lines of the configuration file, or from a file of their own.

use std::io;
use std::path::Path;

use almandine_acl::{Defaults, RuleError, UserError, Users, is_valid_name};
use almandine_config::choices::ChannelsByDefault;
use almandine_config::{Config, Settings};
use almandine_handler::Table;
use almandine_instance::Acl;
use almandine_io::files;

/// Two sources would contradict each other; the words are Redis'.
const TWO_SOURCES: &str = "Configuring Redis with users defined in redis.conf and at the same setting an ACL file path is \
invalid. This setup is very likely to lead to configuration errors and security holes, please define either an ACL file or \
declare users directly in your redis.conf, but not both.";

/// The users that the configuration describes. A relative path of their file begins at `directory`.
///
/// # Errors
/// When a rule is wrong, or the file cannot be read: a server that restricts less than it was told to must not start.
pub(crate) fn load(config: &Config, table: &Table, directory: &Path) -> io::Result<Acl> {
    let snapshot = config.snapshot();
    let settings = &snapshot.settings;
    let catalog = table.catalog();
    let mut users = Users::new(settings.security.requirepass.as_bytes(), &catalog);
    let defaults = Defaults { all_channels: settings.security.channels_by_default == ChannelsByDefault::All };
    let lines: Vec<&[String]> = config
        .directives()
        .iter()
        .filter(|directive| directive.name == "user")
        .map(|directive| directive.words.as_slice())
        .collect();
    let path = &settings.security.acl_file;
    if !path.is_empty() {
        if !lines.is_empty() {
            return Err(fault(TWO_SOURCES.to_owned()));
        }
        users = load_file(&users, settings, directory, &catalog, defaults)?;
    }
    for (at, line) in lines.iter().enumerate() {
        let Some((name, words)) = line.split_first() else { continue };
        if lines[..at].iter().any(|other| other.first() == Some(name)) {
            return Err(fault(format!("Error in user declaration '{name}': {}", RuleError::DuplicateUser.text())));
        }
        if !is_valid_name(name.as_bytes()) {
            return Err(fault("Spaces not allowed in ACL usernames".to_owned()));
        }
        let mut rules: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        if name == "default" {
            rules.insert(0, b"reset");
        }
        users.set(name.as_bytes(), &rules, &catalog, defaults).map_err(|error| fault(declaration(name, &error)))?;
    }
    for user in users.iter().filter(|user| !user.is_enabled()) {
        let name = String::from_utf8_lossy(&user.name);
        tracing::info!(
            "The user '{name}' is disabled (there is no 'on' modifier in the user description). Make sure this is not a \
             configuration error."
        );
    }
    Ok(Acl::new(catalog, users))
}

fn load_file(
    users: &Users,
    settings: &Settings,
    directory: &Path,
    catalog: &almandine_acl::Catalog,
    defaults: Defaults,
) -> io::Result<Users> {
    let path = &settings.security.acl_file;
    let text = files::read(directory.join(path)).map_err(|error| {
        fault(format!("Cannot start because of ACL errors: Error loading ACLs, opening file '{path}': {error}"))
    })?;
    let loaded = users
        .load(path, &text, catalog, defaults)
        .map_err(|problems| fault(format!("Cannot start because of ACL errors: {problems}")))?;
    if !settings.security.requirepass.is_empty() {
        tracing::warn!("'requirepass' has no effect beside 'aclfile': the password of the default user is what the file says");
    }
    Ok(loaded)
}

/// What is wrong with the line of a user. The rule is named where it cannot hold a password.
fn declaration(name: &str, error: &UserError) -> String {
    match error {
        UserError::Rule(rule, problem) if !rule.first().is_some_and(|sign| b"<>!#".contains(sign)) => {
            format!("Error loading ACL rule '{}' for the user named '{name}': {}", String::from_utf8_lossy(rule), problem.text())
        }
        UserError::Rule(_, problem) => format!("Error loading an ACL rule for the user named '{name}': {}", problem.text()),
        UserError::Unmatched(_) => format!("Error in user declaration '{name}': {}", String::from_utf8_lossy(&error.text())),
    }
}

fn fault(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
