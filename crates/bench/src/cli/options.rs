//! Options shared by the subcommands, and how they become a workload, a target and a load.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};

use crate::cli::tls::TlsOptions;
use crate::control::{Address, Target};
use crate::generate::key::Distribution;
use crate::generate::value::Lengths;
use crate::load::{Load, Pace, Preload, preload};
use crate::report::progress::Bar;
use crate::system::affinity::parse_cores;
use crate::workload::{Operation, Shape, Workload};

/// Which server. The short options are those of redis-benchmark and memtier_benchmark.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server", disable_help_flag = true)]
pub struct ServerOptions {
    /// Host that the server runs on.
    #[arg(short = 'h', long, default_value = "127.0.0.1")]
    pub host: String,
    /// Port that it listens on.
    #[arg(short = 'p', long, default_value_t = 6379)]
    pub port: u16,
    /// Where it listens, instead of host and port: host:port or unix:/path.
    #[arg(long, value_parser = Address::parse, conflicts_with_all = ["host", "port"])]
    pub address: Option<Address>,
    /// ACL user to log in as.
    #[arg(long)]
    pub user: Option<String>,
    /// Password to log in with. Other users of the machine see command lines; the environment is safer.
    #[arg(short = 'a', long, env = "ALMANDINE_BENCH_PASSWORD", hide_env_values = true)]
    pub password: Option<String>,
    /// Database to SELECT.
    #[arg(long, default_value_t = 0)]
    pub database: u32,
    /// Protocol version.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=3))]
    pub resp: u8,
    /// Process whose CPU time and memory are read; found through INFO when the server is local.
    #[arg(long)]
    pub server_pid: Option<u32>,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// How TLS is spoken.
    #[command(flatten)]
    pub tls: TlsOptions,
}

impl ServerOptions {
    /// Where the server listens.
    pub fn address(&self) -> Address {
        self.address.clone().unwrap_or_else(|| Address::Tcp(self.host.clone(), self.port))
    }

    /// The server and the login.
    pub fn target(&self) -> Result<Target, String> {
        Ok(Target {
            address: self.address(),
            user: self.user.clone(),
            password: self.password.clone(),
            database: self.database,
            protocol: self.resp,
            tls: self.tls.connector()?,
        })
    }

    /// The process id: as given, or as a local server says.
    pub fn pid(&self, target: &Target) -> Result<Option<u32>, String> {
        if self.server_pid.is_some() || !self.address().is_local() {
            return Ok(self.server_pid);
        }
        let mut control = target.control()?;
        // Where nothing is answered, that is said; an error is an answer.
        control.send_raw(b"*1\r\n$4\r\nPING\r\n")?;
        control.next_reply()?;
        let said = control.info("process_id").ok().flatten();
        Ok(said.and_then(|pid| pid.trim().parse().ok()).filter(|pid| PathBuf::from(format!("/proc/{pid}/stat")).exists()))
    }
}

/// How keys are chosen.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum DistributionName {
    /// Every key equally often.
    Uniform,
    /// Few keys very often, see --zipf-theta.
    Zipf,
    /// One after the other.
    Sequential,
    /// --hot-operations of the operations go to --hot-keys of the keys.
    Hotspot,
}

/// Keys and values.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Keys and values")]
pub struct ShapeOptions {
    /// Number of keys.
    #[arg(short = 'k', long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub keys: u64,
    /// Length of every key in bytes.
    #[arg(long, default_value_t = 16, value_parser = positive())]
    pub key_length: usize,
    /// How every key begins (after a letter for its type).
    #[arg(long, default_value = "key:")]
    pub key_prefix: String,
    /// Value length: 64, 1-2000, or weighted as in 8:50,100:30,1-2000:20.
    #[arg(short = 'v', long, default_value = "8", value_parser = Lengths::parse)]
    pub value: Lengths,
    /// How keys are chosen.
    #[arg(short = 'd', long, value_enum, default_value_t = DistributionName::Uniform)]
    pub distribution: DistributionName,
    /// Exponent of the Zipf distribution, above 0 and below 1.
    #[arg(long, default_value_t = 0.99)]
    pub zipf_theta: f64,
    /// Share of the keys that is hot.
    #[arg(long, default_value_t = 0.2)]
    pub hot_keys: f64,
    /// Share of the operations on hot keys.
    #[arg(long, default_value_t = 0.8)]
    pub hot_operations: f64,
    /// Elements per collection.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub members: u64,
    /// Length of a member or field name.
    #[arg(long, default_value_t = 8, value_parser = positive())]
    pub member_length: usize,
    /// Repetitions of what stands in braces: keys per MGET, MSET, …
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub group: u64,
}

