//! Plain text tables and readable numbers.

use std::fmt;

use super::sample::Sample;

/// Rows of cells; the first column is text, the others are aligned to the right unless they are text too.
#[derive(Debug, Clone)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|&h| h.to_owned()).collect()] }
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// One row per sample.
    pub fn of_samples(samples: &[Sample]) -> Self {
        let mut table = Self::new(&[
            "server",
            "operation",
            "keys",
            "value",
            "conns",
            "P",
            "ops/s",
            "server µs/op",
            "client µs/op",
            "p50 µs",
            "p99 µs",
            "p99.9 µs",
            "max µs",
            "errors",
            "nulls",
        ]);
        for sample in samples {
            let m = &sample.measurement;
            table.row([
                sample.server.clone(),
                sample.operation.clone(),
                count(sample.keys as f64),
                sample.value.clone(),
                sample.connections.to_string(),
                sample.pipeline.to_string(),
                or_dash(m.throughput(), count),
                or_dash(m.server_cpu_us(), small),
                or_dash(m.client_cpu_us(), small),
                or_dash(m.latency_us(0.5), small),
                or_dash(m.latency_us(0.99), small),
                or_dash(m.latency_us(0.999), small),
                or_dash(m.latency_us(1.0), small),
                m.tally.errors.to_string(),
                count(m.tally.nulls as f64),
            ]);
        }
        table
    }
}

/// Characters of a line; wider tables say what all rows share above themselves.
const WIDTH_MAX: usize = 118;
/// Columns that stay in the table even when all rows share them: what was measured.
const KEPT: [&str; 4] = ["ops/s", "server µs/op", "p99 µs", "errors"];

impl Table {
    fn cell(&self, row: usize, column: usize) -> &str {
        self.rows[row].get(column).map_or("", String::as_str)
    }

    fn width(&self, column: usize) -> usize {
        (0..self.rows.len()).map(|row| self.cell(row, column).chars().count()).max().unwrap_or(0)
    }

    fn is_numeric(&self, column: usize) -> bool {
        let number = |row| self.cell(row, column).starts_with(|c: char| c.is_ascii_digit() || c == '–');
        column > 0 && (1..self.rows.len()).all(number)
    }

    fn is_shared(&self, column: usize) -> bool {
        let kept = column == 0 || KEPT.contains(&self.cell(0, column));
        !kept && self.rows.len() > 1 && (2..self.rows.len()).all(|row| self.cell(row, column) == self.cell(1, column))
    }

    /// The columns that are shown, and those that all rows share and that make the table too wide, the first ones first.
    fn fit(&self) -> (Vec<usize>, Vec<usize>) {
        let mut shown: Vec<usize> = (0..self.rows.iter().map(Vec::len).max().unwrap_or(0)).collect();
        let mut shared = Vec::new();
        let total = |columns: &[usize]| columns.iter().map(|column| self.width(*column) + 2).sum::<usize>().saturating_sub(2);
        while total(&shown) > WIDTH_MAX {
            let Some(at) = shown.iter().position(|column| self.is_shared(*column)) else { break };
            shared.push(shown.remove(at));
        }
        (shown, shared)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, shared) = self.fit();
        if !shared.is_empty() {
            let parts: Vec<String> =
                shared.iter().map(|column| format!("{} {}", self.cell(0, *column), self.cell(1, *column))).collect();
            writeln!(f, "{}", parts.join(" · "))?;
        }
        for number in 0..self.rows.len() {
            let line: Vec<String> = shown
                .iter()
                .map(|column| {
                    let (text, width) = (self.cell(number, *column), self.width(*column));
                    if self.is_numeric(*column) { format!("{text:>width$}") } else { format!("{text:<width$}") }
                })
                .collect();
            writeln!(f, "{}", line.join("  ").trim_end())?;
            if number == 0 {
                writeln!(f, "{}", "─".repeat(line.join("  ").chars().count()))?;
            }
        }
        Ok(())
    }
}

/// A number, or a dash for what was not measured.
pub fn or_dash(value: Option<f64>, format: fn(f64) -> String) -> String {
    value.map_or("–".into(), format)
}

/// A large number with a unit: 950, 12.3k, 4.56M.
pub fn count(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.2}G", v / 1e9),
        v if v >= 1e6 => format!("{:.2}M", v / 1e6),
        v if v >= 1e4 => format!("{:.1}k", v / 1e3),
        v => format!("{v:.0}"),
    }
}

/// A small number with three significant digits.
pub fn small(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 1.0 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

/// Bytes with a binary unit.
pub fn bytes(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.2} GiB", v / f64::from(1 << 30)),
        v if v >= 1e6 => format!("{:.1} MiB", v / f64::from(1 << 20)),
        v => format!("{:.0} KiB", v / 1024.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([count(950.0), count(12_345.0), count(4_560_000.0)], ["950", "12.3k", "4.56M"]);
        assert_eq!([small(0.0456), small(4.56), small(45.6), small(456.0)], ["0.046", "4.56", "45.6", "456"]);
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["name", "n"]);
        table.row(["a", "1"]);
        table.row(["bcdefg", "1000"]);
        let text = table.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "a          1");
        assert_eq!(lines[3], "bcdefg  1000");
    }

    #[test]
    fn a_wide_table_says_above_itself_what_its_rows_share() {
        let mut table = Table::new(&["server", "operation", "a long heading that takes much of the line", "keys", "ops/s"]);
        for (server, rate) in [("almandine of the wide name", "1"), ("redis of a wide name", "2")] {
            table.row([server, "get", "another long cell that takes as much of the line as it can get, and more", "1.00M", rate]);
        }
        let text = table.to_string();
        assert!(text.starts_with("operation get\n") || text.starts_with("operation get · a long heading"), "{text}");
        assert!(text.lines().skip(1).all(|line| line.chars().count() <= WIDTH_MAX), "{text}");
        assert!(text.contains("keys"), "what fits stays: {text}");
    }
}
