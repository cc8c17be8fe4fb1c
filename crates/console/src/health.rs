//! Health: whether the process answers at all, and whether it should be sent clients.

use almandine_instance::{DeviceState, Instance};

/// Why a server should get no clients now, most pressing first; `None` when it should. Beyond memory that is used up is no reason:
/// reads are answered, and which writes are refused depends on `maxmemory-policy`.
pub(crate) fn not_ready(instance: &Instance) -> Option<String> {
    let persistence = &instance.persistence;
    let storage = &instance.gauges.storage;
    if instance.shutdown.requested() || instance.shutdown.pending().is_some() {
        return Some("shutting down".to_owned());
    }
    if persistence.is_loading() {
        let share = persistence.loading.figures().share() * 100.0;
        return Some(format!("loading data: {share:.0} per cent are read"));
    }
    if storage.state() != DeviceState::Sound {
        return Some(format!("storage is {}: {}", storage.state().name(), storage.last_error()));
    }
    if persistence.is_unlogged() {
        return Some("the log of writes takes nothing: its disk is full or fails, see the log of the server".to_owned());
    }
    let settings = &instance.config.snapshot().settings.persistence;
    if persistence.is_unsaved() && settings.stop_writes_unsaved && !settings.save_points.is_empty() {
        return Some("the last snapshot has failed, and stop-writes-on-bgsave-error refuses writes".to_owned());
    }
    None
}
