//! A line chart with axes and a legend, laid out as a scene.

use super::scene::{Anchor, Colour, Item, Scene, Stroke};

const WIDTH: f32 = 860.0;
const HEIGHT: f32 = 500.0;
const LEFT: f32 = 76.0;
const RIGHT: f32 = 240.0;
const TOP: f32 = 78.0;
const BOTTOM: f32 = 56.0;

const INK: Colour = [40, 40, 48];
const PALE: Colour = [226, 226, 232];
const PALETTE: &[Colour] =
    &[[158, 27, 50], [31, 98, 165], [44, 128, 72], [214, 126, 30], [112, 72, 160], [20, 140, 150], [120, 90, 60], [90, 96, 110]];

/// Lines that can be told apart: each colour solid, dashed and dotted. All fit beside the frame.
pub(super) const SERIES_MAX: usize = PALETTE.len() * STROKES.len() - 3;
const STROKES: &[Stroke] = &[Stroke::Solid, Stroke::Dashed, Stroke::Dotted];
/// Height of a line of the legend.
const LEGEND: f32 = 17.0;

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

#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) name: String,
    /// In rising order of x.
    pub(super) points: Vec<(f64, f64)>,
    /// Least and greatest value at each point, where there were repeats.
    pub(super) spread: Vec<(f64, f64)>,
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

/// An axis with its range.
struct Placed<'a> {
    axis: &'a Axis,
    from: f64,
    to: f64,
    start: f32,
    end: f32,
}

impl Scale {
    fn project(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.max(1e-9).log10(),
            Self::Nines => -(1.0 - value.clamp(0.0, 0.999_999)).log10(),
        }
    }
}

impl Placed<'_> {
    fn place(&self, value: f64) -> f32 {
        let share = (self.axis.scale.project(value) - self.from) / (self.to - self.from).max(1e-12);
        self.start + (self.end - self.start) * share as f32
    }

    /// Round values within the range.
    fn ticks(&self) -> Vec<f64> {
        match self.axis.scale {
            Scale::Nines => [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999]
                .into_iter()
                .filter(|&q| self.axis.scale.project(q) <= self.to + 1e-9)
                .collect(),
            Scale::Log => {
                let decades = self.from.floor() as i32..=self.to.ceil() as i32;
                let steps: &[f64] = if self.to - self.from > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
                let all = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
                all.filter(|v| (self.from - 1e-9..=self.to + 1e-9).contains(&v.log10())).collect()
            }
            Scale::Linear => {
                let rough = (self.to - self.from) / 5.0;
                let unit = 10f64.powf(rough.max(1e-12).log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * unit).find(|&s| s >= rough).unwrap_or(unit);
                let first = (self.from / step).ceil() as i64;
                let last = (self.to / step + 1e-9).floor() as i64;
                (first..=last).map(|i| i as f64 * step).collect()
            }
        }
    }
}

impl Chart {
    /// Lays the chart out.
    pub(super) fn scene(&self) -> Scene {
        let mut scene = Scene { width: WIDTH, height: HEIGHT, items: Vec::new() };
        let values = |of: fn(&(f64, f64)) -> f64| self.series.iter().flat_map(move |s| s.points.iter().map(of));
        let x = placed(&self.x, values(|p| p.0), LEFT, WIDTH - RIGHT);
        let ends = self.series.iter().flat_map(|s| s.spread.iter().flat_map(|(least, most)| [*least, *most]));
        let y = placed(&self.y, values(|p| p.1).chain(ends), HEIGHT - BOTTOM, TOP);
        scene.text(LEFT, 20.0, 16.0, Anchor::Start, INK, &self.title);
        scene.text(LEFT, 38.0, 11.0, Anchor::Start, INK, &self.caption);
        self.grid(&mut scene, &x, &y);
        for (index, series) in self.series.iter().take(SERIES_MAX).enumerate() {
            let colour = PALETTE[index % PALETTE.len()];
            let points: Vec<(f32, f32)> = series.points.iter().map(|p| (x.place(p.0), y.place(p.1))).collect();
            // Past the palette, the same colours return dashed, then dotted.
            let stroke = STROKES[index / PALETTE.len()];
            for ((at, _), (least, most)) in points.iter().zip(&series.spread).filter(|(_, (least, most))| least < most) {
                let (low, high) = (y.place(*least), y.place(*most));
                scene.line(&[(*at, low), (*at, high)], colour, 1.0);
                scene.line(&[(at - 3.0, low), (at + 3.0, low)], colour, 1.0);
                scene.line(&[(at - 3.0, high), (at + 3.0, high)], colour, 1.0);
            }
            scene.items.push(Item::Line { points: points.clone(), colour, width: 2.2, stroke });
            scene.items.extend(points.iter().map(|&(x, y)| Item::Dot { x, y, radius: 3.0, colour }));
            let (left, top) = (WIDTH - RIGHT + 16.0, TOP + 8.0 + index as f32 * LEGEND);
            let sample = vec![(left, top - 2.0), (left + 18.0, top - 2.0)];
            scene.items.push(Item::Line { points: sample, colour, width: 3.0, stroke });
            scene.text(left + 23.0, top + 2.5, 12.0, Anchor::Start, INK, &series.name);
        }
        if let Some(hidden) = self.series.len().checked_sub(SERIES_MAX).filter(|hidden| *hidden > 0) {
            let top = TOP + 10.5 + SERIES_MAX as f32 * LEGEND;
            scene.text(WIDTH - RIGHT + 16.0, top, 12.0, Anchor::Start, INK, &format!("{hidden} more are not drawn"));
        }
        scene
    }

