//! The file format of golden sessions. Line numbers are kept so that blessing rewrites only what it must.

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::expect::{self, Expect};
use crate::Program;

/// One session: it starts with an empty keyspace and new connections.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// The text after `===`.
    pub name: String,
    /// `@resp 2|3`: each connection says HELLO first when it is 3.
    pub resp3: bool,
    /// `@flags --x y …`: a server of its own with these flags.
    pub flags: Vec<String>,
    /// `@own`: a server of its own, because the session changes more than the keyspace.
    pub own_server: bool,
    /// `@only almandine|redis`: the other one does not have it.
    pub only: Option<Program>,
    /// What is done and expected, in order.
    pub steps: Vec<Step>,
}

/// Commands sent together and their replies.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// In order; all of one connection go out in one write.
    pub actions: Vec<Action>,
    /// Zero-based lines of the file that hold the expectation.
    pub lines: Range<usize>,
    /// One per action that is answered, with its text.
    pub expected: Vec<(Expect, String)>,
}

/// One line before `----`.
#[derive(Clone, Debug)]
pub enum Action {
    /// A command on a connection.
    Command(usize, Vec<Vec<u8>>),
    /// `@raw "bytes"`: sent as they are; all expectations of the step are what arrives, until it is quiet.
    Raw(usize, Vec<u8>),
    /// `@read`: nothing is sent, one more reply is read.
    Read(usize),
    /// `@wait COMMAND`: a command that waits is sent; it goes on when the server says that one more client waits. `@read` reads
    /// its reply.
    Wait(usize, Vec<Vec<u8>>),
    /// `@sleep MS`
    Sleep(u64),
    /// `@close`: the client closes its connection.
    Close(usize),
}

impl Session {
    /// How long it sleeps. A session that does is about times, which only a machine that has time for it keeps.
    #[must_use]
    pub fn pauses(&self) -> Duration {
        let actions = self.steps.iter().flat_map(|step| &step.actions);
        Duration::from_millis(actions.map(|action| if let Action::Sleep(ms) = action { *ms } else { 0 }).sum())
    }
}

impl Step {
    /// Whether replies are read until it is quiet instead of one per command.
    #[must_use]
    pub fn is_raw(&self) -> bool {
        self.actions.iter().any(|a| matches!(a, Action::Raw(..)))
    }
}

/// Reads a file.
///
/// # Errors
/// What is wrong, with the line.
pub fn parse(text: &str) -> Result<Vec<Session>, String> {
    let mut sessions: Vec<Session> = Vec::new();
    let mut step = Step::default();
    let lines: Vec<&str> = text.lines().collect();
    let mut i = 0;
    while i < lines.len() {
        let line = lines[i].trim_end();
        let at = |reason: String| format!("line {}: {reason}", i + 1);
        if let Some(name) = line.strip_prefix("===") {
            sessions.push(Session { name: name.trim().to_owned(), ..Session::default() });
        } else if line == "----" {
            let end =
                lines[i + 1..].iter().position(|l| l.trim().is_empty() || l.starts_with("===")).map_or(lines.len(), |n| i + 1 + n);
            step.lines = i + 1..end;
            step.expected = expect::parse_all(&lines[step.lines.clone()].join("\n")).map_err(at)?;
            let session = sessions.last_mut().ok_or_else(|| at("a step before the first ===".to_owned()))?;
            session.steps.push(std::mem::take(&mut step));
            i = end;
            continue;
        } else if !line.is_empty() && !line.starts_with('#') {
            let session = sessions.last_mut().ok_or_else(|| at("text before the first ===".to_owned()))?;
            if !directive(session, line).map_err(at)? {
                step.actions.push(action(line).map_err(at)?);
            }
        }
        i += 1;
    }
    if step.actions.is_empty() { Ok(sessions) } else { Err("the last commands have no ---- below them".to_owned()) }
}