impl ShapeOptions {
    /// Checked sizes.
    pub fn shape(&self) -> Result<Shape, String> {
        let share = |name: &str, value: f64| match value {
            v if v > 0.0 && v <= 1.0 => Ok(v),
            _ => Err(format!("--{name} must be above 0 and at most 1")),
        };
        let distribution = match self.distribution {
            DistributionName::Uniform => Distribution::Uniform,
            DistributionName::Zipf if self.zipf_theta > 0.0 && self.zipf_theta < 1.0 => Distribution::Zipf(self.zipf_theta),
            DistributionName::Zipf => return Err("--zipf-theta must be above 0 and below 1".into()),
            DistributionName::Sequential => Distribution::Sequential,
            DistributionName::Hotspot => Distribution::Hotspot {
                keys: share("hot-keys", self.hot_keys)?,
                operations: share("hot-operations", self.hot_operations)?,
            },
        };
        Ok(Shape {
            keys: self.keys,
            key_len: self.key_length,
            key_prefix: self.key_prefix.clone(),
            distribution,
            lengths: self.value.clone(),
            members: self.members,
            member_len: self.member_length,
            group: self.group,
        })
    }
}

/// Which operations.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Operations")]
pub struct OperationOptions {
    /// One workload by name; `almandine-bench list` shows them.
    #[arg(short = 'o', long, default_value = "get")]
    pub operation: String,
    /// Several workloads with weights: get=80,set=20.
    #[arg(short = 'm', long, conflicts_with = "operation")]
    pub mix: Option<String>,
    /// Any command: words with __key__ __value__ __rand__ __member__ __score__ __index__ __offset__ __bit__, repeated groups in {}.
    #[arg(long, conflicts_with_all = ["operation", "mix"])]
    pub command: Option<String>,
}

impl OperationOptions {
    /// The operations.
    pub fn operations(&self) -> Result<Vec<Operation>, String> {
        match (&self.command, &self.mix) {
            (Some(command), _) => Ok(vec![Operation::custom(command)?]),
            (None, Some(mix)) => Operation::mix(mix),
            (None, None) => Operation::mix(&self.operation),
        }
    }
}

/// When to fill the server first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PreloadWhen {
    /// Never.
    No,
    /// What is missing, judged by DBSIZE; resumes an interrupted load.
    Missing,
    /// Every key.
    All,
}

/// How the load is made.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadOptions {
    /// Connections over all threads.
    #[arg(short = 'c', long, default_value_t = 50, value_parser = positive())]
    pub connections: usize,
    /// Client threads.
    #[arg(short = 't', long, default_value_t = 1, value_parser = positive())]
    pub threads: usize,
    /// Commands per batch.
    #[arg(short = 'P', long, default_value_t = 1, value_parser = positive())]
    pub pipeline: usize,
    /// Length of the measurement in seconds.
    #[arg(short = 's', long, default_value_t = 5.0)]
    pub time: f64,
    /// Load before the measurement in seconds.
    #[arg(long, default_value_t = 0.5)]
    pub warm_up: f64,
    /// Fill the server first.
    #[arg(long, value_enum, default_value_t = PreloadWhen::No, num_args = 0..=1, default_missing_value = "missing")]
    pub preload: PreloadWhen,
    /// Delete all keys of the server first.
    #[arg(long)]
    pub flush: bool,
    /// Pin client threads to these cores, as in 1 or 2-3.
    #[arg(long, default_value = "")]
    pub pin: String,
    /// Check the type of every reply and the bytes of every value; slower.
    #[arg(long)]
    pub verify: bool,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Prepared requests per thread in MiB.
    #[arg(long, default_value_t = 64, value_parser = positive())]
    pub pool: usize,
    /// Rewrite keys on every use even where the pool names enough of them.
    #[arg(long)]
    pub fresh_keys: bool,
}

impl LoadOptions {
    /// The load on a target.
    pub fn load(&self, target: Target, workload: Arc<Workload>, pace: Pace) -> Result<Load, String> {
        Ok(Load {
            connections: self.connections,
            threads: self.threads,
            pipeline: self.pipeline,
            pace,
            time: seconds("time", self.time)?,
            warm_up: seconds("warm-up", self.warm_up)?,
            cores: parse_cores(&self.pin)?,
            verify: self.verify,
            seed: self.seed,
            pool_bytes: self.pool << 20,
            fresh: self.fresh_keys,
            ..Load::new(target, workload)
        })
    }

    /// Flushes and fills the server as asked.
    pub fn prepare(&self, target: &Target, workload: &Workload, quiet: bool) -> Result<(), String> {
        if self.flush {
            target.control()?.ask(&["FLUSHALL"])?;
        }
        if self.preload == PreloadWhen::No {
            return Ok(());
        }
        let mut plan = Preload::new(target.clone(), workload);
        plan.threads = self.threads;
        plan.cores = parse_cores(&self.pin)?;
        if self.preload == PreloadWhen::Missing {
            plan.resume()?;
        }
        let bar = Bar::new("loading", quiet);
        preload(&plan, &|share| bar.show_loading(share, plan.range.1 - plan.range.0))?;
        bar.finish();
        Ok(())
    }
}

/// Reads a number of at least one. Zero means nothing anywhere, and is refused instead of being taken for one.
pub fn positive() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

/// A duration from an option in seconds.
pub fn seconds(name: &str, value: f64) -> Result<Duration, String> {
    Duration::try_from_secs_f64(value).map_err(|_| format!("--{name} must be a number of seconds, not {value}"))
}

/// Where results go besides the terminal.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputOptions {
    /// Write all results as JSON, the input of `plot`.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write one line per result as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// No progress bar.
    #[arg(short = 'q', long)]
    pub quiet: bool,
}
