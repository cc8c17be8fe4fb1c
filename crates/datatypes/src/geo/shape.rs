//! What a search covers.

use super::bounds::{self, Bounds, Window};
use super::distance::{self, Origin};
use super::point::Point;

/// A shape. Lengths are in metres.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// All positions at most so far from the centre.
    Circle {
        /// The centre.
        centre: Point,
        /// The largest distance.
        radius: f64,
    },
    /// All positions at most half the height north or south of the centre, and half the width east or west of it.
    Box {
        /// The centre.
        centre: Point,
        /// From west to east.
        width: f64,
        /// From south to north.
        height: f64,
    },
    /// All positions within a polygon on the map, which closes by itself.
    Polygon(Vec<Point>),
}

/// A shape, with what is the same for all positions that are looked at.
#[derive(Clone, Debug)]
pub struct Within {
    shape: Shape,
    origin: Origin,
    /// What is outside of it is not in the shape.
    window: Window,
}

impl Within {
    pub(super) fn new(shape: Shape, bounds: &Bounds) -> Self {
        let window = Window::of(&shape, bounds);
        Self { origin: Origin::new(centre(&shape)), window, shape }
    }

    /// The position that distances are taken from.
    #[must_use]
    pub fn centre(&self) -> Point {
        self.origin.point
    }

    /// The distance from the centre, in metres, if the position is in the shape.
    #[must_use]
    pub fn distance(&self, point: Point) -> Option<f64> {
        if self.window.excludes(point) {
            return None;
        }
        match &self.shape {
            Shape::Circle { radius, .. } => Some(self.origin.distance(point)).filter(|distance| !is_beyond(*distance, *radius)),
            Shape::Box { centre, width, height } => {
                let outside = is_beyond(distance::of_latitudes(point.latitude, centre.latitude), height / 2.0)
                    || is_beyond(distance::of_meridians(centre.longitude, point.longitude, point.latitude), width / 2.0);
                (!outside).then(|| self.origin.distance(point))
            }
            Shape::Polygon(vertices) => surrounds(vertices, point).then(|| self.origin.distance(point)),
        }
    }
}

/// What is no number is not.
fn is_beyond(distance: f64, max: f64) -> bool {
    distance > max
}

/// Where distances are taken from: of a polygon, the direction of its vertices' mean in space.
pub(super) fn centre(shape: &Shape) -> Point {
    match shape {
        Shape::Circle { centre, .. } | Shape::Box { centre, .. } => *centre,
        Shape::Polygon(vertices) => bounds::mean(vertices),
    }
}

/// Whether a ray from the point to the east crosses an odd number of edges.
fn surrounds(vertices: &[Point], point: Point) -> bool {
    let mut inside = false;
    let Some(mut before) = vertices.last() else { return false };
    for vertex in vertices {
        if (vertex.latitude > point.latitude) != (before.latitude > point.latitude) {
            let slope = (before.longitude - vertex.longitude) * (point.latitude - vertex.latitude);
            inside ^= point.longitude < slope / (before.latitude - vertex.latitude) + vertex.longitude;
        }
        before = vertex;
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(longitude: f64, latitude: f64) -> Point {
        Point { longitude, latitude }
    }

    #[test]
    fn polygons_may_be_concave() {
        let vertices = [(0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (2.0, 1.0), (0.0, 4.0)].map(|(x, y)| point(x, y));
        assert!(surrounds(&vertices, point(0.5, 2.0)) && surrounds(&vertices, point(3.5, 2.0)));
        assert!(!surrounds(&vertices, point(2.0, 2.0)) && !surrounds(&vertices, point(-1.0, 1.0)));
        assert!(!surrounds(&[], point(0.0, 0.0)));
    }
}
