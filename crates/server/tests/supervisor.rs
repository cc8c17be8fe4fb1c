//! What systemd hears: that the server is ready, and then that it lives, as long as its workers go on. A socket stands in for
//! systemd.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use almandine_testkit::{Client, Program, Server, Value};

/// What the unit allows in these tests.
const WATCHDOG: Duration = Duration::from_millis(800);
const SIGN: &str = "WATCHDOG=1\n";

struct Supervisor {
    socket: UnixDatagram,
    server: Server,
    path: PathBuf,
}

impl Supervisor {
    fn start(name: &str, flags: &[&str]) -> Self {
        let path = std::env::temp_dir().join(format!("almandine-notify-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).expect("a socket");
        let server = start(flags, path.to_str().expect("a path"), WATCHDOG);
        Self { socket, server, path }
    }

    /// What is heard within a time; none when nothing is.
    fn hear(&self, within: Duration) -> Option<String> {
        hear(&self.socket, within)
    }

    /// Forgets what was heard before.
    fn forget(&self) {
        while self.hear(Duration::from_millis(1)).is_some() {}
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn start(flags: &[&str], socket: &str, watchdog: Duration) -> Server {
    let own = ["--supervised", "systemd", "--workers", "2", "--enable-debug-command", "yes"];
    let variables = [("NOTIFY_SOCKET", socket.to_owned()), ("WATCHDOG_USEC", watchdog.as_micros().to_string())];
    Server::start_with(&Program::Almandine, &[&own[..], flags].concat(), &variables)
}

fn hear(socket: &UnixDatagram, within: Duration) -> Option<String> {
    socket.set_read_timeout(Some(within)).expect("a timeout");
    let mut bytes = [0; 256];
    match socket.recv(&mut bytes) {
        Ok(length) => Some(String::from_utf8_lossy(&bytes[..length]).into_owned()),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
        Err(error) => panic!("{error}"),
    }
}

fn send(client: &mut Client, words: &[&str]) {
    client.send(&[words]).expect("it is sent");
}

#[test]
fn an_idle_server_lives() {
    let supervisor = Supervisor::start("idle", &[]);
    let first = supervisor.hear(WATCHDOG * 20).expect("that it is ready");
    assert!(first.contains("READY=1\n"), "{first}");
    for _ in 0..8 {
        assert_eq!(supervisor.hear(WATCHDOG * 20).as_deref(), Some(SIGN), "{}", supervisor.server.log());
    }
}

/// A worker that stands still is a silent server, though the others go on, and it is heard of again when it goes on.
#[test]
fn a_worker_that_stands_still_is_no_life() {
    let supervisor = Supervisor::start("still", &[]);
    let (mut stuck, mut other) = (supervisor.server.client(), supervisor.server.client());
    send(&mut stuck, &["DEBUG", "SLEEP", "8"]);
    let end = Instant::now() + Duration::from_secs(7);
    while !supervisor.server.log().contains(" does not go on: systemd is not told") {
        assert!(Instant::now() < end, "{}", supervisor.server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    supervisor.forget();
    assert_eq!(supervisor.hear(WATCHDOG), None);
    assert_eq!(other.line("PING"), Value::Simple(b"PONG".to_vec()), "the other worker goes on");
    assert_eq!(stuck.receive().expect("a reply"), Value::ok());
    supervisor.forget();
    for _ in 0..3 {
        assert_eq!(supervisor.hear(WATCHDOG * 20).as_deref(), Some(SIGN), "it lives again");
    }
}

/// Scripts may take their time: one that is suspended, and one that holds all others up; also where none is ever called slow.
#[test]
fn a_long_script_is_life() {
    for flags in [&["--busy-reply-threshold", "100", "--busy-reply-scope", "node"][..], &["--busy-reply-threshold", "0"]] {
        let supervisor = Supervisor::start(&format!("script-{}", flags.len()), flags);
        // Clients may be answered before that is told.
        assert!(supervisor.hear(WATCHDOG * 20).is_some_and(|first| first.contains("READY=1\n")));
        for script in ["while true do end", "local n = 0 while n < 1e8 do n = n + 1 redis.call('SET', 'key' .. n % 7, n) end"] {
            let (mut client, mut other) = (supervisor.server.client(), supervisor.server.client());
            send(&mut client, &["EVAL", script, "0"]);
            supervisor.forget();
            for n in 0..12 {
                assert_eq!(supervisor.hear(WATCHDOG * 20).as_deref(), Some(SIGN), "{n}: {script}, {flags:?}");
            }
            other.send(&[["SCRIPT", "KILL"]]).expect("it is sent");
        }
    }
}

/// The server is not held up by a supervisor whose socket has no file, and gives no signs that are not asked for.
#[test]
fn a_socket_without_a_file_is_told_and_no_watchdog_gets_no_signs() {
    let name = format!("almandine-notify-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let socket = UnixDatagram::bind_addr(&address).expect("a socket");
    let server = start(&[], &format!("@{name}"), Duration::ZERO);
    let first = hear(&socket, WATCHDOG * 20).expect("that it is ready");
    assert!(first.contains("READY=1\n"), "{first}");
    assert_eq!(hear(&socket, WATCHDOG), None, "{}", server.log());
}
