//! Slow log, latency, events.

use almandine_base::events::Classes;

use super::{LONG, YES_NO};
use crate::kind::Kind;
use crate::parameter::section;

const OFF_OR_LONG: Kind = Kind::Integer(-1, i64::MAX);

section! {
    /// Slow log, latency, events.
    Observe "Slow log, latency and events"
    "slowlog-log-slower-than" / "commandlog-execution-slower-than": OFF_OR_LONG = "10000" []
        "Microseconds above which a command is logged as slow; -1 for never." => slowlog_slower_than_us: i64;
    "slowlog-max-len" / "commandlog-slow-execution-max-len": LONG = "128" [] "Entries of the slow log." => slowlog_len_max: usize;
    "slowlog-max-argc": (Kind::Integer(2, i32::MAX as i64)) = "32" []
        "Words of a command that an entry of the logs keeps, its name included; the last one says how many are left out."
        => slowlog_words_max: usize;
    "commandlog-request-larger-than": OFF_OR_LONG = "1048576" [] "Bytes above which a request is logged as large; -1 for never."
        => request_larger_than_bytes: i64;
    "commandlog-large-request-max-len": LONG = "128" [] "Entries of the log of large requests." => large_requests_max: usize;
    "commandlog-reply-larger-than": OFF_OR_LONG = "1048576" [] "Bytes above which a reply is logged as large; -1 for never."
        => reply_larger_than_bytes: i64;
    "commandlog-large-reply-max-len": LONG = "128" [] "Entries of the log of large replies." => large_replies_max: usize;
    "latency-monitor-threshold": LONG = "0" []
        "Milliseconds above which an event enters LATENCY; 0 for never." => latency_monitor_threshold_ms: u64;
    "latency-tracking": YES_NO = "yes" [] "Keep a latency histogram for each command." => latency_tracking: bool;
    "latency-tracking-info-percentiles": (Kind::Percentiles) = "50 99 99.9" []
        "Percentiles that INFO latencystats reports." => latency_percentiles: Vec<f64>;
    "notify-keyspace-events": (Kind::Events) = "" [] "Classes of keyspace events that are published." => keyspace_events: Classes;
}
