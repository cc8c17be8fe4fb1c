//! XREAD: entries behind those that a client knows, of several streams. With BLOCK it waits until there are some.

use std::ops::Range;

use almandine_base::steps;
use almandine_command_spec::{Access, Arg, Begin, CommandSpec, Find, KeySpec, Keys, Traits};
use almandine_datatypes::stream::StreamId;
use almandine_handler::blocking::{Block, timeout_in_milliseconds};
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, ReadCall, errors, number};
use almandine_keyspace::Kind;
use almandine_resp::{Args, ArgsBuf, ProtocolVersion, Reply};

use super::access::{STREAM, look_at};
use super::id;
use super::reply::write_entry;
use crate::traits::SLOW_READ;

/// Where the keys are, and then as many ids.
const KEYS: Find = Find::Range { last: -1, step: 1, limit: 2 };

/// Keys and ids.
pub(super) const STREAMS_ARG: Arg =
    Arg::block("streams", &[Arg::key("key", Access::Read).multiple(), Arg::value("id").multiple()]).token("STREAMS");

pub(super) const fn keys_spec(from: i16) -> KeySpec {
    KeySpec::new(Begin::Keyword { word: "STREAMS", from }, KEYS, Access::Read)
}

pub(super) const XREAD: Command = Command {
    spec: CommandSpec {
        name: "XREAD",
        id: 886,
        complexity: "For each stream mentioned: O(N) with N being the number of elements being returned, it means that \
                     XREAD-ing with a fixed COUNT is O(1). Note that when the BLOCK option is used, XADD will pay O(M) time in \
                     order to serve the M clients blocked on the stream getting new data.",
        summary: "Returns messages from multiple streams with IDs greater than the ones requested. Blocks until a message is \
                  available otherwise.",
        args: &[
            Arg::integer("count").token("COUNT").optional(),
            Arg::integer("milliseconds").token("BLOCK").optional(),
            STREAMS_ARG,
        ],
        traits: Traits { blocking: true, ..SLOW_READ },
        keys: Keys::Specs(&[keys_spec(1)]),
        ..STREAM
    },
    run: Handler::Read(xread),
};

/// What XREAD and XREADGROUP are asked.
pub(super) struct Reading<'c> {
    /// Entries of each stream. None: all.
    pub(super) count: Option<u64>,
    pub(super) group: Option<(&'c [u8], &'c [u8])>,
    pub(super) acknowledged: bool,
    /// Milliseconds that something must have been pending to be claimed.
    pub(super) claim: Option<u64>,
    /// It waits while there is nothing.
    waits: bool,
    /// For this number of milliseconds. None: for ever.
    timeout_ms: Option<u64>,
    /// Where the keys begin.
    pub(super) keys: usize,
    /// How many there are.
    pub(super) len: usize,
}

impl Reading<'_> {
    /// The places of the keys. That of an id is behind that of its key by the number of keys.
    pub(super) fn places(&self) -> Range<usize> {
        self.keys..self.keys + self.len
    }

    /// What to wait for when there is nothing: none without BLOCK.
    pub(super) fn block(&self) -> Option<Block> {
        self.waits.then(|| Block::on(Kind::Stream, self.places(), self.timeout_ms))
    }
}

/// Reads the arguments of both.
pub(super) fn parse<'c>(args: Args<'c>, of_group: bool) -> Result<Reading<'c>, CommandError> {
    let mut reading =
        Reading { count: None, group: None, acknowledged: false, claim: None, waits: false, timeout_ms: None, keys: 0, len: 0 };
    let mut options = Options::after(args, 1);
    while let Some(word) = options.next() {
        let left = options.remaining();
        if word.is("BLOCK") && left > 0 {
            (reading.waits, reading.timeout_ms) = (true, timeout_in_milliseconds(options.value()?)?);
        } else if word.is("COUNT") && left > 0 {
            reading.count = Some(id::count(options.value()?)?).filter(|count| *count > 0);
        } else if word.is("STREAMS") && left > 0 {
            if !left.is_multiple_of(2) {
                return Err(errors::stream::READ_UNBALANCED);
            }
            (reading.keys, reading.len) = (options.position(), left / 2);
            break;
        } else if word.is("GROUP") && left > 1 {
            if !of_group {
                return Err(errors::stream::READ_GROUP_OPTION);
            }
            reading.group = Some((options.value()?, options.value()?));
        } else if word.is("NOACK") {
            if !of_group {
                return Err(errors::stream::READ_NO_ACK_OPTION);
            }
            reading.acknowledged = true;
        } else if word.is("CLAIM") && left > 0 && of_group {
            let idle = number::integer(options.value()?).map_err(|_| errors::stream::CLAIM_IDLE_TIME)?;
            reading.claim = Some(u64::try_from(idle).map_err(|_| errors::stream::CLAIM_IDLE_NEGATIVE)?);
        } else {
            return Err(CommandError::Syntax);
        }
    }
    if reading.keys == 0 {
        return Err(CommandError::Syntax);
    }
    if of_group && reading.group.is_none() {
        return Err(errors::stream::READ_GROUP_MISSING);
    }
    Ok(reading)
}

