//! From received bytes to commands.
//!
//! A pipeline is parsed in one pass over the input. The usual command is an array of a few bulk strings with short lengths; its
//! headers are recognised by comparing words (`header::quick`), and its arguments are skipped, not looked at. A command that is
//! anything else (many arguments, long headers, errors, cut off by the end of the input) starts over on the general path.
//!
//! When the input ends inside a command, the parser remembers how far it came, relative to the command's first byte, because the
//! same bytes come back with more behind them and perhaps at another address. It keeps no bytes itself.
//!
//! What Redis accepts and rejects is followed to the letter, including what it does not check: the byte after a header's `\r`, and
//! the two bytes after an argument. A NUL hides the rest of a header or inline line, which therefore never ends. One thing differs,
//! because offsets have 32 bits: a single command of 4 GiB or more is refused with `invalid bulk length`.

mod header;
mod inline;

use crate::args::Span;
use crate::batch::Batch;
use crate::error::ProtocolError;
use header::{Bounds, Line, Search};

/// What a client may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest argument in bytes (`proto-max-bulk-len`).
    pub bulk_bytes_max: usize,
    /// Longest inline command and longest header line in bytes, the end of line not counted.
    pub inline_bytes_max: usize,
    /// Most arguments of one command.
    pub multibulk_max: usize,
    /// Whether the client has authenticated, or need not. Until then 10 arguments of 16 KiB are the limit. As a pipeline may
    /// authenticate in its first command, parse one command at a time while this is false.
    pub authenticated: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bulk_bytes_max: almandine_base::limits::STRING_BYTES_MAX,
            inline_bytes_max: 64 * 1024,
            multibulk_max: i32::MAX as usize,
            authenticated: true,
        }
    }
}

/// How far a call came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Bytes of complete commands. The next call's input starts behind them.
    pub consumed: usize,
    /// Bytes from `consumed` on without which the next command cannot be complete, when its length is known and they are not there
    /// yet; else 0.
    pub needed: usize,
}

/// Commands at or above this length cannot be addressed by spans.
const COMMAND_BYTES_MAX: usize = u32::MAX as usize;

/// Spans whose memory a connection keeps between split commands.
const SPANS_KEPT_MAX: usize = 32;

/// The parser of one connection.
#[derive(Debug, Default)]
pub struct Parser {
    stage: Stage,
    /// Arguments of the incomplete command, relative to its first byte.
    args: Vec<Span>,
}

/// What the incomplete command is waiting for. Positions are relative to its first byte.
#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    /// There is no incomplete command.
    #[default]
    Start,
    /// The end of an inline command; not before `searched`.
    Line { searched: usize },
    /// The end of the `*` header; not before `searched`.
    Count { searched: usize },
    /// Arguments.
    Arguments(Progress),
}

/// A position among the arguments of a command.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// The next byte to understand: a header, or the argument's first byte when `bulk` is known.
    at: usize,
    /// Arguments to come.
    remaining: usize,
    /// Length of the argument at `at`.
    bulk: Option<usize>,
    /// The header at `at` does not end before this.
    searched: usize,
}

impl Parser {
    /// A parser at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the complete commands of `input` to `batch`, until it holds `commands_max`.
    ///
    /// The next call's `input` must begin with the bytes that this one did not consume.
    ///
    /// # Errors
    /// At the first violation of the protocol. The commands before it are in `batch`; they are to be executed, then the error is
    /// to be replied and the connection closed.
    pub fn parse(
        &mut self,
        input: &[u8],
        limits: &Limits,
        batch: &mut Batch,
        commands_max: usize,
    ) -> Result<Parsed, ProtocolError> {
        let input = &input[..input.len().min(COMMAND_BYTES_MAX)];
        let bounds = Bounds::new(limits);
        let mut start = 0;
        while start < input.len() && batch.len() < commands_max {
            let end = if !matches!(self.stage, Stage::Start) {
                self.resume(input, &bounds, batch)?
            } else if input[start] == b'*' {
                self.multibulk(input, start, &bounds, batch)?
            } else {
                self.inline(input, start, start, &bounds, batch)?
            };
            match end {
                Some(end) => start = end,
                None => return self.incomplete(input, start),
            }
        }
        Ok(Parsed { consumed: start, needed: 0 })
    }

    /// Bytes of the incomplete command, from its first on, that are understood: its headers and the arguments that are complete.
    #[must_use]
    pub fn understood(&self) -> usize {
        match self.stage {
            Stage::Arguments(Progress { at, .. }) => at,
            _ => 0,
        }
    }

    /// Parses the command at `start`, which begins with `*`. The result is its end, or nothing when the input ends first.
    #[inline]
    fn multibulk(
        &mut self,
        input: &[u8],
        start: usize,
        bounds: &Bounds,
        batch: &mut Batch,
    ) -> Result<Option<usize>, ProtocolError> {
        let (count, at) = match header::quick(input, start, b'*') {
            Some((count, at)) if count <= bounds.count_quick_max => (count, at),
            _ => match header::count(input, start, start, bounds)? {
                Line::Length { value, next } => (value, next),
                Line::Incomplete { searched } => {
                    self.stage = Stage::Count { searched: searched - start };
                    return Ok(None);
                }
            },
        };
        if count == 0 {
            return Ok(Some(at));
        }
        let first = batch.spans.len();
        if count <= QUICK_ARGUMENTS_MAX {
            if let Some(end) = quick_arguments(input, at, count, bounds, &mut batch.spans) {
                batch.finish_multibulk(first);
                return Ok(Some(end));
            }
            batch.spans.truncate(first);
        }
        let mut progress = Progress { at, remaining: count, bulk: None, searched: at };
        match arguments(input, &mut progress, bounds, &mut batch.spans) {
            Ok(true) => {
                batch.finish_multibulk(first);
                Ok(Some(progress.at))
            }
            Ok(false) => {
                self.suspend(start, progress, &mut batch.spans, first);
                Ok(None)
            }
            Err(error) => {
                batch.spans.truncate(first);
                Err(error)
            }
        }
    }

