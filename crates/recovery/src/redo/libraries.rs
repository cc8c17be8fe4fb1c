//! The libraries of functions, as the log has changed them.
//!
//! Units of a cut come in the order of their numbers, and changes of libraries count in that of their versions. A change that says
//! what was loaded or deleted has all before it in its cut or an earlier one; one that says which libraries there are needs none.

use std::collections::BTreeMap;

use almandine_oplog::LibraryForm;

use crate::load::library_name;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Libraries {
    version: u64,
    /// By their names.
    texts: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Changes of the cut that is read, by their versions.
    changes: BTreeMap<u64, (LibraryForm, Vec<Vec<u8>>)>,
}

impl Libraries {
    /// Takes a change with its texts or names. False, and it does not count: a later version is known.
    pub(super) fn change(&mut self, version: u64, form: LibraryForm, libraries: Vec<Vec<u8>>) -> bool {
        let is_later = version > self.version;
        if is_later {
            self.changes.insert(version, (form, libraries));
        }
        is_later
    }

    /// The cut is over.
    pub(super) fn settle(&mut self) {
        while let Some((version, (form, libraries))) = self.changes.pop_first() {
            self.version = version;
            if form == LibraryForm::All {
                self.texts.clear();
            }
            for library in libraries {
                if form == LibraryForm::Deleted {
                    self.texts.remove(&library);
                } else {
                    // What has no name was never loaded.
                    self.texts.insert(library_name(&library).unwrap_or_default(), library);
                }
            }
        }
    }

    /// The version, and all texts.
    pub(super) fn all(&self) -> (u64, impl Iterator<Item = Vec<u8>>) {
        (self.version, self.texts.values().cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(of: &[(&str, &str)]) -> Vec<Vec<u8>> {
        of.iter().map(|(name, code)| format!("#!lua name={name}\n{code}").into_bytes()).collect()
    }

    fn all(libraries: &Libraries) -> (u64, Vec<Vec<u8>>) {
        let (version, texts) = libraries.all();
        (version, texts.collect())
    }

    #[test]
    fn changes_count_in_the_order_of_their_versions() {
        let mut libraries = Libraries::default();
        assert!(libraries.change(3, LibraryForm::All, texts(&[("a", "1"), ("b", "1")])));
        // As units have their numbers: the deletion is before what was deleted.
        assert!(libraries.change(5, LibraryForm::Deleted, vec![b"c".to_vec()]));
        assert!(libraries.change(4, LibraryForm::Loaded, texts(&[("c", "1"), ("a", "2")])));
        libraries.settle();
        assert_eq!(all(&libraries), (5, texts(&[("a", "2"), ("b", "1")])));
        assert!(!libraries.change(5, LibraryForm::Loaded, texts(&[("c", "1")])), "it is known");
        assert!(libraries.change(7, LibraryForm::All, Vec::new()));
        assert!(libraries.change(6, LibraryForm::Loaded, texts(&[("d", "1")])));
        libraries.settle();
        assert_eq!(all(&libraries), (7, vec![]));
    }
}
