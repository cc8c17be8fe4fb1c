//! Facts about the machine that a reader of a result must know. Read only: nothing is set.

use std::fs;

use serde_json::{Value, json};

use super::affinity;

/// The facts of this machine.
#[derive(Debug, Clone)]
pub struct Machine {
    cores: usize,
    processor: String,
    kernel: String,
    memory_gib: f64,
    huge_pages: String,
    halt_poll_ns: Option<u64>,
    governor: Option<String>,
    congestion: Option<String>,
}

impl Machine {
    /// Reads them.
    pub fn inspect() -> Self {
        let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let field = |path: &str, name: &str| {
            let text = read(path)?;
            text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim_start_matches([' ', '\t', ':']).to_owned()))
        };
        let memory_kb = field("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        let huge_pages = read("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_else(|| "unknown".into());
        Self {
            cores: affinity::allowed().len(),
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
            memory_gib: memory_kb.unwrap_or(0.0) / (1024.0 * 1024.0),
            huge_pages: huge_pages.split(['[', ']']).nth(1).unwrap_or(&huge_pages).to_owned(),
            halt_poll_ns: read("/sys/module/haltpoll/parameters/guest_halt_poll_ns").and_then(|text| text.parse().ok()),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            congestion: read("/proc/sys/net/ipv4/tcp_congestion_control"),
        }
    }

    /// One line for the head of a report.
    pub fn line(&self) -> String {
        let halt = self.halt_poll_ns.map_or("no haltpoll".into(), |ns| format!("guest_halt_poll_ns {ns}"));
        let governor = self.governor.as_deref().map(|g| format!(", governor {g}")).unwrap_or_default();
        let congestion = self.congestion.as_deref().map(|c| format!(", TCP {c}")).unwrap_or_default();
        format!(
            "{} cores of {}, Linux {}, {:.0} GiB, huge pages {}, {halt}{congestion}{governor}",
            self.cores, self.processor, self.kernel, self.memory_gib, self.huge_pages
        )
    }

    /// What would make results steadier here, if anything.
    pub fn advice(&self) -> Option<String> {
        match self.halt_poll_ns {
            Some(ns) if ns < 200_000 => Some(
                "idle virtual cores wake slowly here; for steadier results, as root: \
                 echo 200000 > /sys/module/haltpoll/parameters/guest_halt_poll_ns (and say so with the result)"
                    .into(),
            ),
            _ => None,
        }
    }

    /// For the JSON report.
    pub fn json(&self) -> Value {
        json!({
            "cores": self.cores,
            "processor": self.processor,
            "kernel": self.kernel,
            "memory_gib": self.memory_gib,
            "huge_pages": self.huge_pages,
            "guest_halt_poll_ns": self.halt_poll_ns,
            "governor": self.governor,
            "tcp_congestion_control": self.congestion,
        })
    }
}
