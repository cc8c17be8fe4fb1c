//! Schedules by seed: each policy in turn, with points and stalls that are rare, frequent or absent, so that different seeds find
//! different defects.

use almandine_io::sim::turn::{Policy, Schedule};

/// The schedule of a seed. `threads` are the names of those that may be starved.
#[must_use]
pub fn schedule(seed: u64, threads: &[&str]) -> Schedule {
    const INNER_PER_MILLION: [u32; 4] = [0, 500, 5_000, 50_000];
    const STALLS_PER_MILLION: [u32; 3] = [0, 0, 100];
    const STEPS: [u64; 3] = [1_000, 10_000, 100_000];
    let pick = |salt: u64, number: usize| (mix(seed ^ mix(salt)) % number as u64) as usize;
    let policy = match seed % 4 {
        0 | 1 => Policy::Random,
        2 => Policy::Pct { changes: 1 + pick(1, 4) as u32, steps: STEPS[pick(2, STEPS.len())] },
        _ if threads.is_empty() => Policy::Random,
        _ => Policy::Starve(threads[pick(3, threads.len())].to_owned()),
    };
    Schedule {
        policy,
        inner_per_million: INNER_PER_MILLION[pick(4, INNER_PER_MILLION.len())],
        stalls_per_million: STALLS_PER_MILLION[pick(5, STALLS_PER_MILLION.len())],
    }
}

/// The finalizer of SplitMix64.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_try_every_policy() {
        let all: Vec<Schedule> = (0..100).map(|seed| schedule(seed, &["store"])).collect();
        let has = |matches: fn(&Schedule) -> bool| all.iter().filter(|schedule| matches(schedule)).count() > 5;
        assert!(has(|schedule| schedule.policy == Policy::Random));
        assert!(has(|schedule| matches!(schedule.policy, Policy::Pct { .. })));
        assert!(has(|schedule| schedule.policy == Policy::Starve("store".to_owned())));
        assert!(has(|schedule| schedule.inner_per_million == 0) && has(|schedule| schedule.stalls_per_million != 0));
    }
}
