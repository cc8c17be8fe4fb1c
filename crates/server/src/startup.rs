//! What the log says of a start: the configuration, what of it has no effect, memory, storage, listeners.

use almandine_config::{Config, Parameter, Settings};
use almandine_io::memory;
use almandine_io::reactor::Kind;
use almandine_keyspace::Keyspace;

/// The first lines: which server this is, and what it was told.
pub(crate) fn introduce(config: &Config) {
    tracing::info!("Almandine {} is starting, bits={}, pid={}", almandine_instance::VERSION, usize::BITS, std::process::id());
    match config.file() {
        Some(file) => tracing::info!("Configuration loaded from {}", file.display()),
        None => tracing::info!("No configuration file; name one as the first argument: almandine-server /path/to/almandine.conf"),
    }
    let snapshot = config.snapshot();
    warn_without_effect(snapshot.without_effect());
}

/// What `always-show-logo` shows. Harnesses that start servers, that of Redis' own suite among them, wait for its line with the
/// process id.
fn logo(port: u16) -> String {
    let (version, bits, pid) = (almandine_instance::VERSION, usize::BITS, std::process::id());
    format!(
        "
     ______
    /\\____/\\      Almandine {version}, {bits} bit
   /_/    \\_\\     Running in standalone mode
   \\ \\    / /     Port: {port}
    \\ \\__/ /      PID: {pid}
     \\/__\\/
"
    )
}

/// Why a server with this `maxmemory` would refuse every write; nothing where it would not.
pub(crate) fn too_little_memory(settings: &Settings) -> Option<String> {
    let (maxmemory, index) = (settings.memory.maxmemory, settings.engine.index_bytes as u64);
    // With storage it is an error, see `storage::check`.
    (maxmemory != 0 && maxmemory <= index && !crate::storage::is_configured(settings)).then(|| {
        format!(
            "maxmemory is {maxmemory} bytes and the empty index takes {index}: every write is refused until maxmemory is raised"
        )
    })
}

/// What is lost with the process where nothing is saved.
pub(crate) fn warn_of_loss(keyspace: &Keyspace) {
    let databases = (0..keyspace.databases()).filter_map(|db| u16::try_from(db).ok());
    let sizes: Vec<u64> = databases.map(|db| keyspace.dbsize(db)).filter(|keys| *keys > 0).collect();
    if !sizes.is_empty() {
        let keys: u64 = sizes.iter().sum();
        tracing::warn!("Nothing was saved: {keys} keys in {} databases end with the server, for 'save' is empty", sizes.len());
    }
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
    if let Some(warning) = too_little_memory(settings) {
        tracing::warn!("Attention: {warning}");
    }
    // Behind the listeners: harnesses connect when they see it.
    if settings.process.always_show_logo {
        tracing::info!("{}", logo(settings.network.port));
    }
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
        memory_line(&settings_of(pairs), 8 << 30)
    }

    fn settings_of(pairs: &[(&str, &str)]) -> Settings {
        let args: Vec<String> = pairs.iter().flat_map(|(name, value)| [format!("--{name}"), (*value).to_owned()]).collect();
        let Ok(almandine_config::Startup::Run(config)) = Config::load(&args) else { panic!("{args:?}") };
        config.snapshot().settings.clone()
    }

    #[test]
    fn the_logo_has_the_port_and_the_process() {
        let logo = logo(7000);
        assert!(logo.contains(" Port: 7000\n") && logo.contains(&format!(" PID: {}\n", std::process::id())), "{logo}");
    }

    #[test]
    fn the_memory_budget_is_told_as_it_is() {
        let warning = |maxmemory: &str| too_little_memory(&settings_of(&[("maxmemory", maxmemory)]));
        assert!(warning("1kb").is_some() && warning("2mb").is_none() && warning("0").is_none());
        assert_eq!(line(&[]), "No memory limit; the machine has 8192 MiB");
        assert_eq!(line(&[("maxmemory", "1gb")]), "maxmemory 1024 MiB, noeviction beyond it");
        let budget =
            "Memory budget 6144 MiB, three quarters of the machine's, as maxmemory is not set; data beyond it goes to /a, /b";
        assert_eq!(line(&[("storage-dir", "/a /b")]), budget);
        assert_eq!(line(&[("storage-dir", "/a"), ("maxmemory", "64mb")]), "maxmemory 64 MiB; data beyond it goes to /a");
        assert_eq!(line(&[("storage-device", "memory"), ("maxmemory", "64mb")]), "maxmemory 64 MiB; data beyond it goes to memory");
    }
}
