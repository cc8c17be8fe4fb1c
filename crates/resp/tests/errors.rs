//! The wording of every protocol error, and the byte at which it must be reported. The table was checked against Redis 7.0.15.

mod common;

use almandine_resp::Limits;
use common::{model, parse};

/// Feeds `head` and expects silence, then one byte more and expects the error.
fn expect(head: &[u8], last: u8, limits: &Limits, commands: usize, error: &str) {
    let shown = head[..head.len().min(60)].escape_ascii().to_string();
    let silent = parse(head, &[], limits, usize::MAX);
    assert!(silent.end.is_ok(), "{shown}: early error {:?}", silent.end);
    let stream = [head, &[last]].concat();
    for cuts in [vec![], vec![head.len()], vec![1, head.len()]] {
        let outcome = parse(&stream, &cuts, limits, usize::MAX);
        assert_eq!(outcome.end, Err(format!("Protocol error: {error}")), "{shown}");
        assert_eq!(outcome.commands.len(), commands, "{shown}");
        assert_eq!(outcome, model(&stream, limits));
    }
}

fn repeated(head: &[u8], byte: u8, count: usize) -> Vec<u8> {
    [head, &vec![byte; count]].concat()
}

#[test]
fn malformed_streams() {
    let limits = Limits::default();
    for (head, last, commands, error) in [
        (&b"*x\r"[..], b'\n', 0, "invalid multibulk length"),
        (b"*x\r", b'P', 0, "invalid multibulk length"),
        (b"*\r", b'\n', 0, "invalid multibulk length"),
        (b"*-0\r", b'\n', 0, "invalid multibulk length"),
        (b"*01\r", b'\n', 0, "invalid multibulk length"),
        (b"*+1\r", b'\n', 0, "invalid multibulk length"),
        (b"* 1\r", b'\n', 0, "invalid multibulk length"),
        (b"*2147483648\r", b'\n', 0, "invalid multibulk length"),
        (b"*99999999999999999999999\r", b'\n', 0, "invalid multibulk length"),
        (b"*1\r\n$x\r", b'\n', 0, "invalid bulk length"),
        (b"*1\r\n$-1\r", b'\n', 0, "invalid bulk length"),
        (b"*1\r\n$\r", b'\n', 0, "invalid bulk length"),
        (b"*1\r\n$536870913\r", b'\n', 0, "invalid bulk length"),
        (b"*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$536870913\r", b'\n', 1, "invalid bulk length"),
        (b"*1\r\n:1\r", b'\n', 0, "expected '$', got ':'"),
        (b"*1\r\nx\r", b'\n', 0, "expected '$', got 'x'"),
        (b"*1\r\n\r", b'\n', 0, "expected '$', got ' '"),
        (b"*1\r\n\nabc\r", b'\n', 0, "expected '$', got ' '"),
        (b"PING\n\"PING", b'\n', 1, "unbalanced quotes in request"),
        (b"\"PING\"x\r", b'\n', 0, "unbalanced quotes in request"),
        (b"PING 'a'b\r", b'\n', 0, "unbalanced quotes in request"),
        (b"PING \"a\\\"\r", b'\n', 0, "unbalanced quotes in request"),
    ] {
        expect(head, last, &limits, commands, error);
    }
}

#[test]
fn lines_without_an_end() {
    let limits = Limits::default();
    expect(&repeated(b"", b'A', 65_536), b'A', &limits, 0, "too big inline request");
    expect(&repeated(b"PING\r\n", b'A', 65_536), b'A', &limits, 1, "too big inline request");
    expect(&repeated(b"*", b'1', 65_535), b'1', &limits, 0, "too big mbulk count string");
    expect(&repeated(b"*1\r\n$", b'1', 65_535), b'1', &limits, 0, "too big bulk count string");
    expect(&repeated(b"*1\r\n", 0, 65_536), 0, &limits, 0, "too big bulk count string");
    expect(&repeated(b"PING\0\r\n", b'\n', 65_529), b'\n', &limits, 0, "too big inline request");
    expect(&[&repeated(b"*", b'1', 65_535)[..], b"\r"].concat(), b'\n', &limits, 0, "invalid multibulk length");
    let longest = [&repeated(b"PING ", b'A', 65_531)[..], b"\n"].concat();
    assert_eq!(parse(&longest, &[], &limits, 1).end, Ok(longest.len()));
}

#[test]
fn before_authentication() {
    let limits = Limits { authenticated: false, ..Limits::default() };
    expect(b"*11\r", b'\n', &limits, 0, "unauthenticated multibulk length");
    expect(b"*10\r\n$16385\r", b'\n', &limits, 0, "unauthenticated bulk length");
    expect(b"*1\r\n$536870913\r", b'\n', &limits, 0, "invalid bulk length");
    expect(b"*2147483648\r", b'\n', &limits, 0, "invalid multibulk length");
    assert_eq!(parse(b"*10\r\n$16384\r\n", &[], &limits, 1).end, Ok(0));
}

#[test]
fn what_redis_lets_pass() {
    let ping = vec![vec![b"PING".to_vec()]];
    for stream in [
        &b"*-1\r\n*0\r\n*-5\r\n*1\r\n$4\r\nPING\r\n"[..],
        b"\r\n\n  \r\n*1\r\n$4\r\nPING\r\n",
        b"*1\rX$4\rYPINGzz",
        b"PING\n",
        b"PING\r\r\n",
        b"  \"PING\"\x0b\r\n",
        b"PI\"NG\"\r\n",
        b"'PI'\r\n",
    ] {
        let outcome = parse(stream, &[], &Limits::default(), usize::MAX);
        assert_eq!(outcome.end, Ok(stream.len()));
        assert!(outcome.commands == ping || stream == b"'PI'\r\n", "{}", stream.escape_ascii());
    }
    let words = |line: &[u8]| parse(line, &[], &Limits::default(), 1).commands.concat();
    assert_eq!(words(b"a \"\\x41\\n\\q\\x4\" 'it\\'s \\n' \"\" x\x0by\n"), [&b"a"[..], b"A\nqx4", b"it's \\n", b"", b"x\x0by"]);
}

#[test]
fn a_long_value_says_how_much_is_needed() {
    use almandine_resp::{Batch, Parsed, Parser};
    let (mut parser, mut batch, limits) = (Parser::new(), Batch::new(), Limits::default());
    let input = b"*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\nab";
    let parsed = parser.parse(input, &limits, &mut batch, 9);
    assert_eq!(parsed, Ok(Parsed { consumed: 14, needed: 30 + 1_000_000 + 2 }));
    assert_eq!(batch.len(), 1);
    let mut rest = input[14..].to_vec();
    rest.resize(rest.len() - 2 + 1_000_002, b'v');
    batch.clear();
    assert_eq!(parser.parse(&rest, &limits, &mut batch, 9), Ok(Parsed { consumed: rest.len(), needed: 0 }));
    assert_eq!((&batch.args(0, &rest)[1], batch.args(0, &rest)[2].len()), (&b"k"[..], 1_000_000));
}
