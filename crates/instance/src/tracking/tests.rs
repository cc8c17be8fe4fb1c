//! Which client is notified of what, through mailboxes that a test can read.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

#[cfg(debug_assertions)]
use almandine_base::steps;
use almandine_config::{Config, Startup};
use almandine_io::sync::Mutex;
use almandine_keyspace::{Keyspace, Put};
use bytes::Bytes;

use super::*;
use crate::lock::lock;
use crate::{Acl, ClientOrigin, ClientShared, Instance, Mailbox, Message};

/// The messages, and whether it refuses those of invalidation.
#[derive(Default)]
struct Inbox(Mutex<Vec<Message>>, AtomicBool);

impl Mailbox for Inbox {
    fn send(&self, message: Message) -> bool {
        let dropped = self.1.load(Relaxed) && matches!(message, Message::Invalidate { .. });
        if !dropped {
            lock(&self.0).push(message);
        }
        !dropped
    }
}

struct Fixture {
    instance: Arc<Instance>,
    mail: Arc<Inbox>,
}

impl Fixture {
    fn new() -> Self {
        let Startup::Run(config) = Config::load(&[]).unwrap() else { panic!() };
        let keyspace = Keyspace::open(almandine_keyspace::Options::default()).unwrap();
        let instance = Arc::new(Instance::new(*config, keyspace, 1, Acl::open(almandine_acl::Catalog::default()), String::new()));
        let mail = Arc::new(Inbox::default());
        instance.workers.install(vec![Arc::clone(&mail) as Arc<dyn Mailbox>]);
        Self { instance, mail }
    }

    fn client(&self, id: u64) -> Arc<ClientShared> {
        self.instance.clients.connect(ClientOrigin {
            id,
            worker: 0,
            address: String::new(),
            local_address: String::new(),
            unix_socket: false,
            descriptor: 0,
            created_ms: 0,
        })
    }

    /// What was sent since the last call: `client:message`, with `>` where it was redirected.
    fn sent(&self) -> Vec<String> {
        let text = |keys: Changed| String::from_utf8_lossy(&keys.unwrap_or_default()).replace("\r\n", " ");
        let show = |message| match message {
            Message::Invalidate { client, origin, keys, .. } => {
                format!("{client}{}{}", if origin.is_some() { '>' } else { ':' }, text(keys))
            }
            Message::RedirectBroken { client, redirect } => format!("{client} broken {redirect}"),
            other => panic!("{other:?}"),
        };
        let mut sent: Vec<String> = std::mem::take(&mut *lock(&self.mail.0)).into_iter().map(show).collect();
        sent.sort_unstable();
        sent
    }
}

const PLAIN: TrackingOptions = TrackingOptions { broadcast: false, opt_in: false, opt_out: false, no_loop: false, redirect: 0 };

#[test]
fn a_change_is_told_once_to_those_who_have_read() {
    let fixture = Fixture::new();
    let Fixture { instance, .. } = &fixture;
    let (one, two) = (fixture.client(1), fixture.client(2));
    instance.tracking.enable(&one, PLAIN, &[]);
    instance.tracking.enable(&two, TrackingOptions { no_loop: true, ..PLAIN }, &[]);
    for client in [1, 2, 3] {
        instance.tracking.remember(client, b"k");
    }
    assert_eq!(instance.tracking.totals(), TrackingTotals { clients: 2, keys: 1, items: 3, prefixes: 0 });
    let mut own = Vec::new();
    instance.tracking.invalidate(b"k", Some(9), &mut own);
    assert_eq!(fixture.sent(), ["1:*1 $1 k ", "2:*1 $1 k "]);
    instance.tracking.invalidate(b"k", Some(9), &mut own);
    assert!(fixture.sent().is_empty() && own.is_empty());
    // One's own changes: after the reply, or not at all.
    for client in [1, 2] {
        instance.tracking.remember(client, b"k");
        instance.tracking.invalidate(b"k", Some(client), &mut own);
    }
    assert!(fixture.sent().is_empty());
    assert_eq!(own, [Some(Bytes::from_static(b"*1\r\n$1\r\nk\r\n"))]);
}

