//! A scene as SVG text.

use std::fmt::Write;

use super::scene::{Anchor, Colour, Item, Scene};

/// The whole document.
pub(super) fn write(scene: &Scene) -> String {
    let (width, height) = (scene.width, scene.height);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"Helvetica, Arial, sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for item in &scene.items {
        // Writing to a String cannot fail.
        let _ = match item {
            Item::Line { points, colour, width, stroke } => {
                let pattern: Vec<String> = stroke.pattern().iter().map(f32::to_string).collect();
                let dash = if pattern.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{}\"", pattern.join(" ")) };
                let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
                let (points, colour) = (points.join(" "), hex(*colour));
                writeln!(
                    out,
                    "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dash}/>"
                )
            }
            Item::Dot { x, y, radius, colour } => {
                writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{}\"/>", hex(*colour))
            }
            Item::Text { x, y, size, anchor, colour, text } => {
                let anchor = match anchor {
                    Anchor::Start => "start",
                    Anchor::Middle => "middle",
                    Anchor::End => "end",
                };
                let (colour, text) = (hex(*colour), escape(text));
                writeln!(
                    out,
                    "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{text}</text>"
                )
            }
        };
    }
    out.push_str("</svg>\n");
    out
}

fn hex([red, green, blue]: Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let mut scene = Scene { width: 10.0, height: 10.0, items: Vec::new() };
        scene.text(1.0, 2.0, 3.0, Anchor::End, [255, 0, 16], "a<b & \"c\"");
        let svg = write(&scene);
        assert!(svg.contains("fill=\"#ff0010\">a&lt;b &amp; &quot;c&quot;</text>"), "{svg}");
        assert!(svg.ends_with("</svg>\n"));
    }
}
