//! The process: databases, daemon, log file, signals.

use almandine_base::limits;

use super::{LONG, NATURAL, TEXT, YES_NO, title_template};
use crate::choices::{Choice, LogFormat, LogLevel, LogTimestamp, OomScoreAdj, Supervised};
use crate::kind::Kind;
use crate::parameter::section;

const SIGNAL: Kind = Kind::Choices(&["default", "save", "nosave", "now", "force"]);
const LEVEL: Kind = Kind::Choice(LogLevel::NAMES);
const FACILITY: Kind = Kind::Choice(&["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"]);

section! {
    /// The process.
    Process "Process"
    "databases": (Kind::Integer(1, limits::DATABASES_MAX as i64)) = "16" [immutable] "Number of databases." => databases: usize;
    "dir": (Kind::Directory) = "." [protected always_written] "Working directory." => dir: String;
    "daemonize": YES_NO = "no" [immutable] "Run in the background." => daemonize: bool;
    "supervised": (Kind::Choice(Supervised::NAMES)) = "no" [immutable]
        "Tell upstart or systemd when the server is ready." => supervised: Supervised;
    "pidfile": TEXT = "" [immutable] "File that holds the process id." => pidfile: String;
    "loglevel": LEVEL = "notice" [] "How much is logged." => loglevel: LogLevel;
    "logfile": TEXT = "" [immutable] "Log file; empty for the standard output." => logfile: String;
    "log-format": (Kind::Choice(LogFormat::NAMES)) = "legacy" [] "Format of log lines." => log_format: LogFormat;
    "log-timestamp-format": (Kind::Choice(LogTimestamp::NAMES)) = "legacy" []
        "Format of time in the log; times are UTC." => log_timestamp: LogTimestamp;
    "syslog-enabled": YES_NO = "no" [immutable] "Log to syslog too.";
    "syslog-ident": TEXT = "redis" [immutable] "Name in syslog.";
    "syslog-facility": FACILITY = "local0" [immutable] "Facility in syslog.";
    "always-show-logo": YES_NO = "no" [immutable] "Show the logo in the log." => always_show_logo: bool;
    "set-proc-title": YES_NO = "yes" [immutable] "Show the state in the title of the process.";
    "proc-title-template": (Kind::Text(title_template)) = "{title} {listen-addr} {server-mode}" [] "Title of the process.";
    "shutdown-timeout": NATURAL = "10" [] "Seconds that a shutdown waits for replicas." => shutdown_timeout_s: u64;
    "shutdown-on-sigint": SIGNAL = "default" [] "What SIGINT does: the options of SHUTDOWN." => shutdown_on_sigint: u32;
    "shutdown-on-sigterm": SIGNAL = "default" [] "What SIGTERM does: the options of SHUTDOWN." => shutdown_on_sigterm: u32;
    "crash-log-enabled": YES_NO = "yes" [] "Report crashes in the log." => crash_log_enabled: bool;
    "crash-memcheck-enabled": YES_NO = "yes" [] "Test the memory after a crash.";
    "use-exit-on-panic": YES_NO = "no" [hidden] "Exit instead of abort on a panic.";
    "watchdog-period": NATURAL = "0" [hidden] "Milliseconds after which a stuck event loop is logged.";
    "debug-context": TEXT = "" [hidden] "Remark that a crash report repeats.";
    "enable-debug-assert": YES_NO = "no" [immutable hidden] "Check costly assertions.";
    "locale-collate": TEXT = "" [] "Locale in which strings are compared.";
    "ignore-warnings": TEXT = "" [] "Warnings that do not stop the start.";
    "oom-score-adj": (Kind::Choice(OomScoreAdj::NAMES)) = "no" []
        "Tell the kernel how readily to kill this process when memory is short: add to its score (yes, relative), or set it (absolute)."
        => oom_score_adj: OomScoreAdj;
    "oom-score-adj-values": (Kind::OomScores) = "0 200 800" []
        "Scores of primary, replica and background processes." => oom_scores: [i32; 3];
    "disable-thp": YES_NO = "yes" [immutable] "Turn transparent huge pages off for the process.";
    "hz": NATURAL = "10" [] "Turns of background work in a second.";
    "dynamic-hz": YES_NO = "yes" [] "More turns with more clients.";
    "busy-reply-threshold" / "lua-time-limit": LONG = "5000" [] "Milliseconds after which a running script may be killed.";
    "hash-seed": TEXT = "" [immutable sensitive hidden] "Seed of the hash function.";
    "req-res-logfile": TEXT = "" [immutable hidden] "File that requests and replies are logged to.";
}
