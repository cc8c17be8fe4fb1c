//! Runs golden sessions against a server, or blesses their expectations from redis-server.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::file::{Action, Session, Step, parse};
use crate::{Client, Program, Server, Value};

/// How long nothing more must arrive before raw bytes count as answered.
const QUIET: Duration = Duration::from_millis(150);
/// What a session whose commands have their times may take beside its pauses. One that took longer is played again when it
/// differs, so often at most.
const PROMPT: Duration = Duration::from_millis(20);
const PLAYED_MAX: usize = 4;

/// How long memory may take to come back.
const ROOM_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client that waits may take to be seen waiting.
const WAIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Counts of a run; `failures` are readable reports.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Sessions that ran.
    pub sessions: usize,
    /// Sessions that belong to the other server only.
    pub other_server: usize,
    /// Sessions that were not wanted.
    pub left_out: usize,
    /// Replies compared.
    pub replies: usize,
    /// One report per failed session.
    pub failures: Vec<String>,
}

/// Runs every session of a file. `shared` is used by sessions that need no server of their own.
///
/// # Panics
/// When the file cannot be read.
pub fn run_file(path: &Path, shared: &Server, outcome: &mut Outcome) {
    run_file_with(path, shared, Manner::AsItComes, &|_, _| true, outcome);
}

/// How the commands of a session are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// As they come: neighbouring commands of one connection are one pipeline.
    AsItComes,
    /// One by one, with all keys cold before each.
    Cold,
    /// Each in a transaction of its own, where it may be, which is sent as a whole.
    InTransaction,
    /// As that, with EXEC sent when the rest is answered.
    Queued,
}

/// As [`run_file`], with keys made cold, for the sessions that `wanted` accepts by file and name.
///
/// # Panics
/// When the file cannot be read.
pub fn run_file_with(path: &Path, shared: &Server, manner: Manner, wanted: &dyn Fn(&str, &str) -> bool, outcome: &mut Outcome) {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let sessions = match parse(&text) {
        Ok(sessions) => sessions,
        Err(e) => return outcome.failures.push(format!("{}: {e}", short(path))),
    };
    for session in &sessions {
        if session.only.as_ref().is_some_and(|only| only != shared.program()) {
            outcome.other_server += 1;
            continue;
        }
        if !wanted(&short(path), &session.name) {
            outcome.left_out += 1;
            continue;
        }
        outcome.sessions += 1;
        let mut result = Ok(());
        for _ in 0..PLAYED_MAX {
            let begun = Instant::now();
            result = play(session, shared, manner, &mut |step, replies| {
                outcome.replies += replies.len();
                difference(step, replies).map_or(Ok(()), Err)
            });
            let pauses = session.pauses();
            if result.is_ok() || pauses.is_zero() || begun.elapsed() < pauses + PROMPT {
                break;
            }
        }
        if let Err(report) = result {
            outcome.failures.push(format!("{}: {}\n{report}", short(path), session.name));
        }
    }
}

/// Family and file.
fn short(path: &Path) -> String {
    let parts: Vec<_> = path.iter().rev().take(2).map(|p| p.to_string_lossy()).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}

/// Writes redis-server's replies into a file wherever they differ from what is there. Returns how many steps changed.
///
/// # Errors
/// When the file is malformed, or a session cannot be played.
pub fn bless_file(path: &Path, oracle: &Server) -> Result<usize, String> {
    let text = fs::read_to_string(path).map_err(|e| e.to_string())?;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut replacements = Vec::new();
    for session in &parse(&text).map_err(|e| format!("{}: {e}", path.display()))? {
        if session.only == Some(Program::Almandine) {
            continue;
        }
        play(session, oracle, Manner::AsItComes, &mut |step, replies| {
            if difference(step, replies).is_some() {
                replacements.push((step.lines.clone(), blessed(step, replies)));
            }
            Ok(())
        })
        .map_err(|e| format!("{}: {}: {e}", path.display(), session.name))?;
    }
    let changed = replacements.len();
    for (range, new) in replacements.into_iter().rev() {
        lines.splice(range, new.lines().map(str::to_owned));
    }
    if changed > 0 {
        fs::write(path, lines.join("\n") + "\n").map_err(|e| e.to_string())?;
    }
    Ok(changed)
}

