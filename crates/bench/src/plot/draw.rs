//! A chart as a picture: the same drawing, by `plotters`, as SVG for documents and as pixels for slides.
//!
//! Letters of PNG are Noto Sans, which is built in; SVG names it and leaves its letters to the program that shows it. Pixels are
//! drawn twice as large as they are kept, so that edges are smooth.

use std::sync::Once;

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};

use super::chart::{Chart, Look, Series};
use super::colours::COLOURS;
use super::dots::Dots;

/// Width and height in units: a slide.
pub(super) const SIZE: (i32, i32) = (1280, 720);
const LEFT: i32 = 104;
const RIGHT: i32 = 40;
const TOP: i32 = 150;
const BOTTOM: i32 = 44;
/// What the names of lines may take of the width.
const LEGEND_MAX: i32 = 420;
/// Height of a line of the legend.
const LEGEND_LINE: i32 = 26;

/// Coordinates of SVG are whole numbers: this many to a unit.
const SVG_SCALE: i32 = 4;
/// Pixels of a PNG to a unit.
const PNG_SCALE: i32 = 2;
/// Each pixel is the mean of a square of this many by this many.
const SAMPLES: i32 = 2;

pub(super) const INK: RGBColor = RGBColor(32, 36, 44);
pub(super) const GREY: RGBColor = RGBColor(104, 110, 122);
pub(super) const PALE: RGBColor = RGBColor(228, 230, 235);
/// Wine first, for ours; the others differ in lightness, too.
pub(super) const PALETTE: [RGBColor; COLOURS] = [
    RGBColor(170, 25, 60),
    RGBColor(25, 105, 180),
    RGBColor(40, 140, 85),
    RGBColor(225, 130, 20),
    RGBColor(120, 80, 175),
    RGBColor(15, 150, 165),
    RGBColor(140, 100, 60),
    RGBColor(95, 105, 120),
];

/// The font, and what stands in for it where an SVG is shown without it.
const FONT: &str = "Noto Sans, Helvetica, Arial, sans-serif";

/// Lengths of strokes and gaps, in units, of a server's lines.
const DASHES: [Option<(i32, i32)>; 3] = [None, Some((11, 6)), Some((3, 5))];
/// Strengths of a server's colour, when the patterns have run out.
const SHADES: [f64; 3] = [1.0, 0.6, 0.35];

/// Lines that can be told apart and have a place in the legend.
pub(super) const SERIES_MAX: usize = 21;

/// What can be drawn.
#[derive(Debug, Clone)]
pub(super) enum Picture {
    /// Lines along axes.
    Lines(Chart),
    /// Ratios in rows.
    Ratios(Dots),
}

impl Picture {
    /// Draws at `scale` pixels to a unit.
    fn draw<B: DrawingBackend>(&self, area: &Area<B>, scale: i32) -> Result<(), String> {
        load_font();
        area.fill(&WHITE).map_err(failed)?;
        match self {
            Self::Lines(chart) => draw(chart, area, scale)?,
            Self::Ratios(dots) => dots.draw(area, scale)?,
        }
        area.present().map_err(failed)
    }
}

/// The picture as an SVG document.
pub(super) fn svg(picture: &Picture) -> Result<String, String> {
    let (width, height) = SIZE;
    let mut text = String::new();
    let size = ((width * SVG_SCALE) as u32, (height * SVG_SCALE) as u32);
    picture.draw(&SVGBackend::with_string(&mut text, size).into_drawing_area(), SVG_SCALE)?;
    // It is as large as a unit says, whatever its coordinates are.
    Ok(text.replacen(&format!("width=\"{}\" height=\"{}\"", size.0, size.1), &format!("width=\"{width}\" height=\"{height}\""), 1))
}

/// The picture as a PNG file.
pub(super) fn png(picture: &Picture) -> Result<Vec<u8>, String> {
    let scale = PNG_SCALE * SAMPLES;
    let size = ((SIZE.0 * scale) as u32, (SIZE.1 * scale) as u32);
    let mut pixels = vec![0; size.0 as usize * size.1 as usize * 3];
    picture.draw(&BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area(), scale)?;
    let (width, height) = (SIZE.0 * PNG_SCALE, SIZE.1 * PNG_SCALE);
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&means(&pixels, width as usize)));
    written.map_err(|e| format!("encoding the picture failed: {e}"))?;
    Ok(file)
}

/// Squares of pixels as one pixel each; `width` is of the result.
fn means(pixels: &[u8], width: usize) -> Vec<u8> {
    let samples = SAMPLES as usize;
    let line = width * samples * 3;
    let mut result = Vec::with_capacity(pixels.len() / samples / samples);
    for lines in pixels.chunks_exact(line * samples) {
        for at in 0..width * 3 {
            let first = at / 3 * samples * 3 + at % 3;
            let places = (0..samples).flat_map(|down| (0..samples).map(move |right| first + down * line + right * 3));
            let sum: usize = places.map(|place| usize::from(lines[place])).sum();
            result.push((sum / samples / samples) as u8);
        }
    }
    result
}

