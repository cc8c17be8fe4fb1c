//! Named shared mappings: words of memory that outlive the process that writes them, as a file.
//!
//! The system keeps what was stored to a mapping when the process ends, in whatever way. In a file system in memory nothing is
//! written to a disk, and nothing is left when the machine boots again. In one on a disk ([`outlives_process`]) the system writes
//! pages back when it likes to: behind another boot each may be of any moment; and when it fails, the mapping goes on in memory
//! ([`crate::detach`]). All of a mapping is reserved when it is made: a file system that is full is an error then, and never a
//! signal later.
//!
//! A mapping is made once, in a directory of its own that only its owner may use, and links are not followed.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::NonNull;
use std::slice;
#[cfg(feature = "sim")]
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::detach::Watched;
use crate::memory::Reservation;
#[cfg(feature = "sim")]
use crate::sim::world;

/// Bytes of a word.
pub const WORD: usize = size_of::<AtomicU64>();

/// Words that outlive the process, or, without a name, do not.
#[derive(Debug)]
pub struct SharedMapping(Words);

#[derive(Debug)]
enum Words {
    Mapped(Mapped),
    /// That many, at the beginning of this: what no thread has used is not in memory.
    Own(Reservation, usize),
    #[cfg(feature = "sim")]
    Sim(Arc<[AtomicU64]>),
}

#[derive(Debug)]
struct Mapped {
    base: NonNull<AtomicU64>,
    words: usize,
    watched: Option<Watched>,
}

// SAFETY: the mapping is plain memory that stays where it is until it is dropped, and is used as atomics only.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.watched = None;
        // SAFETY: the mapping is ours and whole; the owner is being dropped, so it has no user.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.words * WORD) };
    }
}

impl SharedMapping {
    /// Makes a mapping of zeroes, which has this name in a directory from [`prepare_directory`]. All of its memory is reserved.
    ///
    /// # Errors
    /// `AlreadyExists` when there is one; `StorageFull` when its file system has no room for it.
    pub fn create(directory: &Path, name: &str, words: usize) -> io::Result<Self> {
        #[cfg(feature = "sim")]
        if let Some((world, node)) = world::current() {
            let words = world.make_mapping(node, &path_of(directory, name), words);
            return words.map(|words| Self(Words::Sim(words))).ok_or_else(|| io::ErrorKind::AlreadyExists.into());
        }
        let path = directory.join(name);
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(&path)?;
        let made = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, (words * WORD) as u64)
            .map_err(io::Error::from)
            .and_then(|()| map(&file, words));
        if made.is_err() {
            let _ = fs::remove_file(&path);
        }
        made
    }

    /// Opens a mapping of an earlier process.
    ///
    /// # Errors
    /// `NotFound` when there is none; `PermissionDenied` when it belongs to another user, or others may use it; `InvalidData`
    /// when it is no file, or one of no whole number of words.
    pub fn open(directory: &Path, name: &str) -> io::Result<Self> {
        #[cfg(feature = "sim")]
        if let Some((world, node)) = world::current() {
            let words = world.find_mapping(node, &path_of(directory, name));
            return words.map(|words| Self(Words::Sim(words))).ok_or_else(|| io::ErrorKind::NotFound.into());
        }
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(directory.join(name))?;
        let metadata = file.metadata()?;
        require_own(&metadata)?;
        let bytes = usize::try_from(metadata.len()).map_err(io::Error::other)?;
        if !metadata.is_file() || bytes == 0 || !bytes.is_multiple_of(WORD) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        map(&file, bytes / WORD)
    }

    /// Zeroes without a name, which end with the process. Memory comes with their use.
    ///
    /// # Errors
    /// When there is no room for them.
    pub fn unnamed(words: usize) -> io::Result<Self> {
        Ok(Self(Words::Own(Reservation::small_pages(words * WORD)?, words)))
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        match &self.0 {
            // SAFETY: the range is mapped, aligned to pages and initialized until this is dropped; other users of the same file
            // have it as atomics, too.
            Words::Mapped(mapped) => unsafe { slice::from_raw_parts(mapped.base.as_ptr(), mapped.words) },
            // SAFETY: the range is reserved, aligned, zeroed and used as atomics only until this is dropped, and is as long.
            Words::Own(memory, words) => unsafe { slice::from_raw_parts(memory.base().as_ptr().cast(), *words) },
            #[cfg(feature = "sim")]
            Words::Sim(words) => words,
        }
    }
}

/// Asks the cache for the line of a word.
#[inline]
pub fn prefetch(word: &AtomicU64) {
    // SAFETY: a prefetch reads and changes nothing.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(word.as_ptr().cast());
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = word;
}

/// Asks the cache for the line of a word that no other core is about to use and that is going to be written.
#[inline]
pub fn prefetch_for_write(word: &AtomicU64) {
    // SAFETY: a prefetch reads and changes nothing.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(word.as_ptr().cast());
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = word;
}

/// Takes a mapping's name away: it ends with its last user.
///
/// # Errors
/// `NotFound` when there is none.
pub fn remove(directory: &Path, name: &str) -> io::Result<()> {
    #[cfg(feature = "sim")]
    if let Some((world, node)) = world::current() {
        let removed = world.remove_mapping(node, &path_of(directory, name));
        return if removed { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) };
    }
    fs::remove_file(directory.join(name))
}

