//! Reads the commands of a file.
//!
//! Memory is bounded by twice the largest command: nothing is reserved for a length before the bytes are there.

use std::io::{ErrorKind, Read};
use std::ops::Range;

use super::fault::{AofError, AofFault};

/// Bytes that are read at a time, at least.
const READ_BYTES: usize = 256 << 10;
/// The longest line of remarks.
const REMARK_BYTES_MAX: usize = 4096;
/// The longest line that says a number: a sign, twenty digits, and the end.
const NUMBER_BYTES_MAX: usize = 23;
/// Words of a command, and bytes of a word.
const WORDS_MAX: u64 = 1 << 31;
const WORD_BYTES_MAX: u64 = 1 << 40;

/// Reads a file of commands from its beginning to its end.
#[derive(Debug)]
pub struct AofReader<R> {
    input: R,
    buffer: Vec<u8>,
    /// What of the buffer is not given yet.
    begin: usize,
    end: usize,
    /// Where `begin` is in the file.
    offset: u64,
    ended: bool,
    time_s: Option<i64>,
    /// The words of the last command, in the buffer.
    words: Vec<Range<usize>>,
}

/// A command.
#[derive(Clone, Copy, Debug)]
pub struct AofCommand<'r> {
    /// Where it begins in the file.
    pub offset: u64,
    /// All of it, as a client would send it.
    pub bytes: &'r [u8],
    buffer: &'r [u8],
    words: &'r [Range<usize>],
}

impl<'r> AofCommand<'r> {
    /// Its name and arguments: at least one.
    pub fn words(&self) -> impl ExactSizeIterator<Item = &'r [u8]> + use<'r> {
        let buffer = self.buffer;
        self.words.iter().map(move |range| &buffer[range.clone()])
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'r [u8] {
        self.words().next().unwrap_or_default()
    }
}

/// What the unread bytes begin with.
enum Next {
    /// A command of this length.
    Command(usize),
    /// A line of remarks of this length.
    Remark(usize),
    /// More of them are needed.
    More,
}

impl<R: Read> AofReader<R> {
    /// Reads from a file, whose bytes before `offset` were read otherwise.
    pub fn new(input: R, offset: u64) -> Self {
        Self { input, buffer: Vec::new(), begin: 0, end: 0, offset, ended: false, time_s: None, words: Vec::new() }
    }

    /// Where the next item begins.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The time that the last remark of this kind says, in Unix seconds: commands behind it were executed then or later.
    #[must_use]
    pub fn time_s(&self) -> Option<i64> {
        self.time_s
    }

    /// The next command; none behind the last one.
    ///
    /// # Errors
    /// When the file is malformed, ends within a command, or cannot be read. Nothing is to be expected of it afterwards.
    pub fn read_command(&mut self) -> Result<Option<AofCommand<'_>>, AofError> {
        let bytes = loop {
            match self.look()? {
                Next::Command(bytes) => break bytes,
                Next::Remark(bytes) => {
                    self.note(bytes);
                    self.pass(bytes);
                }
                Next::More if self.ended && self.begin == self.end => return Ok(None),
                Next::More if self.ended => return Err(self.error(AofFault::Truncated)),
                Next::More => self.fill()?,
            }
        };
        let (begin, offset) = (self.begin, self.offset);
        self.pass(bytes);
        let buffer = &self.buffer[begin..begin + bytes];
        Ok(Some(AofCommand { offset, bytes: buffer, buffer, words: &self.words }))
    }

    fn error(&self, fault: AofFault) -> AofError {
        AofError { offset: self.offset, fault }
    }

    fn pass(&mut self, bytes: usize) {
        self.begin += bytes;
        self.offset += bytes as u64;
    }

    /// Reads more. The buffer grows with what was read, not with what was announced.
    fn fill(&mut self) -> Result<(), AofError> {
        self.buffer.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        let room = self.end + READ_BYTES.max(self.end);
        if self.buffer.len() < room || self.buffer.len() > 4 * room {
            self.buffer.resize(room, 0);
            self.buffer.shrink_to_fit();
        }
        match self.input.read(&mut self.buffer[self.end..]) {
            Ok(0) => self.ended = true,
            Ok(bytes) => self.end += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(self.error(AofFault::Io(error))),
        }
        Ok(())
    }

    fn look(&mut self) -> Result<Next, AofError> {
        look(&self.buffer[self.begin..self.end], &mut self.words)
            .map_err(|what| AofError { offset: self.offset, fault: AofFault::Malformed(what) })
    }

    fn note(&mut self, bytes: usize) {
        let line = self.buffer[self.begin..self.begin + bytes].trim_ascii_end();
        let time = line.strip_prefix(b"#TS:").and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        self.time_s = time.or(self.time_s);
    }
}

/// Looks at what bytes begin with; the words of a command are put into `words`.
fn look(bytes: &[u8], words: &mut Vec<Range<usize>>) -> Result<Next, &'static str> {
    words.clear();
    match bytes.first() {
        None => return Ok(Next::More),
        Some(b'#') => return remark(bytes),
        Some(b'*') => {}
        Some(0) => return Err("zeros are there in place of a command, as a power cut leaves them"),
        Some(_) => return Err("a command begins with no '*'"),
    }
    let Some((count, mut at)) = number(bytes, 1)? else { return Ok(Next::More) };
    if count == 0 || count > WORDS_MAX {
        return Err("a command has no words, or too many");
    }
    for _ in 0..count {
        match bytes.get(at) {
            None => return Ok(Next::More),
            Some(b'$') => {}
            Some(_) => return Err("a word begins with no '$'"),
        }
        let Some((len, begin)) = number(bytes, at + 1)? else { return Ok(Next::More) };
        let end = usize::try_from(len).ok().filter(|_| len <= WORD_BYTES_MAX).and_then(|len| begin.checked_add(len));
        let end = end.ok_or("a word is too long")?;
        match bytes.get(end..).map(|rest| (rest.first(), rest.get(1))) {
            Some((Some(b'\r'), Some(b'\n'))) => {}
            None | Some((None | Some(b'\r'), None)) => return Ok(Next::More),
            Some(_) => return Err("a word has another length than it says"),
        }
        words.push(begin..end);
        at = end + 2;
    }
    Ok(Next::Command(at))
}

