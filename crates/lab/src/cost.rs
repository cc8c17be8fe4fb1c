//! What an operation costs the server, user and system time apart: measured, tabled beside other servers, held against limits.

use std::time::Instant;

use serde_json::{Value, json};

use super::servers::Subject;
use almandine_bench::report::statistics::{Spread, ratio};
use almandine_bench::report::table::{Table, count, small};
use almandine_bench::system::process::{self, CpuTime};

/// One measurement.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Microseconds per operation in the server's own code.
    pub user_us: f64,
    /// Microseconds per operation in the kernel.
    pub system_us: f64,
    /// Operations per second.
    pub rate: f64,
    /// Whether the server used as much time as the kernel counts well; what is not measured is in no median.
    pub is_measured: bool,
}

/// A measurement under way.
#[derive(Debug)]
pub struct Meter {
    pid: u32,
    before: CpuTime,
    begin: Instant,
}

impl Meter {
    /// Begins. Fails when the server's process cannot be seen.
    pub fn start(subject: &Subject) -> Result<Self, String> {
        let pid =
            subject.pid.ok_or_else(|| format!("{}: processor time is read for servers on this machine only", subject.name))?;
        Ok(Self { pid, before: cpu_time(pid)?, begin: Instant::now() })
    }

    /// Ends, after this many operations.
    pub fn stop(self, operations: u64) -> Result<Cost, String> {
        let (after, seconds) = (cpu_time(self.pid)?, self.begin.elapsed().as_secs_f64());
        let of = |seconds: f64| seconds * 1e6 / operations.max(1) as f64;
        let used = after.user + after.system - self.before.user - self.before.system;
        Ok(Cost {
            is_measured: operations > 0 && used >= process::CPU_SECONDS_MIN,
            user_us: of(after.user - self.before.user),
            system_us: of(after.system - self.before.system),
            rate: operations as f64 / seconds,
        })
    }
}

fn cpu_time(pid: u32) -> Result<CpuTime, String> {
    process::cpu_time(pid).ok_or_else(|| format!("process {pid} is gone"))
}

impl Cost {
    /// User and system time.
    pub fn total_us(&self) -> f64 {
        self.user_us + self.system_us
    }

    /// For the JSON report.
    pub fn json(&self) -> Value {
        let measured = |value: f64| self.is_measured.then_some(value);
        json!({
            "server_user_us_per_op": measured(self.user_us),
            "server_system_us_per_op": measured(self.system_us),
            "server_cpu_us_per_op": measured(self.total_us()),
            "per_second": self.rate,
        })
    }
}

/// Shares of the baseline's time that are allowed.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// Of all its time.
    pub total: f64,
    /// Of its user time.
    pub user: f64,
}

/// The same load on several servers, with the repeats of each.
#[derive(Debug)]
pub struct Costs<'n> {
    /// What was measured.
    pub title: String,
    /// The servers.
    pub names: &'n [&'n str],
    /// The one that ratios refer to.
    pub baseline: usize,
    /// Per server.
    pub runs: Vec<Vec<Cost>>,
}

