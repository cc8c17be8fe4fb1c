//! One run with its settings: the row of every table, CSV and JSON file.

use std::fs;

use serde_json::{Value, json};

use crate::cli::options::OutputOptions;
use crate::load::{Connecting, Load, Measurement, Pace};
use crate::system::machine::Machine;

/// Quantiles in every JSON result; enough to draw the latency curve.
const QUANTILES: &[f64] =
    &[0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999, 0.99999, 1.0];

/// Cores that other programs may use before a result says so: a fifth of one is what an idle machine does by itself.
const FOREIGN_CORES_MAX: f64 = 0.2;

/// One run and its settings.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Name or address of the server.
    pub server: String,
    /// Operation or mix.
    pub operation: String,
    /// Number of keys.
    pub keys: u64,
    /// Value lengths.
    pub value: String,
    /// Connections.
    pub connections: usize,
    /// Client threads.
    pub threads: usize,
    /// Commands per batch.
    pub pipeline: usize,
    /// Commands per second that were asked for; `None` for closed load.
    pub rate: Option<f64>,
    /// Whether the client polled, so that its CPU time says nothing.
    pub spin: bool,
    /// Key choice.
    pub distribution: String,
    /// What was measured.
    pub measurement: Measurement,
}

impl Sample {
    /// Labels a measurement with the load that made it.
    pub fn new(server: &str, load: &Load, measurement: Measurement) -> Self {
        let shape = &load.workload.shape;
        Self {
            server: server.into(),
            operation: load.workload.name(),
            keys: shape.keys,
            value: shape.lengths.to_string(),
            connections: load.connections,
            threads: load.threads,
            pipeline: load.pipeline,
            rate: match load.pace {
                Pace::Open { rate, .. } => Some(rate),
                Pace::Closed { .. } => None,
            },
            spin: matches!(load.pace, Pace::Closed { spin: true, .. } | Pace::Open { spin: true, .. }),
            distribution: format!("{:?}", shape.distribution).to_lowercase(),
            measurement,
        }
    }

    /// Labels what connecting came to; an operation is a connection.
    pub fn of_connections(server: &str, connecting: &Connecting, measurement: Measurement) -> Self {
        Self {
            server: server.into(),
            operation: connecting.name().into(),
            keys: 0,
            value: "–".into(),
            connections: connecting.connections,
            threads: connecting.connections,
            pipeline: 1,
            rate: None,
            spin: false,
            distribution: "–".into(),
            measurement,
        }
    }

    /// What a reader must know before using the numbers.
    pub fn warnings(&self) -> Vec<String> {
        let m = &self.measurement;
        let mut warnings = Vec::new();
        if m.operations == 0 {
            warnings.push(format!("no command was answered within {:.2} s: nothing was measured, and – stands for it", m.seconds));
        } else if m.server_cpu.is_some() && m.server_cpu_us().is_none() {
            warnings
                .push("the server used less than 0.1 s of CPU, which the kernel counts in steps of 10 ms: measure longer".into());
        }
        if let Some(cores) = m.foreign_cores().filter(|cores| *cores > FOREIGN_CORES_MAX) {
            warnings.push(format!("other programs used {cores:.1} cores meanwhile: repeat this on an idle machine"));
        }
        if m.tally.errors + m.tally.mismatches > 0 {
            let (errors, wrong) = (m.tally.errors, m.tally.mismatches);
            let first = m.tally.first_error.as_deref().unwrap_or_default();
            warnings.push(format!("{errors} error replies and {wrong} wrong replies; the first: {first}"));
        }
        if m.tally.nulls * 10 > m.tally.replies && self.operation.contains("get") {
            warnings.push("more than a tenth of the replies are null: are the keys there? --preload fills them".into());
        }
        match self.rate {
            None if !self.spin && m.client_limited() => {
                warnings.push("the client was busier than the server: add --threads, or read the server's CPU per op".into());
            }
            Some(rate) if m.throughput().is_some_and(|served| served < 0.98 * rate) => {
                let served = m.throughput().unwrap_or_default();
                warnings.push(format!("only {served:.0} of {rate:.0} commands per second were served"));
            }
            Some(_) if m.lateness.value_at_quantile(0.99) > m.latency.value_at_quantile(0.5) => warnings.push(format!(
                "the client sent late (p99 {:.0} µs): give the load a core of its own, and spin",
                m.lateness.value_at_quantile(0.99) as f64 / 1e3
            )),
            _ => {}
        }
        if m.unanswered > 0 {
            warnings.push(format!("{} commands were not answered within 2 s of the end", m.unanswered));
        }
        warnings
    }

    /// For the JSON report.
    pub fn json(&self) -> Value {
        let m = &self.measurement;
        let curve: Option<Vec<Value>> = QUANTILES.iter().map(|&q| Some(json!([q, m.latency_us(q)?]))).collect();
        json!({
            "server": self.server,
            "operation": self.operation,
            "keys": self.keys,
            "value": self.value,
            "distribution": self.distribution,
            "connections": self.connections,
            "threads": self.threads,
            "pipeline": self.pipeline,
            "rate": self.rate,
            "spin": self.spin,
            "seconds": m.seconds,
            "operations": m.operations,
            "ops_per_second": m.throughput(),
            "server_cpu_us_per_op": m.server_cpu_us(),
            "client_cpu_us_per_op": m.client_cpu_us(),
            "foreign_cores": m.foreign_cores(),
            "errors": m.tally.errors,
            "mismatches": m.tally.mismatches,
            "nulls": m.tally.nulls,
            "unanswered": m.unanswered,
            "slowest_connection_share": m.slowest_share(),
            "latency_us": curve,
            "latency_mean_us": (!m.latency.is_empty()).then(|| m.latency.mean() / 1e3),
            "lateness_p99_us": m.lateness.value_at_quantile(0.99) as f64 / 1e3,
            "longest_stall_us": m.stall_ns as f64 / 1e3,
        })
    }
}

