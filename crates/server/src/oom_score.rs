//! `oom-score-adj`: how readily the kernel kills this process when memory is short.

use std::sync::OnceLock;

use almandine_config::choices::OomScoreAdj;
use almandine_config::{SetError, Settings};
use almandine_io::process;

/// The score that the process was started with, from when it is first changed.
static AT_START: OnceLock<i32> = OnceLock::new();

/// Makes the setting effective. A server is always a primary, so the first of the three values counts.
///
/// # Errors
/// When the system refuses it.
pub(crate) fn apply(settings: &Settings) -> Result<(), SetError> {
    let process = &settings.process;
    let [primary, ..] = process.oom_scores;
    if process.oom_score_adj == OomScoreAdj::No && AT_START.get().is_none() {
        return Ok(());
    }
    let failed = |error: std::io::Error| {
        SetError::failed("oom-score-adj", format!("Failed to apply new oom_score_adj configuration: {error}"))
    };
    let before = process::oom_score_adj().map_err(failed)?;
    let at_start = *AT_START.get_or_init(|| before);
    let score = match process.oom_score_adj {
        OomScoreAdj::No => at_start,
        OomScoreAdj::Yes | OomScoreAdj::Relative => at_start.saturating_add(primary),
        OomScoreAdj::Absolute => primary,
    };
    let score = score.clamp(-1000, 1000);
    if score == before { Ok(()) } else { process::set_oom_score_adj(score).map_err(failed) }
}
