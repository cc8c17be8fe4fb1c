//! Streams against naive ones, by random operations; their images; their sizes.

mod groups;
mod images;
mod model;
mod operations;
mod sizes;
