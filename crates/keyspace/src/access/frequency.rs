//! Redis' access frequency of a key, a logarithm from 0 to 255, and the seven steps that the store keeps of it.

/// The frequency of a key that was just created, and what each of the steps above it adds.
const INITIAL: u8 = 5;
const STEP: u8 = 10;

/// The step whose frequency is nearest to this one, and not above it.
#[must_use]
pub fn steps(frequency: u8) -> u64 {
    (frequency.saturating_sub(INITIAL) / STEP).into()
}

/// The frequency that a step stands for.
#[must_use]
pub fn of_steps(steps: u64) -> u8 {
    u8::try_from(steps).unwrap_or(u8::MAX).saturating_mul(STEP).saturating_add(INITIAL)
}
