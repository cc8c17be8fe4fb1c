//! Cells: squares of the map's grid, numbered along a Z-shaped curve.

use super::point::{LATITUDE_MAX, LONGITUDE_MAX, Point};

/// Halvings of each direction in a score.
pub const STEPS_MAX: u32 = 26;

/// The bits of columns; those of rows are between them.
const COLUMN_BITS: u64 = 0xAAAA_AAAA_AAAA_AAAA;
const ROW_BITS: u64 = !COLUMN_BITS;

/// A cell of the grid with 2^`steps` rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// From the highest bit: column, row, column, row …
    pub number: u64,
    /// Bits of row and column each, from 1 to 26.
    pub steps: u32,
}

/// What a cell covers, in degrees.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// West and east.
    pub longitude: [f64; 2],
    /// South and north.
    pub latitude: [f64; 2],
}

impl Area {
    /// The middle, on the map.
    #[must_use]
    pub fn middle(&self) -> Point {
        let middle = |[low, high]: [f64; 2], max: f64| ((low + high) / 2.0).clamp(-max, max);
        Point { longitude: middle(self.longitude, LONGITUDE_MAX), latitude: middle(self.latitude, LATITUDE_MAX) }
    }
}

/// Where an edge of the map is hit, the number has a bit more than `steps` give: the cell lies beyond the edge, as in Redis.
impl Cell {
    /// The cell that a position is in.
    #[must_use]
    pub fn of(point: Point, steps: u32) -> Self {
        Self::within(point, steps, LATITUDE_MAX)
    }

    /// As [`Cell::of`], on a map whose latitudes end elsewhere.
    pub(super) fn within(point: Point, steps: u32, latitude_max: f64) -> Self {
        let line = |degrees: f64, max: f64| {
            let part = (degrees - -max) / (max - -max);
            (part * (1u64 << steps) as f64) as u32
        };
        let (row, column) = (line(point.latitude, latitude_max), line(point.longitude, LONGITUDE_MAX));
        Self { number: spread(row) | spread(column) << 1, steps }
    }

    /// What the cell covers.
    #[must_use]
    pub fn area(self) -> Area {
        let side = |line: u32, max: f64| {
            let edge = |line: u32| -max + (f64::from(line) / (1u64 << self.steps) as f64) * (max - -max);
            [edge(line), edge(line.wrapping_add(1))]
        };
        Area { longitude: side(gathered(self.number >> 1), LONGITUDE_MAX), latitude: side(gathered(self.number), LATITUDE_MAX) }
    }

    /// The cell a number of columns east and rows north, each −1, 0 or 1. Beyond an edge comes the opposite one.
    #[must_use]
    pub fn neighbour(self, east: i8, north: i8) -> Self {
        let column = moved(self.number & COLUMN_BITS, ROW_BITS, COLUMN_BITS, east, self.steps);
        let row = moved(self.number & ROW_BITS, COLUMN_BITS, ROW_BITS, north, self.steps);
        Self { number: column | row, steps: self.steps }
    }

    /// The scores of all positions within: from the first one to before the second one.
    #[must_use]
    pub fn scores(self) -> [f64; 2] {
        let missing = 2 * (STEPS_MAX - self.steps);
        [self.number << missing, (self.number + 1) << missing].map(|score| score as f64)
    }
}

/// Adds to the number in the bits of `own`; those of `others` between them carry.
fn moved(line: u64, others: u64, own: u64, by: i8, steps: u32) -> u64 {
    let unused = 64 - 2 * steps;
    let carry = others >> unused;
    let moved = match by {
        0 => return line,
        1.. => line.wrapping_add(carry + 1),
        _ => (line | carry).wrapping_sub(carry + 1),
    };
    moved & own >> unused
}

/// The bits at twice their place.
fn spread(line: u32) -> u64 {
    let mut bits = u64::from(line);
    bits = (bits | bits << 16) & 0x0000_FFFF_0000_FFFF;
    bits = (bits | bits << 8) & 0x00FF_00FF_00FF_00FF;
    bits = (bits | bits << 4) & 0x0F0F_0F0F_0F0F_0F0F;
    bits = (bits | bits << 2) & 0x3333_3333_3333_3333;
    (bits | bits << 1) & ROW_BITS
}

/// Every other bit, from the lowest.
fn gathered(bits: u64) -> u32 {
    let mut bits = bits & ROW_BITS;
    bits = (bits | bits >> 1) & 0x3333_3333_3333_3333;
    bits = (bits | bits >> 2) & 0x0F0F_0F0F_0F0F_0F0F;
    bits = (bits | bits >> 4) & 0x00FF_00FF_00FF_00FF;
    bits = (bits | bits >> 8) & 0x0000_FFFF_0000_FFFF;
    (bits | bits >> 16) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back() {
        for line in [0, 1, 2, 3, 0x1234_5678, 0x89AB_CDEF, u32::MAX] {
            assert_eq!(gathered(spread(line)), line);
            assert_eq!(gathered(spread(line) | spread(!line) << 1), line);
        }
    }

    #[test]
    fn neighbours_wrap_around() {
        for steps in [1, 2, 13, STEPS_MAX] {
            let (size, mask) = (1i64 << steps, (1i64 << steps) - 1);
            for (row, column) in [(0, 0), (0, size - 1), (size - 1, size / 2), (size / 3, size / 2)] {
                let cell = Cell { number: spread(row as u32) | spread(column as u32) << 1, steps };
                for (east, north) in [(-1, -1), (-1, 1), (0, 1), (1, 0), (1, 1)] {
                    let moved = cell.neighbour(east, north);
                    let expected = [(row + i64::from(north)) & mask, (column + i64::from(east)) & mask];
                    assert_eq!([gathered(moved.number), gathered(moved.number >> 1)].map(i64::from), expected);
                }
            }
        }
    }

    #[test]
    fn a_position_is_within_its_cell() {
        for (longitude, latitude) in [(0.0, 0.0), (-180.0, -85.05), (13.361_389, 38.115_556), (179.99, 85.0)] {
            for steps in [1, 7, STEPS_MAX] {
                let cell = Cell::of(Point { longitude, latitude }, steps);
                let (area, [low, high]) = (cell.area(), cell.scores());
                assert!((area.longitude[0]..=area.longitude[1]).contains(&longitude), "{steps}: {area:?}");
                assert!((area.latitude[0]..=area.latitude[1]).contains(&latitude), "{steps}: {area:?}");
                assert!((low..high).contains(&Point { longitude, latitude }.score()), "{steps}");
            }
        }
    }
}
