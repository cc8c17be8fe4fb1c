//! The encodings are those that Redis 7.0.15 sends for `DEBUG PROTOCOL`, in both versions.

use super::*;
use crate::error::ProtocolError;
use almandine_base::limits;

fn both(write: impl Fn(&mut Reply<'_>)) -> (String, String) {
    let encode = |version| {
        let mut out = Output::new();
        write(&mut Reply::new(&mut out, version));
        assert!(out.attachments.is_empty());
        String::from_utf8(out.bytes).unwrap()
    };
    (encode(ProtocolVersion::Resp2), encode(ProtocolVersion::Resp3))
}

fn same(text: &str) -> (String, String) {
    (text.into(), text.into())
}

fn differ(resp2: &str, resp3: &str) -> (String, String) {
    (resp2.into(), resp3.into())
}

#[test]
fn scalars() {
    assert_eq!(both(|r| r.ok()), same("+OK\r\n"));
    assert_eq!(both(|r| r.simple("PONG")), same("+PONG\r\n"));
    assert_eq!(both(|r| r.integer(7)), same(":7\r\n"));
    assert_eq!(both(|r| r.integer(i64::MIN)), same(":-9223372036854775808\r\n"));
    assert_eq!(both(|r| r.unsigned(u64::MAX)), same(":18446744073709551615\r\n"));
    assert_eq!(both(|r| r.bulk(b"")), same("$0\r\n\r\n"));
    assert_eq!(both(|r| r.bulk(b"Hello World")), same("$11\r\nHello World\r\n"));
    assert_eq!(both(|r| r.bulk(&[b'x'; 100])), same(&format!("$100\r\n{}\r\n", "x".repeat(100))));
    assert_eq!(both(|r| r.bulk_double(0.5)), same("$3\r\n0.5\r\n"));
    assert_eq!(both(|r| r.bulk_double(0.1)), same("$3\r\n0.1\r\n"));
    assert_eq!(both(|r| r.null()), differ("$-1\r\n", "_\r\n"));
    assert_eq!(both(|r| r.null_array()), differ("*-1\r\n", "_\r\n"));
    assert_eq!(both(|r| r.double(3.25)), differ("$4\r\n3.25\r\n", ",3.25\r\n"));
    assert_eq!(both(|r| r.double(f64::NEG_INFINITY)), differ("$4\r\n-inf\r\n", ",-inf\r\n"));
    assert_eq!(both(|r| r.boolean(true)), differ(":1\r\n", "#t\r\n"));
    assert_eq!(both(|r| r.boolean(false)), differ(":0\r\n", "#f\r\n"));
    assert_eq!(both(|r| r.verbatim(b"a\nb")), differ("$3\r\na\nb\r\n", "=7\r\ntxt:a\nb\r\n"));
}

#[test]
fn errors_stay_on_one_line() {
    assert_eq!(both(|r| r.error("ERR no such key")), same("-ERR no such key\r\n"));
    assert_eq!(both(|r| r.error("ERR a\r\nb\r\n")), same("-ERR a  b\r\n"));
}

#[test]
fn aggregates() {
    assert_eq!(both(|r| r.array(3)), same("*3\r\n"));
    assert_eq!(both(|r| r.map(3)), differ("*6\r\n", "%3\r\n"));
    assert_eq!(both(|r| r.set(12)), differ("*12\r\n", "~12\r\n"));
    assert_eq!(both(|r| r.push(2)), differ("*2\r\n", ">2\r\n"));
}

#[test]
fn deferred_aggregates_get_their_count_at_the_end() {
    for len in [0, 1, 9, 10, 99, 100, 1000] {
        let elements = ":5\r\n".repeat(len);
        let write = |r: &mut Reply<'_>| {
            r.array(2);
            let outer = r.begin();
            r.bulk(b"k");
            let inner = r.begin();
            (0..len).for_each(|_| r.integer(5));
            inner.end_set(r, len);
            outer.end_map(r, 1);
            r.ok();
        };
        let text = |map, set| format!("*2\r\n{map}\r\n$1\r\nk\r\n{set}{len}\r\n{elements}+OK\r\n");
        assert_eq!(both(write), (text("*2", "*"), text("%1", "~")));
    }
}

#[test]
fn large_shared_values_are_attached_and_move_with_a_deferred_header() {
    let large = Bytes::from(vec![b'x'; limits::REPLY_COPY_BYTES_MAX + 1]);
    let mut out = Output::new();
    let mut reply = Reply::new(&mut out, ProtocolVersion::Resp2);
    reply.bulk_shared(large.clone());
    let array = reply.begin();
    reply.bulk_shared(large.clone());
    (0..99).for_each(|_| reply.bulk_shared(Bytes::from_static(b"y")));
    array.end_array(&mut reply, 100);

    let (mut wire, mut from) = (Vec::new(), 0);
    for (offset, value) in &out.attachments {
        wire.extend_from_slice(&out.bytes[from..*offset]);
        wire.extend_from_slice(value);
        from = *offset;
    }
    wire.extend_from_slice(&out.bytes[from..]);
    let mut expected = Output::new();
    let mut reply = Reply::new(&mut expected, ProtocolVersion::Resp2);
    reply.bulk(&large);
    reply.array(100);
    reply.bulk(&large);
    (0..99).for_each(|_| reply.bulk(b"y"));
    assert_eq!((out.attachments.len(), out.len()), (2, expected.len()));
    assert_eq!(wire, expected.bytes);
}

#[test]
fn protocol_errors_quote_bytes_raw() {
    let mut out = Output::new();
    let mut reply = Reply::new(&mut out, ProtocolVersion::Resp2);
    for found in [b'x', b'\n', b'\r', 0xFF] {
        reply.error(ProtocolError::ExpectedBulk { found }.message());
    }
    let lines: Vec<_> = out.bytes.split_inclusive(|&byte| byte == b'\n').collect();
    assert_eq!(lines[0], b"-ERR Protocol error: expected '$', got 'x'\r\n");
    assert_eq!(lines[1], b"-ERR Protocol error: expected '$', got ' '\r\n");
    assert_eq!(lines[2], lines[1]);
    assert_eq!(lines[3], b"-ERR Protocol error: expected '$', got '\xFF'\r\n");
}