    fn grid(&self, scene: &mut Scene, x: &Placed<'_>, y: &Placed<'_>) {
        for tick in y.ticks() {
            let at = y.place(tick);
            scene.line(&[(LEFT, at), (WIDTH - RIGHT, at)], PALE, 1.0);
            scene.text(LEFT - 8.0, at + 4.0, 12.0, Anchor::End, INK, &(self.y.label)(tick));
        }
        let mut data: Vec<f64> = self.series.iter().flat_map(|s| s.points.iter().map(|p| p.0)).collect();
        data.sort_by(f64::total_cmp);
        data.dedup();
        let ticks = if self.ticks_at_data && data.len() <= 16 { data } else { x.ticks() };
        for tick in ticks {
            let at = x.place(tick);
            scene.line(&[(at, TOP), (at, HEIGHT - BOTTOM)], PALE, 1.0);
            scene.text(at, HEIGHT - BOTTOM + 18.0, 12.0, Anchor::Middle, INK, &(self.x.label)(tick));
        }
        scene.line(&[(LEFT, TOP), (LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM)], INK, 1.2);
        scene.text((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 14.0, 13.0, Anchor::Middle, INK, &self.x.title);
        scene.text(LEFT - 62.0, TOP - 8.0, 12.0, Anchor::Start, INK, &self.y.title);
    }
}

fn placed(axis: &Axis, values: impl Iterator<Item = f64>, start: f32, end: f32) -> Placed<'_> {
    let projected: Vec<f64> = values.map(|value| axis.scale.project(value)).collect();
    let least = projected.iter().copied().fold(f64::INFINITY, f64::min);
    let most = projected.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (from, to) = match axis.scale {
        Scale::Linear => (0.0, most * 1.05),
        Scale::Log if most - least < 0.1 => (least - 0.3, most + 0.3),
        Scale::Log => (least, most),
        Scale::Nines => (0.0, most),
    };
    Placed { axis, from, to, start, end }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale) -> Axis {
        Axis { title: "t".into(), scale, label: |v| format!("{v}") }
    }

    #[test]
    fn ticks_are_round() {
        let linear = axis(Scale::Linear);
        assert_eq!(placed(&linear, [0.0, 950.0].into_iter(), 0.0, 1.0).ticks(), [0.0, 200.0, 400.0, 600.0, 800.0]);
        let log = axis(Scale::Log);
        assert_eq!(placed(&log, [1.0, 20.0].into_iter(), 0.0, 1.0).ticks(), [1.0, 2.0, 5.0, 10.0, 20.0]);
        let nines = axis(Scale::Nines);
        assert_eq!(placed(&nines, [0.5, 0.99].into_iter(), 0.0, 1.0).ticks(), [0.0, 0.5, 0.9, 0.99]);
    }

    #[test]
    fn points_lie_within_the_frame() {
        let series =
            vec![Series { name: "a".into(), points: vec![(1.0, 10.0), (100.0, 5.0)], spread: vec![(9.0, 14.0), (5.0, 5.0)] }];
        let chart = Chart {
            title: String::new(),
            caption: String::new(),
            x: axis(Scale::Log),
            y: axis(Scale::Linear),
            series,
            ticks_at_data: true,
        };
        let dots = chart.scene().items.into_iter().filter_map(|i| if let Item::Dot { x, y, .. } = i { Some((x, y)) } else { None });
        for (x, y) in dots {
            assert!((LEFT..=WIDTH - RIGHT).contains(&x) && (TOP..=HEIGHT - BOTTOM).contains(&y), "{x} {y}");
        }
    }

    #[test]
    fn many_lines_can_be_told_apart_and_the_rest_is_counted() {
        let one = |i: usize| Series { name: format!("s{i}"), points: vec![(1.0, 1.0 + i as f64), (2.0, 3.0)], spread: Vec::new() };
        let series = (0..SERIES_MAX + 4).map(one).collect();
        let chart = Chart {
            title: String::new(),
            caption: String::new(),
            x: axis(Scale::Log),
            y: axis(Scale::Linear),
            series,
            ticks_at_data: true,
        };
        let scene = chart.scene();
        let mut looks: Vec<(Colour, usize)> = Vec::new();
        for item in &scene.items {
            if let Item::Line { colour, width, stroke, .. } = item
                && *width == 2.2
            {
                looks.push((*colour, stroke.pattern().first().map_or(0, |length| *length as usize)));
            }
        }
        assert_eq!(looks.len(), SERIES_MAX);
        looks.sort_unstable();
        looks.dedup();
        assert_eq!(looks.len(), SERIES_MAX, "no two lines look alike");
        assert!(scene.items.iter().any(|item| matches!(item, Item::Text { text, .. } if text == "4 more are not drawn")));
        let lowest = TOP + 10.5 + SERIES_MAX as f32 * LEGEND;
        assert!(lowest < HEIGHT, "the legend fits: {lowest}");
    }
}
