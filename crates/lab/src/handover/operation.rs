//! The commands that wait, those that serve them, and what the waiting connection must then be sent.

use clap::ValueEnum;

use crate::mark::MARK_BYTES;
use crate::pipe::command;

/// A command that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Operation {
    /// Served by RPUSH.
    Blpop,
    /// Served by ZADD.
    Bzpopmin,
    /// XREADGROUP with BLOCK and NOACK, served by XADD.
    Xreadgroup,
}

/// How far received bytes are the reply that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    /// It is whole.
    Whole,
    /// It goes on.
    Begun,
    /// It is another one.
    Wrong,
}

impl Operation {
    /// Name for reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Blpop => "BLPOP",
            Self::Bzpopmin => "BZPOPMIN",
            Self::Xreadgroup => "XREADGROUP",
        }
    }

    /// What a key needs before it can be waited for.
    pub(super) fn prepare(self, key: &str) -> Option<[&str; 6]> {
        (self == Self::Xreadgroup).then_some(["XGROUP", "CREATE", key, "g", "0", "MKSTREAM"])
    }

    /// Waits for ever.
    pub(super) fn wait(self, key: &str) -> Vec<u8> {
        let mut request = Vec::new();
        let key = key.as_bytes();
        match self {
            Self::Blpop => command(&[b"BLPOP", key, b"0"], &mut request),
            Self::Bzpopmin => command(&[b"BZPOPMIN", key, b"0"], &mut request),
            Self::Xreadgroup => {
                let words: [&[u8]; 10] = [b"XREADGROUP", b"GROUP", b"g", b"c", b"BLOCK", b"0", b"NOACK", b"STREAMS", key, b">"];
                command(&words, &mut request);
            }
        }
        request
    }

    /// Serves one that waits. A mark is the last word, in the place of these zeros.
    pub(super) fn push(self, key: &str) -> Vec<u8> {
        let mut request = Vec::new();
        let (key, mark) = (key.as_bytes(), &[b'0'; MARK_BYTES]);
        match self {
            Self::Blpop => command(&[b"RPUSH", key, mark], &mut request),
            Self::Bzpopmin => command(&[b"ZADD", key, b"1", mark], &mut request),
            Self::Xreadgroup => command(&[b"XADD", key, b"MAXLEN", b"16", b"*", b"f", mark], &mut request),
        }
        request
    }

    /// Compares what was received with what is due when this mark was pushed.
    pub(super) fn check(self, key: &str, mark: &[u8; MARK_BYTES], received: &[u8], scratch: &mut Vec<u8>) -> Match {
        scratch.clear();
        let bulk = |word: &[u8], out: &mut Vec<u8>| {
            out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            out.extend_from_slice(word);
            out.extend_from_slice(b"\r\n");
        };
        match self {
            Self::Blpop | Self::Bzpopmin => {
                let is_set = self == Self::Bzpopmin;
                scratch.extend_from_slice(if is_set { b"*3\r\n" } else { b"*2\r\n" });
                bulk(key.as_bytes(), scratch);
                bulk(mark, scratch);
                if is_set {
                    bulk(b"1", scratch);
                }
            }
            Self::Xreadgroup => {
                scratch.extend_from_slice(b"*1\r\n*2\r\n");
                bulk(key.as_bytes(), scratch);
                scratch.extend_from_slice(b"*1\r\n*2\r\n");
                // The entry's id is whatever it is.
                if received.starts_with(scratch) {
                    let rest = &received[scratch.len()..];
                    let Some((length, _)) = rest.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(1) else {
                        return Match::Begun;
                    };
                    scratch.extend_from_slice(&rest[..=length]);
                    scratch.extend_from_slice(b"*2\r\n$1\r\nf\r\n");
                    bulk(mark, scratch);
                }
            }
        }
        match () {
            () if received == *scratch => Match::Whole,
            () if scratch.starts_with(received) => Match::Begun,
            () => Match::Wrong,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark::mark;

    #[test]
    fn replies_are_whole_or_begun_or_wrong() {
        let mark = mark(0, 7);
        let text = String::from_utf8_lossy(&mark).into_owned();
        for (operation, reply) in [
            (Operation::Blpop, format!("*2\r\n$2\r\nk1\r\n$8\r\n{text}\r\n")),
            (Operation::Bzpopmin, format!("*3\r\n$2\r\nk1\r\n$8\r\n{text}\r\n$1\r\n1\r\n")),
            (
                Operation::Xreadgroup,
                format!("*1\r\n*2\r\n$2\r\nk1\r\n*1\r\n*2\r\n$15\r\n1764000000000-0\r\n*2\r\n$1\r\nf\r\n$8\r\n{text}\r\n"),
            ),
        ] {
            let check = |key: &str, received: &[u8]| operation.check(key, &mark, received, &mut Vec::new());
            for cut in 0..reply.len() {
                assert_eq!(check("k1", &reply.as_bytes()[..cut]), Match::Begun, "{operation:?} {cut}");
            }
            assert_eq!(check("k1", reply.as_bytes()), Match::Whole);
            assert_eq!(check("k2", reply.as_bytes()), Match::Wrong, "another key's");
            assert_eq!(check("k1", reply.replace(&text, "00000008").as_bytes()), Match::Wrong, "another element");
            assert_eq!(check("k1", format!("{reply}{reply}").as_bytes()), Match::Wrong, "two of them");
            assert_eq!(check("k1", b"*-1\r\n"), Match::Wrong);
        }
    }
}
