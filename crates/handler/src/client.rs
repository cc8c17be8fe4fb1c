//! The private state of one connection that commands read and change. The session owns it and shows it to no other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use almandine_base::Output;
use almandine_instance::{Changed, ClientShared, TrackingOptions};
use almandine_resp::{ProtocolVersion, Reply};

use crate::access::Access;
use crate::blocking::Blocking;
use crate::computation::Computing;
use crate::fieldsets::Fieldsets;
use crate::queue::{Transaction, Watching};
use crate::script_turn::ScriptTurn;
use crate::subscriptions::Subscriptions;

/// CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// Every command is answered.
    #[default]
    On,
    /// None is.
    Off,
    /// CLIENT REPLY SKIP was just executed: its own silence is still to come.
    SkipNext,
    /// The command being executed is not answered.
    Skip,
}

/// How a client tracks.
#[derive(Clone, Debug, Default)]
pub struct ClientTracking {
    /// CLIENT TRACKING's options.
    pub options: TrackingOptions,
    /// CLIENT CACHING was given for the next command: YES with OPTIN, NO with OPTOUT.
    pub caching_said: bool,
    /// PREFIX.
    pub prefixes: BTreeSet<Vec<u8>>,
    /// Bytes of the prefixes.
    pub prefix_bytes: usize,
}

/// What a name in a set takes beside its bytes, about: its place there, and the one in the set of those that have it.
pub(crate) const NAME_OVERHEAD: usize = 128;

impl ClientTracking {
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.prefix_bytes + self.prefixes.len() * NAME_OVERHEAD
    }

    /// Whether reads are to be remembered now.
    pub(crate) fn remembers(&self) -> bool {
        let TrackingOptions { broadcast, opt_in, opt_out, .. } = self.options;
        match (opt_in, opt_out) {
            _ if broadcast => false,
            (true, _) => self.caching_said,
            (_, true) => !self.caching_said,
            _ => true,
        }
    }
}

/// What a client keeps of memory beyond a fresh connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    /// Bytes, about.
    pub bytes: usize,
    /// CLIENT NO-EVICT: the client is not closed for what it holds.
    pub protected: bool,
}

/// One connection's state.
// reason: commands change each of these by itself, and most of them are looked at for each command.
#[derive(Debug)]
pub struct Client {
    /// What other threads see.
    pub shared: Arc<ClientShared>,
    /// Selected database.
    pub db: u16,
    /// RESP version of the replies.
    pub version: ProtocolVersion,
    /// Its user, and what it may do.
    pub access: Access,
    /// CLIENT REPLY.
    pub reply_mode: ReplyMode,
    /// Set by QUIT and by a client that kills itself: close when the replies so far are sent.
    pub closing: bool,
    /// CLIENT NO-TOUCH: reads do not refresh a key's access time.
    pub no_touch: bool,
    /// CLIENT TRACKING; `None` while it is off.
    pub tracking: Option<Box<ClientTracking>>,
    /// What MULTI began; `None` outside of a transaction.
    pub transaction: Option<Transaction>,
    /// WATCH; `None` while no key is watched.
    pub watching: Option<Box<Watching>>,
    /// HIMPORT PREPARE; `None` while nothing is prepared.
    pub fieldsets: Option<Box<Fieldsets>>,
    /// What the current command writes are messages and no reply: CLIENT REPLY does not silence them.
    pub writes_messages: bool,
    /// What it listens to; `None` while that is nothing.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// Invalidations that must follow the reply of the current command.
    pub invalidations: Vec<Changed>,
    /// What its command computes in slices.
    pub computing: Computing,
    /// What it keeps beyond a fresh connection; see [`Client::weigh`].
    pub kept: Kept,
    /// What it waits for.
    pub blocking: Blocking,
    /// Its command is called by a script.
    pub in_script: bool,
    /// What its script finds that runs again.
    pub script: Option<Box<ScriptTurn>>,
}

impl Client {
    /// A fresh connection.
    #[must_use]
    pub fn new(shared: Arc<ClientShared>, access: Access) -> Self {
        Self {
            shared,
            db: 0,
            version: ProtocolVersion::Resp2,
            access,
            reply_mode: ReplyMode::On,
            closing: false,
            no_touch: false,
            tracking: None,
            transaction: None,
            watching: None,
            fieldsets: None,
            writes_messages: false,
            subscriptions: None,
            invalidations: Vec::new(),
            computing: Computing::default(),
            kept: Kept::default(),
            blocking: Blocking::default(),
            in_script: false,
            script: None,
        }
    }

    /// Selects a database that exists.
    pub fn select(&mut self, db: u16) {
        self.db = db;
        self.shared.activity.db.store(db, Relaxed);
    }

