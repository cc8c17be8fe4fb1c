//! What is on a picture, in pixels from the top left.

/// Red, green, blue.
pub(super) type Colour = [u8; 3];

/// Where a text's position lies within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stroke {
    Solid,
    Dashed,
    Dotted,
}

impl Stroke {
    /// Lengths of strokes and gaps in turn.
    pub(super) fn pattern(self) -> &'static [f32] {
        match self {
            Self::Solid => &[],
            Self::Dashed => &[7.0, 4.0],
            Self::Dotted => &[2.0, 3.0],
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    Line { points: Vec<(f32, f32)>, colour: Colour, width: f32, stroke: Stroke },
    Dot { x: f32, y: f32, radius: f32, colour: Colour },
    Text { x: f32, y: f32, size: f32, anchor: Anchor, colour: Colour, text: String },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scene {
    pub(super) width: f32,
    pub(super) height: f32,
    pub(super) items: Vec<Item>,
}

impl Scene {
    pub(super) fn line(&mut self, points: &[(f32, f32)], colour: Colour, width: f32) {
        self.items.push(Item::Line { points: points.to_vec(), colour, width, stroke: Stroke::Solid });
    }

    pub(super) fn text(&mut self, x: f32, y: f32, size: f32, anchor: Anchor, colour: Colour, text: &str) {
        self.items.push(Item::Text { x, y, size, anchor, colour, text: text.into() });
    }
}
