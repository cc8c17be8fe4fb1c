//! The process: databases, daemon, log file, signals.

use almandine_base::limits;

use super::{LONG, MEMORY, NATURAL, TEXT, YES_NO, collation, title_template};
use crate::choices::{BusyScope, Choice, Facility, LogFormat, LogLevel, LogTimestamp, OomScoreAdj, Supervised};
use crate::kind::Kind;
use crate::parameter::section;

const SIGNAL: Kind = Kind::Choices(&["default", "save", "nosave", "now", "force"]);
const LEVEL: Kind = Kind::Choice(LogLevel::NAMES);
const FACILITY: Kind = Kind::Choice(Facility::NAMES);

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
    "syslog-enabled": YES_NO = "no" [immutable] "Log to syslog too." => syslog_enabled: bool;
    "syslog-ident": TEXT = "redis" [immutable] "Name in syslog." => syslog_ident: String;
    "syslog-facility": FACILITY = "local0" [immutable] "Facility in syslog." => syslog_facility: Facility;
    "always-show-logo": YES_NO = "no" [immutable] "Show the logo in the log." => always_show_logo: bool;
    "set-proc-title": YES_NO = "yes" [immutable] "Show in the process list where the server listens." => set_proc_title: bool;
    "proc-title-template": (Kind::Text(title_template)) = "{title} {listen-addr} {server-mode}" []
        "What the process list shows." => proc_title_template: String;
    "shutdown-timeout": NATURAL = "10" [] "Seconds that a shutdown waits for replicas.";
    "shutdown-on-sigint": SIGNAL = "default" [] "What SIGINT does: the options of SHUTDOWN."
        => on_interrupt: u32;
    "shutdown-on-sigterm": SIGNAL = "default" [] "What SIGTERM does: the options of SHUTDOWN."
        => on_terminate: u32;
    "crash-log-enabled": YES_NO = "yes" [] "Report crashes in the log." => crash_log_enabled: bool;
    "crash-memcheck-enabled": YES_NO = "yes" [] "Test the memory after a crash.";
    "use-exit-on-panic": YES_NO = "no" [hidden] "Exit with status 1 instead of by a signal after a panic." => exit_on_panic: bool;
    "watchdog-period": NATURAL = "0" [hidden] "Milliseconds after which a stuck event loop is logged.";
    "debug-context": TEXT = "" [hidden] "Remark that a crash report repeats." => debug_context: String;
    "enable-debug-assert": YES_NO = "no" [immutable hidden] "Check costly assertions.";
    "locale-collate": (Kind::Text(collation)) = "" [] "Locale in which strings are compared.";
    "ignore-warnings": TEXT = "" [] "Warnings that do not stop the start.";
    "oom-score-adj": (Kind::Choice(OomScoreAdj::NAMES)) = "no" []
        "Tell the kernel how readily to kill this process when memory is short: add to its score (yes, relative), or set it \
         (absolute)."
        => oom_score_adj: OomScoreAdj;
    "oom-score-adj-values": (Kind::OomScores) = "0 200 800" []
        "Scores of primary, replica and background processes." => oom_scores: [i32; 3];
    "disable-thp": YES_NO = "yes" [immutable] "Turn transparent huge pages off for the process.";
    "hz": NATURAL = "10" [] "Turns of background work in a second.";
    "dynamic-hz": YES_NO = "yes" [] "More turns with more clients.";
    "busy-reply-threshold" / "lua-time-limit": LONG = "5000" []
        "Milliseconds after which a running script may be killed, and other clients hear of it; 0 for never."
        => busy_reply_threshold_ms: u64;
    "busy-reply-scope": (Kind::Choice(BusyScope::NAMES)) = "affected" []
        "Which clients hear of it: those that cannot be served meanwhile, or all of the node, as in Redis."
        => busy_reply_scope: BusyScope;
    "script-memory-limit": MEMORY = "256mb" [] "Memory that one run of a script may use." => script_memory_limit_bytes: u64;
    "hash-seed": TEXT = "" [immutable sensitive hidden] "Seed of the hash function.";
    "req-res-logfile": TEXT = "" [immutable hidden] "File that requests and replies are logged to.";
}
