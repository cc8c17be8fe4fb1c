//! What users may do: each key is checked, and clients take changes of their users over at once.

use super::connect;
use crate::runtime::Stream;
use crate::{Client, Runtime, Value};

/// Commands of several keys, each of which is a `K`.
const SEVERAL: &[&str] = &[
    "MSET K 1 K 2",
    "MSETNX K 1 K 2",
    "MGET K K K",
    "DEL K K",
    "UNLINK K K",
    "EXISTS K K",
    "TOUCH K K",
    "WATCH K K",
    "RENAME K K",
    "RENAMENX K K",
    "COPY K K",
    "BITOP AND K K K",
    "LCS K K",
    "LMOVE K K LEFT RIGHT",
    "RPOPLPUSH K K",
    "LMPOP 2 K K LEFT",
    "BLPOP K K 0.01",
    "BRPOP K K 0.01",
    "BLMOVE K K LEFT RIGHT 0.01",
    "BRPOPLPUSH K K 0.01",
    "BLMPOP 0.01 2 K K LEFT",
    "SINTER K K",
    "SINTERCARD 2 K K",
    "SINTERSTORE K K K",
    "SUNION K K",
    "SUNIONSTORE K K K",
    "SDIFF K K",
    "SDIFFSTORE K K K",
    "SMOVE K K member",
    "ZINTER 2 K K",
    "ZINTERCARD 2 K K",
    "ZINTERSTORE K 2 K K",
    "ZUNION 2 K K",
    "ZUNIONSTORE K 2 K K",
    "ZDIFF 2 K K",
    "ZDIFFSTORE K 2 K K",
    "ZRANGESTORE K K 0 -1",
    "ZMPOP 2 K K MIN",
    "BZPOPMIN K K 0.01",
    "BZPOPMAX K K 0.01",
    "BZMPOP 0.01 2 K K MIN",
    "PFCOUNT K K",
    "PFMERGE K K K",
    "GEORADIUS K 1 1 1 m STORE K",
    "GEORADIUSBYMEMBER K member 1 m STORE K",
    "GEOSEARCHSTORE K K FROMLONLAT 1 1 BYRADIUS 1 m",
    "SORT K STORE K",
    "XREAD COUNT 1 STREAMS K K 0 0",
    "XREADGROUP GROUP g c STREAMS K K > >",
];

/// New clients of user `u`.
fn users<R: Runtime>(runtime: &R, count: usize) -> Vec<Client<R::Stream>> {
    let user = |_| {
        let mut client = connect(runtime);
        assert_eq!(client.line("AUTH u x"), Value::ok());
        client
    };
    (0..count).map(user).collect()
}

/// Whether the connection ends behind the messages that were on their way.
fn is_closed<S: Stream>(client: &mut Client<S>) -> bool {
    (0..10).any(|_| matches!(client.receive(), Ok(Value::Closed) | Err(_)))
}

/// Clients lose their connections when their user goes, or may no longer listen to what they listen to.
///
/// # Panics
/// When they do not.
pub fn are_cut_off<R: Runtime>(runtime: &R) {
    let mut admin = connect(runtime);
    admin.line("ACL SETUSER u on nopass +@all ~* &*");
    let mut listeners = users(runtime, 3);
    listeners[0].line("SUBSCRIBE a b");
    listeners[1].line("PSUBSCRIBE a*");
    listeners[2].line("SSUBSCRIBE c");
    let mut others = users(runtime, 4);
    assert_eq!(admin.line("ACL SETUSER u resetchannels &a* &b"), Value::ok());
    assert_eq!(listeners[2].receive().expect("an end"), Value::Closed);
    assert_eq!(admin.line("PUBLISH a 1").to_string(), ":2");
    // A pattern must be permitted word for word.
    assert_eq!(admin.line("ACL SETUSER u resetchannels &a &b"), Value::ok());
    assert!(is_closed(&mut listeners[1]), "it listens to a pattern that its user may not listen to");
    assert_eq!(admin.line("ACL SETUSER u off"), Value::ok());
    for other in &mut others {
        assert_eq!(other.line("PING").to_string(), "+PONG");
    }
    assert!(connect(runtime).line("AUTH u x").is_error());
    assert_eq!(admin.line("ACL DELUSER u").to_string(), ":1");
    for other in &mut others {
        assert!(is_closed(other), "its user is gone");
    }
    assert!(is_closed(&mut listeners[0]), "the user of a listener is gone");
    // A client that removes its own user still gets the reply.
    admin.line("ACL SETUSER me on nopass +@all ~* &*");
    admin.line("AUTH me x");
    assert_eq!(admin.line("ACL DELUSER me").to_string(), ":1");
    assert!(is_closed(&mut admin));
}

/// Rules hold for clients of all workers once they are answered.
///
/// # Panics
/// When they do not.
pub fn hold_for_all_workers<R: Runtime>(runtime: &R, rounds: usize) {
    let mut admin = connect(runtime);
    admin.line("ACL SETUSER u on nopass +@all ~* &*");
    let mut clients = users(runtime, 8);
    for round in 0..rounds {
        let permitted = round % 2 == 1;
        let rule = if permitted { "~*" } else { "resetkeys" };
        assert_eq!(admin.line(&format!("ACL SETUSER u {rule}")), Value::ok());
        clients.iter_mut().for_each(|client| client.send(&[["SET", "key", "value"]]).expect("sent"));
        for client in &mut clients {
            assert_eq!(client.receive().expect("a reply") == Value::ok(), permitted, "round {round}");
        }
    }
}

/// Whether a command was refused because the user may not make it.
#[must_use]
pub fn is_denied(value: &Value) -> bool {
    let begins = |text: &[u8]| {
        [&b"NOPERM "[..], b"EXECABORT Transaction discarded because of: NOPERM "].iter().any(|word| text.starts_with(word))
    };
    matches!(value, Value::Error(text) if begins(text))
}

/// One forbidden key among permitted ones is enough, wherever it stands, in a pipeline and in a transaction.
///
/// # Panics
/// When a command is permitted.
pub fn deny_in_every_place<R: Runtime>(runtime: &R) {
    let mut admin = connect(runtime);
    admin.line("SET secret value");
    admin.line("ACL SETUSER u on nopass +@all ~open:*");
    let mut client = users(runtime, 1).remove(0);
    for line in SEVERAL {
        let keys = line.split(' ').filter(|word| *word == "K").count();
        let call = |forbidden: usize| -> Vec<String> {
            let mut number = 0;
            let name = |word: &str| {
                if word != "K" {
                    return word.to_owned();
                }
                number += 1;
                if number == forbidden { "secret".to_owned() } else { format!("open:{number}") }
            };
            line.split(' ').map(name).collect()
        };
        let permitted = client.call(&call(0)).expect("a reply");
        assert!(!is_denied(&permitted), "{line}: {permitted}");
        for forbidden in 1..=keys {
            let word = |word: &str| vec![word.to_owned()];
            let pipeline = [word("PING"), call(forbidden), word("MULTI"), call(forbidden), word("DISCARD"), call(forbidden)];
            let answers = client.pipeline(&pipeline).expect("replies");
            // WATCH within MULTI is refused for that, whatever the user's rights.
            let denied = [1, 3, 5].map(|at| is_denied(&answers[at]) || at == 3 && line.starts_with("WATCH"));
            assert_eq!(denied, [true; 3], "{line}, key {forbidden}: {answers:?}");
        }
        assert_eq!(client.line("UNWATCH"), Value::ok());
    }
    assert_eq!(admin.line("GET secret").to_string(), "$\"value\"");
}
