//! The suite over TLS: the package that Tcl needs, the certificates where the suite looks for them, and the server's flags.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::prerequisites;

/// What tries TLS itself, on servers that the suite starts.
pub(super) const FILE: &str = "unit/tls";

/// Files of `tests/tls` by the suite's names for them.
const FILES: &[(&str, &str)] = &[
    ("ca.crt", "ca.crt"),
    // Its key is encrypted by a test with a tool for RSA.
    ("server-rsa.crt", "server.crt"),
    ("server-rsa.key", "server.key"),
    ("server.crt", "redis.crt"),
    ("server.key", "redis.key"),
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
        // One of RFC 7919, which needs no search for primes.
        let words = ["genpkey", "-genparam", "-algorithm", "DH", "-pkeyopt", "group:ffdhe2048", "-out"];
        let made = Command::new("openssl").args(words).arg(&group).output();
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
