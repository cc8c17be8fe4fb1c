//! Units of length.

/// A unit in which lengths are given and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistanceUnit {
    /// Metres.
    Metre,
    /// Kilometres.
    Kilometre,
    /// Feet.
    Foot,
    /// Miles.
    Mile,
}

impl DistanceUnit {
    /// The unit of a name, whatever its case.
    #[must_use]
    pub fn parse(name: &[u8]) -> Option<Self> {
        [(&b"m"[..], Self::Metre), (b"km", Self::Kilometre), (b"ft", Self::Foot), (b"mi", Self::Mile)]
            .into_iter()
            .find_map(|(text, unit)| name.eq_ignore_ascii_case(text).then_some(unit))
    }

    /// Metres of one.
    #[must_use]
    pub fn metres(self) -> f64 {
        match self {
            Self::Metre => 1.0,
            Self::Kilometre => 1000.0,
            Self::Foot => 0.3048,
            Self::Mile => 1609.34,
        }
    }
}