    /// Switches the protocol.
    pub fn speak(&mut self, version: ProtocolVersion) {
        self.version = version;
        self.shared.activity.protocol.store(if version == ProtocolVersion::Resp3 { 3 } else { 2 }, Relaxed);
    }

    /// Sums up what it keeps. To be called where that has changed; what waits for EXEC, is watched, listened to or prepared
    /// knows its size.
    pub fn weigh(&mut self) {
        self.kept.bytes = self.transaction.as_ref().map_or(0, Transaction::memory_bytes)
            + self.watching.as_ref().map_or(0, |watching| watching.memory_bytes())
            + self.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.memory_bytes())
            + self.tracking.as_ref().map_or(0, |tracking| tracking.memory_bytes())
            + self.fieldsets.as_ref().map_or(0, |fieldsets| fieldsets.memory_bytes());
    }

    /// Whether every command must be looked at one by one: for authentication, silence, tracking, a transaction, or its end.
    #[inline]
    #[must_use]
    pub fn needs_care(&self) -> bool {
        self.transaction.is_some() || self.is_unusual()
    }

    /// As [`Client::needs_care`], for another reason than a transaction.
    #[inline]
    #[must_use]
    pub fn is_unusual(&self) -> bool {
        let is_plain = self.access.is_admitted() && self.reply_mode == ReplyMode::On && !self.closing;
        !is_plain || self.tracking.is_some() || self.subscriptions.is_some()
    }

    /// Whether it may only change its subscriptions: in RESP2, where messages cannot be told from replies, as long as it has any.
    #[must_use]
    pub fn only_listens(&self) -> bool {
        self.subscriptions.is_some() && self.version == ProtocolVersion::Resp2
    }

    /// Appends the invalidations that wait for the end of the command.
    pub fn write_invalidations(&mut self, out: &mut Output) {
        for keys in std::mem::take(&mut self.invalidations) {
            self.write_invalidation(&keys, false, out);
        }
    }

    /// Appends one invalidation, in the form that this client understands: a push in RESP3; in RESP2 a message of
    /// Publish/Subscribe, if the client listens to these and gets it in place of another. Else nothing, as in Redis.
    pub fn write_invalidation(&self, keys: &Changed, redirected: bool, out: &mut Output) {
        let mut reply = Reply::new(out, self.version);
        if self.version == ProtocolVersion::Resp3 {
            reply.push(2);
            reply.bulk(b"invalidate");
        } else if redirected && self.shared.subscriptions.any.load(Relaxed) {
            reply.push(3);
            reply.bulk(b"message");
            reply.bulk(INVALIDATION_CHANNEL);
        } else {
            return;
        }
        match keys {
            Some(keys) => reply.raw(keys),
            None => reply.null(),
        }
    }

    /// Tells the client that the connection which was to get its invalidations is gone. There is no such message in RESP2.
    pub fn write_broken_redirect(&self, redirect: u64, out: &mut Output) {
        if self.version == ProtocolVersion::Resp3 {
            let mut reply = Reply::new(out, self.version);
            reply.push(2);
            reply.bulk(b"tracking-redir-broken");
            reply.unsigned(redirect);
        }
    }
}

/// Where clients that speak RESP2 listen for invalidations.
const INVALIDATION_CHANNEL: &[u8] = b"__redis__:invalidate";

#[cfg(test)]
mod tests {
    use almandine_acl::Catalog;
    use almandine_instance::{Acl, ClientOrigin, Clients};

    use super::*;

    #[test]
    fn an_invalidation_has_the_form_that_the_client_understands() {
        let origin = ClientOrigin {
            id: 1,
            worker: 0,
            address: String::new(),
            local_address: String::new(),
            unix_socket: false,
            descriptor: 0,
            created_ms: 0,
        };
        let acl = Acl::open(Catalog::default());
        let mut client = Client::new(Clients::default().connect(origin), Access::of_default(&acl));
        let keys: Changed = Some(b"*1\r\n$1\r\nk\r\n".as_slice().into());
        let told = |client: &Client, keys: &Changed, redirected| {
            let mut out = Output::new();
            client.write_invalidation(keys, redirected, &mut out);
            String::from_utf8(out.bytes).unwrap().replace("\r\n", " ")
        };
        assert_eq!(told(&client, &keys, true), "");
        client.shared.subscriptions.any.store(true, Relaxed);
        assert_eq!(told(&client, &keys, false), "");
        assert_eq!(told(&client, &keys, true), "*3 $7 message $20 __redis__:invalidate *1 $1 k ");
        assert_eq!(told(&client, &None, true), "*3 $7 message $20 __redis__:invalidate $-1 ");
        client.speak(ProtocolVersion::Resp3);
        assert_eq!(told(&client, &keys, false), ">2 $10 invalidate *1 $1 k ");
        assert_eq!(told(&client, &None, true), ">2 $10 invalidate _ ");
    }
}
