//! `floor`: GET and SET of our server, or other operations, against the kernel's floor in the same run, and the cost of many keys
//! against few.
//!
//! The floor is a server of canned replies (`canned`) on the same core, under the same load, alternating with ours. What a
//! command costs beyond it is ours.

use std::process::ExitCode;

use clap::Args;

use super::compare::Compare;
use super::servers::{FLOOR, LabOptions, OURS};
use almandine_bench::cli::options::{OutputOptions, ShapeOptions, positive};

/// How much of the floor's CPU time a command may take: what the project holds itself to.
const LIMITS: &[&str] = &["get@1=1.05", "set@1=1.05", "get@16=1.15", "set@16=1.15", "get@256=2.2", "set@256=2.6"];

/// Options of `floor`.
#[derive(Debug, Args)]
pub struct Floor {
    #[command(flatten)]
    lab: LabOptions,
    /// Operations, as in `compare`; limits are for GET and SET.
    #[arg(short = 'o', long, value_delimiter = ',', default_value = "get,set")]
    operations: Vec<String>,
    /// Batch sizes.
    #[arg(short = 'P', long, value_delimiter = ',', default_value = "1,16,256", value_parser = positive())]
    pipeline: Vec<usize>,
    /// Connections.
    #[arg(short = 'c', long, default_value_t = 50, value_parser = positive())]
    connections: usize,
    /// Length of one measurement in seconds.
    #[arg(short = 's', long, default_value_t = 3.0)]
    time: f64,
    /// Measurements per server and load.
    #[arg(short = 'n', long, default_value_t = 5, value_parser = positive())]
    repeats: usize,
    /// Measure GET at P=64 with this many keys instead, against --keys of them at P=256; 30000000 is what the project holds
    /// itself to.
    #[arg(long, value_name = "KEYS", value_parser = clap::value_parser!(u64).range(1..))]
    large: Option<u64>,
    /// Fail when a limit is missed.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    shape: ShapeOptions,
    #[command(flatten)]
    output: OutputOptions,
}

impl Floor {
    /// Measures, and says which limits hold.
    pub fn run(mut self) -> Result<ExitCode, String> {
        if self.lab.only.is_empty() {
            self.lab.only = vec![OURS.into()];
        }
        let Some(large) = self.large else {
            self.lab.only.push(FLOOR.into());
            self.lab.floor = true;
            let limits = LIMITS.iter().map(|limit| (*limit).to_owned()).collect();
            let missed = self.compare(self.operations.clone(), limits).measure_all()?.missed;
            return Ok(if missed && self.strict { ExitCode::FAILURE } else { ExitCode::SUCCESS });
        };
        self.pipeline = vec![256];
        let few = self.compare(vec!["get".into()], Vec::new()).measure_all()?;
        self.pipeline = vec![64];
        self.shape.keys = large;
        // One file of results: that of the large set.
        let many = self.compare(vec!["get".into()], Vec::new()).measure_all()?;
        let (few, many) = (few.cpu_us.ok_or("no CPU time was measured")?, many.cpu_us.ok_or("no CPU time was measured")?);
        println!("GET of {large} keys at P=64 costs {many:.3} µs, of few at P=256 {few:.3} µs: {:.2} ×", many / few);
        Ok(ExitCode::SUCCESS)
    }

    fn compare(&self, operations: Vec<String>, require: Vec<String>) -> Compare {
        Compare {
            lab: self.lab.clone(),
            operations,
            pipeline: self.pipeline.clone(),
            connections: vec![self.connections],
            threads: None,
            time: self.time,
            warm_up: 0.5,
            repeats: self.repeats,
            spin: false,
            quick: false,
            require,
            shape: self.shape.clone(),
            output: self.output.clone(),
        }
    }
}
