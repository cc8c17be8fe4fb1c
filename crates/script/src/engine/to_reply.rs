//! Values of Lua into replies.
//!
//! Tables are gone through without recursion: a script may nest them as deep as it likes, or into themselves.

use almandine_base::Output;
use almandine_lua::{LuaValue, Machine, Values};
use almandine_resp::reply::write_header;
use almandine_resp::{Deferred, ProtocolVersion, Reply};

use super::commands::Commands;
use super::to_lua::IS_COUNTED;

/// Tables within each other that are written; what a stack of Lua holds in Redis.
const DEPTH_MAX: usize = 7_990;

/// An aggregate that is being written.
struct Open {
    table: LuaValue,
    kind: Kind,
    header: Deferred,
    /// Elements, or pairs, so far.
    count: usize,
    /// The key that was written last.
    key: LuaValue,
    /// The value of that key, which comes next.
    value: Option<LuaValue>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Array,
    Map,
    Set,
}

/// Writes what a script has returned.
pub(crate) struct Writer<'w> {
    pub(crate) machine: &'w mut Machine,
    pub(crate) out: &'w mut Output,
    /// The client's protocol.
    pub(crate) version: ProtocolVersion,
    /// The protocol that the script has chosen: whether truth values are ones of their own.
    pub(crate) chosen: ProtocolVersion,
    pub(crate) commands: &'w mut dyn Commands,
}

impl Writer<'_> {
    pub(crate) fn write(&mut self, value: LuaValue) {
        let mut open = Vec::new();
        self.begin(value, &mut open);
        while let Some(mut last) = open.pop() {
            match self.next_of(&mut last) {
                Some(value) => {
                    open.push(last);
                    self.begin(value, &mut open);
                }
                None => self.end(last),
            }
        }
    }

    fn reply(&mut self) -> Reply<'_> {
        Reply::new(self.out, self.version)
    }

    /// Writes a value, or begins to.
    fn begin(&mut self, value: LuaValue, open: &mut Vec<Open>) {
        match value {
            LuaValue::String(text) => {
                let Self { machine, out, version, .. } = self;
                Reply::new(out, *version).bulk(machine.heap().bytes(text));
            }
            LuaValue::Number(number) => self.reply().integer(truncated(number)),
            LuaValue::Boolean(truth) if self.chosen == ProtocolVersion::Resp3 => self.reply().boolean(truth),
            LuaValue::Boolean(true) => self.reply().integer(1),
            LuaValue::Table(_) if open.len() >= DEPTH_MAX => self.error(b"ERR reached lua stack limit", false),
            LuaValue::Table(_) => self.begin_table(value, open),
            _ => self.reply().null(),
        }
    }

    fn begin_table(&mut self, table: LuaValue, open: &mut Vec<Open>) {
        if let Some(text) = self.text_of(table, "err") {
            let counted = Values::of(self.machine).field(table, IS_COUNTED).is_true();
            return self.error(&text, counted);
        }
        if let Some(text) = self.text_of(table, "ok") {
            return self.line(b'+', &text);
        }
        if let LuaValue::Number(number) = Values::of(self.machine).field(table, "double") {
            return self.reply().double(number);
        }
        for (name, kind) in [("map", Kind::Map), ("set", Kind::Set)] {
            let inner = Values::of(self.machine).field(table, name);
            if matches!(inner, LuaValue::Table(_)) {
                return self.open(inner, kind, open);
            }
        }
        if let Some(digits) = self.text_of(table, "big_number") {
            return match self.version {
                ProtocolVersion::Resp3 => self.line(b'(', &digits),
                ProtocolVersion::Resp2 => self.reply().bulk(&on_one_line(&digits)),
            };
        }
        let verbatim = Values::of(self.machine).field(table, "verbatim_string");
        if matches!(verbatim, LuaValue::Table(_))
            && let (Some(format), Some(text)) = (self.text_of(verbatim, "format"), self.text_of(verbatim, "string"))
        {
            return self.verbatim(&format, &text);
        }
        self.open(table, Kind::Array, open);
    }

    fn open(&mut self, table: LuaValue, kind: Kind, open: &mut Vec<Open>) {
        let header = self.reply().begin();
        open.push(Open { table, kind, header, count: 0, key: LuaValue::Nil, value: None });
    }

    /// What comes next of an aggregate; nothing behind its last value.
    fn next_of(&mut self, open: &mut Open) -> Option<LuaValue> {
        if let Some(value) = open.value.take() {
            return Some(value);
        }
        if open.kind == Kind::Array {
            let value = self.machine.raw_get(open.table, LuaValue::Number((open.count + 1) as f64));
            open.count += usize::from(!value.is_nil());
            return (!value.is_nil()).then_some(value);
        }
        let (key, value) = Values::of(self.machine).next(open.table, open.key)?;
        (open.key, open.count) = (key, open.count + 1);
        open.value = (open.kind == Kind::Map).then_some(value);
        Some(key)
    }

    fn end(&mut self, open: Open) {
        let reply = &mut Reply::new(self.out, self.version);
        match open.kind {
            Kind::Array => open.header.end_array(reply, open.count),
            Kind::Map => open.header.end_map(reply, open.count),
            Kind::Set => open.header.end_set(reply, open.count),
        }
    }

    /// An error, which counts unless it did already.
    pub(crate) fn error(&mut self, text: &[u8], counted: bool) {
        self.reply().error(text);
        if !counted {
            self.commands.replied_error(&on_one_line(text));
        }
    }

    /// A field that is a string, or a number as one.
    fn text_of(&mut self, table: LuaValue, name: &str) -> Option<Vec<u8>> {
        let value = Values::of(self.machine).field(table, name);
        Values::of(self.machine).text(value)
    }

    fn line(&mut self, lead: u8, text: &[u8]) {
        self.out.bytes.push(lead);
        self.out.bytes.extend(on_one_line(text));
        self.out.bytes.extend_from_slice(b"\r\n");
    }

    fn verbatim(&mut self, format: &[u8], text: &[u8]) {
        if self.version == ProtocolVersion::Resp2 {
            return self.reply().bulk(text);
        }
        let mut three = [b' '; 3];
        three.iter_mut().zip(format).for_each(|(place, byte)| *place = *byte);
        write_header(&mut self.out.bytes, b'=', text.len() + 4);
        self.out.bytes.extend_from_slice(&[&three, &b":"[..], text, b"\r\n"].concat());
    }
}

/// Ends of line would end the reply: they become blanks.
pub(crate) fn on_one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}

/// A number without its fraction; what no integer holds is the least one.
fn truncated(number: f64) -> i64 {
    const LIMIT: f64 = (1_u64 << 63) as f64;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}