fn load_font() {
    static LOADED: Once = Once::new();
    LOADED.call_once(|| {
        for (style, bytes) in [(FontStyle::Normal, notosans::REGULAR_TTF), (FontStyle::Bold, notosans::BOLD_TTF)] {
            assert!(register_font(FONT, style, bytes).is_ok(), "a font that is built in can be read");
        }
    });
}

pub(super) type Area<B> = DrawingArea<B, Shift>;

pub(super) fn failed(error: impl std::fmt::Display) -> String {
    format!("drawing failed: {error}")
}

/// A style of letters `size` units high.
pub(super) fn letters(size: i32, scale: i32, style: FontStyle, colour: &'static RGBColor) -> TextStyle<'static> {
    TextStyle::from((FONT, size * scale, style).into_font()).color(colour)
}

/// Draws lines.
fn draw<B: DrawingBackend>(chart: &Chart, area: &Area<B>, scale: i32) -> Result<(), String> {
    let say = |text: &str, (x, y): (i32, i32), style: TextStyle<'_>| {
        let style = style.pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(text.to_owned(), (x * scale, y * scale), style)).map_err(failed)
    };
    say(&chart.title, (LEFT / 2, 44), letters(32, scale, FontStyle::Bold, &INK))?;
    say(&chart.caption, (LEFT / 2, 84), letters(17, scale, FontStyle::Normal, &GREY))?;
    say(&chart.y.title, (LEFT / 2, TOP - 24), letters(17, scale, FontStyle::Bold, &INK))?;
    let legend = legend_width(chart, area, scale)?;
    let mut builder = ChartBuilder::on(area);
    builder
        .margin_top(TOP * scale)
        .margin_right((RIGHT + legend) * scale)
        .margin_bottom(BOTTOM * scale)
        .x_label_area_size(36 * scale)
        .y_label_area_size(LEFT * scale);
    let mut context = builder.build_cartesian_2d(chart.placed_x(), chart.placed_y()).map_err(failed)?;
    context
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(PALE.stroke_width(scale as u32))
        .axis_style(GREY.stroke_width(scale as u32))
        .label_style(letters(17, scale, FontStyle::Normal, &INK))
        .set_all_tick_mark_size(6 * scale)
        .draw()
        .map_err(failed)?;
    let middle = (LEFT + SIZE.0 - RIGHT - legend) / 2;
    let style = letters(17, scale, FontStyle::Bold, &INK).pos(Pos::new(HPos::Center, VPos::Center));
    area.draw(&Text::new(chart.x.title.clone(), (middle * scale, (SIZE.1 - 28) * scale), style)).map_err(failed)?;
    let plotting = context.plotting_area();
    for (index, series) in chart.series.iter().take(SERIES_MAX).enumerate() {
        let place = |point: (f64, f64)| plotting.map_coordinate(&point);
        draw_series(area, series, &place, scale)?;
        let (left, y) = (SIZE.0 - legend, TOP + 12 + index as i32 * LEGEND_LINE);
        draw_line(area, &[(left * scale, y * scale), ((left + 30) * scale, y * scale)], series.look, scale)?;
        say(&series.name, (left + 42, y), letters(17, scale, FontStyle::Normal, &INK))?;
    }
    if let Some(hidden) = chart.series.len().checked_sub(SERIES_MAX).filter(|hidden| *hidden > 0) {
        let place = (SIZE.0 - legend, TOP + 12 + SERIES_MAX as i32 * LEGEND_LINE);
        say(&format!("{hidden} more are not drawn"), place, letters(17, scale, FontStyle::Normal, &GREY))?;
    }
    Ok(())
}

/// Units that the widest name of a line takes with its sample, and room to the right.
fn legend_width<B: DrawingBackend>(chart: &Chart, area: &Area<B>, scale: i32) -> Result<i32, String> {
    let style = letters(17, scale, FontStyle::Normal, &INK);
    let mut widest = 0;
    for series in chart.series.iter().take(SERIES_MAX) {
        widest = widest.max(area.estimate_text_size(&series.name, &style).map_err(failed)?.0 as i32 / scale);
    }
    Ok((widest + 42 + 24).min(LEGEND_MAX))
}

/// The colour of a line, shaded as its pattern says.
fn colour(look: Look) -> RGBColor {
    let strength = SHADES[look.pattern / DASHES.len() % SHADES.len()];
    let RGBColor(red, green, blue) = PALETTE[look.colour % PALETTE.len()];
    let shade = |part: u8| (255.0 - (255.0 - f64::from(part)) * strength).round() as u8;
    RGBColor(shade(red), shade(green), shade(blue))
}

