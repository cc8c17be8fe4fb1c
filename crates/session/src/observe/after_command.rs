//! What may follow a command: an entry in the logs of large requests and replies, and word to clients that track its keys.
//!
//! Both are rare. For the first the loop compares the bytes of each reply with [`AfterCommand::watch`], which is 0 behind a
//! large chunk of input. For the second a batch asks at its end whether any changes were noted.

use almandine_base::Output;
use almandine_config::Settings;
use almandine_handler::tracking::Broadcasts;
use almandine_handler::{Client, Context, Dispatch, Flags, redact};
use almandine_instance::slowlog;
use almandine_resp::Args;

use crate::observe::timing::{Timing, log_entry};
use crate::observe::withheld::Told;

/// One worker's part of it.
#[derive(Debug)]
pub(crate) struct AfterCommand {
    /// Bytes from which a request is logged.
    request_bytes: usize,
    requests_max: usize,
    /// Bytes from which a reply is logged.
    reply_bytes: usize,
    replies_max: usize,
    /// Changed keys of the batch that clients track by prefix.
    pub(crate) broadcasts: Broadcasts,
}

impl AfterCommand {
    pub(crate) fn new(settings: &Settings) -> Self {
        let mut after_command =
            Self { request_bytes: 0, requests_max: 0, reply_bytes: 0, replies_max: 0, broadcasts: Broadcasts::default() };
        after_command.configure(settings);
        after_command
    }

    /// Follows a change of the settings.
    pub(crate) fn configure(&mut self, settings: &Settings) {
        let observe = &settings.observe;
        // A log without room for an entry is off, as is one with a negative threshold.
        let threshold =
            |bytes: i64, entries_max: usize| usize::try_from(bytes).ok().filter(|_| entries_max > 0).unwrap_or(usize::MAX);
        (self.requests_max, self.replies_max) = (observe.large_requests_max, observe.large_replies_max);
        self.request_bytes = threshold(observe.request_larger_than_bytes, self.requests_max);
        self.reply_bytes = threshold(observe.reply_larger_than_bytes, self.replies_max);
    }

    /// Bytes of a reply from which a command in `input_bytes` of input must be given to [`AfterCommand::log_large`].
    #[inline]
    pub(crate) fn watch(&self, input_bytes: usize) -> usize {
        if input_bytes >= self.request_bytes { 0 } else { self.reply_bytes }
    }

    /// Logs a command that is large, or whose reply of `reply_bytes`, attached ones included, is.
    #[cold]
    #[inline(never)]
    pub(crate) fn log_large(
        &self,
        (context, timing): (&Context, &mut Timing),
        client: &Client,
        dispatch: &Dispatch,
        args: Args<'_>,
        reply_bytes: usize,
    ) {
        if !dispatch.flags.any(Flags::SKIP_SLOWLOG) {
            let spec = &context.table.row(dispatch.index).command.spec;
            let words_max = context.settings().observe.slowlog_words_max;
            let entry = |value: usize| log_entry(client, slowlog::shorten(redact::shown(spec, args), words_max), value as u64);
            let request_bytes = request_bytes(args);
            if request_bytes >= self.request_bytes {
                let entry = entry(request_bytes);
                timing.tell(context, Told::Entry(|context| &context.instance.logs.large_request, entry, self.requests_max));
            }
            if reply_bytes >= self.reply_bytes {
                let entry = entry(reply_bytes);
                timing.tell(context, Told::Entry(|context| &context.instance.logs.large_reply, entry, self.replies_max));
            }
        }
    }

    /// Ends a batch: what it has to report together is sent.
    #[inline]
    pub(crate) fn finish_batch(&mut self, client: &mut Client, context: &Context, out: &mut Output) {
        if !self.broadcasts.is_empty() {
            self.broadcasts.send(client, &context.instance);
            client.write_invalidations(out);
        }
    }

    /// Ends a batch of no client's.
    pub(crate) fn finish_without_client(&mut self, context: &Context) {
        if !self.broadcasts.is_empty() {
            self.broadcasts.send_without_client(&context.instance);
        }
    }
}

/// Bytes of a command as clients send it.
pub(crate) fn request_bytes(args: Args<'_>) -> usize {
    // A length line is its sign, its digits and the end of the line.
    let line = |len: usize| 3 + len.checked_ilog10().unwrap_or(0) as usize + 1;
    line(args.len()) + args.iter().map(|argument| line(argument.len()) + argument.len() + 2).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use almandine_resp::ArgsBuf;

    use super::*;

    #[test]
    fn a_request_is_as_long_as_it_is_sent() {
        let mut command = ArgsBuf::new();
        command.push(b"SET");
        command.push(b"");
        command.push(b"0123456789");
        assert_eq!(request_bytes(command.as_args()), b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$10\r\n0123456789\r\n".len());
    }
}
