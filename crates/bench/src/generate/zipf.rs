//! Zipf-distributed ranks in constant time and constant memory.
//!
//! The method of Gray et al., "Quickly generating billion-record synthetic databases" (SIGMOD 1994), which YCSB made
//! the convention: the n-th harmonic number is computed once, ranks 0 and 1 are exact, the others come from the
//! inverse of the continuous approximation. For more than a few million ranks the sum's tail is replaced by its integral,
//! whose error is far below what a sample can show.

use super::random::Random;

/// Terms of the harmonic sum that are added one by one.
const EXACT_TERMS_MAX: u64 = 2_000_000;

/// Draws ranks in `0..n`, rank 0 the most popular, with P(rank) ∝ 1 / (rank + 1)^theta.
#[derive(Debug, Clone)]
pub struct Zipf {
    n: u64,
    theta: f64,
    alpha: f64,
    zeta_n: f64,
    eta: f64,
}

impl Zipf {
    /// `theta` in `(0, 1)`; 0.99 is customary. `n` of at least 1.
    pub fn new(n: u64, theta: f64) -> Self {
        let n = n.max(1);
        let zeta_n = zeta(n, theta);
        let zeta_2 = zeta(2.min(n), theta);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - theta)) / (1.0 - zeta_2 / zeta_n);
        Self { n, theta, alpha: 1.0 / (1.0 - theta), zeta_n, eta }
    }

    /// The next rank.
    pub fn rank(&self, random: &mut Random) -> u64 {
        let u = random.unit();
        let uz = u * self.zeta_n;
        if uz < 1.0 || self.n == 1 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(self.theta) || self.n == 2 {
            return 1;
        }
        let rank = self.n as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.n - 1)
    }
}

/// The generalised harmonic number: the sum of 1 / i^theta for i in 1..=n.
fn zeta(n: u64, theta: f64) -> f64 {
    let exact = n.min(EXACT_TERMS_MAX);
    let sum: f64 = (1..=exact).map(|i| (i as f64).powf(-theta)).sum();
    let from = exact as f64 + 0.5;
    let to = n as f64 + 0.5;
    sum + (to.powf(1.0 - theta) - from.powf(1.0 - theta)) / (1.0 - theta)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shape_follows_the_law() {
        let n = 1000;
        let zipf = Zipf::new(n, 0.99);
        let mut random = Random::new(3, 0);
        let draws = 1_000_000;
        let mut counts = vec![0u32; n as usize];
        for _ in 0..draws {
            counts[zipf.rank(&mut random) as usize] += 1;
        }
        let total: f64 = (1..=n).map(|i| (i as f64).powf(-0.99)).sum();
        let share = |from: usize, to: usize| counts[from..to].iter().sum::<u32>() as f64 / draws as f64;
        let law = |from: usize, to: usize| ((from + 1)..=to).map(|i| (i as f64).powf(-0.99)).sum::<f64>() / total;
        for (from, to) in [(0, 1), (1, 2), (2, 10), (10, 100), (100, 1000)] {
            let (got, expected) = (share(from, to), law(from, to));
            // The approximation is known to favour the ranks just after the exact ones.
            assert!((got / expected - 1.0).abs() < 0.1, "ranks {from}..{to}: {got} against {expected}");
        }
    }

    #[test]
    fn stays_within_bounds_for_tiny_and_huge_n() {
        let mut random = Random::new(5, 0);
        for n in [1, 2, 3, 50_000_000] {
            let zipf = Zipf::new(n, 0.99);
            assert!((0..10_000).all(|_| zipf.rank(&mut random) < n));
        }
    }

    #[test]
    fn integral_tail_matches_the_sum() {
        let exact: f64 = (1..=4_000_000u64).map(|i| (i as f64).powf(-0.99)).sum();
        assert!((zeta(4_000_000, 0.99) / exact - 1.0).abs() < 1e-9);
    }
}
