//! What the log's writer says: to connections that wait for it, to commands that are refused, and to the operator.

use std::sync::Arc;

use almandine_instance::{Instance, Message};
use almandine_oplog::writer::{LogListener, LogProgress, LogState};

/// Passes it on.
pub(super) struct Listener {
    pub(super) instance: Arc<Instance>,
    pub(super) progress: Arc<LogProgress>,
}

impl LogListener for Listener {
    fn advanced(&self) {
        self.instance.workers.broadcast(&Message::LogAdvanced);
        self.instance.persistence.rewrites.log_has(self.progress.bytes());
    }

    fn is_quiet(&self) -> bool {
        self.instance.workers.rest.is_whole()
    }

    fn changed(&self, state: LogState) {
        let failure = self.progress.figures().last_failure.unwrap_or_default();
        match state {
            LogState::Serving => tracing::info!("The log takes writes again"),
            LogState::Full => tracing::error!("The log's disk is full: writes are refused until there is room"),
            LogState::Broken => tracing::error!(
                "The log cannot be written: {failure}. Writes are refused; what was acknowledged is in the log or in its rings: \
                 leave those as they are, and start the server again when the disk is sound"
            ),
            // Replies that wait for it may leave.
            LogState::Ended => self.instance.workers.broadcast(&Message::LogAdvanced),
        }
        self.instance.persistence.set_unlogged(matches!(state, LogState::Full | LogState::Broken));
        self.instance.persistence.rewrites.wake();
        if state == LogState::Broken {
            // Those that wait learn by their connection's end that it is not known what became of what they asked for.
            self.instance.workers.broadcast(&Message::LogBroken);
        }
    }
}
