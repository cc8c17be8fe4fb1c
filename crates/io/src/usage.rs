//! What the process has used, in the system's view: processor time and resident memory.

use std::mem::MaybeUninit;

/// Processor time in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// Spent in the process' own code.
    pub user_us: u64,
    /// Spent in the kernel on its behalf.
    pub system_us: u64,
}

/// Of all threads since the start.
#[must_use]
pub fn process() -> ProcessorTime {
    usage(libc::RUSAGE_SELF)
}

/// Of children that have ended and were waited for.
#[must_use]
pub fn children() -> ProcessorTime {
    usage(libc::RUSAGE_CHILDREN)
}

/// The most bytes that any child which was waited for has had in memory at once.
#[must_use]
pub fn children_resident_most() -> u64 {
    u64::try_from(resources(libc::RUSAGE_CHILDREN).ru_maxrss).unwrap_or(0) * 1024
}

/// Of the calling thread.
#[must_use]
pub fn thread() -> ProcessorTime {
    usage(libc::RUSAGE_THREAD)
}

/// The names of all threads, and the processor time of each in nanoseconds. Threads that end meanwhile are left out; so is
/// everything where the system does not tell.
#[must_use]
pub fn threads() -> Vec<(String, u64)> {
    #[cfg(feature = "sim")]
    if crate::sim::turn::simulation().is_some() {
        return Vec::new();
    }
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let paths = tasks.filter_map(|task| Some(task.ok()?.path()));
    paths
        .filter_map(|path| {
            let name = std::fs::read_to_string(path.join("comm")).ok()?;
            let times = std::fs::read_to_string(path.join("schedstat")).ok()?;
            Some((name.trim().to_owned(), times.split(' ').next()?.parse().ok()?))
        })
        .collect()
}

fn usage(who: libc::c_int) -> ProcessorTime {
    #[cfg(feature = "sim")]
    if crate::sim::turn::simulation().is_some() {
        return ProcessorTime::default();
    }
    let usage = resources(who);
    ProcessorTime { user_us: microseconds(usage.ru_utime), system_us: microseconds(usage.ru_stime) }
}

fn resources(who: libc::c_int) -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one `rusage` to the place given to it; all zeroes, which a failure leaves, are a valid one.
    unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    }
}

fn microseconds(time: libc::timeval) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_usec).unwrap_or(0)
}

/// Bytes of the process that are in memory; 0 where the system does not tell.
#[must_use]
pub fn resident_bytes() -> u64 {
    #[cfg(feature = "sim")]
    if crate::sim::turn::simulation().is_some() {
        return 0;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_names_and_processor_time() {
        let name = "usage-of-threads";
        let (send, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::Builder::new().name(name[..15].to_owned()).spawn(move || wait.recv()).unwrap();
        let find = || threads().into_iter().find(|(other, ns)| *other == name[..15] && *ns > 0);
        while find().is_none() {
            std::thread::yield_now();
        }
        drop(send);
        assert!(other.join().unwrap().is_err(), "nothing was sent");
    }

    #[test]
    fn a_running_process_has_used_something() {
        let before = thread();
        let mut sum = 0_u64;
        while thread() == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let (all, own) = (process(), thread());
        assert!(all.user_us + all.system_us >= own.user_us + own.system_us);
        assert!(resident_bytes() > 100_000);
    }
}
