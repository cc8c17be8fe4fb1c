//! Sending, arriving and receiving.

use std::io::{self, IoSlice};

use super::Net;
use super::direction::{EndId, Parcel};
use super::state::{Link, Owner, State};

/// How long a machine without power takes to answer by a reset: it has booted by then.
const BOOT_NS: u64 = 1_000_000_000;

/// A direction that holds nothing takes so much whole, as Linux does.
const SURE_BYTES: usize = 4096;

/// What a reactor sees of an end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    /// Whether there is anything to receive: bytes, the end, or an error.
    pub(crate) readable: bool,
    /// The peer has ended its direction, or the connection is broken.
    pub(crate) hung_up: bool,
}

impl State {
    /// Sends what there is room for.
    pub(super) fn send(&mut self, id: EndId, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(connection) = self.connections.get(&id.connection) else { return Err(io::ErrorKind::NotConnected.into()) };
        let out = &connection.directions[id.end];
        match connection.ends[id.end].link {
            Link::Connecting => return Ok(0),
            Link::Refused(kind) => return Err(kind.into()),
            Link::Broken => return Err(io::ErrorKind::ConnectionReset.into()),
            Link::Connected if out.finished => return Err(io::ErrorKind::BrokenPipe.into()),
            Link::Connected => {}
        }
        let len: usize = slices.iter().map(|slice| slice.len()).sum();
        let mut count = len.min(out.room());
        if count == 0 {
            return Ok(0);
        }
        let is_sure = count <= SURE_BYTES && out.is_empty();
        if count > 1 && !is_sure && self.fails(self.options.short_sends_per_million, "send is short", id.connection) {
            count = 1 + self.below(count - 1);
        }
        if self.fails(self.options.resets_per_million, "connection breaks", id.connection) {
            self.put(id, Parcel::Reset);
            self.put(id.other(), Parcel::Reset);
            return Ok(count);
        }
        let mut bytes = gather(slices, count);
        self.note("sends", id, (count as u64) << 32 | u64::from(checksum(&bytes)));
        while bytes.len() > 1 && self.fails(self.options.cuts_per_million, "send is cut", id.connection) {
            let rest = bytes.split_off(1 + self.below(bytes.len() - 1));
            self.put(id, Parcel::Bytes(std::mem::replace(&mut bytes, rest)));
        }
        self.put(id, Parcel::Bytes(bytes));
        Ok(count)
    }

    /// Receives what is there: none when nothing is, zero at the end.
    pub(super) fn receive(&mut self, id: EndId, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(connection) = self.connections.get(&id.connection) else { return Err(io::ErrorKind::NotConnected.into()) };
        let direction = &connection.directions[1 - id.end];
        let mut most = direction.arrived_bytes().min(buffer.len());
        if most == 0 {
            return match connection.ends[id.end].link {
                Link::Broken => Err(io::ErrorKind::ConnectionReset.into()),
                Link::Refused(kind) => Err(kind.into()),
                _ if direction.arrived_bytes() > 0 => Ok(None),
                _ => Ok(direction.ended.then_some(0)),
            };
        }
        if most > 1 && self.fails(self.options.short_receives_per_million, "receive is short", id.connection) {
            most = 1 + self.below(most - 1);
        }
        let Some(connection) = self.connections.get_mut(&id.connection) else { return Ok(None) };
        let count = connection.directions[1 - id.end].receive(&mut buffer[..most]);
        self.room_came(id.other());
        Ok(Some(count))
    }

    /// The other end has received: an owner that waits for room learns it when the news has come.
    pub(super) fn room_came(&mut self, id: EndId) {
        let Some(connection) = self.connections.get_mut(&id.connection) else { return };
        let (end, out) = (&mut connection.ends[id.end], &connection.directions[id.end]);
        if end.awaits_room && out.is_writable() {
            end.awaits_room = false;
            let at_ns = self.arrival_ns();
            self.at(at_ns, move |net| {
                let mut state = net.lock();
                if let Some(connection) = state.connections.get_mut(&id.connection) {
                    connection.ends[id.end].has_room = true;
                }
                let is_client = state.changed(id);
                drop(state);
                if is_client {
                    net.serve(id);
                }
            });
        }
    }