/// The array of what several streams give, which is none if they give nothing.
#[derive(Default)]
pub(super) struct Served {
    array: Option<almandine_resp::reply::Deferred>,
    len: usize,
}

impl Served {
    /// Begins with what the stream of a key gives.
    pub(super) fn begin(&mut self, reply: &mut Reply<'_>, key: &[u8]) {
        let in_map = reply.version() == ProtocolVersion::Resp3;
        if self.array.is_none() {
            self.array = Some(reply.begin());
        }
        self.len += 1;
        if !in_map {
            reply.array(2);
        }
        reply.bulk(key);
    }

    /// Whether nothing was given.
    pub(super) fn is_empty(&self) -> bool {
        self.array.is_none()
    }

    pub(super) fn finish(self, reply: &mut Reply<'_>) {
        match self.array {
            None => reply.null_array(),
            Some(array) if reply.version() == ProtocolVersion::Resp3 => array.end_map(reply, self.len),
            Some(array) => array.end_array(reply, self.len),
        }
    }
}

fn xread(call: &mut ReadCall<'_>) -> Outcome {
    let reading = parse(call.args, false)?;
    let limit = reading.count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
    let mut served = Served::default();
    // For each stream of which only what is new is wanted, what it had last.
    let mut lasts: Vec<(usize, StreamId)> = Vec::new();
    for position in call.candidates_together(reading.places()) {
        let (key, text) = (call.args.at(position), call.args.at(position + reading.len));
        let is_new_wanted = reading.waits && text == b"$";
        let mut newest = StreamId::MIN;
        // A key of another type is told before a bad id is.
        let after = match text {
            b">" => Err(errors::stream::READ_NEW_ONLY),
            b"$" => Ok(StreamId::MAX),
            b"+" => Ok(StreamId::MAX),
            _ => id::strict(text, 0),
        };
        let from = after.as_ref().ok().and_then(|after| after.next());
        look_at(call, position, |stream, reply| {
            newest = stream.last_id();
            if let Some(from) = from.filter(|from| stream.entries().last().is_some_and(|last| *from <= last.id)) {
                served.begin(reply, key);
                let (array, mut len) = (reply.begin(), 0);
                for entry in stream.entries().range(from, StreamId::MAX)?.take(limit) {
                    write_entry(reply, &entry?);
                    len += 1;
                }
                array.end_array(reply, len);
            } else if text == b"+"
                && let Some(last) = stream.entries().last()
            {
                served.begin(reply, key);
                reply.array(1);
                write_entry(reply, &last);
            }
            Ok(())
        })?;
        after?;
        if is_new_wanted {
            lasts.push((position + reading.len, newest));
        }
    }
    match reading.block().filter(|_| served.is_empty()) {
        Some(block) => call.block(Block { rewritten: resolved(call.args, &lasts), ..block }),
        None => {
            served.finish(&mut call.reply);
            Ok(())
        }
    }
}

/// The arguments with ids in some places, which are in ascending order, so that what is new when the command runs again is what
/// came since it ran first.
fn resolved(args: Args<'_>, ids: &[(usize, StreamId)]) -> Option<ArgsBuf> {
    let mut owned = ArgsBuf::new();
    let mut next = ids.iter().peekable();
    for (position, argument) in args.iter().enumerate() {
        steps::take(1);
        match next.next_if(|(place, _)| *place == position) {
            Some((_, id)) => owned.push(&id.text()),
            None => owned.push(argument),
        }
    }
    debug_assert!(next.next().is_none(), "places are in ascending order");
    (!ids.is_empty()).then_some(owned)
}
