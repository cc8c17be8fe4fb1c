//! The suite's normal mode: it starts its servers itself, with the configuration files that it writes, and ours is the program
//! that it starts.
//!
//! The tests lie in a tree of their own beside the suite, because there `src/redis-server` is a script that starts ours.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::unit::{self, Results, Run};

/// What is not in the other mode, or is there in part.
pub(super) const FILES: &[&str] = &[
    "unit/acl",
    "unit/acl-v2",
    "unit/aofrw",
    "unit/auth",
    "unit/bitops",
    "unit/client-eviction",
    "unit/dump",
    "unit/expire",
    "unit/functions",
    "unit/info",
    "unit/info-command",
    "unit/introspection",
    "unit/introspection-2",
    "unit/keyspace",
    "unit/latency-monitor",
    "unit/lazyfree",
    "unit/limits",
    "unit/maxmemory",
    "unit/memefficiency",
    "unit/multi",
    "unit/networking",
    "unit/obuf-limits",
    "unit/oom-score-adj",
    "unit/other",
    "unit/pause",
    "unit/pendingquerybuf",
    "unit/protocol",
    "unit/pubsub",
    "unit/pubsubshard",
    "unit/querybuf",
    "unit/quit",
    "unit/replybufsize",
    "unit/scan",
    "unit/shutdown",
    "unit/slowlog",
    "unit/tracking",
    "unit/type/hash",
    "unit/type/incr",
    "unit/type/list",
    "unit/type/list-2",
    "unit/type/list-3",
    "unit/type/set",
    "unit/type/stream",
    "unit/type/stream-cgroups",
    "unit/type/string",
    "unit/type/zset",
    "unit/violations",
    "unit/wait",
    "integration/aof",
    "integration/aof-multi-part",
    "integration/corrupt-dump",
    "integration/corrupt-dump-fuzzer",
    "integration/convert-ziplist-hash-on-load",
    "integration/convert-ziplist-zset-on-load",
    "integration/convert-zipmap-hash-on-load",
    "integration/logging",
    "integration/rdb",
    "integration/redis-benchmark",
    "integration/redis-cli",
];

/// Those on files that take seconds, for every test run.
pub(super) const FAST: &[&str] = &[
    "unit/shutdown",
    "integration/aof",
    "integration/convert-ziplist-hash-on-load",
    "integration/convert-ziplist-zset-on-load",
    "integration/convert-zipmap-hash-on-load",
    "integration/corrupt-dump",
    "integration/logging",
    "integration/rdb",
];

/// A tree of tests, of this run alone: the suite deletes what it finds in `tests/tmp`. It goes when this is dropped.
pub(super) struct Tree(PathBuf);

impl Tree {
    /// The tree whose `src/redis-server` starts `program`, with `flags` as lines of every configuration file.
    pub(super) fn new(suite: &Path, program: &Path, flags: &[&str]) -> Result<Self, String> {
        let tree = Self(suite.with_file_name(format!("own-server-{}", std::process::id())));
        fill(suite, &tree.0, program, flags).map_err(|e| format!("{}: {e}", tree.0.display()))?;
        Ok(tree)
    }

