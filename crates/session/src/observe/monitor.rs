//! MONITOR's lines: what a command looked like when it was about to run.

use std::fmt::Write;
use std::sync::Arc;

use almandine_handler::Client;
use almandine_io::clock;

/// Appends the line for one command, as Redis writes it: time, database, peer, quoted arguments, which hold no secrets any more.
pub(crate) fn write_line<'a>(lines: &mut String, client: &Client, arguments: impl Iterator<Item = &'a [u8]>) {
    let now_us = clock::unix_us();
    let (before, peer) = match (client.in_script, client.shared.unix_socket) {
        (true, _) => ("", "lua"),
        (false, true) => ("unix:", &*client.shared.address),
        (false, false) => ("", &*client.shared.address),
    };
    // Writing to a String does not fail.
    let _ = write!(lines, "+{}.{:06} [{} {before}{peer}]", now_us / 1_000_000, now_us % 1_000_000, client.db);
    for argument in arguments {
        lines.push_str(" \"");
        argument.iter().for_each(|byte| write_byte(lines, *byte));
        lines.push('"');
    }
    lines.push_str("\r\n");
}

fn write_byte(lines: &mut String, byte: u8) {
    match byte {
        b'\\' => lines.push_str("\\\\"),
        b'"' => lines.push_str("\\\""),
        b'\n' => lines.push_str("\\n"),
        b'\r' => lines.push_str("\\r"),
        b'\t' => lines.push_str("\\t"),
        0x07 => lines.push_str("\\a"),
        0x08 => lines.push_str("\\b"),
        b' '..=b'~' => lines.push(char::from(byte)),
        _ => {
            let _ = write!(lines, "\\x{byte:02x}");
        }
    }
}

/// Gives the collected lines to all monitors.
pub(crate) fn publish(lines: &mut String, instance: &Arc<almandine_instance::Instance>) {
    if !lines.is_empty() {
        let bytes = bytes::Bytes::from(std::mem::take(lines));
        instance.monitors.publish(&bytes, &instance.workers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_escaped_as_redis_does() {
        let mut line = String::new();
        b"a\"\\\n\x00\xff ".iter().for_each(|byte| write_byte(&mut line, *byte));
        assert_eq!(line, r#"a\"\\\n\x00\xff "#);
    }
}
