//! The report of a crash: a bug's signal or a panic, in the log: where it happened, the command, and INFO.
//!
//! What needs least of the process comes first, because any step may be the last: a lock that the crashed thread holds, memory that
//! is damaged. Keys and values are not in it.

use std::backtrace::Backtrace;
use std::fmt::Write;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{OnceLock, PoisonError, Weak};

use almandine_config::Settings;
use almandine_handler::Table;
use almandine_instance::Instance;
use almandine_instance::metrics::{self, Readings, Section};
use almandine_io::crash::{self, Crash};
use almandine_io::sync::Mutex;

use crate::log;

/// `crash-log-enabled`.
static ENABLED: AtomicBool = AtomicBool::new(true);
/// `use-exit-on-panic`.
static EXIT: AtomicBool = AtomicBool::new(false);
/// `debug-context`.
static REMARK: Mutex<String> = Mutex::new(String::new());
/// What a report reads, once the server runs.
static SERVER: OnceLock<(Weak<Instance>, &'static Table)> = OnceLock::new();

/// Reports crashes from now on, and makes every panic one: latches may be held and the data in doubt (see the `session` crate).
///
/// # Errors
/// When the system refuses to tell of signals.
pub(crate) fn install(settings: &Settings) -> io::Result<()> {
    configure(settings);
    std::panic::set_hook(Box::new(|info| {
        if crash::claim() && ENABLED.load(Relaxed) {
            begin(&info.to_string());
            end();
        } else {
            log::urgent(&info.to_string());
        }
        if EXIT.load(Relaxed) {
            // Without the exit handlers of the process, which may need what is broken.
            almandine_io::process::exit_now(1);
        }
        std::process::abort();
    }));
    crash::install(of_signal)
}

/// Follows a change of the settings.
pub(crate) fn configure(settings: &Settings) {
    ENABLED.store(settings.process.crash_log_enabled, Relaxed);
    EXIT.store(settings.process.exit_on_panic, Relaxed);
    REMARK.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&settings.process.debug_context);
}

/// Gives reports their server.
pub(crate) fn attach(instance: Weak<Instance>, table: &'static Table) {
    // There is one server per process.
    let _ = SERVER.set((instance, table));
}

fn of_signal(crash: &Crash<'_>) {
    if !ENABLED.load(Relaxed) {
        return;
    }
    let mut what = format!("crashed by signal {} ({}), code {}", crash.number, crash.name, crash.code);
    // Writing to a String does not fail.
    let _ = write!(what, ", accessing address {:#x}", crash.address);
    begin(&what);
    let mut registers = String::from("------ REGISTERS ------");
    for (position, (name, value)) in crash.registers.iter().enumerate() {
        let separator = if position % 4 == 0 { '\n' } else { ' ' };
        let _ = write!(registers, "{separator}{name}:{value:016x}");
    }
    log::urgent(&registers);
    end();
}

/// What happened, and where.
fn begin(what: &str) {
    let thread = std::thread::current();
    log::urgent("=== ALMANDINE BUG REPORT START: Cut & paste starting from here ===");
    log::urgent(&format!("Almandine {} {what}, in thread '{}'", almandine_instance::VERSION, thread.name().unwrap_or("?")));
    // The thread that crashed may hold the lock.
    if let Ok(remark) = REMARK.try_lock()
        && !remark.is_empty()
    {
        log::urgent(&format!("A remark that was set: {}", *remark));
    }
    log::urgent(&format!("------ CURRENT COMMAND ------\n{}", current_command()));
    log::urgent(&format!("------ STACK TRACE ------\n{}", Backtrace::force_capture()));
}

/// What the server was like.
fn end() {
    if let Some(instance) = SERVER.get().and_then(|(instance, _)| instance.upgrade()) {
        log::urgent(&format!("------ INFO OUTPUT ------{}", info(&instance)));
    }
    log::urgent("=== ALMANDINE BUG REPORT END. Please report it with these lines. ===");
}

fn current_command() -> String {
    let Some(running) = almandine_session::running() else { return "none".to_owned() };
    let name = SERVER.get().map_or("?", |(_, table)| table.row(running.command).name.as_str());
    format!("{name} with {} arguments", running.arguments)
}

fn info(instance: &Instance) -> String {
    const SECTIONS: [Section; 9] = [
        Section::Server,
        Section::Clients,
        Section::Memory,
        Section::Persistence,
        Section::Stats,
        Section::Replication,
        Section::Cpu,
        Section::Cluster,
        Section::Storage,
    ];
    let readings = Readings::take(instance);
    let mut text = String::new();
    for section in SECTIONS {
        // Writing to a String does not fail.
        let _ = write!(text, "\n# {section:?}");
        for (name, value) in metrics::section(&readings, section) {
            let _ = write!(text, "\n{name}:{value}");
        }
    }
    text
}