    /// Runs a file.
    pub(super) fn run(&self, file: &str, run: &Run<'_>) -> Result<Results, String> {
        let mut tclsh = unit::suite(&self.0, file, &self.0.join("skipped"), run)?;
        unit::drive(tclsh.args(["--clients", "1"]), run.verbose)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn fill(suite: &Path, tree: &Path, program: &Path, flags: &[&str]) -> std::io::Result<()> {
    let programs = tree.join("src");
    fs::create_dir_all(&programs)?;
    for name in ["tests", "utils", "redis.conf", "sentinel.conf"] {
        Command::new("cp").arg("-a").arg(suite.join(name)).arg(tree).status()?;
    }
    for name in ["redis-cli", "redis-benchmark", "redis-check-aof", "redis-check-rdb"] {
        symlink(Path::new("/usr/bin").join(name), programs.join(name))?;
    }
    let starter = programs.join("redis-server");
    fs::write(&starter, script(&std::path::absolute(program)?, flags))?;
    fs::set_permissions(&starter, fs::Permissions::from_mode(0o755))
}

/// A test that writes an append-only file of Redis into the directory of an earlier test means that file, and not the log that ours
/// has there and that would refuse the start: the log is removed before, as its message says.
const FORGET_LOG: &str = r#"if [ -f "$1" ]; then
  log=$(sed -n 's/^dir //p' "$1" | tail -n 1)/appendonlydir
  began=$log/IMPORTED
  [ -f "$began" ] || began=/
  younger=$(find "$log" "$log/../appendonly.aof" -name 'appendonly.aof*' -newer "$began" 2>/dev/null)
  if [ -f "$log/MANIFEST" ] && [ -n "$younger" ]; then
    (cd "$log" && rm -f MANIFEST IMPORTED base-* log-* spare-*)
  fi
fi
"#;

/// Says the process id of a server that has ended before it did, and not where the next one writes already. Tests count lines, and
/// look at the last one: each stays once, and the last one stays what the server said.
const PID: &str = r#"own=$BASHPID; f=$(readlink -f /proc/$own/fd/1); said="its PID: $$ has ended"
  if [ ! -s "$f" ]; then echo "$said"
  elif grep -q "^$$:" "$f" || ! grep -Eq '^[0-9]+:' "$f"; then grep -q " PID: $$\$" "$f" || sed -i "\$i $said" "$f"
  fi"#;

/// Becomes the server, which then has the process id and the name that the suite saw. The flags go into the file, since what a
/// test puts behind it may be anything. The suite waits two minutes for a server to tell its process id; where it refuses to
/// start, this tells it.
fn script(program: &Path, flags: &[&str]) -> String {
    let lines: Vec<String> = flags.chunks(2).map(|flag| flag.join(" ").trim_start_matches('-').to_owned()).collect();
    let mark = "# Added by what starts the server";
    format!(
        "#!/bin/bash\n{FORGET_LOG}\
         if [ -f \"$1\" ] && ! grep -q '^{mark}' \"$1\"; then\n  printf '\\n%s\\n' '{mark}' '{}' >> \"$1\"\nfi\n\
         (while [ -e /proc/$$/exe ]; do sleep 0.2; done; {PID}) &\nexec -a \"$0\" '{}' \"$@\"\n",
        lines.join("' '"),
        program.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_adds_its_lines_once() {
        let directory = std::env::temp_dir().join(format!("almandine-own-server-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let (script_file, config) = (directory.join("redis-server"), directory.join("a file"));
        fs::write(&script_file, script(Path::new("/bin/echo"), &["--workers", "1", "--object-encoding-names", "7.0"])).unwrap();
        fs::write(&config, "port 1").unwrap();
        let said = |words: &[&str]| {
            let output = Command::new("bash").arg(&script_file).args(words).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let name = config.to_str().unwrap();
        for _ in 0..2 {
            let text = said(&[name, "--port", "2"]);
            assert!(text.starts_with(&format!("{name} --port 2\n")) && text.ends_with(" has ended\n"), "{text}");
        }
        assert!(said(&["--check-system"]).starts_with("--check-system\n"));
        // In a file what was said last stays last, and there is nothing in that of another server.
        let log = directory.join("log");
        let end = |words: &str| {
            // What waits for the end has the standard error, too.
            Command::new("bash").arg(&script_file).arg(words).stdout(fs::File::create(&log).unwrap()).output().unwrap();
            fs::read_to_string(&log).unwrap()
        };
        let text = end("refused");
        assert!(text.starts_with("its PID: ") && text.ends_with(" has ended\nrefused\n"), "{text}");
        assert_eq!(end("1:M another"), "1:M another\n");
        let text = fs::read_to_string(&config).unwrap();
        assert_eq!(text.lines().filter(|line| *line == "workers 1").count(), 1, "{text}");
        assert!(text.starts_with("port 1\n") && text.ends_with("\nobject-encoding-names 7.0\n"), "{text}");
        fs::remove_dir_all(&directory).unwrap();
    }
}
