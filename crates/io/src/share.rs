//! Blocks that two files share, on file systems that can (XFS, Btrfs): a copy that takes neither time nor space, until one of both
//! is changed.

use std::io;

use crate::file::File;
#[cfg(feature = "sim")]
use crate::file::Inner;

impl File {
    /// Makes a range of this file one of another file's, which it shares until either is changed: all whole blocks. False where
    /// the file systems cannot, and nothing was done.
    pub fn share_blocks(&self, offset: u64, bytes: u64, from: &File, from_offset: u64) -> io::Result<bool> {
        #[cfg(feature = "sim")]
        if matches!((&self.0, &from.0), (Inner::Sim(_), _) | (_, Inner::Sim(_))) {
            return Ok(false);
        }
        let range = libc::file_clone_range {
            src_fd: from.descriptor().into(),
            src_offset: from_offset,
            src_length: bytes,
            dest_offset: offset,
        };
        // SAFETY: both descriptors are open as long as the files are, and the call reads the range that it is given.
        let shared = unsafe { libc::ioctl(self.descriptor(), libc::FICLONERANGE, &raw const range) };
        if shared == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // No such call, on one file system or between these two; or its blocks are larger.
            Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::ENOSYS | libc::EXDEV | libc::EINVAL | libc::EPERM | libc::EACCES) => {
                Ok(false)
            }
            _ => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{file, files};

    /// On a file system that cannot share, nothing is done; on one that can, the bytes are there.
    #[test]
    fn blocks_are_shared_or_left_as_they_were() {
        let path = |name: &str| std::env::temp_dir().join(format!("almandine-share-{name}-{}", std::process::id()));
        let (from, to) = (path("from"), path("to"));
        let (source, target) = (file::open(&from, false).unwrap(), file::open(&to, false).unwrap());
        source.write_all_at(&[7; 3 << 12], 0).unwrap();
        let is_shared = target.share_blocks(4096, 4096, &source, 8192).unwrap();
        assert_eq!(target.len().unwrap(), if is_shared { 8192 } else { 0 });
        if is_shared {
            let mut block = [1; 8192];
            target.read_exact_at(&mut block, 0).unwrap();
            assert!(block[..4096].iter().all(|byte| *byte == 0) && block[4096..].iter().all(|byte| *byte == 7));
            source.punch_hole(8192, 4096).unwrap();
            target.read_exact_at(&mut block, 0).unwrap();
            assert!(block[4096..].iter().all(|byte| *byte == 7), "each has its own");
        }
        [from, to].iter().for_each(|path| files::remove(path).unwrap());
    }
}
