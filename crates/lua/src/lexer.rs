//! Text into tokens.

use crate::number;
use crate::proto::chunk_name;

/// Bytes of a chunk's name in a message of the compiler, which shows more of it than one of the machine.
const SOURCE_MAX: usize = 80;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// A reserved word, by its place in [`RESERVED`].
    Word(&'static str),
    Name(Box<[u8]>),
    Text(Box<[u8]>),
    Number(f64),
    /// An operator or a separator.
    Symbol(&'static str),
    /// A byte that begins no token.
    Byte(u8),
    End,
}

pub(crate) const RESERVED: [&str; 21] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not", "or", "repeat",
    "return", "then", "true", "until", "while",
];

/// Operators, longer ones before their beginnings.
const SYMBOLS: [&str; 27] = [
    "...", "..", ".", "==", "=", "~=", "<=", "<", ">=", ">", "+", "-", "*", "/", "%", "^", "#", "(", ")", "{", "}", "[", "]", ";",
    ":", ",", "",
];

/// A text that is not Lua: the message, with chunk and line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The message.
    pub message: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    /// Where the token began that is being read.
    start: usize,
    pub(crate) line: u32,
    source: &'a [u8],
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a [u8], source: &'a [u8]) -> Self {
        Self { text, at: 0, start: 0, line: 1, source }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    fn skip_line(&mut self) {
        while self.peek(0).is_some_and(|b| b != b'\n' && b != b'\r') {
            self.at += 1;
        }
    }

    /// Passes a line's end: one or two bytes.
    fn new_line(&mut self) -> Result<(), SyntaxError> {
        let first = self.peek(0);
        self.at += 1;
        if matches!(self.peek(0), Some(b'\n' | b'\r')) && self.peek(0) != first {
            self.at += 1;
        }
        self.line += 1;
        if self.line >= i32::MAX as u32 { Err(self.error("chunk has too many lines", None)) } else { Ok(()) }
    }

    pub(crate) fn next(&mut self) -> Result<Token, SyntaxError> {
        loop {
            self.start = self.at;
            let Some(byte) = self.peek(0) else { return Ok(Token::End) };
            match byte {
                b'\n' | b'\r' => self.new_line()?,
                b' ' | b'\t' | 0x0b | 0x0c => self.at += 1,
                b'-' if self.peek(1) == Some(b'-') => self.comment()?,
                b'[' => match self.separator() {
                    Some(level) => return self.long_string(level, "string").map(Token::Text),
                    None if self.peek(1) == Some(b'=') => {
                        return Err(self.error("invalid long string delimiter", Some(self.separator_text())));
                    }
                    None => return Ok(self.symbol(byte)),
                },
                b'"' | b'\'' => return self.string(byte),
                b'0'..=b'9' => return self.number(),
                b'.' if self.peek(1).is_some_and(|b| b.is_ascii_digit()) => return self.number(),
                b'_' | b'a'..=b'z' | b'A'..=b'Z' => return Ok(self.word()),
                _ => return Ok(self.symbol(byte)),
            }
        }
    }

    fn comment(&mut self) -> Result<(), SyntaxError> {
        self.at += 2;
        if self.peek(0) == Some(b'[')
            && let Some(level) = self.separator()
        {
            self.start = self.at;
            return self.long_string(level, "comment").map(|_| ());
        }
        self.skip_line();
        Ok(())
    }

    /// The level of a long bracket that opens here.
    fn separator(&self) -> Option<usize> {
        let level = self.text[self.at + 1..].iter().take_while(|b| **b == b'=').count();
        (self.peek(level + 1) == Some(b'[')).then_some(level)
    }

    fn separator_text(&self) -> &'a [u8] {
        let level = self.text[self.at + 1..].iter().take_while(|b| **b == b'=').count();
        &self.text[self.at..=self.at + level]
    }

    fn long_string(&mut self, level: usize, what: &str) -> Result<Box<[u8]>, SyntaxError> {
        self.at += level + 2;
        if matches!(self.peek(0), Some(b'\n' | b'\r')) {
            self.new_line()?;
        }
        let mut content = Vec::new();
        loop {
            match self.peek(0) {
                None => return Err(self.error(&format!("unfinished long {what}"), Some(b"<eof>"))),
                Some(b']') => {
                    let equals = self.text[self.at + 1..].iter().take_while(|b| **b == b'=').count();
                    if equals == level && self.peek(level + 1) == Some(b']') {
                        self.at += level + 2;
                        return Ok(content.into());
                    }
                    content.extend_from_slice(&self.text[self.at..=self.at + equals]);
                    self.at += equals + 1;
                }
                Some(b'\n' | b'\r') => {
                    self.new_line()?;
                    content.push(b'\n');
                }
                Some(byte) => {
                    content.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn string(&mut self, quote: u8) -> Result<Token, SyntaxError> {
        self.at += 1;
        let mut content = vec![quote];
        loop {
            match self.peek(0) {
                None => return Err(self.error("unfinished string", Some(b"<eof>"))),
                Some(b'\n' | b'\r') => return Err(self.error("unfinished string", Some(&content))),
                Some(b'\\') => self.escape(&mut content)?,
                Some(byte) => {
                    self.at += 1;
                    if byte == quote {
                        return Ok(Token::Text(content[1..].into()));
                    }
                    content.push(byte);
                }
            }
        }
    }

    fn escape(&mut self, content: &mut Vec<u8>) -> Result<(), SyntaxError> {
        self.at += 1;
        let Some(byte) = self.peek(0) else { return Ok(()) };
        let plain = match byte {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'\n' | b'\r' => {
                content.push(b'\n');
                return self.new_line();
            }
            b'0'..=b'9' => {
                let mut value = 0;
                for _ in 0..3 {
                    let Some(digit @ b'0'..=b'9') = self.peek(0) else { break };
                    value = value * 10 + u32::from(digit - b'0');
                    self.at += 1;
                }
                let value = u8::try_from(value).map_err(|_| self.error("escape sequence too large", Some(content)))?;
                content.push(value);
                return Ok(());
            }
            other => other,
        };
        content.push(plain);
        self.at += 1;
        Ok(())
    }

    fn number(&mut self) -> Result<Token, SyntaxError> {
        while self.peek(0).is_some_and(|b| b.is_ascii_digit() || b == b'.') {
            self.at += 1;
        }
        if matches!(self.peek(0), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(0), Some(b'+' | b'-')) {
                self.at += 1;
            }
        }
        while self.peek(0).is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_') {
            self.at += 1;
        }
        let text = &self.text[self.start..self.at];
        number::parse(text).map(Token::Number).ok_or_else(|| self.error("malformed number", Some(text)))
    }

    fn word(&mut self) -> Token {
        while self.peek(0).is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_') {
            self.at += 1;
        }
        let word = &self.text[self.start..self.at];
        let reserved = RESERVED.iter().find(|reserved| reserved.as_bytes() == word);
        reserved.map_or_else(|| Token::Name(word.into()), |reserved| Token::Word(reserved))
    }

    fn symbol(&mut self, byte: u8) -> Token {
        let rest = &self.text[self.at..];
        match SYMBOLS.iter().find(|symbol| !symbol.is_empty() && rest.starts_with(symbol.as_bytes())) {
            Some(symbol) => {
                self.at += symbol.len();
                Token::Symbol(symbol)
            }
            None => {
                self.at += 1;
                Token::Byte(byte)
            }
        }
    }

    /// The text of the token that was read last.
    pub(crate) fn token_text(&self, token: &Token) -> Vec<u8> {
        match token {
            Token::Word(word) | Token::Symbol(word) => word.as_bytes().to_vec(),
            Token::Byte(byte) if byte.is_ascii_control() => format!("char({byte})").into_bytes(),
            Token::Byte(byte) => vec![*byte],
            Token::End => b"<eof>".to_vec(),
            Token::Text(content) => {
                // Between its delimiters, but with what its escapes stand for.
                let source = &self.text[self.start..self.at];
                let long = source.iter().skip(1).position(|byte| *byte == b'[').filter(|_| source.first() == Some(&b'['));
                let delimiter = long.map_or(1, |level| level + 2);
                [&source[..delimiter], content, &source[source.len() - delimiter..]].concat()
            }
            Token::Name(_) | Token::Number(_) => self.text[self.start..self.at].to_vec(),
        }
    }

    pub(crate) fn error(&self, message: &str, near: Option<&[u8]>) -> SyntaxError {
        self.error_at(self.line, message.as_bytes(), near)
    }

    pub(crate) fn error_at(&self, line: u32, message: &[u8], near: Option<&[u8]>) -> SyntaxError {
        let mut text = chunk_name(self.source, SOURCE_MAX);
        text.extend(format!(":{line}: ").bytes());
        text.extend_from_slice(message);
        if let Some(near) = near {
            // The messages are made by C's printf, which ends at a zero byte.
            let near = &near[..near.iter().position(|b| *b == 0).unwrap_or(near.len())];
            text.extend_from_slice(b" near '");
            text.extend_from_slice(near);
            text.push(b'\'');
        }
        SyntaxError { message: text }
    }

    /// Where the lexer is, so that one token may be looked at ahead.
    pub(crate) fn state(&self) -> (usize, usize, u32) {
        (self.at, self.start, self.line)
    }

    pub(crate) fn restore(&mut self, (at, start, line): (usize, usize, u32)) {
        (self.at, self.start, self.line) = (at, start, line);
    }
}
