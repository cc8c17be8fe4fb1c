//! Medians and ranges of a handful of repeats.

use crate::report::table::small;

/// Middle, least and greatest of some numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The middle one, or the mean of the two middle ones.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// `None` without numbers.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Some(Self { median, min, max })
    }

    /// `median (min–max)` in the given format.
    pub fn show(&self, format: fn(f64) -> String) -> String {
        format!("{} ({}–{})", format(self.median), format(self.min), format(self.max))
    }
}

/// `0.25×`, or a dash.
pub fn ratio(of: Option<f64>, to: Option<f64>) -> String {
    match (of, to) {
        (Some(of), Some(to)) if of > 0.0 && to > 0.0 => format!("{}×", small(of / to)),
        _ => "–".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of([]), None);
        assert_eq!(ratio(Some(1.0), Some(4.0)), "0.250×");
        assert_eq!([ratio(None, Some(4.0)), ratio(Some(0.0), Some(4.0)), ratio(Some(4.0), Some(0.0))], ["–", "–", "–"]);
    }
}
