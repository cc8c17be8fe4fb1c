//! What the log says of a start: the configuration, what of it has no effect, memory, storage, listeners.

use almandine_config::{Config, Parameter, Settings};
use almandine_io::memory;
use almandine_io::reactor::Kind;

/// The first lines: which server this is, and what it was told.
pub(crate) fn introduce(config: &Config) {
    tracing::info!("Almandine {} is starting, bits={}, pid={}", almandine_node::VERSION, usize::BITS, std::process::id());
    match config.file() {
        Some(file) => tracing::info!("Configuration loaded from {}", file.display()),
        None => tracing::info!("No configuration file; name one as the first argument: almandine-server /path/to/almandine.conf"),
    }
    if config.snapshot().settings.process.always_show_logo {
        tracing::info!("{}", logo(config.snapshot().settings.network.port));
    }
    let snapshot = config.snapshot();
    if snapshot.show("save").is_some_and(|points| !points.is_empty()) {
        tracing::warn!("Snapshots do not exist yet: the data ends with the server, whatever 'save' says (save \"\" silences this)");
    }
    warn_without_effect(snapshot.without_effect());
}

/// What `always-show-logo` shows. Harnesses that start servers, that of Redis' own suite among them, wait for its line with the process id.
fn logo(port: u16) -> String {
    let (version, bits, pid) = (almandine_node::VERSION, usize::BITS, std::process::id());
    format!(
        "\n     ______\n    /\\____/\\      Almandine {version}, {bits} bit\n   /_/    \\_\\     Running in standalone mode\n   \\ \\    / /     Port: {port}\n    \\ \\__/ /      PID: {pid}\n     \\/__\\/\n"
    )
}

/// Names parameters that were set and have no effect, in one line.
pub(crate) fn warn_without_effect(parameters: impl Iterator<Item = &'static Parameter>) {
    let names: Vec<&str> = parameters.map(|parameter| parameter.name).collect();
    if !names.is_empty() {
        tracing::warn!("Accepted and without effect: {}", names.join(", "));
    }
}

/// What serves, and within which memory.
pub(crate) fn announce(settings: &Settings, workers: usize, reactor: Kind) {
    let pinned = if settings.engine.pin_workers { ", pinned" } else { "" };
    tracing::info!("{workers} workers on {}{pinned}; {} databases", reactor.name(), settings.process.databases);
    tracing::info!("{}", memory_line(settings, memory::physical_bytes()));
}

fn memory_line(settings: &Settings, machine_bytes: u64) -> String {
    let maxmemory = settings.memory.maxmemory;
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    if !crate::storage::is_configured(settings) {
        return match maxmemory {
            0 => format!("No memory limit; the machine has {}", mib(machine_bytes)),
            bytes => format!("maxmemory {}, {} beyond it", mib(bytes), settings.memory.maxmemory_policy.name()),
        };
    }
    let storage = &settings.storage;
    let places = storage.directories.iter().chain(Some(&storage.object_url).filter(|url| !url.is_empty()));
    let places: Vec<&str> = places.map(String::as_str).collect();
    let places = if places.is_empty() { storage.device.name().to_owned() } else { places.join(", ") };
    match maxmemory {
        0 => format!(
            "Memory budget {}, three quarters of the machine's, as maxmemory is not set; data beyond it goes to {places}",
            mib(machine_bytes / 4 * 3)
        ),
        bytes => format!("maxmemory {}; data beyond it goes to {places}", mib(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pairs: &[(&str, &str)]) -> String {
        let args: Vec<String> = pairs.iter().flat_map(|(name, value)| [format!("--{name}"), (*value).to_owned()]).collect();
        let Ok(almandine_config::Startup::Run(config)) = Config::load(&args) else { panic!("{args:?}") };
        memory_line(&config.snapshot().settings, 8 << 30)
    }

    #[test]
    fn the_logo_has_the_port_and_the_process() {
        let logo = logo(7000);
        assert!(logo.contains(" Port: 7000\n") && logo.contains(&format!(" PID: {}\n", std::process::id())), "{logo}");
    }

    #[test]
    fn the_memory_budget_is_told_as_it_is() {
        assert_eq!(line(&[]), "No memory limit; the machine has 8192 MiB");
        assert_eq!(line(&[("maxmemory", "1gb")]), "maxmemory 1024 MiB, noeviction beyond it");
        let budget =
            "Memory budget 6144 MiB, three quarters of the machine's, as maxmemory is not set; data beyond it goes to /a, /b";
        assert_eq!(line(&[("storage-dir", "/a /b")]), budget);
        assert_eq!(line(&[("storage-dir", "/a"), ("maxmemory", "64mb")]), "maxmemory 64 MiB; data beyond it goes to /a");
        assert_eq!(line(&[("storage-device", "memory"), ("maxmemory", "64mb")]), "maxmemory 64 MiB; data beyond it goes to memory");
    }
}
