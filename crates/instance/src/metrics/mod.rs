//! The metrics table: one row per figure, from which INFO's fields and their reference are derived. The page for Prometheus
//! reads its numbers here.
//!
//! A row has the name that Redis' INFO gives the figure where Redis has it, so that dashboards work unchanged. What Almandine does
//! not have yet (scripts, publish/subscribe, replicas) is truly zero and stands there as such, because dashboards sum it up. Rows
//! are functions of [`Readings`], which are taken once, so that the figures of one INFO belong together.

mod readings;
mod table;

use std::fmt;

pub use readings::{Readings, human};
pub use table::METRICS;

/// The part of INFO in which a metric appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// `# Server`.
    Server,
    /// `# Clients`.
    Clients,
    /// `# Memory`.
    Memory,
    /// `# Persistence`.
    Persistence,
    /// `# Stats`.
    Stats,
    /// `# Replication`.
    Replication,
    /// `# CPU`.
    Cpu,
    /// `# Cluster`.
    Cluster,
    /// `# Storage`, which only Almandine has.
    Storage,
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
    /// A whole number that may be negative.
    Signed(i64),
    /// A number with two decimals.
    Decimal(f64),
    /// Microseconds, shown as seconds with six decimals.
    Microseconds(u64),
    /// A share, shown as per cent with two decimals.
    Percent(f64),
    /// A text.
    Text(String),
    /// Not shown now.
    Absent,
}

impl fmt::Display for MetricValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Signed(value) => write!(f, "{value}"),
            Self::Decimal(value) => write!(f, "{value:.2}"),
            Self::Microseconds(us) => write!(f, "{}.{:06}", us / 1_000_000, us % 1_000_000),
            Self::Percent(share) => write!(f, "{:.2}%", share * 100.0),
            Self::Text(value) => f.write_str(value),
            Self::Absent => Ok(()),
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
    pub value: fn(&Readings<'_>) -> MetricValue,
}

/// The metrics of one section that are shown now, with their values.
pub fn section<'r>(readings: &'r Readings<'_>, section: Section) -> impl Iterator<Item = (&'static str, MetricValue)> + use<'r> {
    let metrics = METRICS.iter().filter(move |metric| metric.section == section);
    metrics.map(|metric| (metric.name, (metric.value)(readings))).filter(|(_, value)| *value != MetricValue::Absent)
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

    #[test]
    fn values_look_as_in_redis() {
        assert_eq!(MetricValue::Microseconds(3_835).to_string(), "0.003835");
        assert_eq!(MetricValue::Percent(0.9984).to_string(), "99.84%");
        assert_eq!(human(943 * 1024 + 358), "943.35K");
        assert_eq!((human(0), human(1023), human(25_276_502_016)), ("0B".into(), "1023B".into(), "23.54G".into()));
    }
}
