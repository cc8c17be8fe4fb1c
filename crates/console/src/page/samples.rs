//! Samples as text: OpenMetrics, and the older format of Prometheus.

use std::fmt::{Display, Write};

use almandine_instance::Histogram;

use super::family::{Family, FamilyKind};

/// How a page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format 0.0.4 of Prometheus.
    Prometheus,
}

impl Format {
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// An upper end of a bucket, and how both formats write it.
pub(super) type Bucket = (u64, &'static str);

/// Writes the samples of one family, behind its description, which is left out where there are none.
pub(super) struct Samples<'t> {
    text: &'t mut String,
    family: &'t Family,
    format: Format,
    is_described: bool,
}

impl<'t> Samples<'t> {
    pub(super) fn new(text: &'t mut String, family: &'t Family, format: Format) -> Self {
        Self { text, family, format, is_described: false }
    }

    /// A sample with the values of the family's labels.
    pub(super) fn add(&mut self, labels: &[&str], value: impl Display) {
        self.sample("", labels, None, value);
    }

    /// A duration, shown in seconds.
    pub(super) fn add_ns(&mut self, labels: &[&str], ns: u64) {
        self.add(labels, Seconds(ns));
    }

    /// The number of durations up to the end of each bucket and in all, and their sum, which `sum` shows in the family's unit.
    pub(super) fn add_histogram<S: Display>(
        &mut self,
        labels: &[&str],
        histogram: &Histogram,
        buckets: &[Bucket],
        sum: fn(u64) -> S,
    ) {
        // Workers go on recording: what is counted later must not be less than what was before.
        let mut counted = 0;
        for (limit_ns, end) in buckets {
            counted = histogram.at_most(*limit_ns).max(counted);
            self.sample("_bucket", labels, Some(end), counted);
        }
        let count = histogram.count().max(counted);
        self.sample("_bucket", labels, Some("+Inf"), count);
        self.sample("_count", labels, None, count);
        self.sample("_sum", labels, None, sum(histogram.sum_ns()));
    }

    fn sample(&mut self, suffix: &str, labels: &[&str], end: Option<&str>, value: impl Display) {
        debug_assert_eq!(labels.len(), self.family.labels.len(), "{}", self.family.name);
        self.describe();
        self.text.push_str(self.family.name);
        self.text.push_str(suffix);
        let mut before = '{';
        for (name, value) in
            self.family.labels.iter().zip(labels).map(|(name, value)| (*name, *value)).chain(end.map(|end| ("le", end)))
        {
            self.text.push(before);
            self.text.push_str(name);
            self.text.push_str("=\"");
            escape(self.text, value, true);
            self.text.push('"');
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
        // Writing to a String does not fail.
        let _ = writeln!(self.text, " {value}");
    }

    fn describe(&mut self) {
        if std::mem::replace(&mut self.is_described, true) {
            return;
        }
        let (family, is_open) = (self.family, self.format == Format::OpenMetrics);
        let name = if is_open { family.base() } else { family.name };
        let kind = match family.kind() {
            FamilyKind::Counter => "counter",
            FamilyKind::Info if is_open => "info",
            FamilyKind::Gauge | FamilyKind::Info => "gauge",
            FamilyKind::Histogram => "histogram",
        };
        // Writing to a String does not fail.
        let _ = write!(self.text, "# HELP {name} ");
        escape(self.text, family.help(), is_open);
        let _ = writeln!(self.text, "\n# TYPE {name} {kind}");
        if let Some(unit) = family.unit().filter(|_| is_open) {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
    }
}

/// Text within quotes, or a help, where only OpenMetrics escapes quotes.
fn escape(into: &mut String, text: &str, quotes: bool) {
    for c in text.chars() {
        match c {
            '\\' => into.push_str("\\\\"),
            '\n' => into.push_str("\\n"),
            '"' if quotes => into.push_str("\\\""),
            _ => into.push(c),
        }
    }
}

/// Nanoseconds as seconds, without loss.
pub(super) struct Seconds(pub(super) u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::super::family::own;
    use super::*;

    fn written(family: &Family, format: Format, add: impl FnOnce(&mut Samples<'_>)) -> String {
        let mut text = String::new();
        add(&mut Samples::new(&mut text, family, format));
        text
    }

    #[test]
    fn both_formats_are_as_their_specifications_say() {
        let family = own("a_seconds_total", FamilyKind::Counter, &["x"], "Says \"a\"\nand \\", |_, _| {});
        let add = |samples: &mut Samples<'_>| {
            samples.add_ns(&["q\"\\\n"], 1_500_000_000);
            samples.add(&["é"], 2_u64);
        };
        assert_eq!(
            written(&family, Format::OpenMetrics, add),
            "# HELP a_seconds Says \\\"a\\\"\\nand \\\\\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
             a_seconds_total{x=\"q\\\"\\\\\\n\"} 1.500000000\na_seconds_total{x=\"é\"} 2\n"
        );
        assert_eq!(
            written(&family, Format::Prometheus, add),
            "# HELP a_seconds_total Says \"a\"\\nand \\\\\n# TYPE a_seconds_total counter\n\
             a_seconds_total{x=\"q\\\"\\\\\\n\"} 1.500000000\na_seconds_total{x=\"é\"} 2\n"
        );
        assert_eq!(written(&family, Format::OpenMetrics, |_| {}), "", "a family without samples is not described");
    }

    #[test]
    fn a_histogram_counts_up() {
        let family = own("h_seconds", FamilyKind::Histogram, &[], "H", |_, _| {});
        let histogram = Histogram::default();
        histogram.record(10, 2);
        histogram.record(5_000, 1);
        let text = written(&family, Format::OpenMetrics, |samples| {
            samples.add_histogram(&[], &histogram, &[(1_000, "1e-06"), (8_000, "8e-06")], Seconds);
        });
        let expected = "h_seconds_bucket{le=\"1e-06\"} 2\nh_seconds_bucket{le=\"8e-06\"} 3\nh_seconds_bucket{le=\"+Inf\"} 3\n\
                        h_seconds_count 3\nh_seconds_sum 0.00000";
        assert!(text.contains(expected), "{text}");
    }
}
