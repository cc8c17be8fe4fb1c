//! Hostile clients: what a server meets from an unfriendly network. Each attack runs against a [`Server`], which must
//! answer others meanwhile and hold no memory for it afterwards.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

use crate::client::encode;
use crate::{Client, Random, Server, Value};

/// A mebibyte.
pub const MIB: u64 = 1 << 20;

/// Raises this process' limit of open files, which clients need. Servers raise their own.
///
/// # Panics
/// When the system allows fewer than `wanted`.
pub fn raise_file_limit(wanted: u64) {
    let limit = getrlimit(Resource::Nofile);
    let allowed = limit.maximum.unwrap_or(u64::MAX);
    assert!(allowed >= wanted, "the hard limit of open files is {allowed}, and this test needs {wanted} (ulimit -Hn)");
    if limit.current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum }).expect("raise the soft limit");
    }
}

/// Lets the server have at most `files` descriptors.
///
/// # Panics
/// When the system refuses.
pub fn limit_files(server: &Server, files: u64) {
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw);
    let limit = Rlimit { current: Some(files), maximum: getrlimit(Resource::Nofile).maximum };
    prlimit(pid, Resource::Nofile, limit).expect("limit the server's files");
}

/// Descriptors that the server has open.
///
/// # Panics
/// When the server is gone.
#[must_use]
pub fn open_files(server: &Server) -> u64 {
    std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("the server's files").count() as u64
}

/// Processor time that the server has used, in hundredths of a second.
///
/// # Panics
/// When the server is gone.
#[must_use]
pub fn processor_ticks(server: &Server) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).expect("the server's figures");
    let figures = text.rsplit(") ").next().unwrap_or_default();
    figures.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

/// Processor time that the server has used, in nanoseconds, of all threads that still run.
///
/// # Panics
/// When the server is gone.
#[must_use]
pub fn processor_ns(server: &Server) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("the server's threads");
    let of_thread = |path: std::path::PathBuf| std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
    threads.flatten().filter_map(|thread| of_thread(thread.path()).split(' ').next()?.parse::<u64>().ok()).sum()
}

/// A figure of INFO.
///
/// # Panics
/// When there is none of this name.
#[must_use]
pub fn figure(client: &mut Client, name: &str) -> u64 {
    let info = client.line("INFO everything");
    let text = String::from_utf8_lossy(info.bytes().unwrap_or_default()).into_owned();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned));
    value.unwrap_or_else(|| panic!("INFO has no {name}")).trim().parse().expect("a number")
}