impl<'n> Costs<'n> {
    /// Nothing yet.
    pub fn new(title: String, names: &'n [&'n str], baseline: usize) -> Self {
        Self { title, names, baseline, runs: vec![Vec::new(); names.len()] }
    }

    /// Each measurement, with its server's name.
    pub fn each(&self) -> impl Iterator<Item = (&str, &Cost)> {
        self.names.iter().zip(&self.runs).flat_map(|(name, costs)| costs.iter().map(|cost| (*name, cost)))
    }

    /// Over the repeats of a server.
    pub fn spread(&self, server: usize, of: impl Fn(&Cost) -> f64) -> Option<Spread> {
        Spread::of(self.runs[server].iter().filter(|cost| cost.is_measured).map(of))
    }

    fn share(&self, server: usize, of: fn(&Cost) -> f64) -> (Option<f64>, Option<f64>) {
        let median = |server| self.spread(server, of).map(|spread| spread.median);
        (median(server), median(self.baseline))
    }

    /// A row per server: medians, ranges and ratios. `unit` is what is counted per second.
    pub fn table(&self, unit: &str) -> Table {
        let rate = format!("{unit}/s");
        let mut table = Table::new(&["server", "CPU µs", "× CPU", "user µs", "× user", "system µs", &rate]);
        for (server, name) in self.names.iter().enumerate() {
            let show = |of: fn(&Cost) -> f64| self.spread(server, of).map_or("–".into(), |spread| spread.show(small));
            let times = |of: fn(&Cost) -> f64| {
                let (of, to) = self.share(server, of);
                ratio(of, to)
            };
            table.row([
                (*name).to_owned(),
                show(Cost::total_us),
                times(Cost::total_us),
                show(|cost| cost.user_us),
                times(|cost| cost.user_us),
                show(|cost| cost.system_us),
                self.spread(server, |cost| cost.rate).map_or("–".into(), |spread| count(spread.median)),
            ]);
        }
        table
    }

    /// How many measurements are in no median, and why.
    pub fn warning(&self) -> Option<String> {
        let left_out = self.each().filter(|(_, cost)| !cost.is_measured).count();
        let why = "the server answered nothing or used less than 0.1 s of CPU, which the kernel counts in steps of 10 ms";
        (left_out > 0).then(|| format!("{left_out} measurements are in no median (–), since {why}: measure longer"))
    }

    /// What to say of each limit that the first server misses.
    pub fn misses(&self, limit: Limit) -> Vec<String> {
        let check = |word: &str, of: fn(&Cost) -> f64, allowed: f64| {
            let (ours, theirs) = self.share(0, of);
            let share = ours? / theirs.filter(|time| *time > 0.0)?;
            let (title, baseline) = (&self.title, self.names[self.baseline]);
            (share > allowed).then(|| format!("{title}: {share:.3} of {baseline}'s {word}, allowed are {allowed}"))
        };
        let total = check("CPU", Cost::total_us, limit.total);
        total.into_iter().chain(check("user time", |cost| cost.user_us, limit.user)).collect()
    }
}

/// Prints what was missed, or that nothing was; true when something was.
pub fn print_misses(limits: usize, missed: &[String]) -> bool {
    missed.iter().for_each(|line| println!("MISSED  {line}"));
    if missed.is_empty() && limits > 0 {
        println!("all {limits} limits hold");
    }
    !missed.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(ours: [f64; 2], theirs: [f64; 2]) -> Costs<'static> {
        let cost = |[user_us, system_us]: [f64; 2]| Cost { user_us, system_us, rate: 1.0, is_measured: true };
        let mut costs = Costs::new("PUBLISH".into(), &["ours", "theirs"], 1);
        costs.runs = vec![vec![cost(ours); 3], vec![cost(theirs); 3]];
        costs
    }

    #[test]
    fn limits_are_of_all_time_and_of_user_time() {
        let limit = Limit { total: 1.0, user: 0.5 };
        assert!(costs([4.0, 10.0], [8.0, 6.0]).misses(limit).is_empty());
        let missed = costs([5.0, 10.0], [8.0, 6.0]).misses(limit);
        assert_eq!(missed.len(), 2, "{missed:?}");
        assert!(missed[0].contains("1.071 of theirs's CPU") && missed[1].contains("0.625 of theirs's user time"), "{missed:?}");
        assert!(costs([1.0, 1.0], [0.0, 0.0]).misses(limit).is_empty(), "no baseline, no ratio");
    }

    #[test]
    fn what_was_not_measured_is_a_dash_and_in_no_median() {
        let mut costs = costs([4.0, 10.0], [8.0, 6.0]);
        assert_eq!(costs.warning(), None);
        costs.runs[0][0] = Cost { user_us: 0.0, system_us: 0.0, rate: 0.0, is_measured: false };
        assert_eq!(costs.spread(0, Cost::total_us).unwrap().min, 14.0);
        assert!(costs.warning().unwrap().starts_with("1 measurements"));
        costs.runs[0].iter_mut().for_each(|cost| cost.is_measured = false);
        let text = costs.table("publishes").to_string();
        assert!(text.contains('–') && !text.contains("0.000"), "{text}");
    }

    #[test]
    fn tables_have_both_parts() {
        let text = costs([4.0, 10.0], [8.0, 6.0]).table("publishes").to_string();
        assert!(text.contains("14.0 (14.0–14.0)") && text.contains("1.00×") && text.contains("0.500×"), "{text}");
    }
}
