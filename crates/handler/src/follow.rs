//! A client and the users: authentication, following their changes, and what becomes of what is denied.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use almandine_acl::{Entry, LogContext, Password, Reason, User};
use almandine_base::Output;
use almandine_instance::Acl;
use almandine_instance::pubsub::Topic;
use almandine_resp::Args;

use crate::access::Access;
use crate::call::{AdminCall, Context};
use crate::client::Client;
use crate::client_line;
use crate::errors::{self, CommandError};
use crate::rights::{self, Denial};
use crate::table::{Dispatch, Table};

impl Client {
    /// Takes changes of users over. A client whose user is gone is closed.
    #[inline]
    pub fn follow_users(&mut self, acl: &Acl) {
        if !self.access.is_current(acl) && !self.access.refresh(acl) {
            self.show_user();
            self.closing = true;
        }
    }

    /// Becomes the user `name`, if the password is right.
    #[must_use]
    pub fn authenticate(&mut self, acl: &Acl, name: &[u8], password: &[u8]) -> bool {
        let users = acl.users();
        let Some(user) = users.find(name) else {
            // It takes as long as for a user that exists.
            std::hint::black_box(Password::hash(password));
            return false;
        };
        if !user.accepts(password) {
            return false;
        }
        self.become_user(acl, user);
        true
    }

    fn become_user(&mut self, acl: &Acl, user: &Arc<User>) {
        self.access = Access::of(Arc::clone(user));
        self.show_user();
        // A change of the user meanwhile may have missed this client: what is read now holds.
        if !self.access.refresh(acl) {
            self.show_user();
            self.closing = true;
        }
    }

    /// Becomes the first user among the names that the client's certificate has, without a password. When none is a user that is
    /// on, that is noted, and the client stays what it is.
    pub fn follow_certificate(&mut self, context: &Context, names: &[Box<str>], now_ms: i64) {
        let acl = &context.instance.acl;
        let users = acl.users();
        if let Some(user) = names.iter().filter_map(|name| users.find(name.as_bytes())).find(|user| user.is_enabled()) {
            self.become_user(acl, user);
        } else if let Some(name) = names.first() {
            context.statistics().counters.certificates_refused.add(1);
            let event =
                Event { reason: Reason::Certificate, context: LogContext::TopLevel, object: b"", username: name.as_bytes() };
            log(context, entry(context, self, event, now_ms));
        }
    }

    /// Becomes what a new connection is.
    pub fn forget_user(&mut self, acl: &Acl) {
        self.access = Access::of_default(acl);
        self.show_user();
    }

    /// Shows others whose client it is.
    fn show_user(&self) {
        let user = self.access.user();
        let mut identity = self.shared.identity();
        identity.user = String::from_utf8_lossy(&user.name).into_owned();
        identity.user_id = user.id;
    }

    /// Whether it listens to something that its user may not listen to.
    #[must_use]
    pub fn listens_to_forbidden(&self) -> bool {
        let Some(subscriptions) = &self.subscriptions else { return false };
        [Topic::Channel, Topic::Pattern, Topic::Shard]
            .into_iter()
            .any(|topic| subscriptions.names(topic).any(|name| !permits_listening(self.access.user(), topic, name)))
    }
}

fn permits_listening(user: &User, topic: Topic, name: &[u8]) -> bool {
    user.selectors().iter().any(|selector| selector.permits_channel(name, topic == Topic::Pattern))
}

/// A command that is denied.
#[derive(Clone, Copy)]
pub struct Refused<'c> {
    /// What would have run.
    pub dispatch: &'c Dispatch,
    /// Its arguments.
    pub args: Args<'c>,
    /// What of it is denied.
    pub denial: Denial,
}

/// What of a command is denied to a client; nothing when it may run.
#[must_use]
pub fn refused<'c>(client: &Client, table: &Table, dispatch: &'c Dispatch, args: Args<'c>) -> Option<Refused<'c>> {
    refused_in(client.db, client, table, dispatch, args)
}

/// The same of a command that will run on the database `db`.
#[must_use]
pub fn refused_in<'c>(db: u16, client: &Client, table: &Table, dispatch: &'c Dispatch, args: Args<'c>) -> Option<Refused<'c>> {
    if !client.access.is_restricted() || rights::permits(&client.access, table, dispatch, args, db) {
        return None;
    }
    rights::denial(client.access.user(), table, dispatch, args, db).map(|denial| Refused { dispatch, args, denial })
}

