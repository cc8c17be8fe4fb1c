//! Trims: XTRIM, and the options of XADD.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Traits};
use almandine_datatypes::stream::{Keep, NodeLimits, StreamId, Trim};
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, Word, WriteCall, errors, number};
use almandine_keyspace::Refusal;
use almandine_keyspace::types::stream::StreamMut;

use super::access::{STREAM, change_existing, limits};
use super::id;

/// The options of a trim.
pub(super) const TRIM_ARGS: &[Arg] = &[
    Arg::one_of("strategy", &[Arg::pure_token("maxlen", "MAXLEN"), Arg::pure_token("minid", "MINID").since("6.2.0")]),
    Arg::one_of("operator", &[Arg::pure_token("equal", "="), Arg::pure_token("approximately", "~")]).optional(),
    Arg::value("threshold"),
    Arg::integer("count").token("LIMIT").optional().since("6.2.0"),
];

/// What becomes of references to entries.
pub(super) const POLICY_ARGS: &[Arg] =
    &[Arg::pure_token("keepref", "KEEPREF"), Arg::pure_token("delref", "DELREF"), Arg::pure_token("acked", "ACKED")];

pub(super) const XTRIM: Command = Command {
    spec: CommandSpec {
        name: "XTRIM",
        id: 887,
        complexity: "O(N), with N being the number of evicted entries. Constant times are very small however, since entries are \
                     organized in macro nodes containing multiple entries that can be released with a single deallocation.",
        summary: "Deletes messages from the beginning of a stream.",
        args: &[
            Arg::key("key", Access::Delete),
            Arg::block("trim", TRIM_ARGS),
            Arg::one_of("condition", POLICY_ARGS).optional().since("8.2.0"),
        ],
        traits: Traits { write: true, ..Traits::NONE },
        tips: &["nondeterministic_output"],
        history: &[
            ("6.2.0", "Added the `MINID` trimming strategy and the `LIMIT` option."),
            ("8.2.0", "Added the `KEEPREF`, `DELREF` and `ACKED` options."),
        ],
        ..STREAM
    },
    run: Handler::Write(xtrim),
};

fn xtrim(call: &mut WriteCall<'_>) -> Outcome {
    let (mut parsed, mut options) = (TrimOptions::default(), Options::after(call.args, 2));
    while let Some(word) = options.next() {
        if !parsed.option(word, &mut options)? {
            return Err(CommandError::Syntax.into());
        }
    }
    let limits = limits(call.context.settings());
    let trim = parsed.finish(limits, true)?.ok_or(errors::stream::TRIM_MISSING)?;
    let Some(mut stream) = change_existing(call)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let removed = apply(&mut stream, &trim, parsed.policy)?;
    stream.count_as(removed);
    stream.commit()?;
    if removed > 0 {
        let key = call.key(1);
        call.event(Classes::STREAM, "xtrim", key);
    }
    call.reply.unsigned(removed);
    Ok(())
}

/// What becomes of references that groups have to entries which are deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Policy {
    /// They stay.
    #[default]
    Keep,
    /// They go, too.
    Drop,
    /// Entries that have some stay.
    Acknowledged,
}

impl Policy {
    /// The policy of this name.
    pub(super) fn named(word: Word<'_>) -> Option<Self> {
        match word {
            word if word.is("KEEPREF") => Some(Self::Keep),
            word if word.is("DELREF") => Some(Self::Drop),
            word if word.is("ACKED") => Some(Self::Acknowledged),
            _ => None,
        }
    }
}

/// The options of a trim that were given so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TrimOptions {
    keep: Option<Keep>,
    approximate: bool,
    limit: Option<u64>,
    has_policy: bool,
    pub(super) policy: Policy,
}

impl TrimOptions {
    /// Takes an option. False: it is none of a trim.
    pub(super) fn option(&mut self, word: Word<'_>, options: &mut Options<'_>) -> Result<bool, CommandError> {
        let has_more = options.remaining() > 0;
        if has_more && word.is("MAXLEN") {
            let threshold = self.threshold(options)?;
            let max = number::integer(threshold)?;
            self.keep = Some(Keep::Newest(u64::try_from(max).map_err(|_| errors::stream::TRIM_MAX_LEN)?));
        } else if has_more && word.is("MINID") {
            let threshold = self.threshold(options)?;
            self.keep = Some(Keep::From(id::strict(threshold, 0)?));
        } else if has_more && word.is("LIMIT") {
            let limit = options.integer()?;
            self.limit = Some(u64::try_from(limit).map_err(|_| errors::stream::TRIM_LIMIT)?);
        } else if let Some(policy) = Policy::named(word) {
            if self.has_policy {
                return Err(CommandError::Syntax);
            }
            (self.policy, self.has_policy) = (policy, true);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// The word behind a strategy, and behind `=` or `~`.
    fn threshold<'c>(&mut self, options: &mut Options<'c>) -> Result<&'c [u8], CommandError> {
        if self.keep.is_some() {
            return Err(errors::stream::TRIM_TWICE);
        }
        let is_operator = options.remaining() > 1 && matches!(options.peek(), Some(b"~" | b"="));
        self.approximate = is_operator && options.value()? == b"~";
        options.value()
    }

