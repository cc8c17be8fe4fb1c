//! A naive hash, and the comparison with ours.

use std::collections::BTreeMap;

use almandine_base::object::Object;
use almandine_datatypes::hash::HashObject;
use almandine_datatypes::packed::{Due, FieldEntry};

pub(crate) type Value = (Vec<u8>, Option<u64>);

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model(pub(crate) BTreeMap<Vec<u8>, Value>);

impl Model {
    pub(crate) fn set(&mut self, field: &[u8], value: &[u8], due: Due) -> bool {
        let before = self.0.get(field).and_then(|(_, due)| *due);
        self.0.insert(field.to_vec(), (value.to_vec(), due.resolve(before))).is_none()
    }

    pub(crate) fn next_due(&self) -> Option<u64> {
        self.0.values().filter_map(|(_, due)| *due).min()
    }
}

pub(crate) fn owned(entry: FieldEntry) -> (Vec<u8>, Value) {
    (entry.field.to_vec(), (entry.value.to_vec(), entry.due))
}

/// The fields of a hash, each of which may be there once.
pub(crate) fn contents(hash: &HashObject) -> Model {
    let mut model = Model::default();
    for entry in hash.iter() {
        let (field, value) = owned(entry.expect("all is in memory"));
        assert_eq!(model.0.insert(field, value), None, "a field is there twice");
    }
    model
}

pub(crate) fn assert_equal(hash: &HashObject, model: &Model) {
    hash.check();
    assert_eq!((hash.len(), hash.next_due()), (model.0.len(), model.next_due()));
    assert!(contents(hash) == *model, "the fields differ");
}