/// A key that expires is told to the clients that track its prefix before any other client hears of it: one that begins to track
/// then is told of nothing that was before.
#[test]
fn what_expires_is_told_by_prefixes_first() {
    let fixture = Fixture::new();
    let Fixture { instance, mail } = &fixture;
    instance.tracking.enable(&fixture.client(1), PLAIN, &[]);
    instance.tracking.enable(&fixture.client(2), TrackingOptions { broadcast: true, ..PLAIN }, &[b"k"]);
    instance.tracking.remember(1, b"k");
    instance.tracking.follow_changes();
    let mut accessor = instance.keyspace.accessor().unwrap();
    accessor.begin_batch(1_000);
    let mut writer = accessor.writer(0);
    let key = writer.key(b"k");
    writer.upsert(key, b"", Put { expiry_ms: Some(2_000), ..Put::default() }).unwrap();
    drop(writer);
    accessor.changes().drain(|_| ());
    accessor.end_batch();
    instance.keyspace.maintain(2_000);
    let told =
        || lock(&mail.0).iter().map(|message| if let Message::Invalidate { client, .. } = message { *client } else { 0 }).collect();
    let deadline = Instant::now() + Duration::from_secs(20);
    let clients: Vec<u64> = loop {
        let clients: Vec<u64> = told();
        if clients.len() == 2 || Instant::now() > deadline {
            break clients;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(clients, [2, 1]);
}

#[test]
fn prefixes_get_one_message_with_all_their_keys() {
    let fixture = Fixture::new();
    let Fixture { instance, .. } = &fixture;
    let broadcast = TrackingOptions { broadcast: true, ..PLAIN };
    instance.tracking.enable(&fixture.client(1), broadcast, &[b"a:", b"b:"]);
    instance.tracking.enable(&fixture.client(2), TrackingOptions { no_loop: true, ..broadcast }, &[b""]);
    assert!(instance.tracking.is_broadcast(b"z"));
    let mut own = Vec::new();
    let keys = [b"b:1".to_vec(), b"a:2".to_vec(), b"a:1".to_vec(), b"a:1".to_vec()];
    instance.tracking.broadcast_changes(keys.iter().map(Vec::as_slice), Some(2), &mut own);
    assert_eq!(fixture.sent(), ["1:*1 $3 b:1 ", "1:*2 $3 a:1 $3 a:2 "]);
    assert!(own.is_empty());
    instance.tracking.disable(&instance.clients.find(2).unwrap());
    assert_eq!(instance.tracking.totals().prefixes, 2);
    assert!(!instance.tracking.is_broadcast(b"z"));
}

/// A key costs as much beside twice as many prefixes, and so does the end of a client.
#[cfg(debug_assertions)]
#[test]
fn a_key_is_looked_up_once_for_each_length_of_prefixes() {
    let steps = |count: usize| {
        let fixture = Fixture::new();
        let Fixture { instance, .. } = &fixture;
        let broadcast = TrackingOptions { broadcast: true, ..PLAIN };
        for number in 0..count {
            let prefixes = [format!("{number:05}"), format!("{number:07}")];
            instance.tracking.enable(
                &fixture.client(number as u64 + 1),
                broadcast,
                &prefixes.each_ref().map(|prefix| prefix.as_bytes()),
            );
        }
        let before = steps::taken();
        assert!(instance.tracking.is_broadcast(b"00007") && !instance.tracking.is_broadcast(b"0000"));
        let keys = [&b"00007:a"[..], b"0000008:b", b"other"];
        instance.tracking.broadcast_changes(keys.into_iter(), None, &mut Vec::new());
        assert_eq!(fixture.sent(), ["1:*1 $9 0000008:b ", "8:*1 $7 00007:a ", "9:*1 $9 0000008:b "]);
        instance.tracking.disable(&instance.clients.find(8).unwrap());
        assert!(!instance.tracking.is_broadcast(b"00007"));
        steps::taken() - before
    };
    let (once, twice) = (steps(100), steps(200));
    assert!(once > 0 && once == twice, "{once} steps beside 100 clients, {twice} beside twice as many");
}

#[test]
fn redirection_needs_its_target() {
    let fixture = Fixture::new();
    let Fixture { instance, .. } = &fixture;
    let one = fixture.client(1);
    fixture.client(2);
    instance.tracking.enable(&one, TrackingOptions { redirect: 2, ..PLAIN }, &[]);
    instance.tracking.remember(1, b"k");
    instance.tracking.invalidate(b"k", Some(1), &mut Vec::new());
    assert_eq!(fixture.sent(), ["2>*1 $1 k "]);
    assert_eq!(one.flags(), "t");
    instance.clients.disconnect(2);
    instance.tracking.remember(1, b"k");
    instance.tracking.invalidate(b"k", None, &mut Vec::new());
    assert_eq!(fixture.sent(), ["1 broken 2"]);
    assert!(one.tracking.broken.load(Relaxed));
    assert_eq!(one.flags(), "tR");
}

/// The target is still registered when the message is sent, and gone when it arrives; or it is closed because too much waits for
/// it.
#[test]
fn a_redirection_whose_message_does_not_arrive_is_broken() {
    let fixture = Fixture::new();
    let Fixture { instance, mail } = &fixture;
    let (one, _two, _three) = (fixture.client(1), fixture.client(2), fixture.client(3));
    let change = || {
        instance.tracking.remember(1, b"k");
        instance.tracking.invalidate(b"k", Some(1), &mut Vec::new());
        fixture.sent()
    };
    instance.tracking.enable(&one, TrackingOptions { redirect: 2, ..PLAIN }, &[]);
    assert_eq!(change(), ["2>*1 $1 k "]);
    instance.tracking.redirect_broken(1, 2);
    assert_eq!((fixture.sent(), one.flags().as_str()), (vec!["1 broken 2".to_owned()], "tR"));
    // Word of a redirection that has been replaced since.
    instance.tracking.enable(&one, TrackingOptions { redirect: 3, ..PLAIN }, &[]);
    instance.tracking.redirect_broken(1, 2);
    instance.tracking.redirect_broken(9, 3);
    assert_eq!((fixture.sent(), one.flags().as_str()), (Vec::new(), "t"));
    mail.1.store(true, Relaxed);
    assert_eq!(change(), ["1 broken 3"]);
}

#[test]
fn everything_at_once_then_the_limit() {
    let fixture = Fixture::new();
    let Fixture { instance, .. } = &fixture;
    let one = fixture.client(1);
    instance.tracking.enable(&one, PLAIN, &[]);
    instance.tracking.remember(1, b"k");
    instance.tracking.invalidate_all(None, &mut Vec::new());
    assert_eq!(fixture.sent(), ["1:"]);
    assert_eq!(instance.tracking.totals().keys, 0);

    (0..10_u8).for_each(|key| instance.tracking.remember(1, &[b'0' + key]));
    instance.tracking.limit(8, None, &mut Vec::new());
    assert_eq!((fixture.sent().len(), instance.tracking.totals().keys), (2, 8));
    instance.tracking.limit(0, None, &mut Vec::new());
    assert_eq!(instance.tracking.totals().keys, 8);

    instance.tracking.disable(&one);
    assert_eq!((instance.tracking.active(), instance.tracking.totals()), (false, TrackingTotals::default()));
}

#[test]
fn what_expires_is_told_while_somebody_tracks() {
    let fixture = Fixture::new();
    let Fixture { instance, .. } = &fixture;
    instance.tracking.follow_changes();
    let mut accessor = instance.keyspace.accessor().unwrap();
    // Nothing but a later batch removes a key here, so that the test knows when.
    instance.keyspace.settings().set_reclaiming(false);
    let mut expire = |names: &[&[u8]]| {
        for now_ms in [1_000, 2_000] {
            accessor.begin_batch(now_ms);
            let mut writer = accessor.writer(0);
            for name in names {
                let key = writer.key(name);
                if now_ms == 1_000 {
                    writer.upsert(key, b"", Put { expiry_ms: Some(2_000), ..Put::default() }).unwrap();
                } else {
                    assert_eq!(writer.delete(key), Ok(false));
                }
            }
            drop(writer);
            if now_ms == 1_000 {
                accessor.changes().drain(|_| ());
            }
            accessor.end_batch();
        }
    };
    let heard = |count: usize| {
        let (deadline, mut all) = (Instant::now() + Duration::from_secs(10), Vec::new());
        while all.len() < count {
            assert!(Instant::now() < deadline, "{all:?}");
            std::thread::sleep(Duration::from_millis(1));
            all.append(&mut fixture.sent());
        }
        all.sort_unstable();
        all
    };
    // No client has noted it.
    expire(&[b"early"]);
    let (one, two, three) = (fixture.client(1), fixture.client(2), fixture.client(3));
    instance.tracking.enable(&one, PLAIN, &[]);
    instance.tracking.enable(&two, TrackingOptions { broadcast: true, no_loop: true, ..PLAIN }, &[b"a:"]);
    instance.tracking.enable(&three, PLAIN, &[]);
    instance.tracking.disable(&three);
    instance.tracking.remember(1, b"b");
    instance.tracking.remember(1, b"early");
    expire(&[b"a:1", b"b", b"c"]);
    assert_eq!(heard(2), ["1:*1 $1 b ", "2:*1 $3 a:1 "]);
    assert_eq!(instance.tracking.totals().keys, 1);
    instance.tracking.disable(&one);
    instance.tracking.disable(&two);
    expire(&[b"a:1"]);
    instance.tracking.enable(&one, TrackingOptions { broadcast: true, ..PLAIN }, &[b""]);
    expire(&[b"a:2"]);
    assert_eq!(heard(1), ["1:*1 $3 a:2 "]);
}
