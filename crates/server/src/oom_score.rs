//! `oom-score-adj`: how readily the kernel kills this process when memory is short.

use std::sync::PoisonError;

use almandine_config::choices::OomScoreAdj;
use almandine_config::{SetError, Settings};
use almandine_io::process;
use almandine_io::sync::Mutex;

/// The score before the server changed it, while it is the server that decides it.
static BASE: Mutex<Option<i32>> = Mutex::new(None);

/// Makes the setting effective. A server is always a primary, so the first of the three values counts.
///
/// # Errors
/// When the system refuses it.
pub(crate) fn apply(settings: &Settings) -> Result<(), SetError> {
    let process = &settings.process;
    let mut base = BASE.lock().unwrap_or_else(PoisonError::into_inner);
    if process.oom_score_adj == OomScoreAdj::No && base.is_none() {
        return Ok(());
    }
    let failed = |error: std::io::Error| {
        SetError::failed("oom-score-adj", format!("Failed to apply new oom_score_adj configuration: {error}"))
    };
    let before = process::oom_score_adj().map_err(failed)?;
    let score = score(process.oom_score_adj, process.oom_scores[0], before, &mut base);
    if score == before { Ok(()) } else { process::set_oom_score_adj(score).map_err(failed) }
}

/// What the score must be. Switched off, it is what it was before; a change from outside after that is the new base.
fn score(setting: OomScoreAdj, primary: i32, before: i32, base: &mut Option<i32>) -> i32 {
    match setting {
        OomScoreAdj::No => base.take().unwrap_or(before),
        OomScoreAdj::Yes | OomScoreAdj::Relative => base.get_or_insert(before).saturating_add(primary).clamp(-1000, 1000),
        OomScoreAdj::Absolute => {
            base.get_or_insert(before);
            primary.clamp(-1000, 1000)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switched_off_it_is_as_it_was_before_it_was_switched_on() {
        let mut base = None;
        assert_eq!(score(OomScoreAdj::Yes, 10, 5, &mut base), 15);
        assert_eq!(score(OomScoreAdj::Relative, 20, 15, &mut base), 25);
        assert_eq!(score(OomScoreAdj::Absolute, 9, 25, &mut base), 9);
        assert_eq!(score(OomScoreAdj::No, 9, 9, &mut base), 5);
        // Another process has changed it meanwhile.
        assert_eq!(score(OomScoreAdj::Yes, 9, 22, &mut base), 31);
        assert_eq!(score(OomScoreAdj::No, 9, 31, &mut base), 22);
        assert_eq!(score(OomScoreAdj::Relative, 2000, 0, &mut base), 1000);
    }
}