fn remark(bytes: &[u8]) -> Result<Next, &'static str> {
    match bytes.iter().take(REMARK_BYTES_MAX).position(|byte| *byte == b'\n') {
        Some(at) => Ok(Next::Remark(at + 1)),
        None if bytes.len() >= REMARK_BYTES_MAX => Err("a line of remarks does not end"),
        None => Ok(Next::More),
    }
}

/// The number of a line that begins at `at`, and where the next line begins. None: the line is not whole.
fn number(bytes: &[u8], at: usize) -> Result<Option<(u64, usize)>, &'static str> {
    const NONE: &str = "a line says no number";
    let line = bytes.get(at..).unwrap_or_default();
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits > NUMBER_BYTES_MAX {
        return Err(NONE);
    }
    match (line.get(digits), line.get(digits + 1)) {
        (None, _) | (Some(b'\r'), None) => Ok(None),
        (Some(b'\r'), Some(b'\n')) => {
            let value = std::str::from_utf8(&line[..digits]).ok().and_then(|digits| digits.parse().ok()).ok_or(NONE)?;
            Ok(Some((value, at + digits + 2)))
        }
        _ => Err(NONE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&[u8]]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes
    }

    /// Gives one byte at a time.
    struct Slow<'b>(&'b [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
            buffer[0] = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    /// Offset and words of each.
    type Commands = Vec<(u64, Vec<Vec<u8>>)>;

    fn all(input: impl Read) -> (Commands, Option<AofError>, Option<i64>) {
        let (mut reader, mut commands) = (AofReader::new(input, 0), Vec::new());
        loop {
            match reader.read_command() {
                Ok(Some(command)) => commands.push((command.offset, command.words().map(<[u8]>::to_vec).collect())),
                Ok(None) => return (commands, None, reader.time_s()),
                Err(error) => return (commands, Some(error), reader.time_s()),
            }
        }
    }

    fn sample() -> (Vec<u8>, Vec<u64>) {
        let (mut file, mut begins) = (b"#TS:1628217470\r\n".to_vec(), Vec::new());
        let commands: [&[&[u8]]; 3] = [&[b"SELECT", b"9"], &[b"SET", b"k\r\n", b""], &[b"DEL", b"k"]];
        for words in commands {
            begins.push(file.len() as u64);
            file.extend(command(words));
            file.extend_from_slice(b"#remark\r\n");
        }
        (file, begins)
    }

    #[test]
    fn commands_come_with_their_places_and_remarks_are_passed_over() {
        let (file, begins) = sample();
        for (commands, error, time_s) in [all(&*file), all(Slow(&file))] {
            assert!(error.is_none(), "{error:?}");
            assert_eq!(time_s, Some(1_628_217_470));
            assert_eq!(commands.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), begins);
            assert_eq!(commands[1].1, [&b"SET"[..], b"k\r\n", b""]);
        }
        assert!(all(&b""[..]).1.is_none());
        let large = command(&[b"SET", b"k", &vec![b'x'; 3 << 20]]);
        assert_eq!(all(&*large).0[0].1[2].len(), 3 << 20);
    }

    /// A file that is cut off gives the commands that are whole, and says where it ends.
    #[test]
    fn each_prefix_gives_what_is_whole_in_it() {
        let (file, _) = sample();
        let whole = all(&*file).0;
        for cut in 0..file.len() {
            let (commands, error, _) = all(&file[..cut]);
            assert_eq!(commands, whole[..commands.len()]);
            match error {
                None => {}
                Some(AofError { offset, fault: AofFault::Truncated }) => assert!(offset < cut as u64),
                Some(error) => panic!("{cut}: {error}"),
            }
        }
    }

    #[test]
    fn what_is_no_command_is_refused_with_its_place() {
        for (wrong, what) in [
            (&b"!!!"[..], "no '*'"),
            (b"\0\0\0", "zeros"),
            (b"*0\r\n", "no words"),
            (b"*-1\r\n", "no number"),
            (b"*\r\n", "no number"),
            (b"*1\n$4\r\nPING\r\n", "no number"),
            (b"*111111111111111111111111111", "no number"),
            (b"*18446744073709551616\r\n", "no number"),
            (b"*9999999999\r\n", "too many"),
            (b"*1\r\nPING\r\n", "no '$'"),
            (b"*1\r\n$3\r\nPING\r\n", "another length"),
            (b"*1\r\n$99999999999999\r\n", "too long"),
        ] {
            let file = [command(&[b"PING"]), wrong.to_vec()].concat();
            let (commands, error, _) = all(&*file);
            let error = error.unwrap_or_else(|| panic!("{what}"));
            assert!(commands.len() == 1 && error.offset == 14 && error.to_string().contains(what), "{what}: {error}");
        }
        // What is announced is not reserved.
        let huge = all(&b"*2147483648\r\n$1099511627776\r\nabc"[..]).1;
        assert!(matches!(huge, Some(AofError { offset: 0, fault: AofFault::Truncated })), "{huge:?}");
    }
}
