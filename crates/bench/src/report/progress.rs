//! A progress bar on a terminal; silent anywhere else.

use std::io::{IsTerminal, Write, stderr};
use std::sync::Mutex;
use std::time::Instant;

use super::table::count;

/// One task's bar on standard error.
#[derive(Debug)]
pub struct Bar {
    title: String,
    start: Instant,
    /// Length of the line that is on the screen; `None` when nothing is to be shown.
    shown: Option<Mutex<usize>>,
}

impl Bar {
    /// A bar, shown only on a terminal and unless `quiet`.
    pub fn new(title: &str, quiet: bool) -> Self {
        let visible = !quiet && stderr().is_terminal();
        Self { title: title.into(), start: Instant::now(), shown: visible.then(|| Mutex::new(0)) }
    }

    /// Shows the share done, what is measured, and how fast it goes just now.
    pub fn show_rate(&self, share: f64, what: &str, rate: f64) {
        self.show(share, format!("{} ops/s  {what}", count(rate)).trim_end());
    }

    /// Shows the share done of loading `keys`, and how fast it has gone so far.
    pub fn show_loading(&self, share: f64, keys: u64) {
        let rate = share * keys as f64 / self.start.elapsed().as_secs_f64().max(1e-3);
        self.show(share, &format!("{} keys/s", count(rate)));
    }

    /// Shows the share done, the time left and a note.
    pub fn show(&self, share: f64, note: &str) {
        let Some(shown) = &self.shown else { return };
        let share = share.clamp(0.0, 1.0);
        let filled = (share * 24.0) as usize;
        let elapsed = self.start.elapsed().as_secs_f64();
        let left = if share > 0.01 { format!("{:.0} s left", elapsed / share - elapsed) } else { String::new() };
        let bar = format!("{}{}", "█".repeat(filled), "·".repeat(24 - filled));
        let line = format!("{:<28} {bar} {:>3.0} %  {left}  {note}", self.title, share * 100.0);
        if let Ok(mut width) = shown.lock() {
            eprint!("\r{line:<width$}", width = *width);
            let _ = stderr().flush();
            *width = line.chars().count();
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(Ok(width)) = self.shown.as_ref().map(Mutex::lock)
            && *width > 0
        {
            eprint!("\r{:width$}\r", "", width = *width);
            let _ = stderr().flush();
        }
    }
}