const CSV_COLUMNS: &[&str] = &[
    "server",
    "operation",
    "keys",
    "value",
    "distribution",
    "connections",
    "threads",
    "pipeline",
    "rate",
    "seconds",
    "operations",
    "ops_per_second",
    "server_cpu_us_per_op",
    "client_cpu_us_per_op",
    "errors",
    "nulls",
    "longest_stall_us",
];

/// Writes the JSON and CSV files that were asked for.
pub fn write_all(output: &OutputOptions, kind: &str, machine: &Machine, samples: &[Sample]) -> Result<(), String> {
    let rows: Vec<Value> = samples.iter().map(Sample::json).collect();
    write_values(output, kind, machine, rows, json!({}))
}

/// Writes results that are already JSON. CSV takes their scalar columns; `extra` holds what is not per run.
pub fn write_values(output: &OutputOptions, kind: &str, machine: &Machine, runs: Vec<Value>, extra: Value) -> Result<(), String> {
    let write =
        |path: &std::path::Path, text: String| fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()));
    if let Some(path) = &output.csv {
        // Results that are not loads have columns of their own.
        let loads = runs.iter().all(|run| !run["ops_per_second"].is_null());
        let columns = if loads { known_columns() } else { scalar_columns(&runs) };
        let quantiles = [(0.5, "p50_us"), (0.99, "p99_us"), (0.999, "p999_us"), (1.0, "max_us")];
        let quantiles = if runs.iter().any(|run| run["latency_us"].is_array()) { &quantiles[..] } else { &[] };
        let mut text = columns.join(",");
        quantiles.iter().for_each(|(_, name)| text.push_str(&format!(",{name}")));
        for run in &runs {
            let at = |q: f64| run["latency_us"].as_array().and_then(|c| c.iter().find(|p| p[0] == q)).map(|p| cell(&p[1]));
            let cells = columns.iter().map(|name| cell(&run[name]));
            let tail = quantiles.iter().map(|&(q, _)| at(q).unwrap_or_default());
            text.push_str(&format!("\n{}", cells.chain(tail).collect::<Vec<_>>().join(",")));
        }
        write(path, text + "\n")?;
    }
    if let Some(path) = &output.json {
        let document = json!({
            "tool": concat!("almandine-bench ", env!("CARGO_PKG_VERSION")),
            "kind": kind,
            "command": without_secrets(std::env::args()).join(" "),
            "machine": machine.json(),
            "runs": runs,
            "extra": extra,
        });
        write(path, format!("{document:#}\n"))?;
    }
    Ok(())
}

/// Words that a secret follows, also among the arguments of servers that are started here.
const SECRETS: &[&str] = &["password", "requirepass", "masterauth", "secret", "access-key"];

/// The command line as it may be written down: what follows a secret's option is replaced.
fn without_secrets(arguments: impl Iterator<Item = String>) -> Vec<String> {
    const HIDDEN: &str = "(hidden)";
    let mut hide_next = false;
    let mut shown = Vec::new();
    for argument in arguments {
        // A server's option and its value come as two arguments of their own: --server-arg --requirepass --server-arg VALUE.
        let is_mark = argument == "--server-arg";
        let lower = argument.to_ascii_lowercase();
        let secret = SECRETS.iter().filter_map(|word| Some(lower.find(word)? + word.len())).min();
        shown.push(match secret {
            _ if hide_next && !is_mark => {
                hide_next = false;
                if argument.starts_with("--server-arg=") { format!("--server-arg={HIDDEN}") } else { HIDDEN.to_owned() }
            }
            Some(end) if end < argument.len() => format!("{}{HIDDEN}", &argument[..end]),
            None if argument.starts_with("-a") && argument.len() > 2 => format!("-a{HIDDEN}"),
            _ => {
                hide_next |= secret.is_some() || argument == "-a";
                argument
            }
        });
    }
    shown
}

fn known_columns() -> Vec<String> {
    CSV_COLUMNS.iter().map(|&name| name.to_owned()).collect()
}

/// Every field that is a scalar in all runs that have it.
fn scalar_columns(runs: &[Value]) -> Vec<String> {
    let fields = runs.iter().filter_map(Value::as_object).flat_map(|run| run.iter());
    let mut names: Vec<String> = fields.filter(|(_, v)| !v.is_array() && !v.is_object()).map(|(name, _)| name.clone()).collect();
    names.sort();
    names.dedup();
    names
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains([',', '"', '\n']) => format!("\"{}\"", text.replace('"', "\"\"")),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_written_down() {
        let shown = |line: &str| without_secrets(line.split('|').map(str::to_owned)).join(" ");
        assert_eq!(shown("bench|offline|-a|SESAME|-c|5"), "bench offline -a (hidden) -c 5");
        for line in [
            "bench|offline|-aSESAME",
            "bench|offline|--password|SESAME",
            "bench|offline|--password=SESAME",
            "bench|compare|--server-arg|--requirepass|--server-arg|SESAME|-c|5",
            "bench|compare|--server-arg=--requirepass|--server-arg=SESAME",
            "bench|compare|--server-arg=--requirepass SESAME",
            "bench|compare|--variant|two@0=--requirepass SESAME --workers 2",
        ] {
            assert!(!shown(line).contains("SESAME"), "{}", shown(line));
        }
        assert_eq!(shown("bench|compare|--server-arg|--workers|-c|5"), "bench compare --server-arg --workers -c 5");
    }
}
