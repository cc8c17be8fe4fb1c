//! What systemd is told: that the server is ready, and, where its unit has a watchdog, again and again that it lives.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use almandine_config::Settings;
use almandine_config::choices::Supervised;
use almandine_io::thread;

use crate::Node;
use crate::watchdog::Watchdog;

/// Signs of life in the time after which systemd ends a server that gives none.
const SIGNS: u32 = 4;

/// Tells systemd that the server is ready, and from then on that it lives, where systemd waits for it.
pub(crate) fn begin(settings: &Settings, node: &Node) {
    let is_asked = matches!(settings.process.supervised, Supervised::Systemd | Supervised::Auto);
    if !is_asked || std::env::var_os("NOTIFY_SOCKET").is_none() {
        return;
    }
    if let Err(error) = notify("STATUS=Ready to accept connections\nREADY=1\n") {
        tracing::warn!("systemd was not told that the server is ready: {error}");
    }
    let Some(period) = watchdog_period() else { return };
    let mut watchdog = Watchdog::new(Arc::clone(node.instance()), node.handle().clone());
    // The thread lives as long as the process, whose end may take long and is seen as life.
    let started = thread::spawn("watchdog", move || {
        loop {
            if watchdog.look() {
                // One that is lost is followed by others.
                let _ = notify("WATCHDOG=1\n");
            }
            thread::sleep(period);
        }
    });
    if let Err(error) = started {
        tracing::warn!("systemd will not be told that the server lives, and end it: {error}");
    }
}

/// The time between signs of life, where systemd waits for such of this process.
fn watchdog_period() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_other = number("WATCHDOG_PID").is_some_and(|pid| pid != u64::from(std::process::id()));
    let period = Duration::from_micros(number("WATCHDOG_USEC")?) / SIGNS;
    (!is_other && !period.is_zero()).then_some(period)
}

/// Sends lines to the socket that systemd names, which is a path, or behind an `@` a name without a file.
fn notify(lines: &str) -> io::Result<()> {
    let path = std::env::var_os("NOTIFY_SOCKET").unwrap_or_default();
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&path)?,
    };
    #[expect(clippy::disallowed_methods, reason = "single datagrams, to the supervisor")]
    let socket = UnixDatagram::unbound()?;
    // A supervisor that does not read must not hold this thread.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(lines.as_bytes(), &address).map(|_| ())
}