/// The names of the mappings of a directory; none when there is no such directory.
pub fn names(directory: &Path) -> io::Result<Vec<String>> {
    #[cfg(feature = "sim")]
    if let Some((world, node)) = world::current() {
        let prefix = path_of(directory, "");
        return Ok(world.mappings(node).iter().filter_map(|path| path.strip_prefix(&prefix)).map(str::to_owned).collect());
    }
    match fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Makes a directory for mappings that only its owner may use, or makes sure that one that is there is such a directory.
///
/// # Errors
/// `PermissionDenied` when it belongs to another user, others may use it, or it is none.
pub fn prepare_directory(directory: &Path) -> io::Result<()> {
    #[cfg(feature = "sim")]
    if world::current().is_some() {
        return Ok(());
    }
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    let metadata = fs::symlink_metadata(directory)?;
    if !metadata.is_dir() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    require_own(&metadata)
}

/// File systems that keep the pages of a mapping when its process ends, and need no further room to store to them: ext2 to ext4,
/// XFS, the layers of a container, and memory. Those that copy what is written again signal where there is none for a store;
/// those of a network or of another process may lose pages.
const KEEPING: [rustix::fs::FsWord; 4] = [0xEF53, 0x5846_5342, 0x794C_7630, 0x0102_1994];

/// Whether the mappings of a directory outlive their process as its other files do.
///
/// # Errors
/// As the system reports them.
pub fn outlives_process(directory: &Path) -> io::Result<bool> {
    #[cfg(feature = "sim")]
    if world::current().is_some() {
        return Ok(true);
    }
    Ok(KEEPING.contains(&rustix::fs::statfs(directory)?.f_type))
}

/// Files by which a container is known.
const CONTAINER: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];
/// The name space of processes of the machine itself, by the number that the kernel gives it.
const MACHINE_PROCESSES: &str = "pid:[4026531836]";

/// Whether this process runs in a container, whose file systems in memory end with it.
#[must_use]
pub fn is_in_container() -> bool {
    #[cfg(feature = "sim")]
    if world::current().is_some() {
        return false;
    }
    std::process::id() == 1
        || CONTAINER.iter().any(|file| Path::new(file).exists())
        || fs::read_link("/proc/self/ns/pid").is_ok_and(|space| space != Path::new(MACHINE_PROCESSES))
}

/// A number that changes when the machine boots.
///
/// # Errors
/// When the system does not tell.
pub fn boot_id() -> io::Result<u128> {
    #[cfg(feature = "sim")]
    if let Some((world, node)) = world::current() {
        return Ok(world.boot_id(node));
    }
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).map_err(io::Error::other)
}

fn require_own(metadata: &fs::Metadata) -> io::Result<()> {
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o077 == 0;
    if is_own { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

fn map(file: &fs::File, words: usize) -> io::Result<SharedMapping> {
    use rustix::mm::{MapFlags, ProtFlags};
    // SAFETY: a fresh mapping at a place of the system's choice aliases no memory of this process; what other processes may write
    // to the file is read as atomics only.
    let raw = unsafe {
        rustix::mm::mmap(std::ptr::null_mut(), words * WORD, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)
    }?;
    let base = NonNull::new(raw.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
    // SAFETY: the range is ours and the advice changes no contents; a child must not write to it.
    let _ = unsafe { rustix::mm::madvise(raw, words * WORD, rustix::mm::Advice::LinuxDontFork) };
    Ok(SharedMapping(Words::Mapped(Mapped { base, words, watched: Watched::new(base.as_ptr() as usize, words * WORD) })))
}

#[cfg(feature = "sim")]
fn path_of(directory: &Path, name: &str) -> String {
    format!("{}/{name}", directory.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::Ordering;

    #[test]
    fn what_is_stored_is_found_by_name_and_only_by_its_owner() {
        let directory = std::env::temp_dir().join(format!("almandine-mapping-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        assert!(names(&directory).unwrap().is_empty());
        prepare_directory(&directory).unwrap();
        prepare_directory(&directory).unwrap();
        let made = SharedMapping::create(&directory, "one", 1024).unwrap();
        assert_eq!(SharedMapping::create(&directory, "one", 8).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        made.words()[1023].store(7, Ordering::Release);
        let opened = SharedMapping::open(&directory, "one").unwrap();
        drop(made);
        assert_eq!((opened.words().len(), opened.words()[1023].load(Ordering::Acquire)), (1024, 7));
        assert_eq!(names(&directory).unwrap(), ["one"]);
        fs::set_permissions(directory.join("one"), fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(SharedMapping::open(&directory, "one").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        std::os::unix::fs::symlink(directory.join("one"), directory.join("link")).unwrap();
        assert!(SharedMapping::open(&directory, "link").is_err());
        remove(&directory, "one").unwrap();
        assert_eq!(SharedMapping::open(&directory, "one").unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(prepare_directory(&directory).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(boot_id().unwrap(), boot_id().unwrap());
        fs::remove_dir_all(&directory).unwrap();
    }
}
