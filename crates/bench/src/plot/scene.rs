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

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    Line { points: Vec<(f32, f32)>, colour: Colour, width: f32, dashed: bool },
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
        self.items.push(Item::Line { points: points.to_vec(), colour, width, dashed: false });
    }

    pub(super) fn text(&mut self, x: f32, y: f32, size: f32, anchor: Anchor, colour: Colour, text: &str) {
        self.items.push(Item::Text { x, y, size, anchor, colour, text: text.into() });
    }
}
