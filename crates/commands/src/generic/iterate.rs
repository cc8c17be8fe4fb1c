//! Finding keys: by pattern, by cursor, at random.
//!
//! KEYS goes through the database as SCAN does, a slice at a time, and others have their turn between two of them. So it is of
//! no single moment: keys that exist all the while are there once (INV-SCAN-1). Where others wait for its reply, as in EXEC, it
//! goes through in one piece; with keys on a device, too, since what has been read for a slice would be gone with it.

use almandine_command_spec::{Arg, Category, CommandSpec, Traits};
use almandine_handler::computation::Computation;
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, ReadCall};
use almandine_io::entropy;
use almandine_resp::reply::write_header;

use crate::scan;
use crate::traits::READ;

/// Keys that KEYS asks the keyspace for at a time.
const KEYS_AT_A_TIME: usize = 512;
/// Bytes of a reply beyond which the next piece begins.
const PIECE_BYTES: usize = 256 << 10;
/// Keys that a SCAN which meets none asks the keyspace for before it rests. The index is shared by all databases, so that a small
/// one may lie behind many empty buckets; this is under a millisecond, and crosses an index of 40,000 buckets in one call.
const SCAN_PATIENCE: usize = 4096;

pub(super) const RANDOMKEY: Command = Command {
    spec: CommandSpec {
        name: "RANDOMKEY",
        id: 218,
        summary: "Returns a random key name from the database.",
        traits: Traits { fast: false, all_keyspace: true, ..READ },
        tips: &["request_policy:all_shards", "nondeterministic_output"],
        ..CommandSpec::BLANK
    },
    run: Handler::Read(randomkey),
};

fn randomkey(call: &mut ReadCall<'_>) -> Outcome {
    let mut key = Vec::new();
    match call.keys.random_key(entropy::seed(), &mut key)? {
        true => call.reply.bulk(&key),
        false => call.reply.null(),
    }
    Ok(())
}

pub(super) const KEYS: Command = Command {
    spec: CommandSpec {
        name: "KEYS",
        id: 219,
        complexity: "O(N) with N being the number of keys in the database, under the assumption that the key names in the \
                     database and the given pattern have limited length.",
        summary: "Returns all key names that match a pattern.",
        args: &[Arg::pattern("pattern")],
        traits: Traits { fast: false, all_keyspace: true, ..READ },
        categories: Some(&[Category::Keyspace, Category::Dangerous]),
        tips: &["request_policy:all_shards", "nondeterministic_output_order"],
        ..CommandSpec::BLANK
    },
    run: Handler::Read(keys),
};

fn keys(call: &mut ReadCall<'_>) -> Outcome {
    let wanted = Filter { pattern: call.args.at(1), kind: None };
    let namespace = call.keys.key(b"").namespace;
    let (mut found, round) = match call.computed::<Found>()? {
        Some((found, round)) if found.namespace == namespace => (*found, round),
        // What was found is not in the database any more: it was emptied or swapped.
        Some((_, round)) => (Found::new(namespace), round + 1),
        None => (Found::new(namespace), 0),
    };
    let mut whole = Ok(());
    loop {
        let from = found.cursor;
        let scanned = call.keys.scan(from, KEYS_AT_A_TIME, &mut |key, _| {
            if wanted.takes_name(key) {
                found.push(key);
            }
        });
        found.cursor = scanned.cursor;
        // All of them, so that those on the device are read together.
        whole = whole.and(scanned.whole);
        if found.cursor == 0 {
            break;
        }
        if call.may_compute(round) && !call.keys.plan().has_cold() {
            return Err(call.compute(found, round));
        }
    }
    whole?;
    call.reply.array(found.len);
    found.pieces.into_iter().for_each(|piece| call.reply.out.append(piece.into()));
    Ok(())
}

/// What KEYS has found so far. The command looks for more each time that it runs; between its runs others have their turn.
struct Found {
    /// The database's when it began.
    namespace: u16,
    cursor: u64,
    /// The names as they are replied.
    pieces: Vec<Vec<u8>>,
    len: usize,
}

