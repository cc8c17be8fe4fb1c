//! A worker's window on the kernel: bytes that arrived, sockets that can send again, new connections.
//!
//! Two mechanisms stand behind one enum. *io_uring* keeps a receive operation armed on every connection, lets the kernel choose
//! the buffer, and hands all replies of a round over in one system call. *epoll* asks which sockets are ready, then receives
//! and sends with one system call each. Reads of devices come the same way: by io_uring on the worker's own ring, else by
//! threads (see [`crate::storage`]). Both are driven the same way: [`Reactor::wait`] once, then [`Reactor::next`] until it is
//! empty.
//!
//! A reactor knows sockets by [`Token`]; it keeps no connection state, no output and no input beyond the event it lends.
//!
//! It must not be moved to another thread once it is made: io_uring is set up for a single issuer.

use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::socket::{Listener, Stream};
use crate::storage::ReadRequest;
use crate::wake::Wake;

pub use event::{End, Event, Interest, Token};
pub use outbox::{Outbox, Ticket, Unsent};

mod epoll;
mod event;
mod outbox;
#[cfg(feature = "sim")]
mod sim;
mod stragglers;
mod uring;

/// A mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// io_uring with multishot receive.
    Uring,
    /// epoll, which every Linux has.
    Epoll,
    /// That of the simulation, which no configuration chooses.
    #[cfg(feature = "sim")]
    Sim,
}

impl Kind {
    /// As in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uring => "io_uring",
            Self::Epoll => "epoll",
            #[cfg(feature = "sim")]
            Self::Sim => "simulation",
        }
    }
}

/// What the operator asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The better one that works.
    #[default]
    Auto,
    /// This one or none.
    Only(Kind),
}

impl FromStr for Choice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "io_uring" => Ok(Self::Only(Kind::Uring)),
            "epoll" => Ok(Self::Only(Kind::Epoll)),
            _ => Err("must be auto, io_uring or epoll"),
        }
    }
}

/// The outcome of [`select`].
#[derive(Debug)]
pub struct Selected {
    /// What every worker is to use.
    pub kind: Kind,
    /// Why `auto` did not take io_uring, for the log.
    pub reason: Option<String>,
}

/// Decides once, at start, by trying.
///
/// # Errors
/// When the operator insists on io_uring and the kernel does not offer what is needed.
pub fn select(choice: Choice) -> io::Result<Selected> {
    #[cfg(feature = "sim")]
    if crate::sim::world::current().is_some() {
        return Ok(Selected { kind: Kind::Sim, reason: None });
    }
    match choice {
        Choice::Only(kind) => {
            try_out(kind)?;
            Ok(Selected { kind, reason: None })
        }
        Choice::Auto => match try_out(Kind::Uring) {
            Ok(()) => Ok(Selected { kind: Kind::Uring, reason: None }),
            Err(error) => Ok(Selected { kind: Kind::Epoll, reason: Some(format!("io_uring does not work here: {error}")) }),
        },
    }
}

fn try_out(kind: Kind) -> io::Result<()> {
    match Reactor::new(kind, &Arc::new(Wake::new()?))? {
        Reactor::Epoll(_) => Ok(()),
        Reactor::Uring(mut uring) => uring.probe(),
        #[cfg(feature = "sim")]
        Reactor::Sim(_) => Ok(()),
    }
}

/// One worker's reactor.
pub enum Reactor {
    /// See [`Kind::Epoll`].
    Epoll(Box<epoll::Epoll>),
    /// See [`Kind::Uring`].
    Uring(Box<uring::Uring>),
    /// See [`Kind::Sim`].
    #[cfg(feature = "sim")]
    Sim(Box<sim::Sim>),
}

impl Reactor {
    /// Makes a reactor for the calling thread; `wake` ends its waits.
    ///
    /// # Errors
    /// When the kernel does not offer the mechanism, or the process has no descriptors or memory.
    pub fn new(kind: Kind, wake: &Arc<Wake>) -> io::Result<Self> {
        match kind {
            Kind::Epoll => Ok(Self::Epoll(Box::new(epoll::Epoll::new(wake)?))),
            Kind::Uring => Ok(Self::Uring(Box::new(uring::Uring::new(wake)?))),
            #[cfg(feature = "sim")]
            Kind::Sim => Ok(Self::Sim(Box::new(sim::Sim::new(wake)?))),
        }
    }

    /// The outbox that goes with this reactor.
    #[must_use]
    pub fn outbox(&self) -> Outbox {
        match self {
            Self::Epoll(_) => Outbox::direct(),
            Self::Uring(_) => Outbox::gathering(),
            #[cfg(feature = "sim")]
            Self::Sim(_) => Outbox::gathering(),
        }
    }

