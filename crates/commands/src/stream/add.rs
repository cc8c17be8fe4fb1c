//! XADD and XSETID.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_datatypes::stream::{ENTRY_MAX_BYTES, StreamId, Trim};
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, WriteCall, errors, number};
use almandine_resp::Args;

use super::access::{STREAM, change, change_existing, limits};
use super::producers::{Identity, PRODUCER_ARGS};
use super::trim::{POLICY_ARGS, TRIM_ARGS, TrimOptions, apply};
use super::{id, producers};
use crate::traits::WRITE;

pub(super) const XADD: Command = Command {
    spec: CommandSpec {
        name: "XADD",
        id: 880,
        complexity: "O(1) when adding a new entry, O(N) when trimming where N being the number of entries evicted.",
        summary: "Appends a new message to a stream. Creates the key if it doesn't exist.",
        args: &[
            Arg::key("key", Access::Update).notes("UPDATE instead of INSERT because of the optional trimming feature"),
            Arg::pure_token("nomkstream", "NOMKSTREAM").optional().since("6.2.0"),
            Arg::one_of("condition", POLICY_ARGS).optional().since("8.2.0"),
            Arg::one_of("idmp", PRODUCER_ARGS).optional().since("8.6.0"),
            Arg::block("trim", TRIM_ARGS).optional(),
            Arg::one_of("id-selector", &[Arg::pure_token("auto-id", "*"), Arg::value("id")]),
            Arg::block("data", &[Arg::value("field"), Arg::value("value")]).multiple(),
        ],
        traits: WRITE,
        tips: &["nondeterministic_output"],
        history: &[
            ("6.2.0", "Added the `NOMKSTREAM` option, `MINID` trimming strategy and the `LIMIT` option."),
            ("7.0.0", "Added support for the `<ms>-*` explicit ID form."),
            ("8.2.0", "Added the `KEEPREF`, `DELREF` and `ACKED` options."),
            ("8.6.0", "Added the `IDMP` and `IDMPAUTO` options."),
        ],
        ..STREAM
    },
    run: Handler::Write(xadd),
};

/// The id that an entry is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewId {
    /// The time.
    Auto,
    /// This millisecond, and the next number in it.
    Millisecond(u64),
    /// This one.
    Given(StreamId),
}

impl NewId {
    fn parse(text: &[u8]) -> Result<Self, CommandError> {
        match text.strip_suffix(b"-*") {
            _ if text == b"*" => Ok(Self::Auto),
            // No minus is before that of the number.
            Some(ms) if !ms.contains(&b'-') => id::strict(ms, 0).map(|id| Self::Millisecond(id.ms)),
            _ => id::strict(text, 0).map(Self::Given),
        }
    }

    /// The id behind the last one of a stream.
    fn after(self, last: StreamId, now: u64) -> Result<StreamId, CommandError> {
        let id = match self {
            Self::Auto => last.generate(now),
            // Redis says so of a millisecond that has no number left.
            Self::Millisecond(ms) if ms == last.ms => {
                Some(StreamId::new(ms, last.seq.checked_add(1).ok_or(errors::stream::ENTRY_TOO_LARGE)?))
            }
            Self::Millisecond(ms) => Some(StreamId::new(ms, 0)),
            Self::Given(id) => Some(id),
        };
        id.filter(|id| *id > last).ok_or(errors::stream::ID_NOT_ABOVE)
    }
}

/// What XADD was asked to do.
struct Addition<'c> {
    make: bool,
    trim: TrimOptions,
    identity: Option<Identity<'c>>,
    id: NewId,
    /// Where fields begin.
    fields: usize,
}

fn parse<'c>(args: Args<'c>) -> Result<Addition<'c>, CommandError> {
    let (mut make, mut trim, mut identity, mut options) = (true, TrimOptions::default(), None, Options::after(args, 2));
    loop {
        let Some(word) = options.next() else { return Err(errors::wrong_arity("xadd")) };
        if word.0 == b"*" {
            return Ok(Addition { make, trim, identity, id: NewId::Auto, fields: options.position() });
        }
        if word.is("NOMKSTREAM") {
            make = false;
        } else if !trim.option(word, &mut options)? && !Identity::option(word, &mut options, &mut identity)? {
            let id = NewId::parse(word.0)?;
            if identity.is_some() {
                return Err(errors::stream::PRODUCER_WITH_ID);
            }
            return Ok(Addition { make, trim, identity, id, fields: options.position() });
        }
    }
}

/// The fields of an entry with their values.
#[derive(Clone)]
struct Pairs<I>(I);

