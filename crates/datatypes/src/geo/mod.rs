//! Positions on Earth as scores of sorted sets, distances, and searches, to the last bit as in Redis.
//!
//! A position is a cell of a grid that halves the world 26 times in each direction. A cell's number has the bits of its row and
//! column in turn ([`cell`]), so that cells that are close together mostly have close numbers: 52 bits, which a double holds. A
//! search ([`search`]) goes through the cells of a coarser grid that its [`shape`] touches: each is a range of scores. What is
//! found there is looked at one by one.
//!
//! Latitudes end at those of the Web Mercator projection. The Earth is a ball. Whatever is computed has the order of operations
//! that Redis has: a position at the edge of a search is in it or not as there, and distances have the same digits.

mod bounds;
pub mod cell;
pub mod distance;
mod point;
pub mod search;
pub mod shape;
pub mod text;
pub mod unit;

pub use cell::Cell;
pub use distance::distance;
pub use point::{LATITUDE_MAX, LONGITUDE_MAX, Point, integer_of_score};
pub use search::{Found, Search};
pub use shape::{Shape, Within};
pub use unit::DistanceUnit;
