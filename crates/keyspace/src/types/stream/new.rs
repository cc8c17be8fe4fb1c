//! A stream made by itself, which becomes the value of a key whatever that was.

use almandine_datatypes::stream::StreamObject;
use almandine_store::Put;

use super::Streams;
use crate::types::collection::Editable;
use crate::{Key, Refusal, Writer};

impl Writer<'_> {
    /// Sets a key to a stream, whatever it was.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn put_stream(&mut self, key: Key<'_>, stream: StreamObject, put: Put) -> Result<(), Refusal> {
        let mut new = self.new_collection::<Streams>();
        new.change(|object| *object = stream)?;
        Ok(self.put_new(key, new, put)?)
    }
}
