//! Expiry: sessions announce expiries through the feed, the background files them in the wheel and removes what is due.
//!
//! Exactness on access does not depend on any of this: a record past its time is invisible to every verb. Invariant
//! (INV-EXP-1): for each live record with an expiry there is a notice, in the feed or the wheel, that comes up at or before it.

pub(crate) mod feed;
pub(crate) mod wheel;
