//! JSON into values: a state for each place between two tokens, and a list of the tables that are open.

use super::{BATCH, NULL, settings};
use crate::heap::gathered::Charge;
use crate::json::JsonSettings;
use crate::number;
use crate::value::{LuaValue, TableRef};
use crate::vm::context::{Context, Continuation, Stepped};
use crate::vm::error::refused;
use crate::vm::state::{Fault, STACK_MAX};

/// What the text goes on with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// Its bytes are in [`Decoder::text`].
    String,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Invalid(&'static str),
}

impl Token {
    /// What messages call it.
    fn name(self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::String => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Invalid(what) => what,
        }
    }
}

/// What may come next.
#[derive(Clone, Copy, Debug)]
enum Expect {
    Value,
    /// A value, or the end of an empty list.
    FirstElement,
    /// A key, or the end of an empty object.
    FirstKey,
    Key,
    Colon,
    /// Behind a value: a comma or an end.
    Separator,
}

/// A table that is being filled.
#[derive(Debug)]
struct Open {
    table: TableRef,
    /// The number of elements of a list; `None` for an object.
    elements: Option<usize>,
    /// The key of an object whose value is next.
    key: LuaValue,
}

#[derive(Debug)]
struct Decoder {
    at: usize,
    /// Where the last token began.
    token: usize,
    expect: Expect,
    open: Vec<Open>,
    charge: Charge,
    /// Values that lie on PUC's stack.
    below: usize,
    text: Vec<u8>,
    value: LuaValue,
    settings: JsonSettings,
}

pub(super) fn decode(context: &mut Context<'_>) -> Stepped {
    if context.count != 1 {
        return Err(context.argument_error(0, "expected 1 argument"));
    }
    context.string(0)?;
    if let [a, b, ..] = context.bytes(0)
        && (*a == 0 || *b == 0)
    {
        return Err(context.error("JSON parser does not support UTF-16 or UTF-32"));
    }
    let decoder = Decoder {
        at: 0,
        token: 0,
        expect: Expect::Value,
        open: Vec::new(),
        charge: Charge::default(),
        below: 1,
        text: Vec::new(),
        value: LuaValue::Nil,
        settings: settings::of(context),
    };
    go_on(decoder, context)
}

fn go_on(mut decoder: Decoder, context: &mut Context<'_>) -> Stepped {
    loop {
        for _ in 0..BATCH {
            if decoder.step(context)? {
                return context.return_one(decoder.value);
            }
        }
        context.charge(BATCH);
        if context.has_to_pause() {
            return context.go_on_later(Box::new(decoder));
        }
    }
}

impl Decoder {
    /// Reads a token and does what it says; true behind the end of the text.
    fn step(&mut self, context: &mut Context<'_>) -> Result<bool, Fault> {
        let token = self.next(context);
        match self.expect {
            Expect::Value => self.begin_value(context, token)?,
            Expect::FirstElement if token == Token::ArrayEnd => self.close(context)?,
            Expect::FirstElement => self.begin_value(context, token)?,
            Expect::FirstKey if token == Token::ObjectEnd => self.close(context)?,
            Expect::FirstKey | Expect::Key => {
                if token != Token::String {
                    return Err(self.unexpected(context, "object key string", token));
                }
                let key = LuaValue::String(context.state.heap.string(&self.text));
                if let Some(open) = self.open.last_mut() {
                    open.key = key;
                }
                self.expect = Expect::Colon;
            }
            Expect::Colon if token == Token::Colon => self.expect = Expect::Value,
            Expect::Colon => return Err(self.unexpected(context, "colon", token)),
            Expect::Separator => match (self.open.last().map(|open| open.elements.is_some()), token) {
                (None, Token::End) => return Ok(true),
                (None, token) => return Err(self.unexpected(context, "the end", token)),
                (Some(true), Token::ArrayEnd) | (Some(false), Token::ObjectEnd) => self.close(context)?,
                (Some(true), Token::Comma) => self.expect = Expect::Value,
                (Some(false), Token::Comma) => self.expect = Expect::Key,
                (Some(true), token) => return Err(self.unexpected(context, "comma or array end", token)),
                (Some(false), token) => return Err(self.unexpected(context, "comma or object end", token)),
            },
        }
        Ok(false)
    }

    #[cold]
    fn unexpected(&self, context: &mut Context<'_>, expected: &str, found: Token) -> Fault {
        context.error(&format!("Expected {expected} but found {} at character {}", found.name(), self.token + 1))
    }

    fn begin_value(&mut self, context: &mut Context<'_>, token: Token) -> Result<(), Fault> {
        let value = match token {
            Token::String => LuaValue::String(context.state.heap.string(&self.text)),
            Token::Number(number) => LuaValue::Number(number),
            Token::Boolean(value) => LuaValue::Boolean(value),
            Token::Null => NULL,
            Token::ArrayBegin => return self.begin_table(context, Some(0)),
            Token::ObjectBegin => return self.begin_table(context, None),
            _ => return Err(self.unexpected(context, "value", token)),
        };
        self.place(context, value)
    }

    fn begin_table(&mut self, context: &mut Context<'_>, elements: Option<usize>) -> Result<(), Fault> {
        let depth = self.open.len() + 1;
        // A list has one value on PUC's stack, an object has its key, too.
        let needed = if elements.is_some() { 2 } else { 3 };
        if depth > self.settings.decode_max_depth as usize || self.below + needed > STACK_MAX {
            let message = format!("Found too many nested data structures ({depth}) at character {}", self.at);
            return Err(context.error(&message));
        }
        self.below += needed - 1;
        let table = context.state.heap.new_table(0, 0);
        self.open.push(Open { table, elements, key: LuaValue::Nil });
        self.charge.set(&context.state.heap.memory, self.open.capacity() * size_of::<Open>())?;
        self.expect = if elements.is_some() { Expect::FirstElement } else { Expect::FirstKey };
        Ok(())
    }

