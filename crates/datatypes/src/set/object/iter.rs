//! All members of a set.

use almandine_base::object::Missing;

use crate::hashed;
use crate::packed::entry::Bare;

/// The members of a set. Ends after an error.
#[derive(Clone, Debug)]
pub struct Iter<'a>(pub(in crate::set) hashed::Iter<'a, Bare>);

impl<'a> Iterator for Iter<'a> {
    type Item = Result<&'a [u8], Missing>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|entry| entry.map(|entry| entry.field))
    }
}