/// Counts and logs that a command is denied, and returns its error.
#[cold]
#[must_use]
pub fn deny(context: &Context, client: &Client, refused: Refused<'_>, now_ms: i64) -> CommandError {
    let (denied, error) = deny_silently(context, client, refused, now_ms);
    denied.note(context);
    error
}

/// The error of a command that is denied, and what is to be noted of it.
#[cold]
#[must_use]
pub fn deny_silently(context: &Context, client: &Client, refused: Refused<'_>, now_ms: i64) -> (Denied, CommandError) {
    let log_context = match client.in_script {
        true => LogContext::Lua,
        false if client.transaction.is_some() => LogContext::Multi,
        false => LogContext::TopLevel,
    };
    // The log shows the client as it is while it asks for this.
    client.shared.activity.last_command.store(refused.dispatch.index.into(), Relaxed);
    let denied = denied(context, client, refused, log_context, now_ms);
    let error = match refused.denial.reason {
        Reason::Command | Reason::Authentication | Reason::Certificate => {
            errors::acl::command_denied(&client.access.user().name, &context.table.row(refused.dispatch.index).name)
        }
        Reason::Key => errors::acl::KEY_DENIED,
        Reason::Channel => errors::acl::CHANNEL_DENIED,
        Reason::Database => errors::acl::DATABASE_DENIED,
    };
    (denied, error)
}

/// As [`deny`], of a command that was queued when it was permitted.
#[cold]
#[must_use]
pub fn deny_queued(context: &Context, client: &Client, refused: Refused<'_>, now_ms: i64) -> CommandError {
    denied(context, client, refused, LogContext::Multi, now_ms).note(context);
    errors::transaction::denied_since_queued(match refused.denial.reason {
        Reason::Command => "no permission to execute the command or subcommand",
        Reason::Key => "no permission to touch the specified keys",
        Reason::Channel => "no permission to access one of the channels used as arguments",
        Reason::Database | Reason::Authentication | Reason::Certificate => "no permission",
    })
}

/// Counts and logs that a client could not authenticate as `username`.
#[cold]
pub fn note_failed_authentication(call: &AdminCall<'_>, username: &[u8]) {
    call.context.statistics().counters.authentications_failed.add(1);
    let event = Event {
        reason: Reason::Authentication,
        context: context_of(call.client, call.reply.out),
        object: call.args.at(0),
        username,
    };
    log(call.context, entry(call.context, call.client, event, call.now_ms));
}

/// A command that others wait for together with it is one of a transaction.
fn context_of(client: &Client, out: &Output) -> LogContext {
    if client.transaction.is_some() || !out.may_stream() { LogContext::Multi } else { LogContext::TopLevel }
}

/// What the log is told.
struct Event<'e> {
    reason: Reason,
    context: LogContext,
    object: &'e [u8],
    username: &'e [u8],
}

/// A command was denied, which is not noted yet.
#[derive(Debug)]
pub struct Denied(Entry);

impl Denied {
    /// Counts and logs it.
    pub fn note(self, context: &Context) {
        let counters = &context.statistics().counters;
        let counter = match self.0.reason {
            Reason::Command | Reason::Authentication | Reason::Certificate => &counters.commands_denied,
            Reason::Key => &counters.keys_denied,
            Reason::Channel => &counters.channels_denied,
            Reason::Database => &counters.databases_denied,
        };
        counter.add(1);
        log(context, self.0);
    }
}

fn denied(context: &Context, client: &Client, refused: Refused<'_>, log_context: LogContext, now_ms: i64) -> Denied {
    let Refused { dispatch, args, denial } = refused;
    let object = match denial.reason {
        Reason::Command => context.table.row(dispatch.index).name.as_bytes(),
        _ => args.at(denial.at),
    };
    let event = Event { reason: denial.reason, context: log_context, object, username: &client.access.user().name };
    Denied(entry(context, client, event, now_ms))
}

fn entry(context: &Context, client: &Client, event: Event<'_>, now_ms: i64) -> Entry {
    let Event { reason, context: log_context, object, username } = event;
    let mut info = String::new();
    client_line::write(&mut info, &client.shared, context.table, now_ms, 0);
    Entry::new(reason, log_context, object, username, now_ms, info)
}

fn log(context: &Context, entry: Entry) {
    let entries_max = usize::try_from(context.settings().security.acl_log_entries_max).unwrap_or(usize::MAX);
    context.instance.acl.log.add(entry, entries_max);
}
