//! Distances along the surface, in metres.

use super::point::Point;

/// The ball's radius.
pub const EARTH_RADIUS: f64 = 6_372_797.560_856;

const RADIANS: f64 = std::f64::consts::PI / 180.0;

pub(super) fn radians(degrees: f64) -> f64 {
    degrees * RADIANS
}

pub(super) fn degrees(radians: f64) -> f64 {
    radians / RADIANS
}

/// The distance of two positions: haversine.
#[must_use]
pub fn distance(one: Point, other: Point) -> f64 {
    Origin::new(one).distance(other)
}

/// The distance of two latitudes.
pub(super) fn of_latitudes(one: f64, other: f64) -> f64 {
    EARTH_RADIUS * (radians(other) - radians(one)).abs()
}

/// A position that others' distances are taken from, with what is the same for all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) point: Point,
    latitude: f64,
    longitude: f64,
    cosine: f64,
}

impl Origin {
    pub(super) fn new(point: Point) -> Self {
        let latitude = radians(point.latitude);
        Self { point, latitude, longitude: radians(point.longitude), cosine: latitude.cos() }
    }

    pub(super) fn distance(&self, other: Point) -> f64 {
        let v = ((radians(other.longitude) - self.longitude) / 2.0).sin();
        if v == 0.0 {
            return of_latitudes(self.point.latitude, other.latitude);
        }
        let latitude = radians(other.latitude);
        let u = ((latitude - self.latitude) / 2.0).sin();
        let a = u * u + self.cosine * latitude.cos() * v * v;
        2.0 * EARTH_RADIUS * a.sqrt().asin()
    }
}

/// The distance of two meridians at a latitude, along the shortest way.
pub(super) fn of_meridians(one: f64, other: f64, latitude: f64) -> f64 {
    distance(Point { longitude: other, latitude }, Point { longitude: one, latitude })
}