    /// The trim that was asked for. None: there is none, which XTRIM does not allow.
    pub(super) fn finish(&self, limits: NodeLimits, is_needed: bool) -> Result<Option<Trim>, CommandError> {
        if self.keep.is_none() && self.limit.is_some_and(|limit| limit > 0) {
            return Err(errors::stream::TRIM_LIMIT_ALONE);
        }
        if self.keep.is_none() && is_needed {
            return Err(errors::stream::TRIM_MISSING);
        }
        if self.limit.is_some() && !self.approximate {
            return Err(errors::stream::TRIM_LIMIT_EXACT);
        }
        let Some(keep) = self.keep else { return Ok(None) };
        // A hundred nodes, within reason; none at all if the client says 0.
        let default = match limits.entries.saturating_mul(100) {
            0 => 10_000,
            limit => limit.min(1_000_000) as u64,
        };
        let limit = self.limit.unwrap_or(default);
        Ok(Some(Trim { keep, approximate: self.approximate, limit: (self.approximate && limit > 0).then_some(limit) }))
    }
}

/// Trims, and says how many entries are gone.
pub(super) fn apply(stream: &mut StreamMut<'_>, trim: &Trim, policy: Policy) -> Result<u64, Refusal> {
    if policy == Policy::Keep || stream.look()?.groups().is_empty() {
        return stream.trim(trim);
    }
    if policy == Policy::Acknowledged {
        let ids = acknowledged(stream, trim)?;
        for id in &ids {
            stream.remove(*id)?;
        }
        return Ok(ids.len() as u64);
    }
    let count = stream.look()?.entries().trimmed(trim)?;
    if stream.look()?.groups().iter().any(|group| group.pending() > 0) {
        let first = stream.look()?.entries().range(StreamId::MIN, StreamId::MAX)?.take(count as usize);
        let ids: Vec<StreamId> = first.map(|entry| entry.map(|entry| entry.id)).collect::<Result<_, _>>()?;
        ids.into_iter().try_for_each(|id| stream.groups().drop_references(id))?;
    }
    stream.skip(count)?;
    Ok(count)
}

/// The entries that a trim takes which leaves those that a group has still to read or to acknowledge.
fn acknowledged(stream: &StreamMut<'_>, trim: &Trim) -> Result<Vec<StreamId>, Refusal> {
    let stream = stream.look()?;
    let (mut ids, len) = (Vec::new(), stream.len());
    let exceeds = |taken: usize, id: StreamId| match trim.keep {
        Keep::Newest(max) => len - taken as u64 > max,
        Keep::From(from) => id < from,
    };
    if !trim.approximate {
        for entry in stream.entries().range(StreamId::MIN, StreamId::MAX)? {
            let id = entry?.id;
            if !exceeds(ids.len(), id) {
                break;
            }
            if !stream.groups().is_referenced(id)? {
                ids.push(id);
            }
        }
        return Ok(ids);
    }
    let (mut entries, mut rank) = (stream.entries().range(StreamId::MIN, StreamId::MAX)?, 0);
    while rank < len {
        let (count, last) = stream.entries().node(rank)?;
        let mut node = Vec::new();
        for entry in entries.by_ref().take(count as usize) {
            node.push(entry?.id);
        }
        let fits = match trim.keep {
            Keep::Newest(max) => len - ids.len() as u64 >= max + count,
            Keep::From(from) => last < from,
        };
        if !fits || trim.limit.is_some_and(|limit| (ids.len() as u64 + count) > limit) {
            break;
        }
        let mut is_free = true;
        for id in &node {
            is_free = is_free && !stream.groups().is_referenced(*id)?;
        }
        if is_free {
            ids.append(&mut node);
        }
        rank += count;
    }
    Ok(ids)
}
