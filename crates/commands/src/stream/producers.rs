//! Entries that are added once however often they are sent: what XADD does for it, XCFGSET and XIDMPRECORD.

use std::borrow::Cow;

use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_datatypes::stream::{Producers, StreamId};
use almandine_datatypes::string::digest;
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, Word, WriteCall, errors, number};
use almandine_keyspace::Refusal;
use almandine_keyspace::types::stream::StreamMut;

use super::access::{STREAM, change_existing};
use super::id;
use crate::traits::{CHANGE, WRITE};

/// The producer of an entry, and the id that it has given it.
pub(super) const PRODUCER_ARGS: &[Arg] = &[
    Arg::value("producer-id").token("IDMPAUTO"),
    Arg::block("idmp-args", &[Arg::value("producer-id"), Arg::value("idempotent-id")]).token("IDMP"),
];

const SECONDS_MAX: i64 = 86_400;
const IDS_MAX: i64 = 10_000;

/// The producer of an entry, and the id that it has given it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity<'c> {
    pub(super) producer: &'c [u8],
    /// None: what its fields say.
    iid: Option<&'c [u8]>,
}

impl<'c> Identity<'c> {
    /// Takes an option of XADD. False: it is another one.
    pub(super) fn option(word: Word<'_>, options: &mut Options<'c>, identity: &mut Option<Self>) -> Result<bool, CommandError> {
        let is_auto = word.is("IDMPAUTO") && options.remaining() > 0;
        if !(is_auto || word.is("IDMP") && options.remaining() > 1) {
            return Ok(false);
        }
        if identity.is_some() {
            return Err(errors::stream::PRODUCER_TWICE);
        }
        let producer = options.value()?;
        if producer.is_empty() {
            return Err(if is_auto { errors::stream::AUTO_PRODUCER_EMPTY } else { errors::stream::PRODUCER_EMPTY });
        }
        let iid = if is_auto { None } else { Some(options.value()?) };
        if iid.is_some_and(<[u8]>::is_empty) {
            return Err(errors::stream::PRODUCER_ID_EMPTY);
        }
        *identity = Some(Self { producer, iid });
        Ok(true)
    }

    /// The entry's id of its producer: what the client says, or a digest of the fields that does not depend on their order.
    pub(super) fn iid<'f>(&self, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Cow<'c, [u8]> {
        let Some(iid) = self.iid else {
            let digest = fields.fold(0u128, |sum, (name, value)| {
                let pair = [&(name.len() as u64).to_le_bytes(), name, value].concat();
                sum.wrapping_add(digest::wide(&pair))
            });
            return Cow::Owned(digest.to_le_bytes().to_vec());
        };
        Cow::Borrowed(iid)
    }
}

/// The id of the entry that a producer has sent before, which is counted. None: it is new.
pub(super) fn known(stream: &mut StreamMut<'_>, entry: Option<(&[u8], &[u8])>) -> Result<Option<StreamId>, Refusal> {
    let Some((producer, iid)) = entry else { return Ok(None) };
    stream.producers().expire()?;
    let now = stream.now();
    let known = stream.look()?.producers().and_then(|producers| producers.get(producer, iid, now));
    if known.is_some() {
        stream.producers().count_duplicate()?;
    }
    Ok(known)
}

pub(super) const XCFGSET: Command = Command {
    spec: CommandSpec {
        name: "XCFGSET",
        id: 914,
        since: "8.6.0",
        summary: "Sets the IDMP configuration parameters for a stream.",
        args: &[
            Arg::key("key", Access::Update),
            Arg::integer("idmp-duration").token("IDMP-DURATION").optional(),
            Arg::integer("idmp-maxsize").token("IDMP-MAXSIZE").optional(),
        ],
        traits: CHANGE,
        ..STREAM
    },
    run: Handler::Write(xcfgset),
};

fn xcfgset(call: &mut WriteCall<'_>) -> Outcome {
    let (mut seconds, mut ids, mut options) = (None, None, Options::after(call.args, 2));
    while let Some(word) = options.next() {
        if word.is("IDMP-DURATION") && options.remaining() > 0 {
            seconds = Some(within(options.value()?, SECONDS_MAX, errors::stream::PRODUCER_DURATION)?);
        } else if word.is("IDMP-MAXSIZE") && options.remaining() > 0 {
            ids = Some(within(options.value()?, IDS_MAX, errors::stream::PRODUCER_MAX_SIZE)?);
        } else {
            return Err(CommandError::Syntax.into());
        }
    }
    if seconds.is_none() && ids.is_none() {
        return Err(CommandError::Syntax.into());
    }
    let Some(mut stream) = change_existing(call)? else { return Err(CommandError::NoSuchKey.into()) };
    let mut limits = stream.look()?.producers().map(Producers::limits).unwrap_or_default();
    limits.seconds = seconds.unwrap_or(limits.seconds);
    limits.ids = ids.unwrap_or(limits.ids);
    stream.producers().configure(limits)?;
    stream.commit()?;
    call.reply.ok();
    Ok(())
}

fn within(text: &[u8], max: i64, error: CommandError) -> Result<u64, CommandError> {
    let number = number::integer(text)?;
    if (1..=max).contains(&number) { Ok(number.unsigned_abs()) } else { Err(error) }
}

pub(super) const XIDMPRECORD: Command = Command {
    spec: CommandSpec {
        name: "XIDMPRECORD",
        id: 915,
        since: "8.6.2",
        summary: "An internal command for setting IDMP metadata on an existing stream message.",
        args: &[Arg::key("key", Access::Update), Arg::value("pid"), Arg::value("iid"), Arg::value("stream-id")],
        traits: WRITE,
        ..STREAM
    },
    run: Handler::Write(xidmprecord),
};

fn xidmprecord(call: &mut WriteCall<'_>) -> Outcome {
    let (producer, iid) = (call.args.at(2), call.args.at(3));
    let id = id::strict(call.args.at(4), 0)?;
    if producer.is_empty() {
        return Err(errors::stream::PRODUCER_EMPTY.into());
    }
    if iid.is_empty() {
        return Err(errors::stream::PRODUCER_ID_EMPTY.into());
    }
    let Some(mut stream) = change_existing(call)? else { return Err(CommandError::NoSuchKey.into()) };
    if !stream.has(id)? {
        return Err(errors::stream::PRODUCER_NO_ENTRY.into());
    }
    let known = stream.look()?.producers().and_then(|producers| producers.get(producer, iid, 0));
    if known.is_some_and(|known| known != id) {
        return Err(errors::stream::PRODUCER_OTHER_ENTRY.into());
    }
    if known.is_none() {
        stream.producers().put(producer, iid, id, false)?;
    }
    stream.commit()?;
    call.reply.ok();
    Ok(())
}
