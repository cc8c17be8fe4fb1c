//! Positions.

use super::CommandError;

/// A unit of length that does not exist.
pub const UNKNOWN_UNIT: CommandError = CommandError::Fixed(&"ERR unsupported unit provided. please use M, KM, FT, MI");
/// GEORADIUS and its relatives with a radius that is no number.
pub const RADIUS_NOT_NUMERIC: CommandError = CommandError::Fixed(&"ERR need numeric radius");
/// With a radius below zero.
pub const RADIUS_NEGATIVE: CommandError = CommandError::Fixed(&"ERR radius cannot be negative");
/// GEOSEARCH BYBOX with a width that is no number.
pub const WIDTH_NOT_NUMERIC: CommandError = CommandError::Fixed(&"ERR need numeric width");
/// With a height that is no number.
pub const HEIGHT_NOT_NUMERIC: CommandError = CommandError::Fixed(&"ERR need numeric height");
/// With one of them below zero.
pub const SIZE_NEGATIVE: CommandError = CommandError::Fixed(&"ERR height or width cannot be negative");
/// GEOSEARCH BYPOLYGON with a number of vertices that is none.
pub const VERTICES_NOT_A_NUMBER: CommandError = CommandError::Fixed(&"ERR invalid number of vertices");
/// With fewer vertices than a polygon has.
pub const TOO_FEW_VERTICES: CommandError = CommandError::Fixed(&"ERR GEOSEARCH BYPOLYGON must have at least 3 vertices");
/// A search around a member that is not there.
pub const MEMBER_NOT_DECODED: CommandError = CommandError::Fixed(&"ERR could not decode requested zset member");
/// A search for no member, or fewer.
pub const COUNT_NOT_POSITIVE: CommandError = CommandError::Fixed(&"ERR COUNT must be > 0");
/// A search with ANY alone.
pub const ANY_WITHOUT_COUNT: CommandError = CommandError::Fixed(&"ERR the ANY argument requires COUNT argument");
/// GEORADIUS that both stores and answers more than members.
pub const RADIUS_STORE_WITH: CommandError =
    CommandError::Fixed(&"ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options");
/// GEOSEARCHSTORE that is to answer more.
pub const SEARCH_STORE_WITH: CommandError =
    CommandError::Fixed(&"ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options");

/// A position beyond the map.
#[cold]
#[must_use]
pub fn invalid_position(longitude: f64, latitude: f64) -> CommandError {
    CommandError::new(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"))
}

/// GEOSEARCH or GEOSEARCHSTORE, as the client spells it, that does not say around what.
#[cold]
#[must_use]
pub fn search_without_centre(command: &[u8]) -> CommandError {
    CommandError::quoting("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for ", command, "")
}

/// That does not say how far.
#[cold]
#[must_use]
pub fn search_without_shape(command: &[u8]) -> CommandError {
    CommandError::quoting("ERR exactly one of BYRADIUS and BYBOX can be specified for ", command, "")
}
