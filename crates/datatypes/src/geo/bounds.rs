//! What is around a shape: the bounds that Redis chooses the cells by, and a window beyond which nothing needs to be computed.

use super::distance::{EARTH_RADIUS, degrees, distance, radians};
use super::point::{LATITUDE_MAX, LONGITUDE_MAX, Point};
use super::shape::{self, Shape};

/// The bounds as Redis computes them: by them it tells whether neighbours are needed. Around a pole they mean little, and must be
/// the same little.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) west: f64,
    pub(super) south: f64,
    pub(super) east: f64,
    pub(super) north: f64,
}

impl Bounds {
    pub(super) fn of(shape: &Shape) -> Self {
        match shape {
            Shape::Circle { centre, radius } => Self::around(*centre, *radius, *radius),
            Shape::Box { centre, width, height } => Self::around(*centre, width / 2.0, height / 2.0),
            Shape::Polygon(vertices) => {
                let least = |of: fn(&Point) -> f64, max: f64| vertices.iter().map(of).fold(max, f64::min);
                let most = |of: fn(&Point) -> f64, max: f64| vertices.iter().map(of).fold(-max, f64::max);
                Self {
                    west: least(|point| point.longitude, LONGITUDE_MAX),
                    south: least(|point| point.latitude, LATITUDE_MAX),
                    east: most(|point| point.longitude, LONGITUDE_MAX),
                    north: most(|point| point.latitude, LATITUDE_MAX),
                }
            }
        }
    }

    fn around(centre: Point, width: f64, height: f64) -> Self {
        let Point { longitude, latitude } = centre;
        let rows = degrees(height / EARTH_RADIUS);
        // The arc is shorter where the latitude is higher.
        let widest = if latitude < 0.0 { latitude - rows } else { latitude + rows };
        let columns = degrees(width / EARTH_RADIUS / radians(widest).cos());
        Self { west: longitude - columns, south: latitude - rows, east: longitude + columns, north: latitude + rows }
    }

    /// The distance to the corner that is farthest.
    pub(super) fn reach(&self, centre: Point) -> f64 {
        let corners = [(self.west, self.north), (self.east, self.north), (self.west, self.south), (self.east, self.south)];
        corners.into_iter().map(|(longitude, latitude)| distance(centre, Point { longitude, latitude })).fold(0.0, f64::max)
    }
}

/// The direction of the mean of positions in space.
pub(super) fn mean(points: &[Point]) -> Point {
    let [mut x, mut y, mut z] = [0.0; 3];
    for point in points {
        let (longitude, latitude) = (radians(point.longitude), radians(point.latitude));
        x += latitude.cos() * longitude.cos();
        y += latitude.cos() * longitude.sin();
        z += latitude.sin();
    }
    Point { longitude: degrees(y.atan2(x)), latitude: degrees(z.atan2((x * x + y * y).sqrt())) }
}

/// Degrees that a window is wider than the shape, so that rounding changes no answer: some metres.
const MARGIN: f64 = 1e-4;
/// A circle that comes as close to a pole has all longitudes.
const POLE: f64 = 89.9;

/// Latitudes and longitudes that hold a shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    centre: Point,
    /// Degrees on either side.
    rows: f64,
    columns: f64,
}

impl Window {
    pub(super) fn of(shape: &Shape, bounds: &Bounds) -> Self {
        let window = |centre: Point, rows: f64, columns: f64| {
            // What is not a number excludes nothing.
            let half = |degrees: f64| if degrees.is_nan() { f64::INFINITY } else { degrees + MARGIN };
            Self { centre, rows: half(rows), columns: half(columns) }
        };
        let centre = shape::centre(shape);
        match *shape {
            Shape::Circle { radius, .. } => {
                let rows = degrees(radius / EARTH_RADIUS);
                let columns = if centre.latitude.abs() + rows < POLE {
                    degrees((radians(rows).sin() / radians(centre.latitude).cos()).asin())
                } else {
                    f64::INFINITY
                };
                window(centre, rows, columns)
            }
            Shape::Box { width, height, .. } => {
                let rows = degrees(height / 2.0 / EARTH_RADIUS);
                let (highest, half) = (centre.latitude.abs() + rows, width / 4.0 / EARTH_RADIUS);
                let sine = half.sin() / radians(highest + MARGIN).cos();
                let bounded = highest < POLE && half < 1.5 && sine < 1.0;
                window(centre, rows, if bounded { degrees(2.0 * sine.asin()) } else { f64::INFINITY })
            }
            Shape::Polygon(_) => {
                let middle = |one: f64, other: f64| (one + other) / 2.0;
                let centre = Point { longitude: middle(bounds.west, bounds.east), latitude: middle(bounds.south, bounds.north) };
                window(centre, (bounds.north - bounds.south) / 2.0, (bounds.east - bounds.west) / 2.0)
            }
        }
    }

    pub(super) fn excludes(&self, point: Point) -> bool {
        let columns = (point.longitude - self.centre.longitude).abs();
        (point.latitude - self.centre.latitude).abs() > self.rows || columns.min(2.0 * LONGITUDE_MAX - columns) > self.columns
    }
}
