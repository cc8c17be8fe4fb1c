//! Payloads of redis-server, checked in with the commands that made them.
//!
//! ```text
//! > CONFIG SET hash-max-listpack-value 20000 ; HSET h f x*100     the commands, on an empty server; x*100 is x a hundred times,
//!                                                                 FILL h 5 sets the fields f0 to f4 to v0 to v4
//! = 1006…                                                         DUMP h, in hexadecimal digits
//! ```
#![expect(clippy::unwrap_used, reason = "support of tests: whatever fails here fails the test")]

use std::collections::BTreeMap;
use std::fmt::Write;

/// A payload and what made it.
pub(crate) struct Fixture {
    pub(crate) script: String,
    pub(crate) payload: Vec<u8>,
}

impl Fixture {
    /// Its commands.
    pub(crate) fn commands(&self) -> Vec<Vec<Vec<u8>>> {
        self.script.split(" ; ").map(command).collect()
    }

    /// The fields that its commands leave.
    pub(crate) fn fields(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut fields = BTreeMap::new();
        for command in self.commands() {
            match &command[0][..] {
                b"HSET" => fields.extend(command[2..].chunks(2).map(|pair| (pair[0].clone(), pair[1].clone()))),
                b"HDEL" => fields.retain(|name, _| !command[2..].contains(name)),
                _ => {}
            }
        }
        fields
    }
}

fn command(line: &str) -> Vec<Vec<u8>> {
    let words: Vec<Vec<u8>> = line.split(' ').map(word).collect();
    let Some((b"FILL", arguments)) = words.split_first().map(|(name, rest)| (&name[..], rest)) else { return words };
    let count: u32 = std::str::from_utf8(&arguments[1]).unwrap().parse().unwrap();
    let fields = (0..count).flat_map(|n| [format!("f{n}").into_bytes(), format!("v{n}").into_bytes()]);
    [b"HSET".to_vec(), arguments[0].clone()].into_iter().chain(fields).collect()
}

fn word(text: &str) -> Vec<u8> {
    match text.split_once('*').map(|(part, times)| (part, times.parse())) {
        Some((part, Ok(times))) => part.as_bytes().repeat(times),
        _ if text == "\"\"" => Vec::new(),
        _ => text.as_bytes().to_vec(),
    }
}

pub(crate) fn parse(text: &str) -> Vec<Fixture> {
    let mut fixtures = Vec::new();
    for line in text.lines() {
        if let Some(script) = line.strip_prefix("> ") {
            fixtures.push(Fixture { script: script.to_owned(), payload: Vec::new() });
        } else if let Some(digits) = line.strip_prefix("= ") {
            fixtures.last_mut().unwrap().payload = from_hex(digits);
        }
    }
    fixtures
}

/// The file with the payloads as they are now.
pub(crate) fn blessed(text: &str, fixtures: &[Fixture]) -> String {
    let comments = text.lines().take_while(|line| line.starts_with('#') || line.is_empty());
    let mut out: String = comments.flat_map(|line| [line, "\n"]).collect();
    for Fixture { script, payload } in fixtures {
        let _ = writeln!(out, "> {script}\n= {}\n", hex(payload));
    }
    out
}

pub(crate) fn from_hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
