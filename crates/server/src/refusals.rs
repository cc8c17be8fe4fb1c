//! What the log says of commands that are refused in numbers: those that the server does not know or serve, and writes without
//! memory.
//!
//! The first refusal is told at once, those of the following while in one line.

use almandine_instance::Instance;

/// Turns of the control thread between two lines of one kind: a minute.
const TURNS_BETWEEN: u32 = 600;

/// Refusals of one kind.
#[derive(Default)]
struct Kind {
    seen: u64,
    /// Refused since the last line.
    untold: u64,
    /// Turns until the next line.
    wait: u32,
}

impl Kind {
    /// Takes the number of refusals, which CONFIG RESETSTAT sets to 0. Returns those of the next line, when it is due.
    fn turn(&mut self, total: u64) -> Option<u64> {
        self.untold += total.checked_sub(self.seen).unwrap_or(total);
        self.seen = total;
        self.wait = self.wait.saturating_sub(1);
        if self.untold == 0 || self.wait > 0 {
            return None;
        }
        self.wait = TURNS_BETWEEN;
        Some(std::mem::take(&mut self.untold))
    }
}

/// What was told of refusals.
#[derive(Default)]
pub(crate) struct Refusals {
    unknown: Kind,
    out_of_memory: Kind,
}

impl Refusals {
    /// Looks at the counters, and tells.
    pub(crate) fn turn(&mut self, instance: &Instance) {
        let totals = instance.statistics.totals();
        if let Some(commands) = self.unknown.turn(totals.unknown_commands) {
            let name = instance.statistics.unserved.take().unwrap_or_default();
            tracing::warn!(
                "Refused {commands} commands that this server does not know or serve, among them '{name}' (unknown_commands in \
                 INFO)"
            );
        }
        if let Some(commands) = self.out_of_memory.turn(totals.refused_out_of_memory) {
            tracing::warn!(
                "Refused {commands} commands because memory is full: {} bytes of {} are used, and '{}' evicts nothing more",
                instance.keyspace.figures().used_bytes(),
                instance.keyspace.figures().budget_bytes(),
                instance.config.snapshot().settings.memory.maxmemory_policy.name()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_refusal_is_told_at_once_and_the_others_together() {
        let mut kind = Kind::default();
        assert_eq!((kind.turn(0), kind.turn(3), kind.turn(10)), (None, Some(3), None));
        let told: Vec<u64> = (0..TURNS_BETWEEN).filter_map(|_| kind.turn(10)).collect();
        assert_eq!(told, [7]);
        // After CONFIG RESETSTAT the counter begins anew.
        assert_eq!(kind.turn(2), None);
        let told: Vec<u64> = (0..TURNS_BETWEEN * 3).filter_map(|_| kind.turn(2)).collect();
        assert_eq!(told, [2], "and nothing is told twice");
    }
}
