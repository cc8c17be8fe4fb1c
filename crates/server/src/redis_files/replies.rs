//! Finds errors among replies.

/// The first error: which of the replies it is or is in, and its text. Replies are those of version 2 of the protocol.
pub(super) fn first_error(replies: &[u8]) -> Option<(usize, &[u8])> {
    let (mut rest, mut index) = (replies, 0);
    while !rest.is_empty() {
        // Elements that are still to come of this reply.
        let mut open = 1_u64;
        while open > 0 {
            let end = rest.iter().position(|byte| *byte == b'\n')?;
            let line = rest[..end].trim_ascii_end();
            rest = &rest[end + 1..];
            open -= 1;
            let number = || std::str::from_utf8(&line[1..]).ok().and_then(|digits| digits.parse::<i64>().ok()).unwrap_or(-1);
            match line.first() {
                Some(b'-') => return Some((index, &line[1..])),
                Some(b'*') => open += u64::try_from(number()).unwrap_or(0),
                Some(b'$') => rest = usize::try_from(number()).map_or(Some(rest), |len| rest.get(len + 2..))?,
                _ => {}
            }
        }
        index += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_found_wherever_it_is() {
        assert_eq!(first_error(b""), None);
        let sound = b"+OK\r\n:1\r\n$4\r\n-ERR\r\n$-1\r\n*-1\r\n*2\r\n*0\r\n$0\r\n\r\n";
        assert_eq!(first_error(sound), None);
        assert_eq!(first_error(&[&sound[..], b"-ERR no\r\n"].concat()), Some((6, &b"ERR no"[..])));
        assert_eq!(first_error(b"+OK\r\n*2\r\n$1\r\n-\r\n*1\r\n-WRONGTYPE x\r\n"), Some((1, &b"WRONGTYPE x"[..])));
    }
}