    /// Accepts connections on `listener` and reports them under `index`.
    pub fn listen(&mut self, index: u32, listener: &Arc<Listener>) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.listen(index, listener),
            Self::Uring(uring) => uring.listen(index, listener),
            #[cfg(feature = "sim")]
            Self::Sim(sim) => sim.listen(index, listener),
        }
    }

    /// Accepts no more connections on the listener of this index. Those that were on their way are still reported.
    pub fn stop_listening_on(&mut self, index: u32) {
        match self {
            Self::Epoll(epoll) => epoll.stop_listening_on(index),
            Self::Uring(uring) => uring.stop_listening_on(index),
            #[cfg(feature = "sim")]
            Self::Sim(sim) => sim.stop_listening_on(index),
        }
    }

    /// Accepts no more connections.
    pub fn stop_listening(&mut self) {
        match self {
            Self::Epoll(epoll) => epoll.stop_listening(),
            Self::Uring(uring) => uring.stop_listening(),
            #[cfg(feature = "sim")]
            Self::Sim(sim) => sim.stop_listening(),
        }
    }

    /// Watches a connection for data.
    pub fn add(&mut self, token: Token, stream: &Stream) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.add(token, stream),
            Self::Uring(uring) => uring.add(token, stream),
            #[cfg(feature = "sim")]
            Self::Sim(sim) => sim.add(token, stream),
        }
    }

    /// Changes what is watched. With io_uring, data that was on its way is still delivered.
    ///
    /// # Errors
    /// When the kernel interface itself fails.
    pub fn watch(&mut self, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.watch(token, interest),
            Self::Uring(uring) => uring.watch(token, interest),
            #[cfg(feature = "sim")]
            Self::Sim(sim) => {
                sim.watch(token, interest);
                Ok(())
            }
        }
    }

    /// Asks for one [`Event::Writable`].
    ///
    /// # Errors
    /// When the kernel interface itself fails.
    pub fn notify_writable(&mut self, token: Token) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.notify_writable(token),
            Self::Uring(uring) => uring.notify_writable(token),
            #[cfg(feature = "sim")]
            Self::Sim(sim) => {
                sim.notify_writable(token);
                Ok(())
            }
        }
    }

    /// Forgets a connection. No event names its token afterwards. The descriptor is closed when the owner's [`Stream`] is dropped,
    /// at the latest with the next wait.
    pub fn remove(&mut self, token: Token) {
        match self {
            Self::Epoll(epoll) => epoll.remove(token),
            Self::Uring(uring) => uring.remove(token),
            #[cfg(feature = "sim")]
            Self::Sim(sim) => sim.remove(token),
        }
    }

    /// Reads from a device; the outcome comes as an [`Event::Read`] of a later round. The order in which reads end says nothing.
    ///
    /// Any number may be asked for; more than the device takes at once wait here. A reactor that is dropped forgets those that it
    /// has not begun, and waits for those that the kernel has.
    pub fn read(&mut self, request: ReadRequest) {
        match self {
            Self::Epoll(epoll) => epoll.read(request),
            Self::Uring(uring) => uring.read(request),
            #[cfg(feature = "sim")]
            Self::Sim(sim) => sim.read(request),
        }
    }

    /// Hands the outbox over, and waits until something happens or `timeout` has passed.
    ///
    /// # Errors
    /// When the kernel interface itself fails; the worker cannot go on.
    pub fn wait(&mut self, timeout: Duration, outbox: &mut Outbox) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => {
                debug_assert!(outbox.is_empty());
                epoll.wait(timeout)
            }
            Self::Uring(uring) => uring.wait(timeout, outbox),
            #[cfg(feature = "sim")]
            Self::Sim(sim) => sim.wait(timeout, outbox),
        }
    }

    /// The next event of this round.
    #[expect(clippy::should_implement_trait, reason = "an event borrows from the reactor, which an iterator cannot express")]
    pub fn next(&mut self) -> Option<Event<'_>> {
        match self {
            Self::Epoll(epoll) => epoll.next(),
            Self::Uring(uring) => uring.next(),
            #[cfg(feature = "sim")]
            Self::Sim(sim) => sim.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_takes_io_uring_where_it_works() {
        let selected = select(Choice::Auto).unwrap();
        assert_eq!(selected.kind == Kind::Uring, try_out(Kind::Uring).is_ok());
        assert_eq!(selected.reason.is_none(), selected.kind == Kind::Uring);
        assert_eq!(select(Choice::Only(Kind::Epoll)).unwrap().kind, Kind::Epoll);
        assert_eq!("io_uring".parse(), Ok(Choice::Only(Kind::Uring)));
        assert!("kqueue".parse::<Choice>().is_err());
    }

    #[test]
    fn this_kernel_reports_short_sends() {
        if let Ok(mut reactor) = Reactor::new(Kind::Uring, &Arc::new(Wake::new().unwrap()))
            && let Reactor::Uring(uring) = &mut reactor
        {
            uring.probe().unwrap();
        }
    }
}
