//! A list that no key has yet, to be filled.

use almandine_datatypes::list::End;

use super::NewList;
use super::write::{outgrows, push, set_encoding};
use crate::Refusal;

impl NewList {
    /// Puts an element behind all others.
    ///
    /// # Errors
    /// None: all of it is in memory.
    pub fn push(&mut self, element: &[u8]) -> Result<(), Refusal> {
        if let Some(limits) = self.limits
            && let Some(encoding) = outgrows(self, limits, (element.len(), 1))?
        {
            set_encoding(self, encoding)?;
        }
        push(self, End::Right, element)
    }
}
