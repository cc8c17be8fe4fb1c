//! Positions, units and lengths as arguments.

use almandine_datatypes::geo::{DistanceUnit, Point};
use almandine_handler::{CommandError, errors, number};

/// A position.
///
/// # Errors
/// When a coordinate is no number, or the position cannot be indexed.
pub(super) fn point(longitude: &[u8], latitude: &[u8]) -> Result<Point, CommandError> {
    let (longitude, latitude) = (number::double(longitude)?, number::double(latitude)?);
    Point::new(longitude, latitude).ok_or_else(|| errors::geo::invalid_position(longitude, latitude))
}

/// A unit.
///
/// # Errors
/// When there is none of that name.
pub(super) fn unit(name: &[u8]) -> Result<DistanceUnit, CommandError> {
    DistanceUnit::parse(name).ok_or(errors::geo::UNKNOWN_UNIT)
}

/// A radius in its unit.
///
/// # Errors
/// When the radius is no number or negative, or there is no such unit.
pub(super) fn radius(radius: &[u8], name: &[u8]) -> Result<(f64, DistanceUnit), CommandError> {
    let radius = number::double(radius).map_err(|_| errors::geo::RADIUS_NOT_NUMERIC)?;
    if radius < 0.0 {
        return Err(errors::geo::RADIUS_NEGATIVE);
    }
    Ok((radius, unit(name)?))
}

/// Width and height in their unit.
///
/// # Errors
/// As for [`radius`].
pub(super) fn size(width: &[u8], height: &[u8], name: &[u8]) -> Result<([f64; 2], DistanceUnit), CommandError> {
    let width = number::double(width).map_err(|_| errors::geo::WIDTH_NOT_NUMERIC)?;
    let height = number::double(height).map_err(|_| errors::geo::HEIGHT_NOT_NUMERIC)?;
    if width < 0.0 || height < 0.0 {
        return Err(errors::geo::SIZE_NEGATIVE);
    }
    Ok(([width, height], unit(name)?))
}
