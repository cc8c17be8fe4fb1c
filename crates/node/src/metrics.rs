//! The metrics table: one row per figure, from which INFO's fields, the metrics reference and later the Prometheus page are derived.
//!
//! A row is a name that Redis' INFO uses where Redis has the figure, so that dashboards work unchanged.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use almandine_io::clock;

use crate::{Node, REDIS_VERSION, VERSION};

/// The part of INFO in which a metric appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// `# Server`.
    Server,
    /// `# Clients`.
    Clients,
    /// `# Memory`.
    Memory,
    /// `# Stats`.
    Stats,
}

/// What a metric is to Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows, until CONFIG RESETSTAT.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A text; not exported as a number.
    Text,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValue {
    /// A whole number.
    Integer(u64),
    /// A number with two decimals.
    Decimal(f64),
    /// A text.
    Text(String),
}

impl fmt::Display for MetricValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Decimal(value) => write!(f, "{value:.2}"),
            Self::Text(value) => f.write_str(value),
        }
    }
}

/// One row.
#[derive(Debug)]
pub struct Metric {
    /// The field's name in INFO.
    pub name: &'static str,
    /// Where it appears.
    pub section: Section,
    /// What it is.
    pub kind: MetricKind,
    /// What it counts, with its unit.
    pub help: &'static str,
    /// Reads it.
    pub value: fn(&Node) -> MetricValue,
}

macro_rules! metrics {
    ($($section:ident $kind:ident $name:ident: $help:literal = $value:expr;)+) => {
        /// All metrics, in the order of INFO.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: stringify!($name),
            section: Section::$section,
            kind: MetricKind::$kind,
            help: $help,
            value: $value,
        }),+];
    };
}

use MetricValue::{Decimal, Integer, Text};

metrics! {
    Server Text redis_version: "The version of Redis whose behaviour is answered" = |_| Text(REDIS_VERSION.to_owned());
    Server Text server_name: "The server's name" = |_| Text("almandine".to_owned());
    Server Text almandine_version: "Our version" = |_| Text(VERSION.to_owned());
    Server Text redis_mode: "standalone, until clusters exist" = |_| Text("standalone".to_owned());
    Server Text os: "Operating system and architecture" = |_| Text(format!("{} {}", std::env::consts::OS, std::env::consts::ARCH));
    Server Gauge arch_bits: "Width of a pointer" = |_| Integer(u64::from(usize::BITS));
    Server Gauge process_id: "The process' number" = |_| Integer(u64::from(std::process::id()));
    Server Text run_id: "40 hexadecimal digits that name this run" = |node| Text(node.run_id.clone());
    Server Gauge server_time_usec: "Wall-clock time in microseconds" = |_| Integer(clock::unix_us().unsigned_abs());
    Server Gauge uptime_in_seconds: "Seconds since the start" = |node| Integer(node.uptime_s());
    Server Gauge uptime_in_days: "Days since the start" = |node| Integer(node.uptime_s() / 86_400);
    Server Gauge io_threads_active: "Workers, when there is more than one" = |node| Integer(u64::from(node.worker_count > 1));
    Server Gauge workers: "Workers, each with a reactor and its sessions" = |node| Integer(node.worker_count as u64);
    Clients Gauge connected_clients: "Connections" = |node| Integer(node.clients.connected() as u64);
    Clients Gauge blocked_clients: "Connections that wait for data" = |_| Integer(0);
    Clients Gauge tracking_clients: "Connections with client-side caching" = |_| Integer(0);
    Clients Gauge client_output_pending_bytes: "Bytes of replies that peers have not taken" = |node| {
        Integer(node.network.output_pending_bytes.load(Relaxed))
    };
    Clients Gauge client_input_buffer_bytes: "Bytes reserved for incomplete input" = |node| {
        Integer(node.network.input_buffer_bytes.load(Relaxed))
    };
    Memory Gauge used_memory_rss: "Bytes of the process in memory" = |_| Integer(resident_bytes());
    Memory Gauge used_memory: "Bytes that count against maxmemory" = |node| Integer(node.keyspace.used_memory());
    Stats Counter total_connections_received: "Connections accepted" = |node| Integer(node.statistics.totals().connections_received);
    Stats Counter total_commands_processed: "Commands executed" = |node| Integer(node.statistics.totals().commands_processed);
    Stats Gauge instantaneous_ops_per_sec: "Commands per second of late" = |node| Integer(node.rates.commands_per_s());
    Stats Counter total_net_input_bytes: "Bytes read from clients" = |node| Integer(node.statistics.totals().net_input_bytes);
    Stats Counter total_net_output_bytes: "Bytes of replies" = |node| Integer(node.statistics.totals().net_output_bytes);
    Stats Gauge instantaneous_input_kbps: "KiB per second read of late" = |node| Decimal(node.rates.input_kib_per_s());
    Stats Gauge instantaneous_output_kbps: "KiB per second of replies of late" = |node| Decimal(node.rates.output_kib_per_s());
    Stats Counter rejected_connections: "Connections refused" = |node| {
        Integer(node.statistics.totals().connections_rejected + node.network.connections_rejected.load(Relaxed))
    };
    Stats Counter keyspace_hits: "Look-ups that found a key" = |node| Integer(node.statistics.totals().keyspace_hits);
    Stats Counter keyspace_misses: "Look-ups that found none" = |node| Integer(node.statistics.totals().keyspace_misses);
    Stats Counter unexpected_error_replies: "Error replies that only a defect explains" = |_| Integer(0);
    Stats Counter total_error_replies: "Error replies" = |node| Integer(node.statistics.totals().error_replies);
    Stats Counter total_reads_processed: "Chunks of input worked on" = |node| Integer(node.statistics.totals().reads_processed);
    Stats Counter total_writes_processed: "Batches of replies sent" = |node| Integer(node.statistics.totals().writes_processed);
    Stats Counter acl_access_denied_auth: "Failed authentications" = |node| Integer(node.statistics.totals().authentications_failed);
    Stats Counter refused_out_of_memory: "Commands refused beyond maxmemory" = |node| Integer(node.statistics.totals().refused_out_of_memory);
}

/// Bytes of the process that are in memory; 0 where the system does not tell.
fn resident_bytes() -> u64 {
    let field = |line: &str| line.trim_start_matches("VmRSS:").trim().trim_end_matches("kB").trim().parse::<u64>().ok();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find(|line| line.starts_with("VmRSS:")).and_then(field).map_or(0, |kib| kib * 1024)
}

/// The metrics of one section, with their values.
pub fn section(node: &Node, section: Section) -> impl Iterator<Item = (&'static str, MetricValue)> {
    METRICS.iter().filter(move |metric| metric.section == section).map(|metric| (metric.name, (metric.value)(node)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
    }
}
