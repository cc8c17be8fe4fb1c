//! `memory`: resident bytes per object above the empty server, for several shapes.
//!
//! Every shape gets a fresh process, so that no allocator keeps what another shape has used.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::servers::{Candidate, LabOptions};
use crate::cli::options::OutputOptions;
use crate::generate::template::Template;
use crate::generate::value::Lengths;
use crate::load::{Preload, preload};
use crate::report::progress::Bar;
use crate::report::sample::write_values;
use crate::report::table::{Table, count};
use crate::system::machine::Machine;
use crate::workload::{Operation, Shape, Workload};

/// Options of `memory`.
#[derive(Debug, Args)]
pub struct Memory {
    #[command(flatten)]
    lab: LabOptions,
    /// Objects per shape.
    #[arg(short = 'k', long, default_value_t = 300_000)]
    keys: u64,
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
}

const fn form(name: &'static str, about: &'static str, template: &'static str, value: usize, members: u64) -> Form {
    Form { name, about, template, value, members }
}

const FORMS: &[Form] = &[
    form("string8", "16 B key, 8 B value", "SET __key__ __value__", 8, 1),
    form("string100", "100 B value", "SET __key__ __value__", 100, 1),
    form("string1k", "1,000 B value", "SET __key__ __value__", 1000, 1),
    form("expiring8", "8 B value with a TTL", "SET __key__ __value__ EX 360000", 8, 1),
    form("hash5", "5 fields of 8 B, values of 8 B", "HSET __key__ {__member__ __value__}", 8, 5),
    form("hash30", "30 fields of 8 B, values of 16 B", "HSET __key__ {__member__ __value__}", 16, 30),
    form("list10", "10 values of 8 B", "RPUSH __key__ {__value__}", 8, 10),
    form("set10", "10 members of 8 B", "SADD __key__ {__member__}", 8, 10),
    form("intset10", "10 integers", "SADD __key__ {__index__}", 8, 10),
    form("zset10", "10 members of 8 B", "ZADD __key__ {__score__ __member__}", 8, 10),
];

impl Memory {
    /// Measures every shape on every server.
    pub fn run(self) -> Result<ExitCode, String> {
        let keys = if self.quick { 50_000 } else { self.keys.max(1) };
        let forms = self.forms()?;
        let candidates: Vec<Candidate> = self.lab.candidates()?.into_iter().filter(Candidate::is_started_here).collect();
        let machine = Machine::inspect();
        println!("{}\nresident bytes per object above the empty server, {} objects each\n", machine.line(), count(keys as f64));
        let mut headings = vec!["shape", ""];
        headings.extend(candidates.iter().map(|c| c.name.as_str()));
        let (mut table, mut rows) = (Table::new(&headings), Vec::new());
        for form in forms {
            let mut cells = vec![form.name.to_owned(), form.about.to_owned()];
            for candidate in &candidates {
                let measured = self.measure(candidate, form, keys);
                rows.push(json!({
                    "server": candidate.name,
                    "shape": form.name,
                    "keys": keys,
                    "bytes_per_key": measured.as_ref().ok().map(|m| m.1),
                    "empty_bytes": measured.as_ref().ok().map(|m| m.0),
                    "error": measured.as_ref().err(),
                }));
                cells.push(measured.map_or("–".into(), |(_, per_key)| format!("{per_key:.1}")));
            }
            table.row(cells);
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

    fn measure(&self, candidate: &Candidate, form: &Form, keys: u64) -> Result<(u64, f64), String> {
        let subject = candidate.start(self.lab.server_threads)?;
        let unknown = || format!("the memory of {} cannot be read", subject.name);
        thread::sleep(Duration::from_millis(500));
        let empty = subject.resident_bytes().ok_or_else(unknown)?;
        let shape = Shape { keys, lengths: Lengths::fixed(form.value), members: form.members, ..Shape::default() };
        let workload = Workload::new(vec![Operation::custom(form.template)?], shape)?;
        let bar = Bar::new(&format!("{} {}", candidate.name, form.name), self.output.quiet);
        let plan = Preload {
            template: Some(Template::parse(form.template)?),
            cores: self.lab.load_cores()?,
            ..Preload::new(subject.target.clone(), &workload)
        };
        preload(&plan, &|share| bar.show(share, ""))?;
        bar.finish();
        if let Some(present) = subject.key_count().filter(|&present| present != keys) {
            return Err(format!("{present} of {keys} keys are there"));
        }
        // Servers may give memory back shortly after a load.
        thread::sleep(Duration::from_secs(1));
        let filled = subject.resident_bytes().ok_or_else(unknown)?;
        Ok((empty, (filled as f64 - empty as f64) / keys as f64))
    }
}