    /// Takes the arguments of the incomplete command out of `spans`.
    #[cold]
    fn suspend(&mut self, start: usize, progress: Progress, spans: &mut Vec<Span>, first: usize) {
        let relative = |span: Span| Span { offset: span.offset - start as u32, len: span.len };
        self.args.clear();
        self.args.extend(spans.drain(first..).map(relative));
        self.stage = Stage::Arguments(Progress {
            at: progress.at - start,
            searched: progress.searched.max(progress.at) - start,
            ..progress
        });
    }

    /// Continues the incomplete command, which starts at the input's first byte.
    #[cold]
    fn resume(&mut self, input: &[u8], bounds: &Bounds, batch: &mut Batch) -> Result<Option<usize>, ProtocolError> {
        let mut progress = match std::mem::take(&mut self.stage) {
            Stage::Start => return Ok(Some(0)),
            Stage::Line { searched } => return self.inline(input, 0, searched, bounds, batch),
            Stage::Count { searched } => match header::count(input, 0, searched, bounds)? {
                Line::Length { value: 0, next } => return Ok(Some(next)),
                Line::Length { value, next } => {
                    self.args.clear();
                    Progress { at: next, remaining: value, bulk: None, searched: next }
                }
                Line::Incomplete { searched } => {
                    self.stage = Stage::Count { searched };
                    return Ok(None);
                }
            },
            Stage::Arguments(progress) => progress,
        };
        if !arguments(input, &mut progress, bounds, &mut self.args)? {
            self.stage = Stage::Arguments(progress);
            return Ok(None);
        }
        let first = batch.spans.len();
        batch.spans.extend_from_slice(&self.args);
        batch.finish_multibulk(first);
        self.args.clear();
        self.args.shrink_to(SPANS_KEPT_MAX);
        Ok(Some(progress.at))
    }

    /// Parses the inline command at `start`, whose line does not end before `searched`.
    #[cold]
    fn inline(
        &mut self,
        input: &[u8],
        start: usize,
        searched: usize,
        bounds: &Bounds,
        batch: &mut Batch,
    ) -> Result<Option<usize>, ProtocolError> {
        let newline = match header::find(input, start, searched, b'\n', bounds.line_bytes_max) {
            Search::Found(newline) => newline,
            Search::Unfinished { searched } => {
                self.stage = Stage::Line { searched: searched - start };
                return Ok(None);
            }
            Search::TooLong => return Err(ProtocolError::InlineTooBig),
        };
        let line = &input[start..newline];
        inline::split(line.strip_suffix(b"\r").unwrap_or(line), batch)?;
        Ok(Some(newline + 1))
    }

    /// The input ended inside the command at `start`.
    #[cold]
    fn incomplete(&self, input: &[u8], start: usize) -> Result<Parsed, ProtocolError> {
        let needed = match self.stage {
            Stage::Arguments(Progress { at, bulk: Some(bulk), .. }) => at + bulk + 2,
            _ => 0,
        };
        if needed.max(input.len() - start + 1) > COMMAND_BYTES_MAX {
            return Err(ProtocolError::InvalidBulkLength);
        }
        Ok(Parsed { consumed: start, needed })
    }
}

/// Parses arguments into `spans` until none remain (true) or the input ends (false).
#[inline]
fn arguments(input: &[u8], progress: &mut Progress, bounds: &Bounds, spans: &mut Vec<Span>) -> Result<bool, ProtocolError> {
    let mut at = progress.at;
    let mut bulk = progress.bulk.take();
    while progress.remaining > 0 {
        let (len, first) = match bulk.take() {
            Some(len) => (len, at),
            None => match header::quick(input, at, b'$') {
                Some((len, first)) if len <= bounds.bulk_quick_max => (len, first),
                _ => match header::bulk(input, at, progress.searched.max(at), bounds)? {
                    Line::Length { value, next } => (value, next),
                    Line::Incomplete { searched } => {
                        (progress.at, progress.searched) = (at, searched);
                        return Ok(false);
                    }
                },
            },
        };
        let end = first + len + 2;
        if end > input.len() {
            (progress.at, progress.bulk) = (first, Some(len));
            return Ok(false);
        }
        spans.push(Span { offset: first as u32, len: len as u32 });
        at = end;
        progress.remaining -= 1;
    }
    progress.at = at;
    Ok(true)
}

/// Most arguments of the usual command.
const QUICK_ARGUMENTS_MAX: usize = 8;

/// Parses all `count` arguments of a command, if they have short canonical headers and are in the input as a whole; else leaves
/// rubbish in `spans`. The result is the command's end.
#[inline(always)]
fn quick_arguments(input: &[u8], mut at: usize, count: usize, bounds: &Bounds, spans: &mut Vec<Span>) -> Option<usize> {
    // Room is made for all of them beforehand, so that the loop neither checks the capacity nor writes the length.
    let first = spans.len();
    spans.extend_from_slice(&[Span::default(); QUICK_ARGUMENTS_MAX]);
    for span in &mut spans[first..first + count] {
        let (len, start) = header::quick(input, at, b'$')?;
        at = start + len + 2;
        if len > bounds.bulk_quick_max || at > input.len() {
            return None;
        }
        *span = Span { offset: start as u32, len: len as u32 };
    }
    spans.truncate(first + count);
    Some(at)
}
