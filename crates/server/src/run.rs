//! The process: from a configuration to a running server, and to its end. What serves is a [`Node`].

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use almandine_config::Config;
use almandine_instance::{Instance, ShutdownRequest};
use almandine_io::files;
use almandine_io::signal::{Signal, Signals};
use almandine_recovery::save;

use crate::process::{OwnProcess, PidFile};
use crate::{Node, cores, crash, log, oom_score, open_files, process, startup, supervisor, title};

/// Runs the server until it is asked to end. `program` and `args` are the command line.
pub(crate) fn run(config: Config, program: &str, args: &[String]) -> ExitCode {
    let snapshot = config.snapshot();
    let settings = &snapshot.settings;
    // Before the server leaves the terminal, so that the operator reads the reason.
    if let Err(error) = log::check(settings) {
        eprintln!("almandine-server: {error}");
        return ExitCode::FAILURE;
    }
    match process::went_to_background(settings, args) {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => {}
        Err(error) => {
            eprintln!("Can't run in the background: {error}");
            return ExitCode::FAILURE;
        }
    }
    log::install(settings);
    cores::begin(settings);
    let file = config.file().map(|file| file.display().to_string()).unwrap_or_default();
    title::begin(settings, program, &file);
    match crash::install(settings).and_then(|()| serve(config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("Fatal: {error}");
            eprintln!("almandine-server: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(config: Config) -> io::Result<()> {
    let signals = Signals::block()?;
    startup::introduce(&config);
    open_files::prepare(&config)?;
    let snapshot = config.snapshot();
    let settings = &snapshot.settings;
    std::env::set_current_dir(&settings.process.dir)
        .map_err(|error| io::Error::new(error.kind(), format!("Can't chdir to '{}': {error}", settings.process.dir)))?;
    oom_score::apply(settings).map_err(io::Error::other)?;
    let node = Node::open(config, Arc::new(OwnProcess))?;
    crash::attach(Arc::downgrade(node.instance()), node.commands());
    watch_signals(signals, node.instance())?;
    let pid_file = PidFile::write(settings);
    node.begin()?;
    supervisor::begin(settings, &node);
    node.wait();
    // The thread of the signals holds the instance: the memory of the data goes with the process, which is faster.
    let outcome = node.stop();
    drop(pid_file);
    tracing::warn!("Almandine is now ready to exit, bye bye...");
    outcome
}

/// The first SIGTERM or SIGINT asks for the end, a second SIGINT does not wait for it. SIGHUP is ignored.
fn watch_signals(signals: Signals, instance: &Arc<Instance>) -> io::Result<()> {
    let instance = Arc::clone(instance);
    signals.watch(move |signal| {
        match signal {
            Signal::HangUp => {}
            Signal::Interrupt if instance.shutdown.requested() || instance.shutdown.pending().is_some() => {
                tracing::warn!("Received SIGINT again: exiting now.");
                // The snapshot that is being written is of no use; the last whole one keeps its name.
                let written = &instance.config.snapshot().settings.persistence.snapshot_file;
                let _ = files::remove(save::temporary(Path::new(written)));
                std::process::exit(1);
            }
            Signal::Terminate | Signal::Interrupt => {
                tracing::warn!("Received {} scheduling shutdown...", signal.name());
                instance.persistence.saves.cancel();
                let process = &instance.config.snapshot().settings.process;
                let options = if matches!(signal, Signal::Interrupt) { process.on_interrupt } else { process.on_terminate };
                instance.shutdown.signal(ShutdownRequest::of_signal(options));
            }
        }
        true
    })
}
