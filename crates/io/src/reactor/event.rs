//! What a reactor and its owner tell each other: which connection, what to watch on it, what happened.

use crate::socket::Descriptor;
use crate::storage::ReadDone;

/// A connection as its reactor knows it. The generation tells a place's successive tenants apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Index in the owner's table.
    pub place: u32,
    /// Changes each time that the place is used again.
    pub generation: u32,
}

/// What a reactor watches on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Data, and the end of the stream.
    Data,
    /// No data; but the owner wants to know when the peer hangs up.
    HangUp,
    /// Neither; only a broken connection is reported.
    Nothing,
}

/// Why a connection gives no more data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The peer ended its direction; it may still read.
    Finished,
    /// The connection is broken.
    Broken,
}

/// What happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// A peer connected to the listener of this index.
    Accepted {
        /// Index given to [`Reactor::listen`].
        listener: u32,
        /// The new connection.
        descriptor: Descriptor,
    },
    /// The listener is off until it is given to [`Reactor::listen`] again: the process has no descriptors or memory.
    AcceptFailed {
        /// Index given to [`Reactor::listen`].
        listener: u32,
    },
    /// Data arrived. It stays valid until the next call of [`Reactor::next`], and the caller may change it.
    Received {
        /// Which connection.
        token: Token,
        /// The bytes, at least one.
        data: &'a mut [u8],
    },
    /// There will be no more data. Data that had arrived before has been delivered.
    Ended {
        /// Which connection.
        token: Token,
        /// Why.
        end: End,
    },
    /// The kernel takes output again; reported once per [`Reactor::notify_writable`].
    Writable {
        /// Which connection.
        token: Token,
    },
    /// A read of a device has ended.
    Read(ReadDone),
}

/// The state of one place, in both mechanisms indexed by [`Token::place`].
pub(super) fn at_place<P: Default>(sockets: &mut Vec<P>, place: u32) -> &mut P {
    let index = place as usize;
    if index >= sockets.len() {
        sockets.resize_with(index + 1, P::default);
    }
    &mut sockets[index]
}
