//! What all sessions of a server share: configuration, statistics, client registry, slow log, latency monitor.