/// The new expectation of a step: what matches keeps its text, so that matchers survive.
fn blessed(step: &Step, replies: &[Value]) -> String {
    let same_count = step.expected.len() == replies.len();
    let answered: Vec<&Action> =
        step.actions.iter().filter(|a| !matches!(a, Action::Sleep(_) | Action::Close(_) | Action::Wait(..))).collect();
    let lines = replies.iter().enumerate().map(|(i, value)| match step.expected.get(i) {
        Some((expect, text)) if same_count && expect.matches(value) => text.clone(),
        _ if step.is_raw() => value.pretty(),
        _ => remaining_time(answered.get(i), value).unwrap_or_else(|| value.pretty()),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A time to live is not the same number on a slower machine.
fn remaining_time(action: Option<&&Action>, value: &Value) -> Option<String> {
    let (Action::Command(_, args), Value::Integer(n @ 1..)) = (action?, value) else { return None };
    let slack = match args.first()?.to_ascii_uppercase().as_slice() {
        b"TTL" => 5,
        b"PTTL" => 5000,
        _ => return None,
    };
    Some(format!("<int {}..{n}>", n - slack))
}

/// What is done with each step's replies.
type Check<'c> = &'c mut dyn FnMut(&Step, &[Value]) -> Result<(), String>;

/// Plays one session; `check` sees each step's replies and may stop it.
fn play(session: &Session, shared: &Server, manner: Manner, check: Check<'_>) -> Result<(), String> {
    let own;
    // A server that cannot FLUSHALL fails that command's own sessions; the others still tell something.
    let server = if session.own_server || !session.flags.is_empty() || shared.client().line("FLUSHALL") != Value::ok() {
        own = shared.start_another(&session.flags.iter().map(String::as_str).collect::<Vec<_>>());
        &own
    } else {
        shared
    };
    if manner != Manner::AsItComes {
        await_room(server)?;
    }
    let mut clients: BTreeMap<usize, Client> = BTreeMap::new();
    for step in &session.steps {
        let replies = perform(step, session, server, manner, &mut clients)
            .map_err(|e| format!("{}: {e}\nserver log:\n{}", describe(step), tail(&server.log())))?;
        check(step, &replies)?;
    }
    // Or the next session would still see them.
    clients.into_values().for_each(Client::end);
    Ok(())
}

/// Values of an earlier session may be larger than the memory allowed; it must come back once they have been removed.
fn await_room(server: &Server) -> Result<(), String> {
    let deadline = Instant::now() + ROOM_TIMEOUT;
    let mut client = server.client();
    loop {
        match client.line("SETBIT room 0 0") {
            Value::Error(text) if text.starts_with(b"OOM") && Instant::now() < deadline => thread::sleep(Duration::from_millis(10)),
            Value::Error(text) if text.starts_with(b"OOM") => {
                return Err(format!("memory does not come back within {ROOM_TIMEOUT:?}"));
            }
            // A server of its own may want a password first: nothing has been used there.
            _ => break,
        }
    }
    let _ = client.line("DEL room");
    Ok(())
}

fn perform(
    step: &Step,
    session: &Session,
    server: &Server,
    manner: Manner,
    clients: &mut BTreeMap<usize, Client>,
) -> io::Result<Vec<Value>> {
    let mut replies = Vec::new();
    let mut actions = step.actions.as_slice();
    while let Some(action) = actions.first() {
        let mut used = 1;
        match action {
            Action::Sleep(ms) => thread::sleep(Duration::from_millis(*ms)),
            Action::Read(n) => replies.push(client(*n, session, server, clients)?.receive()?),
            Action::Close(n) => clients.remove(n).into_iter().for_each(Client::end),
            Action::Wait(n, args) => {
                if manner == Manner::Cold {
                    server.make_cold();
                }
                begin_to_wait(client(*n, session, server, clients)?, args, server)?;
            }
            Action::Raw(n, bytes) => {
                let client = client(*n, session, server, clients)?;
                client.send_raw(bytes)?;
                // A step sends raw bytes last, so that all that it has left to expect is theirs.
                let awaited = if actions.len() == 1 { step.expected.len().saturating_sub(replies.len()) } else { 0 };
                replies.append(&mut client.receive_awaited(awaited, QUIET)?);
            }
            Action::Command(n, args) if manner == Manner::Cold => {
                server.make_cold();
                replies.push(client(*n, session, server, clients)?.call(args)?);
            }
            Action::Command(n, args) if matches!(manner, Manner::InTransaction | Manner::Queued) => {
                let client = client(*n, session, server, clients)?;
                replies.push(if runs_at_once(args) { client.call(args)? } else { in_transaction(client, args, manner)? });
            }
            Action::Command(n, _) => {
                // Neighbouring commands of one connection are one pipeline.
                let pipeline: Vec<&Vec<Vec<u8>>> = actions
                    .iter()
                    .map_while(|a| match a {
                        Action::Command(m, args) if m == n => Some(args),
                        _ => None,
                    })
                    .collect();
                used = pipeline.len();
                replies.extend(client(*n, session, server, clients)?.pipeline(&pipeline)?);
            }
        }
        actions = &actions[used..];
    }
    Ok(replies)
}

/// Sends a command that waits, and returns when it does.
fn begin_to_wait(client: &mut Client, args: &[Vec<u8>], server: &Server) -> io::Result<()> {
    let mut observer = server.client();
    let mut blocked = || -> u64 {
        let info = observer.line("INFO clients").to_string();
        let number =
            info.split_once("blocked_clients:").map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    let (before, deadline) = (blocked(), Instant::now() + WAIT_TIMEOUT);
    client.send(&[args])?;
    while blocked() <= before {
        if Instant::now() > deadline {
            return Err(io::Error::other("the command does not wait"));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Whether a command is not queued, or changes what its connection takes and gets.
fn runs_at_once(args: &[Vec<u8>]) -> bool {
    let name = args.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
    matches!(
        name.as_slice(),
        b"multi" | b"exec" | b"discard" | b"watch" | b"unwatch" | b"quit" | b"reset" | b"monitor" | b"client" | b"hello" | b"auth"
    )
}

/// The reply of a command that a transaction executes; its own error when it is not queued.
fn in_transaction(client: &mut Client, args: &[Vec<u8>], manner: Manner) -> io::Result<Value> {
    let words = |word: &str| vec![word.as_bytes().to_vec()];
    let whole = [&words("MULTI"), &args.to_vec(), &words("EXEC")];
    let first = if manner == Manner::Queued { 2 } else { 3 };
    let mut replies = client.pipeline(&whole[..first])?;
    if first < whole.len() {
        replies.push(client.call(whole[first])?);
    }
    let (executed, queued) = (replies.pop(), replies.pop());
    Ok(match (queued, executed) {
        (Some(Value::Simple(status)), Some(Value::Array(mut items))) if status == b"QUEUED" && items.len() == 1 => items.remove(0),
        (Some(error @ Value::Error(_)), Some(Value::Error(_))) => error,
        (_, executed) => executed.unwrap_or(Value::Null),
    })
}

fn client<'c>(
    number: usize,
    session: &Session,
    server: &Server,
    clients: &'c mut BTreeMap<usize, Client>,
) -> io::Result<&'c mut Client> {
    use std::collections::btree_map::Entry;
    match clients.entry(number) {
        Entry::Occupied(entry) => Ok(entry.into_mut()),
        Entry::Vacant(entry) => {
            let mut client = Client::connect(server.address())?;
            if session.resp3 {
                let _ = client.call(&["HELLO", "3"])?;
            }
            Ok(entry.insert(client))
        }
    }
}

fn difference(step: &Step, replies: &[Value]) -> Option<String> {
    if step.expected.len() == replies.len() && step.expected.iter().zip(replies).all(|((e, _), v)| e.matches(v)) {
        return None;
    }
    let mut report = format!("{}  (line {})\n", describe(step), step.lines.start);
    for i in 0..step.expected.len().max(replies.len()) {
        let (expected, reply) = (step.expected.get(i), replies.get(i));
        let _ = match (expected, reply) {
            (Some((e, _)), Some(v)) if e.matches(v) => writeln!(report, "  same     {v}"),
            (Some((_, text)), Some(v)) => writeln!(report, "  expected {text}\n  got      {v}"),
            (None, Some(v)) => writeln!(report, "  expected nothing\n  got      {v}"),
            (Some((_, text)), None) => writeln!(report, "  missing  {text}"),
            (None, None) => Ok(()),
        };
    }
    Some(report)
}

fn describe(step: &Step) -> String {
    let lines = step.actions.iter().map(|action| match action {
        Action::Command(n, args) => format!("  {n}> {}", crate::value::command_line(args)),
        other => format!("  {other:?}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
