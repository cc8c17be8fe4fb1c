//! Plots of JSON results, as SVG and PNG.
//!
//! [`draw`] draws a chart by `plotters`, for both in the same way. No fonts of the system are used. Nothing here measures anything.

mod chart;
mod colours;
mod data;
mod dots;
mod draw;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use self::draw::Picture;

/// Options of `plot`.
#[derive(Debug, Args)]
pub struct Plot {
    /// JSON results of any subcommand; several are drawn together.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Folder for the pictures; their names begin with the first file's.
    #[arg(short = 'o', long, default_value = ".")]
    out: PathBuf,
    /// A title for every chart.
    #[arg(long)]
    title: Option<String>,
}

impl Plot {
    /// Draws every chart that the results have points for.
    pub fn run(self) -> Result<ExitCode, String> {
        let mut runs = Vec::new();
        for file in &self.files {
            let text = fs::read_to_string(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
            let document: Value =
                serde_json::from_str(&text).map_err(|e| format!("{} is not a result of --json: {e}", file.display()))?;
            let found = document["runs"].as_array().ok_or_else(|| format!("{} holds no runs", file.display()))?;
            runs.extend(found.iter().cloned());
        }
        let title = self.title.as_deref();
        let mut charts: Vec<(String, Picture)> =
            dots::pictures(&runs, title).into_iter().map(|(name, dots)| (name, Picture::Ratios(dots))).collect();
        // A grid has too many loads for lines.
        if charts.is_empty() {
            charts = data::charts(&runs, title).into_iter().map(|(name, chart)| (name, Picture::Lines(chart))).collect();
        }
        if charts.is_empty() {
            return Err("nothing to draw: a chart needs at least two points along an axis, or a latency curve".into());
        }
        fs::create_dir_all(&self.out).map_err(|e| format!("cannot create {}: {e}", self.out.display()))?;
        let stem = self.files[0].file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        for (name, chart) in charts {
            for (extension, bytes) in [("svg", draw::svg(&chart)?.into_bytes()), ("png", draw::png(&chart)?)] {
                let path = self.out.join(format!("{stem}-{name}.{extension}"));
                fs::write(&path, bytes).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
                println!("{}", path.display());
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
