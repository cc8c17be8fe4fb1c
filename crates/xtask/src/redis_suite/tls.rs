//! The suite over TLS: the package that Tcl needs, the certificates where the suite looks for them, and the server's flags.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::prerequisites;

/// Files of `tests/tls` by the suite's names for them.
const FILES: &[(&str, &str)] = &[
    ("ca.crt", "ca.crt"),
    ("server.crt", "server.crt"),
    ("server.key", "server.key"),
    ("alice.crt", "client.crt"),
    ("alice.key", "client.key"),
];
/// Parameters of Diffie-Hellman, which the suite names in configuration files.
const GROUP: &str = "redis.dh";

/// Puts everything into the suite's `tests/tls`.
pub(super) fn prepare(root: &Path, suite: &Path) -> Result<(), String> {
    prerequisites::tcl_tls()?;
    let (from, to) = (root.join("tests/tls"), suite.join("tests/tls"));
    let failed = |error: std::io::Error| format!("{}: {error}", to.display());
    fs::create_dir_all(&to).map_err(failed)?;
    for (name, theirs) in FILES {
        fs::copy(from.join(name), to.join(theirs)).map_err(failed)?;
    }
    let group = to.join(GROUP);
    if !group.is_file() {
        let made = Command::new("openssl").args(["dhparam", "-dsaparam", "-out"]).arg(&group).arg("2048").output();
        if !made.is_ok_and(|output| output.status.success()) {
            return Err(format!("openssl could not make {}", group.display()));
        }
    }
    Ok(())
}

/// What has a server speak TLS on a port.
pub(super) fn flags(root: &Path, port: &str) -> Vec<String> {
    let file = |name: &str| root.join("tests/tls").join(name).display().to_string();
    let files = [("--tls-cert-file", "server.crt"), ("--tls-key-file", "server.key"), ("--tls-ca-cert-file", "ca.crt")];
    let files = files.into_iter().flat_map(|(flag, name)| [flag.to_owned(), file(name)]);
    ["--tls-port", port].map(str::to_owned).into_iter().chain(files).collect()
}
