//! Searches: which ranges of scores hold a shape's positions, and which scores in them are in it.

use super::bounds::Bounds;
use super::cell::{Cell, STEPS_MAX};
use super::point::{LATITUDE_MAX, Point};
use super::shape::{self, Shape, Within};

/// Half the equator on Redis' map, in metres.
const MERCATOR_MAX: f64 = 20_037_726.37;

/// The neighbours beside the cell with the centre, in the order in which they are searched: east, then north.
const NEIGHBOURS: [(i8, i8); 8] = [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];

/// A search for the positions in a shape.
#[derive(Clone, Debug)]
pub struct Search {
    within: Within,
    cells: [Cell; 9],
    count: usize,
}

/// A position that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The position.
    pub point: Point,
    /// Metres from the centre.
    pub distance: f64,
}

impl Search {
    /// Chooses what to search.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        let bounds = Bounds::of(&shape);
        let centre = shape::centre(&shape);
        let reach = match &shape {
            Shape::Circle { radius, .. } => *radius,
            Shape::Box { width, height, .. } => ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt(),
            Shape::Polygon(_) => bounds.reach(centre),
        };
        let mut steps = steps(reach, centre.latitude);
        if steps > 1 && !covers(Cell::of(centre, steps), &bounds) {
            steps -= 1;
        }
        let centre = Cell::of(centre, steps);
        let mut search = Self { within: Within::new(shape, &bounds), cells: [centre; 9], count: 1 };
        for (east, north) in NEIGHBOURS {
            if steps < 2 || needed(centre, &bounds, east, north) {
                search.add(centre.neighbour(east, north));
            }
        }
        search
    }

    /// Where few cells surround the world, neighbours are the same; they follow each other.
    fn add(&mut self, cell: Cell) {
        if self.count == 1 || self.cells[self.count - 1] != cell {
            self.cells[self.count] = cell;
            self.count += 1;
        }
    }

    /// The ranges of scores, each from its first number to before its second one.
    pub fn ranges(&self) -> impl Iterator<Item = [f64; 2]> {
        self.cells[..self.count].iter().map(|cell| cell.scores())
    }

    /// The position that a score stands for, if it is in the shape.
    #[must_use]
    #[inline]
    pub fn look(&self, score: f64) -> Option<Found> {
        let point = Point::of_score(score);
        self.within.distance(point).map(|distance| Found { point, distance })
    }
}

/// Halvings whose cells are about as large as the shape.
fn steps(mut reach: f64, latitude: f64) -> u32 {
    if reach == 0.0 {
        return STEPS_MAX;
    }
    let mut steps = 1i32;
    while reach < MERCATOR_MAX {
        reach *= 2.0;
        steps += 1;
    }
    // So that most shapes are within one cell and its neighbours; these are narrower towards the poles.
    let narrower = i32::from(latitude.abs() > 66.0) + i32::from(latitude.abs() > 80.0);
    (steps - 2 - narrower).clamp(1, STEPS_MAX as i32) as u32
}

/// Whether a cell and its neighbours reach the bounds.
fn covers(centre: Cell, bounds: &Bounds) -> bool {
    let area = |east, north| centre.neighbour(east, north).area();
    !(area(0, 1).latitude[1] < bounds.north
        || area(0, -1).latitude[0] > bounds.south
        || area(1, 0).longitude[1] < bounds.east
        || area(-1, 0).longitude[0] > bounds.west)
}

/// Whether the bounds reach from the cell into a neighbour.
fn needed(centre: Cell, bounds: &Bounds, east: i8, north: i8) -> bool {
    let area = centre.area();
    let inside = area.latitude[0] < bounds.south && north < 0
        || area.latitude[1] > bounds.north && north > 0
        || area.longitude[0] < bounds.west && east < 0
        || area.longitude[1] > bounds.east && east > 0;
    !inside
}

const _: () = assert!(LATITUDE_MAX < 90.0, "no cell holds a pole");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_follow_the_reach() {
        assert_eq!([0.0, 1e-9, 1.0, 1000.0, 5e6, 1e9, f64::INFINITY].map(|reach| steps(reach, 0.0)), [26, 26, 24, 14, 2, 1, 1]);
        assert_eq!([steps(1000.0, 70.0), steps(1000.0, -81.0), steps(1e9, 81.0)], [13, 12, 1]);
    }

    #[test]
    fn a_search_of_the_world_has_each_cell_once() {
        let search = Search::new(Shape::Circle { centre: Point { longitude: 1.0, latitude: 1.0 }, radius: 5e7 });
        let ranges: Vec<_> = search.ranges().collect();
        let quarter = (1u64 << 50) as f64;
        assert_eq!(ranges, [[3.0, 4.0], [2.0, 3.0], [1.0, 2.0], [0.0, 1.0]].map(|range| range.map(|number| number * quarter)));
    }
}
