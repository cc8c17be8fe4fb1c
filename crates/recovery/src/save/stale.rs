//! What an earlier process has left of a snapshot that it did not finish.

use std::io;
use std::path::{Path, PathBuf};

use almandine_io::{files, process};

/// The name of a snapshot in a directory while a process writes it.
pub(super) fn temporary_of(directory: &Path, process: u32) -> PathBuf {
    directory.join(format!("temp-{process}.rdb"))
}

/// Removes unfinished snapshots of processes that are gone, and of earlier ones with this one's number, which has begun none yet.
/// Returns how many there were.
///
/// # Errors
/// When the directory cannot be read, or one cannot be removed.
pub fn remove_stale(directory: &Path) -> io::Result<usize> {
    let process_of = |name: &String| name.strip_prefix("temp-")?.strip_suffix(".rdb")?.parse::<u32>().ok();
    let mut removed = 0;
    for process in files::names(directory)?.iter().filter_map(process_of) {
        if process == process::id() || !files::is_directory(format!("/proc/{process}")) {
            files::remove(temporary_of(directory, process))?;
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_processes_that_are_gone_have_left_is_removed() {
        let directory = std::env::temp_dir().join(format!("almandine-stale-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let parent = std::os::unix::process::parent_id();
        let names = ["temp-4194304.rdb".to_owned(), format!("temp-{}.rdb", std::process::id()), format!("temp-{parent}.rdb")];
        let others = ["dump.rdb", "temp-.rdb", "temp-x.rdb", "temp-7.rdb.old"].map(str::to_owned);
        names.iter().chain(&others).for_each(|name| std::fs::write(directory.join(name), "x").unwrap());
        assert_eq!(remove_stale(&directory).unwrap(), 2);
        let mut left = files::names(&directory).unwrap();
        left.sort();
        let mut expected = [&others[..], &names[2..]].concat();
        expected.sort();
        assert_eq!(left, expected, "those of others, and of a process that lives, stay");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
