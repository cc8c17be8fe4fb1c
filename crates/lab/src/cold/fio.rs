//! What the device gives: random reads of 4 KiB by fio, on one core, in the folder that the server under test uses.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// fio and the file it reads.
#[derive(Debug)]
pub(super) struct Fio {
    file: PathBuf,
    bytes: u64,
    core: Option<usize>,
    engine: &'static str,
}

/// One run of fio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FioRun {
    pub(super) depth: u64,
    pub(super) reads_per_second: f64,
    pub(super) cpu_us: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) p999_us: f64,
    pub(super) max_us: f64,
}

impl Fio {
    /// Writes a file of `bytes` bytes in `folder`.
    pub(super) fn new(folder: &Path, bytes: u64, core: Option<usize>) -> Result<Self, String> {
        let bytes = bytes.next_multiple_of(1 << 20).max(64 << 20);
        let mut fio = Self { file: folder.join("fio"), bytes, core, engine: "io_uring" };
        fio.start(1, &["--create_only=1"])?;
        // Where io_uring is not allowed, the older interface shows the same device.
        if fio.read(1, 0.2).is_err() {
            fio.engine = "libaio";
            fio.read(1, 0.2)?;
        }
        Ok(fio)
    }

    /// The interface it uses.
    pub(super) fn engine(&self) -> &'static str {
        self.engine
    }

    /// Reads for some seconds.
    pub(super) fn read(&self, depth: u64, seconds: f64) -> Result<FioRun, String> {
        let runtime = format!("--runtime={}ms", (seconds * 1000.0) as u64);
        let text = self.start(depth, &["--time_based=1", &runtime, "--ramp_time=200ms"])?;
        parse(&text, depth).ok_or_else(|| "fio's result has no reads".into())
    }

    fn start(&self, depth: u64, more: &[&str]) -> Result<String, String> {
        let cores = self.core.map(|core| core.to_string()).unwrap_or_default();
        let output = Command::new(env::current_exe().map_err(|e| e.to_string())?)
            // Pinned, and ended with this process.
            .args(["launch", &format!("--cores={cores}"), "--", "fio", "--name=reads", "--rw=randread", "--bs=4k", "--direct=1"])
            .args(["--numjobs=1", "--thread", "--norandommap", "--randrepeat=0", "--output-format=json"])
            .args(["--percentile_list=50:99:99.9", &format!("--ioengine={}", self.engine), &format!("--iodepth={depth}")])
            .arg(format!("--filename={}", self.file.display()))
            .arg(format!("--size={}", self.bytes))
            .args(more)
            .stdin(Stdio::null())
            .output()
            .map_err(|e| format!("cannot start fio: {e}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => {
                let said = String::from_utf8_lossy(if output.stderr.is_empty() { &output.stdout } else { &output.stderr });
                let line = said.lines().find(|l| l.contains("fio") || l.contains("rror")).unwrap_or_default().to_owned();
                Err(format!("fio failed ({line}); is it installed, and does the file system take O_DIRECT?"))
            }
        }
    }
}

fn parse(text: &str, depth: u64) -> Option<FioRun> {
    // Warnings may precede the document.
    let document: Value = serde_json::from_str(&text[text.find('{')?..]).ok()?;
    let job = &document["jobs"][0];
    let read = &job["read"];
    let reads_per_second = read["iops"].as_f64().filter(|&iops| iops > 0.0)?;
    let cpu_share = (job["usr_cpu"].as_f64()? + job["sys_cpu"].as_f64()?) / 100.0;
    let at = |name: &str| Some(read["clat_ns"]["percentile"][name].as_f64()? / 1e3);
    Some(FioRun {
        depth,
        reads_per_second,
        cpu_us: cpu_share * 1e6 / reads_per_second,
        p50_us: at("50.000000")?,
        p99_us: at("99.000000")?,
        p999_us: at("99.900000")?,
        max_us: read["clat_ns"]["max"].as_f64()? / 1e3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_understood() {
        let text = r#"fio: a warning
            {"jobs": [{"usr_cpu": 10.0, "sys_cpu": 40.0, "read": {"iops": 100000.0,
             "clat_ns": {"max": 900000, "percentile": {"50.000000": 100000, "99.000000": 200000, "99.900000": 300000}}}}]}"#;
        let expected = FioRun {
            depth: 50,
            reads_per_second: 100_000.0,
            cpu_us: 5.0,
            p50_us: 100.0,
            p99_us: 200.0,
            p999_us: 300.0,
            max_us: 900.0,
        };
        assert_eq!(parse(text, 50), Some(expected));
        assert_eq!(parse(r#"{"jobs": [{"read": {"iops": 0.0}}]}"#, 50), None);
        assert_eq!(parse("", 50), None);
    }
}
