//! A picture of ratios: a row for each load, a dot for each server that ours is compared with.
//!
//! A row says with one glance where we are cheaper (left of the line at 1) and than whom. The axis begins at zero, and ratios
//! beyond its end stand at the end with their number.

use std::collections::BTreeMap;

use plotters::prelude::*;
use plotters::style::FontStyle;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde_json::Value;

use super::colours::Colours;
use super::draw::{Area, GREY, INK, PALE, PALETTE, SIZE, failed, letters};
use crate::report::statistics::Spread;

/// Where rows begin, and what is below them.
const TOP: i32 = 132;
const BOTTOM: i32 = 56;
/// What labels take of a column of rows, and what is free to its right.
const LABEL: i32 = 212;
const RIGHT: i32 = 56;
/// Height of a row at most.
const ROW_MAX: i32 = 44;
/// Rows of a column; more stand in two.
const ROWS_MAX: usize = 24;
/// Ratios that the axis shows.
const RATIO_MAX: f64 = 1.2;

/// A load, and the ratio to each server.
type Row = (String, Vec<Option<f64>>);

/// Ratios of one batch size.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Dots {
    pub(super) title: String,
    pub(super) caption: String,
    /// The servers that ours is compared with.
    names: Vec<String>,
    /// Their colours.
    colours: Vec<usize>,
    /// What was measured, and its ratio to each of them.
    rows: Vec<Row>,
}

/// A picture for each batch size of a grid; none of other results.
pub(super) fn pictures(runs: &[Value], title: Option<&str>) -> Vec<(String, Dots)> {
    let Some(ours) =
        runs.first().and_then(|run| run["server"].as_str()).filter(|_| runs.iter().all(|run| run["group"].is_string()))
    else {
        return Vec::new();
    };
    let mut names: Vec<String> = Vec::new();
    let mut rows: Vec<(u64, &str, &str)> = Vec::new();
    let mut costs: BTreeMap<(u64, &str, &str, &str), Vec<f64>> = BTreeMap::new();
    for run in runs {
        let text = |field: &str| run[field].as_str().unwrap_or_default();
        let Some(cpu) = run["server_cpu_us_per_op"].as_f64() else { continue };
        let row = (run["pipeline"].as_u64().unwrap_or(0), text("group"), text("operation"));
        if text("server") != ours && !names.iter().any(|name| name == text("server")) {
            names.push(text("server").to_owned());
        }
        if !rows.contains(&row) {
            rows.push(row);
        }
        costs.entry((row.0, row.1, row.2, text("server"))).or_default().push(cpu);
    }
    let colours = Colours::of(runs);
    let median = |(size, group, operation): (u64, &str, &str), server: &str| {
        Some(Spread::of(costs.get(&(size, group, operation, server))?.iter().copied())?.median)
    };
    let mut sizes: Vec<u64> = rows.iter().map(|row| row.0).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let picture = |size: u64| {
        let of_size: Vec<_> = rows.iter().filter(|row| row.0 == size).copied().collect();
        let label = |row: (u64, &str, &str)| {
            let alone = of_size.iter().filter(|other| other.2 == row.2).count() == 1;
            let parts: Vec<&str> = row.2.split(',').map(|part| part.split('=').next().unwrap_or_default()).collect();
            let name = parts.join(" + ").to_uppercase();
            if alone { name } else { format!("{name}, {}", row.1.replace('-', " ")) }
        };
        let ratio = |row, name: &String| Some(median(row, ours)? / median(row, name)?).filter(|ratio| ratio.is_finite());
        let cells = |row| (label(row), names.iter().map(|name| ratio(row, name)).collect());
        let default = format!("Server CPU per command, {size} per batch: {ours}'s share of the others'");
        Dots {
            title: title.map_or(default, ToOwned::to_owned),
            caption: format!("medians · left of 1: {ours} takes less"),
            names: names.clone(),
            colours: names.iter().map(|name| colours.server(name)).collect(),
            rows: of_size.iter().map(|row| cells(*row)).collect(),
        }
    };
    if names.is_empty() { Vec::new() } else { sizes.into_iter().map(|size| (format!("ratios-p{size}"), picture(size))).collect() }
}

