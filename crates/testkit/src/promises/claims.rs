//! Clients that wait for a group of a stream: what has been pending long enough is theirs, and they hear when the stream goes.

use super::{PATIENCE, await_blocked, connect, figure, last_of, send};
use crate::{Client, Runtime, Value};

/// For so long something must have been pending.
const IDLE_MS: u64 = 60;

/// The ids of the entries of the first stream of a reply.
///
/// # Panics
/// When it has none.
#[must_use]
pub fn ids(reply: &Value) -> Vec<String> {
    let entries = reply.elements().and_then(|streams| streams.first()?.elements()?.get(1)?.elements());
    let id = |entry: &Value| {
        String::from_utf8_lossy(entry.elements().and_then(|parts| parts[0].bytes()).unwrap_or_default()).into_owned()
    };
    entries.unwrap_or_else(|| panic!("no entries: {reply}")).iter().map(id).collect()
}

/// An entry is taken once, while a client waits that came when nothing was pending, and no client comes or changes anything after
/// that: it is claimed in time.
///
/// # Panics
/// When it is not.
pub fn is_claimed_by_who_came_before<R: Runtime>(runtime: &R) {
    let mut control = connect(runtime);
    for round in 0..8 {
        ["a", "b"].iter().for_each(|key| _ = control.line(&format!("XGROUP CREATE {key} g $ MKSTREAM")));
        let mut client = connect(runtime);
        send(&mut client, &format!("XREADGROUP GROUP g c{round} COUNT 1 BLOCK 0 CLAIM {IDLE_MS} STREAMS a b > >"));
        await_blocked(runtime, &mut control, 1);
        let taken = last_of(&mut control, &["MULTI", "XADD b 1-1 f v", "XREADGROUP GROUP g taker STREAMS b >", "EXEC"]);
        assert_eq!(taken.elements().map(<[Value]>::len), Some(2), "{taken}");
        client.set_read_timeout(PATIENCE).expect("a timeout");
        let reply = client.receive().unwrap_or_else(|e| panic!("round {round}: nothing was claimed: {e}"));
        assert_eq!(ids(&reply), ["1-1"]);
        assert_eq!(control.line("DEL a b"), Value::Integer(2));
    }
}

/// Clients wait for several streams, and the others have left memory when one gets an entry: each client is answered with that.
/// Among this number of streams some share their bucket with the one that gets it, so that serving looks at them, too.
///
/// # Panics
/// When one is not, or with anything else.
pub fn are_served_of_several<R: Runtime>(runtime: &R, make_cold: impl Fn()) {
    const BESIDE: usize = 64;
    let (mut control, mut clients) = (connect(runtime), [connect(runtime), connect(runtime)]);
    // As long as that each is a record of its own.
    let value = "v".repeat(300);
    let beside: Vec<String> = (0..BESIDE).map(|number| format!("beside:{number}")).collect();
    for key in &beside {
        assert_eq!(control.line(&format!("XADD {key} 0-1 f {value}")), Value::Bulk(b"0-1".to_vec()));
    }
    for round in 1..=6 {
        for key in ["a", "b"] {
            assert_ne!(control.line(&format!("XADD {key} {round}-1 f {value}")), Value::Closed);
        }
        let known = format!(" {round}-1").repeat(2 + BESIDE);
        for (client, first) in clients.iter_mut().zip(["a b", "b a"]) {
            send(client, &format!("XREAD BLOCK 0 STREAMS {first} {}{known}", beside.join(" ")));
        }
        await_blocked(runtime, &mut control, 2);
        make_cold();
        let id = format!("{round}-2");
        assert_eq!(control.line(&format!("XADD a {id} f v")), Value::Bulk(id.clone().into_bytes()));
        clients.iter_mut().for_each(|client| assert_eq!(ids(&client.receive().expect("an answer")), [&*id]));
    }
}

/// Clients wait for groups of streams that expire without a command on them: each is told. `meanwhile` runs before the streams
/// expire.
///
/// # Panics
/// When one still waits.
pub fn are_told<R: Runtime>(runtime: &R, meanwhile: impl FnOnce()) {
    let mut control = connect(runtime);
    let mut crowd: Vec<Client<R::Stream>> = (0..30).map(|_| connect(runtime)).collect();
    for (number, client) in crowd.iter_mut().enumerate() {
        let key = number % 10;
        control.line(&format!("XGROUP CREATE s{key} g $ MKSTREAM"));
        control.line("XGROUP CREATE stays g $ MKSTREAM");
        send(client, &format!("XREADGROUP GROUP g c{number} BLOCK 0 STREAMS stays s{key} > >"));
    }
    await_blocked(runtime, &mut control, 30);
    (0..10).for_each(|key| assert_eq!(control.line(&format!("PEXPIRE s{key} 100")), Value::Integer(1)));
    meanwhile();
    for (number, client) in crowd.iter_mut().enumerate() {
        let reply = client.receive().unwrap_or_else(|e| panic!("{number} still waits: {e}"));
        let text = format!("NOGROUP No such key 's{}' or consumer group 'g' in XREADGROUP with GROUP option", number % 10);
        assert_eq!(reply, Value::Error(text.into_bytes()));
    }
    await_blocked(runtime, &mut control, 0);
    assert_eq!(figure(&mut control, "clients", "total_blocking_keys"), 0);
    assert_eq!(control.line("EXISTS stays"), Value::Integer(1));
}