    fn close(&mut self, context: &mut Context<'_>) -> Result<(), Fault> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        self.below -= if open.elements.is_some() { 1 } else { 2 };
        self.place(context, LuaValue::Table(open.table))
    }

    /// Puts a value where it belongs.
    fn place(&mut self, context: &mut Context<'_>, value: LuaValue) -> Result<(), Fault> {
        self.expect = Expect::Separator;
        let Some(open) = self.open.last_mut() else {
            self.value = value;
            return Ok(());
        };
        let key = match &mut open.elements {
            Some(elements) => {
                *elements += 1;
                LuaValue::Number(*elements as f64)
            }
            None => open.key,
        };
        context.state.heap.set(open.table, key, value).map_err(|why| refused(context, &why))
    }

    fn next(&mut self, context: &Context<'_>) -> Token {
        let bytes = context.bytes(0);
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(self.at) {
            self.at += 1;
        }
        self.token = self.at;
        let rest = &bytes[self.at..];
        // As in C, a zero byte ends the text.
        let (token, length) = match rest.first().copied().unwrap_or(0) {
            0 => (Token::End, 0),
            b'{' => (Token::ObjectBegin, 1),
            b'}' => (Token::ObjectEnd, 1),
            b'[' => (Token::ArrayBegin, 1),
            b']' => (Token::ArrayEnd, 1),
            b':' => (Token::Colon, 1),
            b',' => (Token::Comma, 1),
            b'"' => {
                return match self.string(bytes) {
                    Ok(()) => Token::String,
                    Err((what, at)) => {
                        self.token = at;
                        Token::Invalid(what)
                    }
                };
            }
            b'-' | b'0'..=b'9' if self.settings.decode_invalid_numbers || !is_invalid_number(rest) => number_token(rest),
            b'-' | b'0'..=b'9' => (Token::Invalid("invalid number"), 0),
            b't' if rest.starts_with(b"true") => (Token::Boolean(true), 4),
            b'f' if rest.starts_with(b"false") => (Token::Boolean(false), 5),
            b'n' if rest.starts_with(b"null") => (Token::Null, 4),
            _ if self.settings.decode_invalid_numbers && is_invalid_number(rest) => number_token(rest),
            _ => (Token::Invalid("invalid token"), 0),
        };
        self.at += length;
        token
    }

    /// Reads a text in quotes; what is wrong with it, and where.
    fn string(&mut self, bytes: &[u8]) -> Result<(), (&'static str, usize)> {
        self.text.clear();
        let mut at = self.at + 1;
        loop {
            let run = bytes[at..].iter().position(|byte| matches!(byte, 0 | b'"' | b'\\')).unwrap_or(bytes.len() - at);
            self.text.extend_from_slice(&bytes[at..at + run]);
            at += run;
            match bytes.get(at) {
                Some(b'"') => {
                    self.at = at + 1;
                    return Ok(());
                }
                Some(b'\\') => {}
                _ => return Err(("unexpected end of string", at)),
            }
            let escaped = match bytes.get(at + 1) {
                Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
                Some(b'b') => 8,
                Some(b'f') => 12,
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b't') => b'\t',
                Some(b'u') => {
                    let (character, length) = code_point(&bytes[at..]).ok_or(("invalid unicode escape code", at))?;
                    self.text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                    at += length;
                    continue;
                }
                _ => return Err(("invalid escape code", at)),
            };
            self.text.push(escaped);
            at += 2;
        }
    }
}

/// The character of `\uXXXX`, or of two of them that are a pair, and how long that is.
fn code_point(text: &[u8]) -> Option<(char, usize)> {
    let unit = |from: usize| {
        let digits = text.get(from..from + 6)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
    };
    let first = unit(0)?;
    if first & 0xf800 != 0xd800 {
        return Some((char::from_u32(first)?, 6));
    }
    let second = if first & 0x400 == 0 { unit(6)? } else { return None };
    if second & 0xfc00 != 0xdc00 {
        return None;
    }
    Some((char::from_u32(0x1_0000 + ((first & 0x3ff) << 10 | second & 0x3ff))?, 12))
}

fn number_token(text: &[u8]) -> (Token, usize) {
    match number::parse_prefix(text) {
        Some((number, length)) => (Token::Number(number), length),
        None => (Token::Invalid("invalid number"), 0),
    }
}

/// A number that C reads and that is none of JSON.
fn is_invalid_number(text: &[u8]) -> bool {
    let rest = match text {
        [b'+', ..] => return true,
        [b'-', rest @ ..] => rest,
        _ => text,
    };
    match rest {
        [b'0', b'x' | b'X' | b'0'..=b'9', ..] => true,
        [b'0'..=b'9', ..] => false,
        _ => rest.len() >= 3 && (rest[..3].eq_ignore_ascii_case(b"inf") || rest[..3].eq_ignore_ascii_case(b"nan")),
    }
}

impl Continuation for Decoder {
    fn resume(self: Box<Self>, context: &mut Context<'_>, _first: usize) -> Stepped {
        go_on(*self, context)
    }

    fn mark(&self, mark: &mut dyn FnMut(LuaValue)) {
        for open in &self.open {
            mark(LuaValue::Table(open.table));
            mark(open.key);
        }
        mark(self.value);
    }
}
