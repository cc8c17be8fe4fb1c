//! A family of metrics: one row of the table.

use almandine_handler::Table;
use almandine_instance::metrics::{METRICS, Metric, MetricKind, MetricValue, Readings};

use super::samples::Samples;

/// What a family is to Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    /// Only grows, until CONFIG RESETSTAT or a restart. Its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Labels, and the number 1. Its name ends in `_info`.
    Info,
    /// Counts of durations.
    Histogram,
}

/// One row.
pub struct Family {
    /// Its name, with what the kind adds to it.
    pub name: &'static str,
    /// Names of its labels, without `le`.
    pub labels: &'static [&'static str],
    source: Source,
}

/// What families are read from.
pub(super) struct Sources<'r> {
    pub(super) readings: Readings<'r>,
    pub(super) table: &'static Table,
}

/// Adds the samples of a family.
type Add = fn(&Sources<'_>, &mut Samples<'_>);

enum Source {
    /// A number in INFO, by its name there.
    Field(&'static str),
    /// A text in INFO: 1 for `ok`, 0 for anything else.
    Flag(&'static str),
    Own(FamilyKind, &'static str, Add),
}

/// A number in INFO.
pub(super) const fn field(name: &'static str, info: &'static str) -> Family {
    Family { name, labels: &[], source: Source::Field(info) }
}

/// A text in INFO: 1 for `ok`, 0 for anything else.
pub(super) const fn flag(name: &'static str, info: &'static str) -> Family {
    Family { name, labels: &[], source: Source::Flag(info) }
}

/// What `add` adds.
pub(super) const fn own(
    name: &'static str,
    kind: FamilyKind,
    labels: &'static [&'static str],
    help: &'static str,
    add: Add,
) -> Family {
    Family { name, labels, source: Source::Own(kind, help, add) }
}

impl Family {
    /// What it is.
    #[must_use]
    pub fn kind(&self) -> FamilyKind {
        match &self.source {
            Source::Field(info) if row(info).kind == MetricKind::Counter => FamilyKind::Counter,
            Source::Field(_) | Source::Flag(_) => FamilyKind::Gauge,
            Source::Own(kind, ..) => *kind,
        }
    }

    /// What it tells, with its unit.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match &self.source {
            Source::Field(info) | Source::Flag(info) => row(info).help,
            Source::Own(_, help, _) => help,
        }
    }

    /// The field of INFO that it shows; `None` where there is no single one.
    #[must_use]
    pub fn info(&self) -> Option<&'static str> {
        match &self.source {
            Source::Field(info) | Source::Flag(info) => Some(info),
            Source::Own(..) => None,
        }
    }

    /// The name without what the kind adds to it.
    #[must_use]
    pub fn base(&self) -> &'static str {
        let suffix = match self.kind() {
            FamilyKind::Counter => "_total",
            FamilyKind::Info => "_info",
            FamilyKind::Gauge | FamilyKind::Histogram => "",
        };
        self.name.strip_suffix(suffix).unwrap_or(self.name)
    }

    /// The unit, where the name says one that OpenMetrics knows.
    #[must_use]
    pub fn unit(&self) -> Option<&'static str> {
        let (_, last) = self.base().rsplit_once('_')?;
        ["bytes", "seconds", "ratio"].into_iter().find(|unit| *unit == last)
    }

    pub(super) fn read(&self, sources: &Sources<'_>, samples: &mut Samples<'_>) {
        match &self.source {
            Source::Field(info) => match (row(info).value)(&sources.readings) {
                MetricValue::Integer(value) => samples.add(&[], value),
                MetricValue::Signed(value) => samples.add(&[], value),
                MetricValue::Decimal(value) | MetricValue::Percent(value) => samples.add(&[], value),
                MetricValue::Microseconds(us) => samples.add_ns(&[], us.saturating_mul(1000)),
                MetricValue::Text(text) => debug_assert!(false, "{info} is a text: {text}"),
                MetricValue::Absent => {}
            },
            Source::Flag(info) => match (row(info).value)(&sources.readings) {
                MetricValue::Text(text) => samples.add(&[], u8::from(text == "ok")),
                value => debug_assert!(false, "{info} is no text: {value}"),
            },
            Source::Own(_, _, add) => add(sources, samples),
        }
    }
}

/// The row of INFO's table.
///
/// # Panics
/// Never: a test looks at each name.
fn row(info: &str) -> &'static Metric {
    METRICS.iter().find(|metric| metric.name == info).unwrap_or_else(|| unreachable!("INFO has no {info}"))
}
