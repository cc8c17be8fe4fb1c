//! A scene as pixels, at twice its size so that it is sharp on dense displays.

use tiny_skia::{Color, FillRule, LineCap, LineJoin, Paint, PathBuilder, Pixmap, Stroke, StrokeDash, Transform};

use super::font;
use super::scene::{self, Anchor, Colour, Item, Scene};

/// Pixels per unit of the scene.
const SCALE: f32 = 2.0;

/// The encoded picture.
pub(super) fn draw(scene: &Scene) -> Result<Vec<u8>, String> {
    let (width, height) = ((scene.width * SCALE) as u32, (scene.height * SCALE) as u32);
    let mut pixels = Pixmap::new(width, height).ok_or("the picture has no size")?;
    pixels.fill(Color::WHITE);
    for item in &scene.items {
        match item {
            Item::Line { points, colour, width, stroke } => draw_line(&mut pixels, points, *colour, *width, *stroke),
            Item::Dot { x, y, radius, colour } => {
                if let Some(circle) = PathBuilder::from_circle(*x, *y, *radius) {
                    pixels.fill_path(&circle, &paint(*colour), FillRule::Winding, transform(), None);
                }
            }
            Item::Text { x, y, size, anchor, colour, text } => {
                let left = match anchor {
                    Anchor::Start => *x,
                    Anchor::Middle => x - font::width(text, *size) / 2.0,
                    Anchor::End => x - font::width(text, *size),
                };
                for points in font::strokes(text, left, *y, *size) {
                    draw_line(&mut pixels, &points, *colour, size / 11.0, scene::Stroke::Solid);
                }
            }
        }
    }
    pixels.encode_png().map_err(|e| format!("encoding the picture failed: {e}"))
}

fn transform() -> Transform {
    Transform::from_scale(SCALE, SCALE)
}

fn paint([red, green, blue]: Colour) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(red, green, blue, 255);
    paint
}

fn draw_line(pixels: &mut Pixmap, points: &[(f32, f32)], colour: Colour, width: f32, pattern: scene::Stroke) {
    let pattern = pattern.pattern();
    let Some((&(x, y), rest)) = points.split_first() else { return };
    let mut path = PathBuilder::new();
    path.move_to(x, y);
    rest.iter().for_each(|&(x, y)| path.line_to(x, y));
    if let Some(path) = path.finish() {
        let dash = if pattern.is_empty() { None } else { StrokeDash::new(pattern.to_vec(), 0.0) };
        let line_cap = if pattern.is_empty() { LineCap::Round } else { LineCap::Butt };
        let stroke = Stroke { width, line_cap, line_join: LineJoin::Round, dash, ..Stroke::default() };
        pixels.stroke_path(&path, &paint(colour), &stroke, transform(), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_a_picture() {
        let mut scene = Scene { width: 20.0, height: 10.0, items: Vec::new() };
        scene.line(&[(0.0, 5.0), (20.0, 5.0)], [255, 0, 0], 2.0);
        scene.text(1.0, 8.0, 6.0, Anchor::Start, [0, 0, 0], "p99");
        let png = draw(&scene).unwrap();
        assert!(png.starts_with(b"\x89PNG"));
        let pixels = Pixmap::decode_png(&png).unwrap();
        assert_eq!((pixels.width(), pixels.height()), (40, 20));
        assert_eq!(pixels.pixel(20, 10).map(|p| (p.red(), p.green())), Some((255, 0)));
    }
}
