//! Object storage that the archive of the log and backups are in.

use std::io;

use almandine_device::ObjectFolder;
use almandine_oplog::archive::{EachObject, Objects};

struct Folder(ObjectFolder);

impl Objects for Folder {
    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        self.0.create(name, bytes)
    }

    fn create_all(&self, objects: Vec<(String, Vec<u8>)>) -> io::Result<Vec<bool>> {
        self.0.create_all(objects)
    }

    fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.0.get(name)
    }

    fn get_each(&self, names: &[String], each: &mut EachObject<'_>) -> io::Result<()> {
        self.0.get_each(names, each)
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.0.list()
    }

    fn delete(&self, names: &[String]) -> io::Result<()> {
        self.0.delete(names)
    }
}

/// The objects below an address, which `setting` names.
///
/// # Errors
/// When it is not understood.
pub fn object_folder(setting: &str, url: &str) -> io::Result<Box<dyn Objects>> {
    let folder = ObjectFolder::open(url).map_err(|error| io::Error::new(error.kind(), format!("{setting}: {error}")))?;
    Ok(Box::new(Folder(folder)))
}
