//! What the subscribers of one channel receive: all of them the same bytes.
//!
//! The subscriber that is ahead extends the stream, and each new message is then taken apart: its publisher's number must be the
//! next one. The bytes of all others must equal those that are there. So every message is accounted for, and one order for all of
//! them, at the price of a comparison of memory.

use crate::mark::{MARK_BYTES, read_mark};

/// The channel. Its name has the length that names have.
pub(super) const CHANNEL: &str = "news:of:today";
/// So much is kept before what everybody has had is dropped.
const KEPT_BYTES: usize = 4 << 20;

/// The stream of one run.
#[derive(Debug)]
pub(super) struct Stream {
    header: Vec<u8>,
    message: usize,
    /// Place of the first byte that is kept.
    from: u64,
    bytes: Vec<u8>,
    /// Bytes of the kept ones that have been taken apart.
    checked: usize,
    /// Per publisher.
    next: Vec<u64>,
}

impl Stream {
    /// Nothing yet, of `publishers` with messages of `payload` bytes each.
    pub(super) fn new(publishers: usize, payload: usize) -> Self {
        let header = format!("*3\r\n$7\r\nmessage\r\n${}\r\n{CHANNEL}\r\n${payload}\r\n", CHANNEL.len()).into_bytes();
        let message = header.len() + payload + 2;
        Self { header, message, from: 0, bytes: Vec::new(), checked: 0, next: vec![0; publishers] }
    }

    /// Bytes of a message as it is received.
    pub(super) fn message_bytes(&self) -> usize {
        self.message
    }

    /// Takes what a subscriber received that had received everything before the place `at`.
    pub(super) fn take(&mut self, at: u64, received: &[u8]) -> Result<(), String> {
        let known = &self.bytes[(at - self.from) as usize..];
        let (same, new) = received.split_at(known.len().min(received.len()));
        if known[..same.len()] != *same {
            return Err("a subscriber got other messages than another one, or in another order".into());
        }
        self.bytes.extend_from_slice(new);
        while self.bytes.len() - self.checked >= self.message {
            self.check_next()?;
        }
        Ok(())
    }

    fn check_next(&mut self) -> Result<(), String> {
        let message = &self.bytes[self.checked..self.checked + self.message];
        let body = message.strip_prefix(self.header.as_slice()).ok_or_else(|| {
            format!("{:?} is not a message of the channel", String::from_utf8_lossy(&message[..self.header.len()]))
        })?;
        let (publisher, number) = read_mark(&body[..MARK_BYTES]).ok_or("a message's text is not what was published")?;
        let next = self.next.get_mut(publisher).ok_or("a message has a publisher that there is not")?;
        if number != *next {
            return Err(format!(
                "publisher {publisher}: message {number} came where {next} was due: one is missing or out of order"
            ));
        }
        *next += 1;
        self.checked += self.message;
        Ok(())
    }

    /// Whether something should be dropped.
    pub(super) fn is_long(&self) -> bool {
        self.bytes.len() >= KEPT_BYTES
    }

    /// Drops what everybody has had: all before the place `least`.
    pub(super) fn drop_before(&mut self, least: u64) {
        let dropped = ((least - self.from) as usize).min(self.checked);
        self.bytes.drain(..dropped);
        self.from += dropped as u64;
        self.checked -= dropped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark::mark;

    fn message(publisher: usize, number: u64) -> Vec<u8> {
        let mark = mark(publisher, number);
        [b"*3\r\n$7\r\nmessage\r\n$13\r\nnews:of:today\r\n$10\r\n".as_slice(), &mark, b"xx\r\n"].concat()
    }

    #[test]
    fn all_receive_the_same_in_whatever_pieces() {
        let all = [message(0, 0), message(1, 0), message(0, 1)].concat();
        let mut stream = Stream::new(2, 10);
        assert_eq!(stream.message_bytes() * 3, all.len());
        let mut places = [0; 3];
        for (subscriber, piece) in [(0, 50), (1, 70), (0, 21), (2, 3), (1, all.len()), (2, all.len()), (0, all.len())] {
            let at = places[subscriber];
            let part = &all[at..all.len().min(at + piece)];
            stream.take(at as u64, part).unwrap();
            places[subscriber] += part.len();
            stream.drop_before(*places.iter().min().unwrap() as u64);
        }
        assert_eq!(places, [all.len(); 3]);
        assert!(stream.bytes.is_empty());
    }

    #[test]
    fn a_message_that_is_missing_or_early_or_different_is_seen() {
        let run = |pieces: &[&[u8]]| {
            let mut stream = Stream::new(2, 10);
            pieces.iter().try_for_each(|piece| stream.take(0, piece))
        };
        let (first, second, other) = (message(0, 0), message(0, 1), message(1, 0));
        assert!(run(&[&[first.clone(), second.clone()].concat()]).is_ok());
        assert!(run(&[&second]).unwrap_err().contains("message 1 came where 0 was due"));
        assert!(run(&[&[first.clone(), first.clone()].concat()]).unwrap_err().contains("message 0 came where 1 was due"));
        let (one, another) = ([first.clone(), other.clone()].concat(), [other, first].concat());
        assert!(run(&[&one, &another]).unwrap_err().contains("another order"));
        assert!(run(&[&message(2, 0)]).unwrap_err().contains("a publisher that there is not"));
        assert!(run(&[&b"+".repeat(80)]).unwrap_err().contains("not a message of the channel"));
    }
}
