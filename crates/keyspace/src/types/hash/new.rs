//! A hash that no key has yet, to be filled.

use almandine_datatypes::packed::Due;

use super::NewHash;
use super::write::{raise_encoding, set};
use crate::Refusal;

impl NewHash {
    /// Sets a field. Says whether it is new.
    ///
    /// # Errors
    /// None: all of it is in memory.
    pub fn set(&mut self, field: &[u8], value: &[u8], due: Option<u64>) -> Result<bool, Refusal> {
        let due = due.map_or(Due::Never, Due::At);
        let is_new = set(self, field, value, due)?;
        let encoding = self.limits.encoding(field.len().max(value.len()), self.len(), due);
        raise_encoding(self, encoding)?;
        Ok(is_new)
    }
}
