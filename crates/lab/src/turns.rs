//! What procedures share in which servers bear the same loads in turns: the options of such a run, and a turn.

use std::thread;
use std::time::Duration;

use clap::Args;

use super::servers::{LabOptions, Subject};
use almandine_bench::cli::options::{positive, seconds};
use almandine_bench::system::affinity::pin_this_thread;

/// How long the turns are, and how many.
#[derive(Debug, Clone, Args)]
pub(super) struct Turns {
    /// Length of one measurement in seconds.
    #[arg(short = 's', long, default_value_t = 2.0)]
    pub(super) time: f64,
    /// Load before each measurement in seconds.
    #[arg(long, default_value_t = 0.3)]
    warm_up: f64,
    /// Measurements per server and load.
    #[arg(short = 'n', long, default_value_t = 5, value_parser = positive())]
    pub(super) repeats: usize,
    /// Poll instead of sleeping, so that servers never pay for waking the client.
    #[arg(long)]
    pub(super) spin: bool,
    /// Three repeats of half a second.
    #[arg(long)]
    quick: bool,
    /// Fail when a limit that the project has set itself is missed.
    #[arg(long)]
    pub(super) strict: bool,
}

impl Turns {
    /// Shortens what shall be quick.
    pub(super) fn settle(&mut self) {
        if self.quick {
            (self.repeats, self.time, self.warm_up) = (3, 0.5, 0.1);
        }
    }

    /// The lengths of warm-up and measurement.
    pub(super) fn phases(&self) -> Result<[Duration; 2], String> {
        Ok([seconds("warm-up", self.warm_up)?, seconds("time", self.time)?])
    }

    /// The line above the tables.
    pub(super) fn line(&self, unit: &str, baseline: &str) -> String {
        let (repeats, time) = (self.repeats, self.time);
        let spin = if self.spin { ", client polls" } else { "" };
        format!(
            "{repeats} repeats of {time} s, alternating; median (min–max) of the server's time per {unit}; ratios to \
             {baseline}{spin}"
        )
    }
}

/// Lets one server run, and this on the core of the load; its clients are gone when this returns.
pub(super) fn on_load_core<T: Send>(
    lab: &LabOptions,
    subject: &Subject,
    what: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    let cores = lab.load_cores()?;
    subject.resume();
    let result = thread::scope(|scope| {
        let pinned = || {
            pin_this_thread(&cores[..cores.len().min(1)])?;
            what()
        };
        scope.spawn(pinned).join().map_err(|_| "the load thread panicked; this is a bug of the benchmark".to_owned())?
    });
    let result = result.map_err(|e| format!("{}: {e}", subject.name))?;
    subject.wait_for_clients_to_go()?;
    subject.pause();
    Ok(result)
}
