//! All members of a set.

use almandine_base::object::Missing;
use almandine_base::steps;

use crate::hashed;
use crate::packed::entry::Bare;

/// The members of a set. Ends after an error.
#[derive(Clone, Debug)]
pub struct SetIter<'a>(pub(in crate::set) hashed::HashedIter<'a, Bare>);

impl<'a> Iterator for SetIter<'a> {
    type Item = Result<&'a [u8], Missing>;

    fn next(&mut self) -> Option<Self::Item> {
        steps::take(1);
        self.0.next().map(|entry| entry.map(|entry| entry.field))
    }
}
