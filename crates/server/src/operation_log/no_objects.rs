//! In place of `objects` in a server that was built without the feature `object-store`.

use std::io;

use almandine_oplog::archive::Objects;

/// Says how to build a server that could.
///
/// # Errors
/// Always.
pub fn object_folder(setting: &str, _: &str) -> io::Result<Box<dyn Objects>> {
    let text = format!(
        "{setting}: this server was built without object storage; build one with `cargo build --release --features object-store`"
    );
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}
