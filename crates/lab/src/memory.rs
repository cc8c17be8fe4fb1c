//! `memory`: bytes per object above the empty server, for several shapes, by what is resident and by what the server says it uses.
//!
//! Every shape gets a fresh process, so that no allocator keeps what another shape has used. With `--churn` each collection is
//! then taken apart and put together again, element by element, and filled with what it held at first: the same content is
//! measured twice.

use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::servers::{Candidate, LabOptions, Subject};
use almandine_bench::cli::options::{OutputOptions, seconds};
use almandine_bench::generate::table::DataType;
use almandine_bench::generate::template::Template;
use almandine_bench::generate::value::Lengths;
use almandine_bench::load::{Load, Preload, preload, run};
use almandine_bench::report::progress::Bar;
use almandine_bench::report::sample::write_values;
use almandine_bench::report::table::{Table, count};
use almandine_bench::system::machine::Machine;
use almandine_bench::workload::{Operation, Shape, Workload};

/// Options of `memory`.
#[derive(Debug, Args)]
pub struct Memory {
    #[command(flatten)]
    lab: LabOptions,
    /// Objects per shape; of large collections fewer, so that there are at most a hundred times as many elements.
    #[arg(short = 'k', long, default_value_t = 300_000)]
    keys: u64,
    /// Then remove and set random fields of the hashes for this many seconds, fill them again, and say how much more is used.
    #[arg(long, value_name = "SECONDS")]
    churn: Option<f64>,
    /// Only these shapes; `--shapes help` shows them.
    #[arg(long, value_delimiter = ',')]
    shapes: Vec<String>,
    /// 50,000 objects per shape.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    output: OutputOptions,
}

struct Form {
    name: &'static str,
    about: &'static str,
    template: &'static str,
    value: usize,
    members: u64,
    member_len: usize,
}

const fn form(name: &'static str, about: &'static str, template: &'static str, value: usize, members: u64) -> Form {
    Form { name, about, template, value, members, member_len: 8 }
}

/// What fills a hash.
const HASH: &str = "HSET __key__ {__member__ __value__}";
/// What churns it.
const HASH_CHURN: &str = "hdel,hset";
/// Most elements per object that is asked for.
const ELEMENTS: u64 = 100;

const FORMS: &[Form] = &[
    form("string8", "16 B key, 8 B value", "SET __key__ __value__", 8, 1),
    form("string100", "100 B value", "SET __key__ __value__", 100, 1),
    form("string1k", "1,000 B value", "SET __key__ __value__", 1000, 1),
    form("expiring8", "8 B value with a TTL", "SET __key__ __value__ EX 360000", 8, 1),
    form("hash5", "5 fields of 8 B, values of 8 B", HASH, 8, 5),
    form("hash30", "30 fields of 8 B, values of 16 B", HASH, 16, 30),
    Form { member_len: 11, ..form("hash2k", "2,000 fields of 11 B, values of 10 B", HASH, 10, 2000) },
    form("list10", "10 values of 8 B", "RPUSH __key__ {__value__}", 8, 10),
    form("set10", "10 members of 8 B", "SADD __key__ {__member__}", 8, 10),
    form("intset10", "10 integers", "SADD __key__ {__index__}", 8, 10),
    form("zset10", "10 members of 8 B", "ZADD __key__ {__score__ __member__}", 8, 10),
];

/// Bytes of a server.
#[derive(Clone, Copy)]
struct Bytes {
    resident: u64,
    /// As INFO says; a server need not.
    used: Option<u64>,
}

impl Bytes {
    fn of(subject: &Subject) -> Result<Self, String> {
        let resident = subject.resident_bytes().ok_or_else(|| format!("the memory of {} cannot be read", subject.name))?;
        let used = subject.target.control()?.info("used_memory").ok().flatten().and_then(|bytes| bytes.trim().parse().ok());
        Ok(Self { resident, used })
    }

    /// Bytes above the empty server, by both measures.
    fn above(self, empty: Self) -> (f64, Option<f64>) {
        let used = self.used.zip(empty.used).map(|(used, empty)| used as f64 - empty as f64);
        (self.resident as f64 - empty.resident as f64, used)
    }
}

/// What one shape came to on one server.
struct Measured {
    keys: u64,
    empty: Bytes,
    filled: Bytes,
    churned: Option<Bytes>,
}

impl Memory {
    /// Measures every shape on every server.
    pub fn run(mut self) -> Result<ExitCode, String> {
        self.keys = if self.quick { 50_000 } else { self.keys.max(1) };
        let forms = self.forms()?;
        let candidates: Vec<Candidate> = self.lab.candidates()?.into_iter().filter(Candidate::is_started_here).collect();
        let machine = Machine::inspect();
        println!("{}\nbytes per object above the empty server, {} objects each\n", machine.line(), count(self.keys as f64));
        let columns = ["shape", "", "server", "objects", "resident/object", "/element", "used/object", "/element"];
        let churned = ["resident after churn", "used after churn"];
        let mut table = Table::new(&[&columns[..], if self.churn.is_some() { &churned } else { &[] }].concat());
        let mut rows = Vec::new();
        for form in forms {
            for candidate in &candidates {
                match self.measure(candidate, form) {
                    Ok(measured) => {
                        table.row(cells(&candidate.name, form, &measured));
                        rows.push(row(&candidate.name, form, &measured));
                    }
                    Err(error) => rows.push(json!({"server": candidate.name, "shape": form.name, "error": error})),
                }
            }
        }
        println!("{table}");
        let empty = |row: &Value| {
            let mib = row["empty_bytes"].as_u64()? as f64 / f64::from(1 << 20);
            Some(format!("{} {mib:.1} MiB", row["server"].as_str()?))
        };
        let empties: Vec<String> = rows.iter().take(candidates.len()).filter_map(empty).collect();
        println!("empty: {}", empties.join(", "));
        for row in rows.iter().filter(|row| row["error"].is_string()) {
            let field = |name: &str| row[name].as_str().unwrap_or_default();
            let reason: String = field("error").chars().take(120).collect();
            println!("{} {}: {reason}", field("server"), field("shape"));
        }
        write_values(&self.output, "memory", &machine, rows, json!({}))?;
        Ok(ExitCode::SUCCESS)
    }