    /// Has an end told once when there is room; at once when there is.
    pub(super) fn await_room(&mut self, id: EndId) {
        let Some(connection) = self.connections.get_mut(&id.connection) else { return };
        let (end, out) = (&mut connection.ends[id.end], &connection.directions[id.end]);
        if out.is_writable() || end.link == Link::Broken {
            (end.awaits_room, end.has_room) = (false, true);
            if self.changed(id) {
                self.at(0, move |net| net.serve(id));
            }
        } else {
            end.awaits_room = true;
        }
    }

    pub(super) fn look(&self, id: EndId) -> Look {
        let Some(connection) = self.connections.get(&id.connection) else { return Look { readable: true, hung_up: true } };
        let direction = &connection.directions[1 - id.end];
        let hung_up = direction.ended || connection.ends[id.end].link == Link::Broken;
        Look { readable: hung_up || direction.arrived_bytes() > 0, hung_up }
    }

    /// Ends the direction out of an end.
    pub(super) fn finish(&mut self, id: EndId) {
        let Some(connection) = self.connections.get_mut(&id.connection) else { return };
        let is_broken = connection.ends[id.end].link == Link::Broken;
        if !std::mem::replace(&mut connection.directions[id.end].finished, true) && !is_broken {
            self.put(id, Parcel::End);
        }
    }
}

impl Net {
    /// Takes what has arrived off the wire that goes out of an end.
    pub(super) fn arrive(&self, from: EndId) {
        let to = from.other();
        let mut state = self.lock();
        let (now_ns, boot_ns) = (self.turn.now_ns(), self.turn.now_ns() + BOOT_NS);
        let Some(connection) = state.connections.get_mut(&from.connection) else { return };
        let (end, direction) = (&mut connection.ends[to.end], &mut connection.directions[from.end]);
        let mut answer = None;
        while let Some(parcel) = direction.arrive(now_ns) {
            match (parcel, end.owner) {
                (Parcel::Bytes(_), _) if end.link == Link::Broken => {}
                (Parcel::Bytes(_), Owner::Closed) => answer = Some(now_ns),
                (Parcel::Bytes(_) | Parcel::End, Owner::Off) => answer = Some(boot_ns),
                (Parcel::Bytes(bytes), _) => direction.keep(bytes),
                (Parcel::End, _) => direction.ended = true,
                (Parcel::Reset, _) => (end.link, end.has_room) = (Link::Broken, true),
            }
        }
        direction.moves = false;
        if let Some(next_ns) = direction.next_ns() {
            direction.moves = true;
            state.at(next_ns, move |net| net.arrive(from));
        }
        match answer {
            Some(at_ns) if at_ns > now_ns => state.at(at_ns, move |net| net.lock().put(to, Parcel::Reset)),
            Some(_) => state.put(to, Parcel::Reset),
            None => {}
        }
        let is_client = state.changed(to);
        state.retire(from.connection);
        drop(state);
        if is_client {
            self.serve(to);
        }
    }
}

fn gather(slices: &[IoSlice<'_>], count: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count);
    for slice in slices {
        let rest = count - bytes.len();
        bytes.extend_from_slice(&slice[..slice.len().min(rest)]);
    }
    bytes
}

/// FNV-1a over words, for the trace.
fn checksum(bytes: &[u8]) -> u32 {
    let add = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x0100_0000_01B3);
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(0xCBF2_9CE4_8422_2325, |sum, word| add(sum, u64::from_le_bytes(*word)));
    (rest.iter().fold(sum, |sum, byte| add(sum, u64::from(*byte))) >> 32) as u32
}
