//! A field on its way from the value device: its pieces are read several at a time, and taken in order as they come.

use crate::record::heap::{HeapValue, SharedValue};
use crate::shared::garbage::Garbage;
use crate::tier::ciphers::{PageNonce, StorageCiphers};
use crate::tier::extent::{Extent, HEAD_BYTES};
use crate::tier::image::Building;
use crate::tier::read::room::Room;
use almandine_base::object::{Kind, Types};
use almandine_io::storage::Buffer;
use almandine_oplog::encryption::StoragePart;
use std::sync::Arc;

/// Pieces of a field that are asked for before the first of them has come.
const PIECES_AHEAD: usize = 8;

/// What is being made of the pieces.
enum Body {
    Bytes(Vec<u8>),
    Object(Building),
}

/// A piece that has come before its turn.
struct Early {
    number: usize,
    piece: Buffer,
    /// It was read for the second time.
    again: bool,
}

/// What became of a piece.
pub(in crate::tier) enum Landed {
    /// It was taken, or waits for its turn.
    Well,
    /// The piece of this number does not have its checksum. It was read once.
    Doubtful(usize),
    /// What was read is not what was written.
    Damaged,
    /// It was the last one.
    Whole,
}

/// A key or a value of which pieces are still to come.
pub(in crate::tier) struct Arriving {
    pub(in crate::tier) extent: Extent,
    /// That of its page.
    nonce: PageNonce,
    /// None: it was taken out.
    body: Option<Body>,
    /// The piece whose turn it is.
    next: usize,
    /// Pieces that were asked for.
    asked: usize,
    early: Vec<Early>,
    /// What it may take, if it is large.
    pub(in crate::tier) room: Option<Room>,
    garbage: Arc<Garbage>,
}

impl Arriving {
    /// A string, or a key.
    pub(in crate::tier) fn bytes(place: (Extent, PageNonce), garbage: &Arc<Garbage>) -> Self {
        Self::of(place, Body::Bytes(Vec::new()), garbage)
    }

    /// An object. None: there are none of this kind.
    pub(in crate::tier) fn object(
        place: (Extent, PageNonce),
        (types, kind): (Option<&dyn Types>, Kind),
        garbage: &Arc<Garbage>,
    ) -> Option<Self> {
        Building::new(types, kind).map(|building| Self::of(place, Body::Object(building), garbage))
    }

    fn of((extent, nonce): (Extent, PageNonce), body: Body, garbage: &Arc<Garbage>) -> Self {
        Self { extent, nonce, body: Some(body), next: 0, asked: 0, early: Vec::new(), room: None, garbage: Arc::clone(garbage) }
    }

    /// The next piece to ask for, if it is time.
    pub(in crate::tier) fn ask(&mut self) -> Option<usize> {
        debug_assert!(self.next <= self.asked, "INV-TIER-3: a piece is asked for before it comes");
        let number = self.asked;
        // The first one comes alone, when there is room for all.
        let ahead = if self.next == 0 { 1 } else { PIECES_AHEAD };
        let due = number < self.extent.pieces() && number < self.next + ahead;
        self.asked += usize::from(due);
        due.then_some(number)
    }

    /// Bytes of pieces that wait for their turn.
    pub(in crate::tier) fn early_bytes(&self) -> usize {
        self.early.iter().map(|early| early.piece.len()).sum()
    }

    /// Takes a piece, and those that have waited for it.
    pub(in crate::tier) fn land(&mut self, (number, piece): (usize, Buffer), again: bool, ciphers: &StorageCiphers) -> Landed {
        debug_assert!(
            number >= self.next && number < self.asked,
            "INV-TIER-3: a piece comes once, and only one that was asked for"
        );
        self.early.push(Early { number, piece, again });
        while let Some(at) = self.early.iter().position(|early| early.number == self.next) {
            let Early { number, mut piece, again } = self.early.swap_remove(at);
            let (extent, body) = (self.extent, &mut self.body);
            let len = extent.contents(number, &piece).map(<[u8]>::len);
            let taken = len.map(|len| {
                let (at, contents) = (extent.piece(number).0 + HEAD_BYTES as u64, &mut piece[HEAD_BYTES..HEAD_BYTES + len]);
                ciphers.apply(self.nonce, StoragePart::Values, at, contents).ok()?;
                body.as_mut().and_then(|body| body.take(extent, contents))
            });
            debug_assert_eq!(self.next, number, "INV-TIER-3: pieces are taken in their order");
            drop(piece);
            match taken {
                Some(Some(())) => self.next += 1,
                None if !again => return Landed::Doubtful(number),
                _ => return Landed::Damaged,
            }
        }
        match &self.body {
            _ if self.next < self.extent.pieces() => Landed::Well,
            Some(Body::Object(building)) if !building.is_whole() => Landed::Damaged,
            _ => Landed::Whole,
        }
    }

    /// The bytes of a key.
    pub(in crate::tier) fn take_bytes(mut self) -> Vec<u8> {
        debug_assert_eq!(self.next, self.extent.pieces(), "INV-TIER-3: a key is whole");
        match self.body.take() {
            Some(Body::Bytes(bytes)) => bytes,
            _ => Vec::new(),
        }
    }

    /// The value, and the room that it has.
    pub(in crate::tier) fn take_value(mut self) -> Option<(SharedValue, Option<Room>)> {
        self.body.take().map(|body| (Arc::new(body.into_value()), self.room.take()))
    }
}

impl Body {
    /// Takes the contents of the next piece. None: they cannot be right.
    fn take(&mut self, extent: Extent, contents: &[u8]) -> Option<()> {
        match self {
            Self::Bytes(bytes) => {
                if bytes.is_empty() {
                    let is_alone = extent.pieces() == 1;
                    bytes.reserve_exact(if is_alone { contents.len() } else { extent.contents_max() });
                }
                bytes.extend_from_slice(contents);
                Some(())
            }
            Self::Object(building) => building.take(contents),
        }
    }

    fn into_value(self) -> HeapValue {
        match self {
            Self::Bytes(bytes) => HeapValue::string(bytes),
            Self::Object(building) => building.into_value(),
        }
    }
}

/// What has come in vain may take long to free.
impl Drop for Arriving {
    fn drop(&mut self) {
        if let Some(body) = self.body.take() {
            self.garbage.discard(Arc::new(body.into_value()));
        }
    }
}
