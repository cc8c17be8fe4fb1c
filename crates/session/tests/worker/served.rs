//! A command that is served from the queue of a key has the same steps behind it as every other.

use crate::rig::{Rig, request};

fn words(text: &str) -> String {
    request(text.split_whitespace())
}

fn ok(rig: &mut Rig, client: usize, command: &str) {
    assert_eq!(rig.send(client, &words(command)), "+OK\r\n", "{command}");
}

/// One client waits for `list` with BLMOVE, another one pushes a long element to it.
fn serve(rig: &mut Rig, element: &str) {
    let (waits, pushes) = (rig.open(), rig.open());
    assert_eq!(rig.send(waits, &words("BLMOVE list other LEFT RIGHT 0")), "");
    assert_eq!(rig.send(pushes, &request(["RPUSH", "list", element])), ":1\r\n");
}

/// How often `text` is in the answer to a command.
fn count(rig: &mut Rig, client: usize, command: &str, text: &str) -> usize {
    rig.send(client, &words(command)).matches(text).count()
}

#[test]
fn hotkeys_count_what_a_served_command_costs() {
    let mut rig = Rig::new();
    let client = rig.open();
    ok(&mut rig, client, "HOTKEYS START METRICS 1 NET");
    serve(&mut rig, "element");
    // No other command names the destination.
    assert_eq!(count(&mut rig, client, "HOTKEYS GET", "$5\r\nother\r\n"), 1);
    ok(&mut rig, client, "HOTKEYS STOP");
}

#[test]
fn large_replies_of_served_commands_are_logged() {
    let mut rig = Rig::new();
    let client = rig.open();
    ok(&mut rig, client, "CONFIG SET commandlog-reply-larger-than 100");
    serve(&mut rig, &"e".repeat(200));
    assert_eq!(count(&mut rig, client, "COMMANDLOG GET 10 large-reply", "BLMOVE"), 1);
    ok(&mut rig, client, "CONFIG SET commandlog-reply-larger-than 1000 commandlog-request-larger-than 40");
    ok(&mut rig, client, "COMMANDLOG RESET large-request");
    serve(&mut rig, "e");
    assert_eq!(count(&mut rig, client, "COMMANDLOG GET 10 large-request", "BLMOVE"), 1);
}

#[test]
fn a_command_that_its_user_may_not_run_any_more_is_refused_and_not_counted_as_a_call() {
    let mut rig = Rig::new();
    let (waits, client) = (rig.open(), rig.open());
    ok(&mut rig, client, "ACL SETUSER waits on nopass +@all ~*");
    ok(&mut rig, waits, "AUTH waits any");
    assert_eq!(rig.send(waits, &words("BLPOP list 0")), "");
    ok(&mut rig, client, "ACL SETUSER waits -blpop");
    assert_eq!(rig.send(client, &words("RPUSH list element")), ":1\r\n");
    assert_eq!(rig.send(client, &words("LLEN list")), ":1\r\n");
    let counted = "cmdstat_blpop:calls=0,usec=0,usec_per_call=0.00,rejected_calls=1,failed_calls=0";
    assert_eq!(count(&mut rig, client, "INFO commandstats", counted), 1);
}
