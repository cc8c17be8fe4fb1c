//! What is counted of keys that are past their time when they are set, as redis-server counts it.

use crate::rig::{Rig, request};

#[test]
fn keys_that_are_set_with_a_past_time_count_as_expired() {
    let mut rig = Rig::new();
    let client = rig.open();
    let mut send = |words: &str| rig.send(client, &request(words.split_whitespace()));
    assert_eq!(send("SET k v PXAT 1"), "+OK\r\n");
    assert_eq!(send("MSETEX 2 a 1 b 2 PXAT 1"), ":1\r\n");
    // These delete: nothing expires.
    for words in ["SET k v", "EXPIRE k -1", "SET k v", "GETEX k PXAT 1", "SET k v", "PEXPIREAT k 1"] {
        send(words);
    }
    assert_eq!(send("EXISTS k a b"), ":0\r\n");
    let info = send("INFO stats");
    assert!(info.contains("\r\nexpired_keys:3\r\n"), "{info}");
}
