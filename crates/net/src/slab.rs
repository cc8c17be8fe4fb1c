//! The connections of a worker by place, with generations, and by id.
//!
//! A connection is boxed, so that the handler of an event can take it out of the slab, work on it beside the rest of the
//! worker, and put it back: two pointer moves instead of a borrow of the whole table.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use almandine_io::reactor::Token;

use crate::connection::Connection;
use crate::service::ConnectionId;

pub(crate) struct Slab<C> {
    places: Vec<Place<C>>,
    free: Vec<u32>,
    /// For messages only; no packet looks here.
    ids: HashMap<ConnectionId, u32, BuildHasherDefault<IdHasher>>,
}

struct Place<C> {
    generation: u32,
    connection: Option<Box<Connection<C>>>,
}

impl<C> Slab<C> {
    pub(crate) fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new(), ids: HashMap::default() }
    }

    /// A token for a new connection; [`Slab::put`] or [`Slab::release`] follows.
    pub(crate) fn reserve(&mut self, id: ConnectionId) -> Token {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, connection: None });
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
        });
        self.ids.insert(id, place);
        let entry = &mut self.places[place as usize];
        entry.generation = entry.generation.wrapping_add(1);
        Token { place, generation: entry.generation }
    }

    /// Takes a connection out while an event is handled; [`Slab::put`] or [`Slab::release`] follows.
    pub(crate) fn take(&mut self, token: Token) -> Option<Box<Connection<C>>> {
        let place = self.places.get_mut(token.place as usize)?;
        if place.generation == token.generation { place.connection.take() } else { None }
    }

    pub(crate) fn put(&mut self, connection: Box<Connection<C>>) {
        let place = connection.token.place as usize;
        debug_assert!(self.places[place].connection.is_none());
        self.places[place].connection = Some(connection);
    }

    /// Gives the place of a connection that was taken back.
    pub(crate) fn release(&mut self, token: Token, id: ConnectionId) {
        debug_assert!(self.places[token.place as usize].connection.is_none());
        self.ids.remove(&id);
        self.free.push(token.place);
    }

    pub(crate) fn by_id(&mut self, id: ConnectionId) -> Option<&mut Connection<C>> {
        let place = *self.ids.get(&id)?;
        self.places[place as usize].connection.as_deref_mut()
    }

    pub(crate) fn by_place(&mut self, place: u32) -> Option<&mut Connection<C>> {
        self.places.get_mut(place as usize)?.connection.as_deref_mut()
    }

    /// Places that exist, used or not.
    pub(crate) fn places(&self) -> u32 {
        u32::try_from(self.places.len()).unwrap_or(u32::MAX)
    }
}

/// Ids are consecutive numbers; one multiplication spreads them.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}