impl<'c, I: Iterator<Item = &'c [u8]>> Iterator for Pairs<I> {
    type Item = (&'c [u8], &'c [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        Some((self.0.next()?, self.0.next()?))
    }
}

fn xadd(call: &mut WriteCall<'_>) -> Outcome {
    let addition = parse(call.args)?;
    let limits = limits(call.context.settings());
    let trim: Option<Trim> = addition.trim.finish(limits, false)?;
    let words = call.args.slice_from(addition.fields);
    if words.len() < 2 || !words.len().is_multiple_of(2) {
        return Err(errors::wrong_arity("xadd").into());
    }
    if addition.id == NewId::Given(StreamId::MIN) {
        return Err(errors::stream::ID_ZERO.into());
    }
    let mut stream = change(call)?;
    if !stream.existed() && !addition.make {
        drop(stream);
        call.reply.null();
        return Ok(());
    }
    let last = stream.look()?.last_id();
    if last == StreamId::MAX {
        return Err(errors::stream::EXHAUSTED.into());
    }
    let id = addition.id.after(last, stream.now())?;
    if words.iter().map(<[u8]>::len).sum::<usize>() > ENTRY_MAX_BYTES {
        return Err(errors::stream::ENTRY_TOO_LARGE.into());
    }
    let pairs = Pairs(words.iter());
    let iid = addition.identity.as_ref().map(|identity| identity.iid(pairs.clone()));
    let producer = addition.identity.as_ref().zip(iid.as_deref()).map(|(identity, iid)| (identity.producer, iid));
    if let Some(known) = producers::known(&mut stream, producer)? {
        stream.commit()?;
        call.reply.bulk(&known.text());
        return Ok(());
    }
    stream.append(id, pairs, limits)?;
    let trimmed = trim.map_or(Ok(0), |trim| apply(&mut stream, &trim, addition.trim.policy))?;
    if let Some((producer, iid)) = producer {
        stream.producers().put(producer, iid, id, true)?;
    }
    stream.count_as(1);
    stream.commit()?;
    let key = call.key(1);
    call.event(Classes::STREAM, "xadd", key);
    if trimmed > 0 {
        call.event(Classes::STREAM, "xtrim", key);
    }
    call.reply.bulk(&id.text());
    Ok(())
}

pub(super) const XSETID: Command = Command {
    spec: CommandSpec {
        name: "XSETID",
        id: 888,
        summary: "An internal command for replicating stream values.",
        args: &[
            Arg::key("key", Access::Update),
            Arg::value("last-id"),
            Arg::integer("entries-added").token("ENTRIESADDED").optional().since("7.0.0"),
            Arg::value("max-deleted-id").token("MAXDELETEDID").optional().since("7.0.0"),
        ],
        traits: WRITE,
        history: &[("7.0.0", "Added the `entries_added` and `max_deleted_entry_id` arguments.")],
        ..STREAM
    },
    run: Handler::Write(xsetid),
};

fn xsetid(call: &mut WriteCall<'_>) -> Outcome {
    let last_id = id::strict(call.args.at(2), 0)?;
    let (mut added, mut max_deleted, mut options) = (None, StreamId::MIN, Options::after(call.args, 3));
    while let Some(word) = options.next() {
        if word.is("ENTRIESADDED") && options.remaining() > 0 {
            let number = number::integer(options.value()?)?;
            added = Some(u64::try_from(number).map_err(|_| errors::stream::ENTRIES_ADDED_NEGATIVE)?);
        } else if word.is("MAXDELETEDID") && options.remaining() > 0 {
            max_deleted = id::strict(options.value()?, 0)?;
            if last_id < max_deleted {
                return Err(errors::stream::LAST_ID_BELOW_DELETED.into());
            }
        } else {
            return Err(CommandError::Syntax.into());
        }
    }
    let Some(mut stream) = change_existing(call)? else { return Err(CommandError::NoSuchKey.into()) };
    let (top, before) = (stream.look()?.entries().last().map(|entry| entry.id), stream.look()?);
    if top.is_some_and(|top| last_id < top) {
        return Err(errors::stream::LAST_ID_BELOW_TOP.into());
    }
    if added.is_some_and(|added| before.len() > added) {
        return Err(errors::stream::ENTRIES_ADDED_BELOW_LENGTH.into());
    }
    let added = added.unwrap_or(before.entries_added());
    let max_deleted = if max_deleted == StreamId::MIN { before.max_deleted() } else { max_deleted };
    stream.set_last(last_id, added, max_deleted)?;
    stream.commit()?;
    let key = call.key(1);
    call.event(Classes::STREAM, "xsetid", key);
    call.reply.ok();
    Ok(())
}
