//! CPU time and resident memory of another process, from `/proc`.

use std::fs;

/// Processor time of a process and all its threads, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuTime {
    /// In its own code.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
}

/// User and system time of a process. The kernel's resolution is that of its tick, 10 ms as a rule.
pub fn cpu_time(pid: u32) -> Option<CpuTime> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (user, system) = parse_ticks(&stat)?;
    let seconds = |ticks: u64| ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    Some(CpuTime { user: seconds(user), system: seconds(system) })
}

/// The threads of a process by name, and the processor time of each in seconds, exact where the kernel keeps statistics of its
/// scheduler.
pub fn thread_seconds(pid: u32) -> Option<Vec<(String, f64)>> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.filter_map(Result::ok);
    let read = |thread: fs::DirEntry| {
        let text = |file: &str| fs::read_to_string(thread.path().join(file)).ok();
        let nanoseconds: u64 = text("schedstat")?.split_whitespace().next()?.parse().ok()?;
        Some((text("comm")?.trim().to_owned(), nanoseconds as f64 / 1e9))
    };
    Some(threads.filter_map(read).collect())
}

/// Least CPU time of a process that may be divided by operations: the kernel counts in steps of 10 ms, so less than ten of them
/// is no number.
pub const CPU_SECONDS_MIN: f64 = 0.1;

/// CPU time that everything on this machine has used, and what the hypervisor took from it, in seconds.
pub fn machine_cpu_seconds() -> Option<f64> {
    let ticks = parse_machine_ticks(&fs::read_to_string("/proc/stat").ok()?)?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// user, nice, system, irq, softirq and steal of the first line; guests are in user, and idle and iowait are no use of a core.
fn parse_machine_ticks(stat: &str) -> Option<u64> {
    let fields: Vec<u64> = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map_while(|f| f.parse().ok()).collect();
    [0, 1, 2, 5, 6, 7].into_iter().map(|at| fields.get(at).copied()).sum()
}

/// Both together, in seconds.
pub fn cpu_seconds(pid: u32) -> Option<f64> {
    cpu_time(pid).map(|time| time.user + time.system)
}

/// utime and stime: fields 14 and 15. The name in field 2 may contain blanks and parentheses, so fields count from its end.
fn parse_ticks(stat: &str) -> Option<(u64, u64)> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Resident memory in bytes.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    // smaps_rollup counts pages; the counters in statm and status lag by up to 64 pages per thread and type.
    let exact = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok().and_then(|text| kilobytes(&text, "Rss:"));
    exact.or_else(|| kilobytes(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmRSS:")).map(|kb| kb * 1024)
}

fn kilobytes(text: &str, field: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(field)?.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_ticks_behind_a_strange_name() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 17 25 0 0 20 0 4 0 100 1 2";
        assert_eq!(parse_ticks(stat), Some((17, 25)));
    }

    #[test]
    fn what_is_idle_does_not_count_for_the_machine() {
        let stat = "cpu  1 20 300 9999 9999 4000 50000 600000 9999 9999\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(parse_machine_ticks(stat), Some(654_321));
        assert!(machine_cpu_seconds().unwrap() > 0.0);
    }

    #[test]
    fn knows_itself() {
        let pid = std::process::id();
        assert!(cpu_seconds(pid).is_some());
        let threads = thread_seconds(pid).unwrap();
        assert!(threads.is_empty() || threads.iter().map(|(_, seconds)| seconds).sum::<f64>() > 0.0, "{threads:?}");
        assert!(resident_bytes(pid).unwrap() > 100_000);
        assert_eq!(kilobytes("Rss:      1234 kB\n", "Rss:"), Some(1234));
    }
}
