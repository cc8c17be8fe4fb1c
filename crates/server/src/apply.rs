//! Makes settings effective that are not simply read where they matter.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use almandine_config::choices::EvictionPolicy as Policy;
use almandine_config::special::BufferLimits;
use almandine_config::{Parameter, SetError, Settings};
use almandine_keyspace::{EvictionOrder, EvictionPolicy, Keyspace};
use almandine_net::{Limits, OutputLimit};

use crate::network::Network;
use crate::node::Host;

/// A connection whose untaken output is beyond this share of `maxmemory`, and beyond this number of bytes, waits.
const OUTPUT_PAUSE_SHARE: u64 = 256;
const OUTPUT_PAUSE_BYTES_MIN: usize = 64 * 1024;

/// The network's limits as the settings say.
pub(crate) fn limits(settings: &Settings) -> Arc<Limits> {
    let limits = Arc::new(Limits::default());
    set_limits(&limits, settings);
    limits
}

/// Makes all settings effective; what has not changed is set to what it was.
///
/// # Errors
/// When a setting cannot change while the server runs, or the system refuses it.
pub(crate) fn apply(
    settings: &Settings,
    limits: &Limits,
    keyspace: &Keyspace,
    network: &Network,
    host: &dyn Host,
    changed: &[&'static Parameter],
) -> Result<(), SetError> {
    let change = network.prepare(settings, &host.directory(settings), changed.iter().any(|parameter| parameter.names_content()))?;
    host.prepare(settings)?;
    set_limits(limits, settings);
    set_eviction(settings, keyspace);
    // A server that runs takes it, as Redis does: writes are then refused until there is room.
    if let Err(problem) = crate::storage::check_budget(settings)
        && settings.memory.maxmemory != keyspace.figures().budget_bytes()
    {
        tracing::warn!("{problem}. Writes are refused until it is raised");
    }
    let (maxmemory, used) = (settings.memory.maxmemory, keyspace.figures().used_bytes());
    if maxmemory != keyspace.figures().budget_bytes() && (1..used).contains(&maxmemory) {
        tracing::warn!(
            "maxmemory is now {maxmemory} bytes, less than the {used} in use: maxmemory-policy evicts keys, or writes are refused"
        );
    }
    keyspace.settings().set_budget(settings.memory.maxmemory);
    set_storage(settings, keyspace);
    keyspace.listeners().tell_events(settings.observe.keyspace_events);
    host.commit(settings);
    network.commit(change);
    Ok(())
}

/// Makes what can change of the storage effective.
pub(crate) fn set_storage(settings: &Settings, keyspace: &Keyspace) {
    let storage = &settings.storage;
    keyspace.settings().set_copy_reads(crate::storage::copy_reads(settings));
    keyspace.settings().set_compaction(f64::from(storage.garbage_max_percent) / 100.0, storage.compaction_bytes_per_second);
}

/// Makes `maxmemory-policy` and what goes with it effective.
pub(crate) fn set_eviction(settings: &Settings, keyspace: &Keyspace) {
    let (order, volatile_only) = match settings.memory.maxmemory_policy {
        Policy::NoEviction => (EvictionOrder::Never, false),
        Policy::AllkeysLru => (EvictionOrder::Recency, false),
        Policy::AllkeysLfu => (EvictionOrder::Frequency, false),
        Policy::AllkeysRandom => (EvictionOrder::Random, false),
        Policy::VolatileLru => (EvictionOrder::Recency, true),
        Policy::VolatileLfu => (EvictionOrder::Frequency, true),
        Policy::VolatileRandom => (EvictionOrder::Random, true),
        Policy::VolatileTtl => (EvictionOrder::Expiry, true),
    };
    keyspace.settings().set_frequency_decay(Duration::from_secs(settings.memory.lfu_decay_minutes.saturating_mul(60)));
    keyspace.settings().set_eviction(EvictionPolicy { order, volatile_only });
}

fn set_limits(limits: &Limits, settings: &Settings) {
    let connections = &settings.connections;
    limits.connections_max.store(saturated(connections.maxclients.into()), Relaxed);
    limits.idle_timeout_s.store(connections.timeout_s.into(), Relaxed);
    limits.keepalive_s.store(settings.network.tcp_keepalive_s.into(), Relaxed);
    limits.input_bytes_max.store(saturated(connections.query_buffer_bytes_max), Relaxed);
    limits.output_pause_bytes.store(output_pause_bytes(connections.output_pause_bytes, settings.memory.maxmemory), Relaxed);
    limits.handshakes_per_round.store(settings.tls.handshakes_per_round, Relaxed);
    set_output_limits(limits, &connections.output_buffer_limits);
}

/// Output beyond which a connection is not executed further, by `client-output-pause`: little beside the memory for data, because
/// it counts against that.
fn output_pause_bytes(setting: u64, maxmemory: u64) -> usize {
    match (setting, maxmemory) {
        (0, _) => usize::MAX,
        (_, 0) => saturated(setting),
        _ => saturated(setting).min(saturated(maxmemory / OUTPUT_PAUSE_SHARE).max(OUTPUT_PAUSE_BYTES_MIN)),
    }
}

fn set_output_limits(limits: &Limits, settings: &BufferLimits) {
    let classes: [(&OutputLimit, _); 3] = [
        (&limits.output_normal, settings.normal),
        (&limits.output_replica, settings.replica),
        (&limits.output_subscriber, settings.pubsub),
    ];
    for (limit, setting) in classes {
        limit.set(saturated(setting.hard_bytes), saturated(setting.soft_bytes), u64::try_from(setting.soft_seconds).unwrap_or(0));
    }
}

fn saturated(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_waits_as_told_and_sooner_where_memory_is_small() {
        let (mib, large) = (1 << 20, 1 << 40);
        assert_eq!(output_pause_bytes(mib, 0), 1 << 20);
        assert_eq!(output_pause_bytes(mib, large), 1 << 20);
        assert_eq!(output_pause_bytes(mib, 128 << 20), 512 * 1024);
        assert_eq!(output_pause_bytes(mib, 1 << 20), OUTPUT_PAUSE_BYTES_MIN);
        assert_eq!(output_pause_bytes(1000, mib), 1000, "no more than was said");
        assert_eq!(output_pause_bytes(0, mib), usize::MAX, "it never waits");
    }
}
