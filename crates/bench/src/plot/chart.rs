//! What a chart shows: axes, lines, and how values become places along an axis.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// How an axis maps values to places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// From zero.
    Linear,
    /// Logarithmic.
    Log,
    /// Quantiles: equal distances for 90 %, 99 %, 99.9 % …
    Nines,
}

#[derive(Debug, Clone)]
pub(super) struct Axis {
    pub(super) title: String,
    pub(super) scale: Scale,
    /// Formats a tick.
    pub(super) label: fn(f64) -> String,
}

/// How a line is drawn: a server has one colour in all charts of a result, its lines differ in pattern and shade.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Look {
    pub(super) colour: usize,
    pub(super) pattern: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) name: String,
    /// In rising order of x.
    pub(super) points: Vec<(f64, f64)>,
    /// Least and greatest value at each point, where there were repeats.
    pub(super) spread: Vec<(f64, f64)>,
    pub(super) look: Look,
}

#[derive(Debug, Clone)]
pub(super) struct Chart {
    pub(super) title: String,
    /// What all lines share, what repeats became, and which direction is good.
    pub(super) caption: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
    /// Whether x ticks stand at the data instead of at round numbers.
    pub(super) ticks_at_data: bool,
}

impl Chart {
    /// The horizontal axis with its range.
    pub(super) fn placed_x(&self) -> Placed {
        let mut data: Vec<f64> = self.series.iter().flat_map(|series| series.points.iter().map(|point| point.0)).collect();
        let mut placed = Placed::new(&self.x, data.iter().copied());
        data.sort_by(f64::total_cmp);
        data.dedup();
        if self.ticks_at_data && data.len() <= 16 {
            placed.ticks = data;
        }
        placed
    }

    /// The vertical axis with its range.
    pub(super) fn placed_y(&self) -> Placed {
        let points = self.series.iter().flat_map(|series| series.points.iter().map(|point| point.1));
        let ends = self.series.iter().flat_map(|series| series.spread.iter().flat_map(|(least, most)| [*least, *most]));
        Placed::new(&self.y, points.chain(ends))
    }
}

impl Scale {
    fn project(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.log10(),
            Self::Nines => -(1.0 - value.clamp(0.0, 0.999_999)).log10(),
        }
    }
}

/// An axis with its range and ticks.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    scale: Scale,
    label: fn(f64) -> String,
    /// The ends, as [`Scale::project`] gives them.
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Placed {
    fn new(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        // A logarithmic axis has no place for zero: what is not above it is not drawn, and does not stretch the axis.
        let values = values.filter(|value| axis.scale != Scale::Log || *value > 0.0);
        let projected: Vec<f64> = values.map(|value| axis.scale.project(value)).collect();
        let least = projected.iter().copied().fold(f64::INFINITY, f64::min);
        let most = projected.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (from, to) = match axis.scale {
            Scale::Linear => (0.0, most * 1.05),
            Scale::Log if most - least < 0.1 => (least - 0.3, most + 0.3),
            Scale::Log => (least, most),
            Scale::Nines => (0.0, most),
        };
        let ticks = ticks(axis.scale, from, to);
        Self { scale: axis.scale, label: axis.label, from, to, ticks }
    }
}

/// Round values within a range.
fn ticks(scale: Scale, from: f64, to: f64) -> Vec<f64> {
    match scale {
        Scale::Nines => {
            let all = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
            all.into_iter().filter(|&quantile| scale.project(quantile) <= to + 1e-9).collect()
        }
        Scale::Log => {
            let decades = from.floor() as i32..=to.ceil() as i32;
            let steps: &[f64] = if to - from > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let all = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
            all.filter(|value| (from - 1e-9..=to + 1e-9).contains(&value.log10())).collect()
        }
        Scale::Linear => {
            let rough = (to - from) / 5.0;
            let unit = 10f64.powf(rough.max(1e-12).log10().floor());
            let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * unit).find(|&step| step >= rough).unwrap_or(unit);
            let first = (from / step).ceil() as i64;
            let last = (to / step + 1e-9).floor() as i64;
            (first..=last).map(|tick| tick as f64 * step).collect()
        }
    }
}

impl Ranged for Placed {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        let share = (self.scale.project(*value) - self.from) / (self.to - self.from).max(1e-12);
        start + (f64::from(end - start) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Placed {
    fn format_ext(&self, value: &f64) -> String {
        (self.label)(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale) -> Axis {
        Axis { title: "t".into(), scale, label: |v| format!("{v}") }
    }

    #[test]
    fn ticks_are_round() {
        let ticks = |scale, values: [f64; 2]| Placed::new(&axis(scale), values.into_iter()).ticks;
        assert_eq!(ticks(Scale::Linear, [0.0, 950.0]), [0.0, 200.0, 400.0, 600.0, 800.0]);
        assert_eq!(ticks(Scale::Log, [1.0, 20.0]), [1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(ticks(Scale::Log, [0.0, 20.0]), ticks(Scale::Log, [20.0, 20.0]), "zero does not stretch the axis");
        assert_eq!(ticks(Scale::Nines, [0.5, 0.99]), [0.0, 0.5, 0.9, 0.99]);
    }

    #[test]
    fn points_and_their_spread_lie_within_the_frame() {
        let (points, spread) = (vec![(1.0, 10.0), (100.0, 5.0)], vec![(9.0, 14.0), (5.0, 5.0)]);
        let series = vec![Series { name: "a".into(), points, spread, look: Look::default() }];
        let (title, caption) = (String::new(), String::new());
        let chart = Chart { title, caption, x: axis(Scale::Log), y: axis(Scale::Linear), series, ticks_at_data: true };
        let (x, y) = (chart.placed_x(), chart.placed_y());
        assert_eq!(x.ticks, [1.0, 100.0]);
        assert_eq!((x.map(&1.0, (0, 1000)), x.map(&100.0, (0, 1000))), (0, 1000));
        for value in [5.0, 9.0, 10.0, 14.0] {
            assert!((0..=1000).contains(&y.map(&value, (1000, 0))), "{value}");
        }
    }
}
