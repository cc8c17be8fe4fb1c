//! Names of users and connections.

use almandine_handler::{CommandError, errors};

/// A name as CLIENT SETNAME accepts it: printable, without spaces.
pub(crate) fn client_name(name: &[u8]) -> Result<String, CommandError> {
    printable(name).ok_or(errors::client::INVALID_NAME)
}

/// Bytes from `!` to `~`, which fit into a line of CLIENT LIST.
pub(crate) fn printable(text: &[u8]) -> Option<String> {
    let valid = text.iter().all(u8::is_ascii_graphic);
    valid.then(|| String::from_utf8_lossy(text).into_owned())
}
