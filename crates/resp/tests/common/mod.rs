//! What the tests of the parser share: running it over chunks, and a model of it that is too simple to be wrong.

#![allow(dead_code, reason = "each test uses a part")]

use almandine_resp::{Batch, Limits, Parser};

/// A command with its own bytes.
pub(crate) type Command = Vec<Vec<u8>>;

/// What a stream of bytes means: its commands, and how it ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Complete commands.
    pub(crate) commands: Vec<Command>,
    /// The text of the error, if there is one; else the number of bytes of complete commands.
    pub(crate) end: Result<usize, String>,
}

/// Feeds `input` to a parser, cut at `cuts`, in batches of `commands_max`.
pub(crate) fn parse(input: &[u8], cuts: &[usize], limits: &Limits, commands_max: usize) -> Outcome {
    let (mut parser, mut batch) = (Parser::new(), Batch::new());
    let (mut commands, mut from) = (Vec::new(), 0);
    for &to in cuts.iter().chain([&input.len()]) {
        loop {
            // A copy, so that nothing can depend on the address of earlier bytes.
            let chunk = input[from..to.max(from)].to_vec();
            batch.clear();
            let parsed = parser.parse(&chunk, limits, &mut batch, commands_max);
            for command in 0..batch.len() {
                let args = batch.args(command, &chunk);
                assert!(!args.is_empty() && batch.len() <= commands_max);
                commands.push(args.iter().map(<[u8]>::to_vec).collect());
            }
            match parsed {
                Err(error) => {
                    return Outcome { commands, end: Err(error.to_string()) };
                }
                Ok(parsed) => {
                    assert!(parsed.consumed <= chunk.len());
                    assert!(parsed.needed == 0 || parsed.needed > chunk.len() - parsed.consumed, "needed bytes are there already");
                    from += parsed.consumed;
                    if parsed.consumed == 0 {
                        break;
                    }
                }
            }
        }
    }
    Outcome { commands, end: Ok(from) }
}

/// The same, by going over everything one byte at a time.
pub(crate) fn model(input: &[u8], limits: &Limits) -> Outcome {
    let (mut commands, mut at) = (Vec::new(), 0);
    loop {
        match model_command(&input[at..], limits) {
            Ok(Some((command, len))) => {
                at += len;
                if !command.is_empty() {
                    commands.push(command);
                }
            }
            Ok(None) => return Outcome { commands, end: Ok(at) },
            Err(reason) => return Outcome { commands, end: Err(format!("Protocol error: {reason}")) },
        }
    }
}

fn model_line<'i>(input: &'i [u8], end: u8, limits: &Limits, too_big: &str) -> Result<Option<&'i [u8]>, String> {
    for (index, &byte) in input.iter().enumerate() {
        if index > limits.inline_bytes_max || byte == 0 {
            break;
        }
        if byte == end {
            return Ok(Some(&input[..index]));
        }
    }
    if input.len() > limits.inline_bytes_max { Err(too_big.into()) } else { Ok(None) }
}

fn model_number(digits: &[u8]) -> Option<i128> {
    let value: i64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (value.to_string().as_bytes() == digits).then_some(i128::from(value))
}

fn model_command(input: &[u8], limits: &Limits) -> Result<Option<(Command, usize)>, String> {
    if input.first() != Some(&b'*') {
        let Some(line) = model_line(input, b'\n', limits, "too big inline request")? else { return Ok(None) };
        let words = model_words(line.strip_suffix(b"\r").unwrap_or(line)).ok_or("unbalanced quotes in request")?;
        return Ok(Some((words, line.len() + 1)));
    }
    let Some(line) = model_line(input, b'\r', limits, "too big mbulk count string")? else { return Ok(None) };
    let mut at = line.len() + 2;
    if at > input.len() {
        return Ok(None);
    }
    let count = model_number(&line[1..]).filter(|&n| n <= limits.multibulk_max as i128).ok_or("invalid multibulk length")?;
    if count > 10 && !limits.authenticated {
        return Err("unauthenticated multibulk length".into());
    }
    let mut command = Command::new();
    for _ in 0..count.max(0) {
        let Some(line) = model_line(&input[at..], b'\r', limits, "too big bulk count string")? else { return Ok(None) };
        if at + line.len() + 2 > input.len() {
            return Ok(None);
        }
        let lead = input[at];
        if lead != b'$' {
            let shown = if matches!(lead, b'\r' | b'\n') { b' ' } else { lead };
            return Err(format!("expected '$', got '{}'", String::from_utf8_lossy(&[shown])));
        }
        at += line.len() + 2;
        let valid = |n: &i128| *n >= 0 && *n <= limits.bulk_bytes_max as i128;
        let len = model_number(&line[1..]).filter(valid).ok_or("invalid bulk length")?;
        if len > 16384 && !limits.authenticated {
            return Err("unauthenticated bulk length".into());
        }
        let len = len as usize;
        if at + len + 2 > input.len() {
            return Ok(None);
        }
        command.push(input[at..at + len].to_vec());
        at += len + 2;
    }
    Ok(Some((command, at)))
}