impl Dots {
    /// Draws at `scale` pixels to a unit.
    pub(super) fn draw<B: DrawingBackend>(&self, area: &Area<B>, scale: i32) -> Result<(), String> {
        let say = |text: &str, (x, y): (i32, i32), across: HPos, style: TextStyle<'_>| {
            let style = style.pos(Pos::new(across, VPos::Center));
            area.draw(&Text::new(text.to_owned(), (x * scale, y * scale), style)).map_err(failed)
        };
        say(&self.title, (52, 40), HPos::Left, letters(30, scale, FontStyle::Bold, &INK))?;
        say(&self.caption, (52, 78), HPos::Left, letters(17, scale, FontStyle::Normal, &GREY))?;
        let columns = self.rows.len().div_ceil(ROWS_MAX).max(1);
        let rows = self.rows.len().div_ceil(columns).max(1);
        let width = SIZE.0 / columns as i32;
        for (column, rows_of_column) in self.rows.chunks(rows).enumerate() {
            let height = ((SIZE.1 - TOP - BOTTOM) / rows as i32).min(ROW_MAX);
            draw_column(area, (rows_of_column, &self.colours), (column as i32 * width, width), height, scale)?;
        }
        let mut x = LABEL;
        for (server, name) in self.names.iter().enumerate() {
            let style = letters(17, scale, FontStyle::Bold, &INK);
            let text = format!("against {name}");
            let width = area.estimate_text_size(&text, &style).map_err(failed)?.0 as i32 / scale;
            let colour = PALETTE[self.colours[server] % PALETTE.len()];
            area.draw(&Circle::new(((x + 6) * scale, 108 * scale), 7 * scale, colour.mix(0.85).filled())).map_err(failed)?;
            say(&text, (x + 20, 108), HPos::Left, style)?;
            x += width + 56;
        }
        Ok(())
    }
}

/// Draws rows between two places across, each so high.
fn draw_column<B: DrawingBackend>(
    area: &Area<B>,
    (rows, colours): (&[Row], &[usize]),
    (from, width): (i32, i32),
    height: i32,
    scale: i32,
) -> Result<(), String> {
    let say = |text: &str, (x, y): (i32, i32), across: HPos, size: i32| {
        let style = letters(size, scale, FontStyle::Normal, &INK).pos(Pos::new(across, VPos::Center));
        area.draw(&Text::new(text.to_owned(), (x * scale, y * scale), style)).map_err(failed)
    };
    let line = |from: (i32, i32), to: (i32, i32), style: ShapeStyle| {
        let points = [from, to].map(|(x, y)| (x * scale, y * scale));
        area.draw(&PathElement::new(points.to_vec(), style)).map_err(failed)
    };
    let (left, right) = (from + LABEL, from + width - RIGHT);
    let bottom = TOP + height * rows.len() as i32;
    let place = |ratio: f64| left + (f64::from(right - left) * ratio.min(RATIO_MAX) / RATIO_MAX).round() as i32;
    for number in 0..rows.len() as i32 {
        let y = TOP + height * number + height / 2;
        line((left, y), (right, y), PALE.stroke_width(scale as u32))?;
    }
    for tick in 0..=6 {
        let ratio = f64::from(tick) * 0.2;
        let style = if tick == 5 { GREY.stroke_width(2 * scale as u32) } else { PALE.stroke_width(scale as u32) };
        line((place(ratio), TOP - 4), (place(ratio), bottom), style)?;
        say(&format!("{ratio:.1}"), (place(ratio), bottom + 18), HPos::Center, 17)?;
    }
    let size = (height * 3 / 4).clamp(9, 17);
    for (number, (name, ratios)) in rows.iter().enumerate() {
        let y = TOP + height * number as i32 + height / 2;
        say(name, (left - 12, y + 1), HPos::Right, size)?;
        for (server, ratio) in ratios.iter().enumerate().filter_map(|(server, ratio)| Some((server, (*ratio)?))) {
            let style = PALETTE[colours[server] % PALETTE.len()].mix(0.85).filled();
            let radius = (height / 3).clamp(3, 8);
            area.draw(&Circle::new((place(ratio) * scale, y * scale), radius * scale, style)).map_err(failed)?;
            if ratio > RATIO_MAX {
                say(&format!("{ratio:.1}"), (right + 12, y + 1), HPos::Left, size)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn runs() -> Vec<Value> {
        let run = |server: &str, group: &str, pipeline: u64, cpu: f64| {
            json!({"server": server, "group": group, "operation": "hdel=1,hset=1", "pipeline": pipeline,
                   "server_cpu_us_per_op": cpu})
        };
        let mut runs = Vec::new();
        for (server, factor) in [("ours", 1.0), ("old", 4.0), ("new", 2.0)] {
            runs.extend([run(server, "a", 16, factor), run(server, "a", 16, factor * 3.0), run(server, "a", 16, factor)]);
            runs.extend([run(server, "b-c", 16, factor), run(server, "a", 1, 1.0)]);
        }
        runs
    }

    #[test]
    fn rows_have_the_ratios_of_medians() {
        let all = pictures(&runs(), None);
        assert_eq!(all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["ratios-p1", "ratios-p16"]);
        let dots = &all[1].1;
        assert_eq!(dots.names, ["old", "new"]);
        let ratios = vec![Some(0.25), Some(0.5)];
        assert_eq!(dots.rows, [("HDEL + HSET, a".to_owned(), ratios.clone()), ("HDEL + HSET, b c".to_owned(), ratios)]);
        assert_eq!(all[0].1.rows, [("HDEL + HSET".to_owned(), vec![Some(1.0), Some(1.0)])]);
    }

    #[test]
    fn other_results_have_none() {
        assert!(pictures(&[json!({"server": "a", "pipeline": 1, "server_cpu_us_per_op": 1.0})], None).is_empty());
        assert!(pictures(&runs()[..5], None).is_empty(), "nobody to compare with");
    }
}
