//! The bodies of a group's parts, decrypted where they are encrypted.

use std::path::Path;

use crate::encryption::{FileCipher, FileKind, LogKeys};
use crate::fault::Fault;
use crate::group::{PartEncryption, PartHead};

/// How what is encrypted is read.
#[derive(Clone, Copy, Debug)]
pub enum BodyAccess<'k> {
    /// With these keys.
    Keys(&'k LogKeys),
    /// Not at all: that it is whole is seen by its sums.
    Sums,
}

/// See the module.
pub(super) struct Bodies<'k> {
    access: BodyAccess<'k>,
    /// That of the part before.
    cipher: Option<FileCipher>,
    /// Of the parts of the group that is read.
    group: Vec<u8>,
    is_opaque: bool,
}

impl<'k> Bodies<'k> {
    pub(super) fn new(access: BodyAccess<'k>) -> Self {
        Self { access, cipher: None, group: Vec::new(), is_opaque: false }
    }

    /// Adds the body of a part whose sums are right.
    pub(super) fn add(&mut self, (path, offset): (&Path, u64), head: &PartHead, body: &[u8]) -> Result<(), Fault> {
        let from = self.group.len();
        let (Some(encryption), BodyAccess::Keys(keys)) = (&head.encryption, self.access) else {
            self.is_opaque |= head.encryption.is_some();
            self.group.extend_from_slice(body);
            return Ok(());
        };
        let cipher = match self.cipher.take().filter(|cipher| is_of(cipher, encryption)) {
            Some(cipher) => cipher,
            None => {
                let opened = keys.open(FileKind::Segment, &encryption.mark, encryption.salt);
                opened.map_err(|why| Fault::Key { path: path.to_owned(), why })?
            }
        };
        self.group.resize(from + body.len(), 0);
        let read = cipher.decrypt(encryption.count, &head.authenticated(), (body, &encryption.tag), &mut self.group[from..]);
        self.cipher = Some(cipher);
        read.map_err(|_| Fault::damaged(path, offset, "a part is not what was encrypted there, though its checksum is right"))
    }

    /// Those of the group, and whether they could not be read.
    pub(super) fn group(&self) -> (&[u8], bool) {
        (&self.group, self.is_opaque)
    }

    pub(super) fn clear(&mut self) {
        self.group.clear();
        self.is_opaque = false;
    }
}

/// Whether a cipher is that of a part.
fn is_of(cipher: &FileCipher, part: &PartEncryption) -> bool {
    (cipher.mark(), cipher.salt()) == (part.mark, part.salt)
}