fn model_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let space = |byte: u8| b" \t\n\x0b\x0c\r".contains(&byte);
    let peek = |index: usize| line.get(index).copied();
    let (mut words, mut at) = (Vec::new(), 0);
    loop {
        while peek(at).is_some_and(space) {
            at += 1;
        }
        if at == line.len() {
            return Some(words);
        }
        let (mut word, mut quote) = (Vec::new(), None);
        loop {
            match (quote, peek(at)) {
                (None, None | Some(b' ' | b'\t' | b'\r' | b'\n')) => break,
                (Some(_), None) => return None,
                (None, Some(open @ (b'"' | b'\''))) => quote = Some(open),
                (Some(open), Some(byte)) if byte == open => {
                    at += 1;
                    if peek(at).is_some_and(|next| !space(next)) {
                        return None;
                    }
                    break;
                }
                (Some(b'\''), Some(b'\\')) if peek(at + 1) == Some(b'\'') => {
                    word.push(b'\'');
                    at += 1;
                }
                (Some(b'"'), Some(b'\\')) if peek(at + 1).is_some() => {
                    let hex = line.get(at + 2..at + 4).and_then(|d| std::str::from_utf8(d).ok());
                    let hex = hex.filter(|d| !d.starts_with('+')).and_then(|d| u8::from_str_radix(d, 16).ok());
                    match (line[at + 1], hex) {
                        (b'x', Some(byte)) => {
                            word.push(byte);
                            at += 3;
                        }
                        (escaped, _) => {
                            let at_escape = b"nrtba".iter().position(|&e| e == escaped);
                            word.push(at_escape.map_or(escaped, |index| b"\n\r\t\x08\x07"[index]));
                            at += 1;
                        }
                    }
                }
                (_, Some(byte)) => word.push(byte),
            }
            at += 1;
        }
        words.push(word);
    }
}

/// A small generator of pseudo-random numbers; the same seed gives the same numbers everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }

    /// A valid or damaged stream of commands.
    pub(crate) fn stream(&mut self) -> Vec<u8> {
        const PIECES: [&[u8]; 34] = [
            b"*1\r\n$4\r\nPING\r\n",
            b"*2\r\n$4\r\nECHO\r\n$10\r\n0123456789\r\n",
            b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000001\r\n",
            b"*0\r\n",
            b"*-1\r\n",
            b"\r\n",
            b"PING\r\n",
            b"ECHO \"a b\\x41\\n\"\r\n",
            b"ECHO 'it\\'s'\n",
            b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n",
            b"*10\r\n",
            b"*11\r\n",
            b"$16385\r\n",
            b"$100\r\n",
            b"$1000\r\n",
            b"$9\r\n",
            b"*1\r\n",
            b"*2\r\n",
            b"*12\r\n$4\r\nECHO\r\n",
            b"$1\r\nx\r\n",
            b"$2\r\n\r\n\r\n",
            b"$",
            b"*",
            b"\"",
            b"'",
            b"\\",
            b" ",
            b"\0",
            b"\r",
            b"\n",
            b"-",
            b"0",
            b"9",
            b"xyz",
        ];
        let mut stream = Vec::new();
        for _ in 0..1 + self.below(12) {
            let common = self.below(3) > 0;
            stream.extend_from_slice(PIECES[self.below(if common { 10 } else { PIECES.len() })]);
        }
        if self.below(8) == 0 {
            let len = self.below(300);
            stream.extend_from_slice(format!("*2\r\n$4\r\nECHO\r\n${len}\r\n{}\r\n", "v".repeat(len)).as_bytes());
        }
        for _ in 0..self.below(3) {
            let at = self.below(stream.len());
            match self.below(3) {
                0 => stream[at] = b"*$\r\n\"'\\ 0159-\0\x0bxZ\xff"[self.below(18)],
                1 => drop(stream.remove(at)),
                _ => stream.insert(at, b"*$\r\n\"'\\ 0159-\0\x0bxZ\xff"[self.below(18)]),
            }
            if stream.is_empty() {
                stream.push(b'x');
            }
        }
        stream
    }
}