/// Handles a line that describes the session; false when it is an action.
fn directive(session: &mut Session, line: &str) -> Result<bool, String> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "@resp" => session.resp3 = rest.trim() == "3",
        "@flags" => {
            let words = words(rest)?;
            session.flags = words.into_iter().map(|w| String::from_utf8_lossy(&w).into_owned()).collect();
        }
        "@own" => session.own_server = true,
        "@only" => {
            session.only = Some(match rest.trim() {
                "almandine" => Program::Almandine,
                "redis" => Program::Redis,
                other => return Err(format!("@only {other}: almandine or redis")),
            });
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn action(line: &str) -> Result<Action, String> {
    let (connection, rest) = match line.split_once("> ") {
        Some((n, rest)) if n.bytes().all(|b| b.is_ascii_digit()) => (n.parse().map_err(|_| "connection number")?, rest),
        _ => (1, line),
    };
    let mut args = words(rest)?;
    Ok(match args.first().map(Vec::as_slice) {
        Some(b"@raw") if args.len() == 2 => Action::Raw(connection, args.remove(1)),
        Some(b"@read") => Action::Read(connection),
        Some(b"@close") => Action::Close(connection),
        Some(b"@wait") if args.len() > 1 => Action::Wait(connection, args.split_off(1)),
        Some(b"@sleep") if args.len() == 2 => {
            Action::Sleep(String::from_utf8_lossy(&args[1]).parse().map_err(|_| "@sleep MILLISECONDS".to_owned())?)
        }
        Some(word) if word.starts_with(b"@") => return Err(format!("unknown {}", String::from_utf8_lossy(word))),
        Some(_) => Action::Command(connection, args),
        None => return Err("an empty command".to_owned()),
    })
}

/// Splits a line as redis-cli does. Bare words `@now+N`, `@now_ms+N` (Unix time) and `@fill(BYTE,COUNT)` stand for what they
/// compute.
fn words(line: &str) -> Result<Vec<Vec<u8>>, String> {
    let text = line.as_bytes();
    let mut words = Vec::new();
    let mut i = 0;
    while i < text.len() {
        match text[i] {
            b' ' => i += 1,
            b'"' => {
                let (bytes, used) = expect::unquote(&text[i..]).ok_or("unbalanced quotes")?;
                words.push(bytes);
                i += used;
            }
            _ => {
                let end = text[i..].iter().position(|b| *b == b' ').map_or(text.len(), |n| i + n);
                words.push(computed(&line[i..end])?.unwrap_or_else(|| text[i..end].to_vec()));
                i = end;
            }
        }
    }
    Ok(words)
}

fn computed(word: &str) -> Result<Option<Vec<u8>>, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|e| e.to_string())?;
    if let Some(offset) = word.strip_prefix("@now_ms") {
        return shifted(now.as_millis() as i64, offset).map(Some);
    }
    if let Some(offset) = word.strip_prefix("@now") {
        return shifted(now.as_secs() as i64, offset).map(Some);
    }
    if let Some(inner) = word.strip_prefix("@fill(").and_then(|w| w.strip_suffix(')')) {
        let (byte, count) = inner.split_once(',').ok_or("@fill(BYTE,COUNT)")?;
        let byte = *byte.as_bytes().first().ok_or("@fill(BYTE,COUNT)")?;
        return Ok(Some(vec![byte; count.parse().map_err(|_| "@fill(BYTE,COUNT)")?]));
    }
    Ok(None)
}

fn shifted(base: i64, offset: &str) -> Result<Vec<u8>, String> {
    let offset: i64 = if offset.is_empty() { 0 } else { offset.parse().map_err(|_| "@now+N or @now-N")? };
    Ok((base + offset).to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_steps_and_directives_are_read() {
        let text = "# c\n=== one\n@resp 3\n@flags --a \"\"\nSET a \"1 \\x00\"\n2> GET a\n----\n+OK\n$\"1\"\n\n\
                    @sleep 5\nPING\n----\n+PONG\n=== two\n@only redis\nX @fill(z,3)\n----\n";
        let sessions = parse(text).unwrap();
        assert_eq!(sessions.len(), 2);
        assert!(sessions[0].resp3);
        assert_eq!(sessions[0].flags, ["--a", ""]);
        assert_eq!(sessions[0].steps.len(), 2);
        assert!(matches!(&sessions[0].steps[0].actions[0], Action::Command(1, a) if a[2] == b"1 \x00"));
        assert!(matches!(&sessions[0].steps[0].actions[1], Action::Command(2, _)));
        assert_eq!(sessions[0].steps[0].lines, 7..9);
        assert_eq!(sessions[1].only, Some(Program::Redis));
        assert!(matches!(&sessions[1].steps[0].actions[0], Action::Command(1, a) if a[1] == b"zzz"));
        assert!(sessions[1].steps[0].expected.is_empty());
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        assert!(parse("PING\n").unwrap_err().starts_with("line 1"));
        assert!(parse("=== a\nPING\n").unwrap_err().contains("no ----"));
        assert!(parse("=== a\n@what\n").unwrap_err().starts_with("line 2"));
        assert!(parse("=== a\nPING\n----\nPONG\n").unwrap_err().contains("expected a reply"));
    }
}