impl Found {
    fn new(namespace: u16) -> Self {
        Self { namespace, cursor: 0, pieces: Vec::new(), len: 0 }
    }

    fn push(&mut self, key: &[u8]) {
        if self.pieces.last().is_none_or(|piece| piece.len() >= PIECE_BYTES) {
            self.pieces.push(Vec::new());
        }
        if let Some(piece) = self.pieces.last_mut() {
            write_header(piece, b'$', key.len());
            piece.extend_from_slice(key);
            piece.extend_from_slice(b"\r\n");
        }
        self.len += 1;
    }
}

impl Computation for Found {
    fn step(&mut self) -> bool {
        true
    }

    fn memory(&self) -> usize {
        self.pieces.iter().map(Vec::capacity).sum()
    }
}

pub(super) const SCAN: Command = Command {
    spec: CommandSpec {
        name: "SCAN",
        id: 220,
        since: "2.8.0",
        complexity: scan::COMPLEXITY,
        summary: "Iterates over the key names in the database.",
        args: &[
            Arg::integer("cursor"),
            Arg::pattern("pattern").token("MATCH").optional(),
            Arg::integer("count").token("COUNT").optional(),
            Arg::value("type").token("TYPE").optional().since("6.0.0"),
        ],
        traits: Traits { fast: false, all_keyspace: true, ..READ },
        tips: &["nondeterministic_output", "request_policy:special"],
        history: &[("6.0.0", "Added the `TYPE` subcommand.")],
        ..CommandSpec::BLANK
    },
    run: Handler::Read(scan),
};

fn scan(call: &mut ReadCall<'_>) -> Outcome {
    let cursor = scan::cursor(call.args.at(1))?;
    let mut wanted = Filter { pattern: b"*", kind: None };
    let mut count = scan::COUNT;
    let mut options = Options::after(call.args, 2);
    while let Some(option) = options.next() {
        match option {
            o if o.is("MATCH") => wanted.pattern = options.value()?,
            o if o.is("TYPE") => wanted.kind = Some(options.value()?),
            o if o.is("COUNT") => count = scan::count(&mut options)?,
            _ => return Err(CommandError::Syntax.into()),
        }
    }
    // The next cursor comes before the keys and is known only after them.
    let (mut names, mut len) = (Vec::new(), 0);
    let (mut next, mut visited, mut asked, mut whole) = (cursor, 0, 0, Ok(()));
    while visited < count && asked < count.max(SCAN_PATIENCE) {
        let wanted_now = count - visited;
        let scanned = call.keys.scan(next, wanted_now, &mut |key, metadata| {
            visited += 1;
            if wanted.takes_name(key) && wanted.takes_kind(metadata.kind.name()) {
                write_header(&mut names, b'$', key.len());
                names.extend_from_slice(key);
                names.extend_from_slice(b"\r\n");
                len += 1;
            }
        });
        next = scanned.cursor;
        whole = whole.and(scanned.whole);
        asked += wanted_now;
        if next == 0 {
            break;
        }
    }
    whole?;
    call.reply.array(2);
    call.reply.bulk(next.to_string().as_bytes());
    call.reply.array(len);
    call.reply.raw(&names);
    Ok(())
}

/// Which keys are answered.
struct Filter<'c> {
    pattern: &'c [u8],
    kind: Option<&'c [u8]>,
}

impl Filter<'_> {
    fn takes_name(&self, key: &[u8]) -> bool {
        scan::takes(self.pattern, key)
    }

    /// A type that does not exist is a type that no key has.
    fn takes_kind(&self, kind: &str) -> bool {
        self.kind.is_none_or(|wanted| wanted.eq_ignore_ascii_case(kind.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_a_word() {
        let strings = Filter { pattern: b"*", kind: Some(b"STRING") };
        assert!(strings.takes_kind("string") && !strings.takes_kind("hash"));
    }
}
