//! Pinning threads to cores, and the descriptor limit.

use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Parses a list of cores such as `1`, `0,2` or `2-5`.
pub fn parse_cores(text: &str) -> Result<Vec<usize>, String> {
    let wrong = || format!("{text:?} is not a list of cores: give 1, or 0,2, or 2-5");
    let mut cores = Vec::new();
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: usize = first.trim().parse().map_err(|_| wrong())?;
        let last: usize = last.trim().parse().map_err(|_| wrong())?;
        if first > last || last >= CpuSet::MAX_CPU {
            return Err(wrong());
        }
        cores.extend(first..=last);
    }
    Ok(cores)
}

/// Confines the calling thread, and what it starts from now on, to `cores`.
pub fn pin_this_thread(cores: &[usize]) -> Result<(), String> {
    let mut set = CpuSet::new();
    cores.iter().filter(|&&core| core < CpuSet::MAX_CPU).for_each(|&core| set.set(core));
    sched_setaffinity(None, &set).map_err(|e| format!("cannot pin to cores {cores:?}: {e}; this process may use {:?}", allowed()))
}

/// The cores this process may use.
pub fn allowed() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect(),
        Err(_) => vec![0],
    }
}

/// Raises the soft limit of open files as far as needed and allowed.
pub fn raise_descriptor_limit(needed: u64) -> Result<(), String> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        return Err(format!("{needed} open files are needed; raise the limit first, for example with `ulimit -Hn {needed}`"));
    }
    limit.current = Some(needed);
    setrlimit(Resource::Nofile, limit).map_err(|e| format!("cannot raise the limit of open files to {needed}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_lists() {
        assert_eq!(parse_cores("0,2-4").unwrap(), [0, 2, 3, 4]);
        assert_eq!(parse_cores("").unwrap(), [0usize; 0]);
        assert!(parse_cores("4-2").is_err());
        assert!(parse_cores("x").is_err());
    }
}
