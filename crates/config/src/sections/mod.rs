//! The parameters, section by section, in the order of the manual.

pub mod cluster;
pub mod connections;
pub mod console;
pub mod engine;
pub mod memory;
pub mod network;
pub mod observe;
pub mod persistence;
pub mod process;
pub mod replication;
pub mod security;
pub mod storage;
pub mod threads;
pub mod tls;
pub mod values;

use crate::kind::{Kind, any};

const YES_NO: Kind = Kind::Bool;
const PORT: Kind = Kind::Integer(0, 65535);
const POSITIVE: Kind = Kind::Integer(1, i32::MAX as i64);
const NATURAL: Kind = Kind::Integer(0, i32::MAX as i64);
const LONG: Kind = Kind::Integer(0, i64::MAX);
const MEMORY: Kind = Kind::Memory(0, i64::MAX as u64);
const TEXT: Kind = Kind::Text(any);
const ALLOWED: Kind = Kind::Choice(<crate::choices::Allowed as crate::choices::Choice>::NAMES);

fn file_name(text: &str) -> Result<(), &'static str> {
    if text.contains('/') { Err("appendfilename can't be a path, just a filename") } else { Ok(()) }
}

fn dump_name(text: &str) -> Result<(), &'static str> {
    if text.contains('/') { Err("dbfilename can't be a path, just a filename") } else { Ok(()) }
}

fn backup_name(text: &str) -> Result<(), &'static str> {
    match text {
        "" | "." | ".." => Err("backupdirname must be the name of a directory"),
        _ if text.contains('/') => Err("backupdirname can't be a path, just a dirname"),
        _ => Ok(()),
    }
}

fn directory_name(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        Err("appenddirname can't be empty")
    } else if text.contains('/') {
        Err("appenddirname can't be a path, just a dirname")
    } else {
        Ok(())
    }
}

fn host_name(text: &str) -> Result<(), &'static str> {
    if text.len() >= 256 {
        Err("Hostnames must be less than 256 characters")
    } else if text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.') {
        Ok(())
    } else {
        Err("Hostnames may only contain alphanumeric characters, hyphens or dots")
    }
}

fn cpu_list(text: &str) -> Result<(), &'static str> {
    crate::special::parse_cpus(text).map(drop)
}

fn collation(text: &str) -> Result<(), &'static str> {
    match text {
        "" | "C" | "POSIX" | "C.UTF-8" => Ok(()),
        _ => Err("strings are compared by their bytes; leave it empty, or set it to C"),
    }
}

fn title_template(text: &str) -> Result<(), &'static str> {
    const NAMES: [&str; 7] = ["title", "listen-addr", "server-mode", "port", "tls-port", "unixsocket", "config-file"];
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let name = rest[at..].strip_prefix('{').and_then(|inner| inner.split_once('}'));
        match name.filter(|(name, _)| NAMES.contains(name)) {
            Some((_, behind)) => rest = behind,
            None => return Err("template format is invalid or contains unknown variables"),
        }
    }
    Ok(())
}