/// A line in its colour and pattern.
fn draw_line<B: DrawingBackend>(area: &Area<B>, points: &[(i32, i32)], look: Look, scale: i32) -> Result<(), String> {
    let style = colour(look).stroke_width((3 * scale) as u32);
    match DASHES[look.pattern % DASHES.len()] {
        None => area.draw(&PathElement::new(points.to_vec(), style)),
        Some((stroke, gap)) => area.draw(&DashedPathElement::new(points.to_vec(), stroke * scale, gap * scale, style)),
    }
    .map_err(failed)
}

/// A line with its points and their spread.
fn draw_series<B: DrawingBackend>(
    area: &Area<B>,
    series: &Series,
    place: &dyn Fn((f64, f64)) -> (i32, i32),
    scale: i32,
) -> Result<(), String> {
    let colour = colour(series.look);
    for ((x, _), (least, most)) in series.points.iter().zip(&series.spread).filter(|(_, (least, most))| least < most) {
        let (low, high) = (place((*x, *least)), place((*x, *most)));
        for ends in [[low, high], caps(low, scale), caps(high, scale)] {
            area.draw(&PathElement::new(ends.to_vec(), colour.mix(0.6).stroke_width((scale * 3 / 2) as u32))).map_err(failed)?;
        }
    }
    let points: Vec<(i32, i32)> = series.points.iter().map(|point| place(*point)).collect();
    draw_line(area, &points, series.look, scale)?;
    for point in points {
        area.draw(&Circle::new(point, 6 * scale, WHITE.filled())).map_err(failed)?;
        area.draw(&Circle::new(point, 9 * scale / 2, colour.filled())).map_err(failed)?;
    }
    Ok(())
}

/// The short line that ends a spread.
fn caps((x, y): (i32, i32), scale: i32) -> [(i32, i32); 2] {
    [(x - 5 * scale, y), (x + 5 * scale, y)]
}

#[cfg(test)]
mod tests {
    use super::super::chart::{Axis, Scale};
    use super::*;

    fn chart(lines: usize) -> Picture {
        let axis = |scale| Axis { title: "of <b> & \"c\"".into(), scale, label: |value| format!("{value}") };
        let series = |line: usize| {
            let points = vec![(1.0, 1.0 + line as f64), (10.0, 3.0)];
            let look = Look { colour: line % PALETTE.len(), pattern: line / PALETTE.len() };
            Series { name: format!("line {line}"), points, spread: vec![(0.5, 30.0), (3.0, 3.0)], look }
        };
        let (title, caption) = ("A title".to_owned(), "higher is better".to_owned());
        let series = (0..lines).map(series).collect();
        Picture::Lines(Chart { title, caption, x: axis(Scale::Log), y: axis(Scale::Linear), series, ticks_at_data: true })
    }

    #[test]
    fn svg_has_its_size_and_all_words() {
        let text = svg(&chart(2)).unwrap();
        assert!(text.starts_with("<svg width=\"1280\" height=\"720\" viewBox=\"0 0 5120 2880\""), "{}", &text[..200]);
        for word in ["A title", "higher is better", "of &lt;b&gt; &amp; &quot;c&quot;", "line 1"] {
            assert!(text.contains(word), "{word}");
        }
    }

    #[test]
    fn many_lines_can_be_told_apart_and_the_rest_is_counted() {
        let patterns = DASHES.len() * SHADES.len();
        let looks = (0..PALETTE.len()).flat_map(|colour| (0..patterns).map(move |pattern| Look { colour, pattern }));
        let mut looks: Vec<_> = looks.map(|look| (DASHES[look.pattern % DASHES.len()], format!("{:?}", colour(look)))).collect();
        looks.sort_unstable();
        looks.dedup();
        assert_eq!(looks.len(), PALETTE.len() * patterns);
        assert!(TOP + 12 + SERIES_MAX as i32 * LEGEND_LINE < SIZE.1, "all fit into the legend");
        let text = svg(&chart(SERIES_MAX + 4)).unwrap();
        assert!(text.contains("line 20") && text.contains("4 more are not drawn"), "{text}");
        assert!(!text.contains("line 21"), "it has no place");
    }

    #[test]
    fn png_is_white_paper_with_colours_on_it() {
        let file = png(&chart(2)).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(&file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (2560, 1440));
        assert_eq!(pixels[..3], [255, 255, 255]);
        let has = |RGBColor(red, green, blue): RGBColor| pixels.chunks_exact(3).any(|pixel| *pixel == [red, green, blue]);
        assert!(has(PALETTE[0]) && has(PALETTE[1]) && has(INK), "lines and letters");
        assert!(!has(PALETTE[2]), "a line that is not there");
    }
}
