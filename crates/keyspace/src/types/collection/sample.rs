//! A sample of few elements.

/// Visits `count` different ones of `len` elements at random, or all if they are fewer. `random` gives 64 random bits.
///
/// # Errors
/// Those of the elements; what was visited is no sample then.
pub(in crate::types) fn sample<T, E>(
    elements: impl Iterator<Item = Result<T, E>>,
    len: usize,
    count: usize,
    random: &mut dyn FnMut() -> u64,
    mut visit: impl FnMut(T),
) -> Result<(), E> {
    let (mut left, mut wanted) = (len, count.min(len));
    for element in elements {
        let element = element?;
        if ((u128::from(random()) * left as u128) >> 64) < wanted as u128 {
            visit(element);
            wanted -= 1;
        }
        left -= 1;
    }
    Ok(())
}