/// Waits until a figure of INFO is so much; returns what it is at last.
#[must_use]
pub fn figure_becomes(client: &mut Client, name: &str, wanted: u64, within: Duration) -> u64 {
    let deadline = Instant::now() + within;
    loop {
        let now = figure(client, name);
        if now == wanted || Instant::now() > deadline {
            return now;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until the server's resident memory is at most `bound`; returns what it is at last.
#[must_use]
pub fn settles_below(server: &Server, bound: u64, within: Duration) -> u64 {
    let deadline = Instant::now() + within;
    loop {
        let now = server.resident_bytes();
        if now <= bound || Instant::now() > deadline {
            return now;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Commands that fuzzing mutates: none of them can allocate much or end the server by a changed byte.
const CORPUS: &[&[u8]] = &[
    b"*1\r\n$4\r\nPING\r\n",
    b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n",
    b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n",
    b"*5\r\n$4\r\nMSET\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$0\r\n\r\n",
    b"*5\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n$2\r\nEX\r\n$3\r\n100\r\n",
    b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n",
    b"*4\r\n$8\r\nBITFIELD\r\n$1\r\na\r\n$3\r\nGET\r\n$2\r\nu8\r\n",
    b"*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$1\r\n*\r\n",
    b"*2\r\n$4\r\nINFO\r\n$3\r\nall\r\n",
    b"*2\r\n$7\r\nCOMMAND\r\n$4\r\nDOCS\r\n",
    b"*2\r\n$6\r\nCLIENT\r\n$4\r\nLIST\r\n",
    b"*4\r\n$4\r\nSCAN\r\n$1\r\n0\r\n$5\r\nMATCH\r\n$4\r\n[a-z\r\n",
    b"PING\r\n",
    b"SET a \"b\\x00\\n\" EX 10\r\n",
    b"GET 'a'\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"\r\n",
];

const FRAGMENTS: &[&[u8]] = &[
    b"\r\n",
    b"\r",
    b"\n",
    b"*",
    b"$",
    b"-1",
    b"0",
    b"\x00",
    b"\xff",
    b"\"",
    b"'",
    b"9223372036854775807",
    b"4294967296",
    b"536870912",
    b"1048576",
    b"$-1\r\n",
    b"*1000000\r\n",
    b"$536870913\r\n",
    b" ",
    b"*1\r\n*1\r\n*1\r\n",
    b"+OK\r\n",
    b":1\r\n",
    b"%1\r\n",
    b"2147483648",
];

/// Random and mutated bytes for one connection.
#[must_use]
pub fn fuzz_input(random: &mut Random) -> Vec<u8> {
    if random.chance(10) {
        let len = random.below(300);
        return random.bytes(len);
    }
    let mut bytes = Vec::new();
    for _ in 0..1 + random.below(6) {
        bytes.extend_from_slice(random.pick::<&[u8]>(CORPUS));
    }
    for _ in 0..random.below(6) {
        let at = random.below(bytes.len() + 1);
        match random.below(5) {
            0 if at < bytes.len() => bytes[at] = random.bits() as u8,
            1 => {
                let fragment = *random.pick(FRAGMENTS);
                bytes.splice(at..at, fragment.iter().copied());
            }
            2 => bytes.truncate(at),
            3 => {
                let to = (at + random.below(20)).min(bytes.len());
                bytes.drain(at..to);
            }
            _ => {
                let to = (at + random.below(40)).min(bytes.len());
                let copy = bytes[at..to].to_vec();
                bytes.splice(at..at, copy);
            }
        }
    }
    bytes
}

/// Sends `cases` fuzzed inputs, each on a connection of its own; another connection must be answered throughout.
///
/// # Panics
/// When the server ends, stops answering, or does not close a connection whose client has finished.
pub fn fuzz(server: &mut Server, seed: u64, cases: usize) {
    let mut random = Random::new(seed);
    let mut recent: Vec<Vec<u8>> = Vec::new();
    for case in 0..cases {
        let input = fuzz_input(&mut random);
        recent.push(input);
        if let Err(e) = fuzz_one(server, &recent[recent.len() - 1], &mut random) {
            let last: Vec<String> = recent.iter().rev().take(3).map(|i| i.escape_ascii().to_string()).collect();
            panic!("case {case} of seed {seed}: {e}; newest first: {last:#?}\nserver log:\n{}", server.log());
        }
        if case % 200 == 199 {
            server.assert_alive(&format!("fuzz case {case} of seed {seed}"));
            recent.clear();
        }
    }
}

fn fuzz_one(server: &Server, input: &[u8], random: &mut Random) -> io::Result<()> {
    let client = Client::connect(server.address())?;
    let mut stream = client.stream();
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    // A server that has seen a protocol error may close before it was sent everything.
    let split = random.below(input.len() + 1);
    let sent = stream.write_all(&input[..split]).and_then(|()| stream.write_all(&input[split..]));
    if sent.is_err() || random.chance(20) {
        return Ok(());
    }
    if stream.shutdown(Shutdown::Write).is_err() {
        return Ok(());
    }
    let mut sink = [0; 16 * 1024];
    loop {
        match stream.read(&mut sink) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(io::Error::new(e.kind(), "not closed within 10 s after the client's end of stream"));
            }
            Err(_) => return Ok(()),
        }
    }
}

/// Opens `count` connections that all ask and are all answered, twice; returns the server's resident bytes while all are open.
///
/// # Errors
/// When a connection fails.
pub fn many_connections(server: &Server, count: usize) -> io::Result<u64> {
    let mut clients = Vec::with_capacity(count);
    for n in 0..count {
        clients.push(Client::connect(server.address()).map_err(|e| io::Error::new(e.kind(), format!("connection {n}: {e}")))?);
    }
    for round in 0..2 {
        for client in &mut clients {
            client.send(&[["PING"]])?;
        }
        for (n, client) in clients.iter_mut().enumerate() {
            let reply = client.receive()?;
            if reply != Value::Simple(b"PONG".to_vec()) {
                return Err(io::Error::other(format!("connection {n}, round {round}: {reply}")));
            }
        }
    }
    Ok(server.resident_bytes())
}

/// Connections that stop in the middle of a command. They stay open as long as they are kept.
///
/// # Errors
/// When a connection fails.
pub fn half_commands(server: &Server, count: usize) -> io::Result<Vec<Client>> {
    let whole = b"*3\r\n$3\r\nSET\r\n$8\r\nhalf:key\r\n$20\r\n01234567890123456789\r\n";
    let mut clients = Vec::with_capacity(count);
    for n in 0..count {
        let mut client = Client::connect(server.address())?;
        client.send_raw(&whole[..1 + n % (whole.len() - 1)])?;
        clients.push(client);
    }
    Ok(clients)
}

/// Closes with a reset instead of an orderly end, as a peer that vanished.
///
/// # Errors
/// Of the socket.
pub fn vanish(client: Client) -> io::Result<()> {
    rustix::net::sockopt::set_socket_linger(client.stream(), Some(Duration::ZERO))?;
    drop(client);
    Ok(())
}

/// `count` clients that each ask for `requests` values of `key` and never read. Sending stops when the server stops reading.
///
/// # Errors
/// When a connection fails.
pub fn never_reading(server: &Server, count: usize, key: &str, requests: usize) -> io::Result<Vec<Client>> {
    let mut wire = Vec::new();
    for _ in 0..requests {
        encode(&["GET", key], &mut wire);
    }
    let mut clients = Vec::with_capacity(count);
    for _ in 0..count {
        let client = Client::connect(server.address())?;
        client.stream().set_nonblocking(true)?;
        // What the socket does not take, or a server that has closed already, is the point.
        let _ = client.stream().write(&wire);
        clients.push(client);
    }
    Ok(clients)
}

/// Sends a pipeline one byte per segment and reads its replies.
///
/// # Errors
/// When the connection fails.
pub fn byte_by_byte(server: &Server, commands: &[&[&str]]) -> io::Result<Vec<Value>> {
    let mut wire = Vec::new();
    for command in commands {
        encode(command, &mut wire);
    }
    let mut client = server.client();
    for byte in wire {
        client.send_raw(&[byte])?;
    }
    commands.iter().map(|_| client.receive()).collect()
}

/// Sends `SET key <value of len bytes>` without building it in memory.
///
/// # Errors
/// When the connection fails.
pub fn set_huge(client: &mut Client, key: &str, len: usize) -> io::Result<Value> {
    client.send_raw(format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${len}\r\n", key.len()).as_bytes())?;
    let chunk = pattern();
    let mut left = len;
    while left > 0 {
        let now = left.min(chunk.len());
        client.send_raw(&chunk[..now])?;
        left -= now;
    }
    client.send_raw(b"\r\n")?;
    client.receive()
}

/// Reads the reply to `GET key` of a value that [`set_huge`] made, comparing it as it arrives.
///
/// # Errors
/// When the connection fails or a byte differs.
pub fn expect_huge(stream: &mut TcpStream, key: &str, len: usize) -> io::Result<()> {
    let mut wire = Vec::new();
    encode(&["GET", key], &mut wire);
    stream.write_all(&wire)?;
    let mut header = vec![0; format!("${len}\r\n").len()];
    stream.read_exact(&mut header)?;
    if header != format!("${len}\r\n").as_bytes() {
        return Err(io::Error::other(format!("header {:?}", header.escape_ascii().to_string())));
    }
    let expected = pattern();
    let mut buffer = vec![0; expected.len()];
    let mut left = len;
    while left > 0 {
        let now = left.min(expected.len());
        stream.read_exact(&mut buffer[..now])?;
        if buffer[..now] != expected[..now] {
            return Err(io::Error::other(format!("the value differs near byte {}", len - left)));
        }
        left -= now;
    }
    stream.read_exact(&mut buffer[..2])?;
    if buffer[..2] == *b"\r\n" { Ok(()) } else { Err(io::Error::other("no CR LF after the value")) }
}

/// A mebibyte whose bytes tell their position.
fn pattern() -> Vec<u8> {
    (0..MIB).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect()
}

/// Writes `count` SET commands before it reads the first reply, as naive clients do; returns how many were answered with OK.
///
/// # Errors
/// When the connection fails or stalls.
pub fn one_pipeline(server: &Server, count: usize) -> io::Result<usize> {
    let mut wire = Vec::with_capacity(count * 48);
    for n in 0..count {
        encode(&["SET", &format!("pipeline:{}", n % 100_000), "value"], &mut wire);
    }
    let mut client = server.client();
    client.send_raw(&wire)?;
    let mut answered = 0;
    for _ in 0..count {
        answered += usize::from(client.receive()? == Value::ok());
    }
    Ok(answered)
}