    fn forms(&self) -> Result<Vec<&'static Form>, String> {
        let known = || FORMS.iter().map(|f| format!("{} ({})", f.name, f.about)).collect::<Vec<_>>().join(", ");
        if self.shapes.is_empty() {
            return Ok(FORMS.iter().collect());
        }
        let find = |name: &String| FORMS.iter().find(|f| f.name == name).ok_or_else(|| format!("shapes are {}", known()));
        self.shapes.iter().map(find).collect()
    }

    fn measure(&self, candidate: &Candidate, form: &Form) -> Result<Measured, String> {
        let subject = candidate.start(self.lab.server_threads)?;
        thread::sleep(Duration::from_millis(500));
        let empty = Bytes::of(&subject)?;
        let keys = (self.keys * ELEMENTS / form.members.max(ELEMENTS)).max(1);
        let shape = Shape {
            keys,
            lengths: Lengths::fixed(form.value),
            members: form.members,
            member_len: form.member_len,
            ..Shape::default()
        };
        let workload = Workload::new(vec![Operation::custom(form.template)?], shape.clone())?;
        self.fill(&subject, form, &workload)?;
        let filled = Bytes::of(&subject)?;
        let churned = match self.churn {
            Some(time) if form.template == HASH => {
                self.churn(&subject, shape, time)?;
                self.fill(&subject, form, &workload)?;
                Some(Bytes::of(&subject)?)
            }
            _ => None,
        };
        Ok(Measured { keys, empty, filled, churned })
    }

    /// Gives every object all its elements.
    fn fill(&self, subject: &Subject, form: &Form, workload: &Workload) -> Result<(), String> {
        let bar = Bar::new(&format!("{} {}", subject.name, form.name), self.output.quiet);
        let plan = Preload {
            template: Some(Template::parse(form.template)?),
            cores: self.lab.load_cores()?,
            ..Preload::new(subject.target.clone(), workload)
        };
        preload(&plan, &|share| bar.show(share, ""))?;
        bar.finish();
        let keys = workload.shape.keys;
        if let Some(present) = subject.key_count().filter(|&present| present != keys) {
            return Err(format!("{present} of {keys} keys are there"));
        }
        // Servers may give memory back shortly after a load.
        thread::sleep(Duration::from_secs(1));
        Ok(())
    }

    /// Removes and sets random fields, the values of other lengths than those that were filled.
    fn churn(&self, subject: &Subject, shape: Shape, time: f64) -> Result<(), String> {
        let longest = shape.lengths.max() * 2;
        // The keys that the template of a shape has are those of strings.
        let mut operations = Operation::mix(HASH_CHURN)?;
        operations.iter_mut().for_each(|operation| operation.data = DataType::String);
        let shape = Shape { lengths: Lengths::parse(&format!("1-{longest}"))?, ..shape };
        let load = Load {
            connections: 8,
            pipeline: 64,
            time: seconds("churn", time)?,
            warm_up: Duration::ZERO,
            cores: self.lab.load_cores()?,
            ..Load::new(subject.target.clone(), Arc::new(Workload::new(operations, shape)?))
        };
        let bar = Bar::new(&format!("{} churns", subject.name), self.output.quiet);
        let measurement = run(&load, &mut |progress| bar.show_rate(progress.share, "", progress.rate))?;
        bar.finish();
        measurement.tally.first_error.map_or(Ok(()), Err)
    }
}

fn cells(server: &str, form: &Form, measured: &Measured) -> Vec<String> {
    let (resident, used) = measured.filled.above(measured.empty);
    let (objects, elements) = (measured.keys as f64, (measured.keys * form.members) as f64);
    let each = |bytes: Option<f64>, of: f64| bytes.map_or("–".into(), |bytes| format!("{:.1}", bytes / of));
    let mut cells: Vec<String> = [form.name, form.about, server].map(str::to_owned).into();
    cells.push(count(objects));
    for bytes in [Some(resident), used] {
        cells.extend([each(bytes, objects), each(bytes, elements)]);
    }
    if let Some(churned) = measured.churned {
        let (resident_after, used_after) = churned.above(measured.empty);
        let times = |after: Option<f64>, before: Option<f64>| {
            after.zip(before).map_or("–".into(), |(after, before)| format!("{:.2} ×", after / before))
        };
        cells.extend([times(Some(resident_after), Some(resident)), times(used_after, used)]);
    }
    cells
}

fn row(server: &str, form: &Form, measured: &Measured) -> Value {
    let (resident, used) = measured.filled.above(measured.empty);
    let churned = measured.churned.map(|churned| churned.above(measured.empty));
    json!({
        "server": server,
        "shape": form.name,
        "keys": measured.keys,
        "elements": measured.keys * form.members,
        "bytes_per_key": resident / measured.keys as f64,
        "used_bytes_per_key": used.map(|bytes| bytes / measured.keys as f64),
        "empty_bytes": measured.empty.resident,
        "churned_resident": churned.map(|churned| churned.0 / resident),
        "churned_used": churned.and_then(|churned| Some(churned.1? / used?)),
    })
}
