//! Settings of `cjson`, which a machine keeps until the run ends.

use crate::value::LuaValue;

/// What numbers without a form in JSON become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidNumbers {
    Refused,
    Written,
    Null,
}

/// How values are written and read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonSettings {
    /// Lists with too many holes become objects; else they are an error.
    pub(crate) sparse_convert: bool,
    /// A list has too many holes when its length is beyond this many times its elements; 0 allows any.
    pub(crate) sparse_ratio: i32,
    /// Lists up to this length may have any holes.
    pub(crate) sparse_safe: i32,
    pub(crate) encode_max_depth: i32,
    pub(crate) decode_max_depth: i32,
    pub(crate) encode_invalid_numbers: InvalidNumbers,
    pub(crate) decode_invalid_numbers: bool,
    pub(crate) precision: i32,
    /// Without an effect here.
    pub(crate) keep_buffer: bool,
}

impl Default for JsonSettings {
    fn default() -> Self {
        Self {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_max_depth: 1000,
            decode_max_depth: 1000,
            encode_invalid_numbers: InvalidNumbers::Refused,
            decode_invalid_numbers: true,
            precision: 14,
            keep_buffer: true,
        }
    }
}

impl JsonSettings {
    /// The settings as values, in which an object keeps them.
    pub(crate) fn values(self) -> [LuaValue; 9] {
        let invalid = match self.encode_invalid_numbers {
            InvalidNumbers::Refused => 0,
            InvalidNumbers::Written => 1,
            InvalidNumbers::Null => 2,
        };
        [
            i32::from(self.sparse_convert),
            self.sparse_ratio,
            self.sparse_safe,
            self.encode_max_depth,
            self.decode_max_depth,
            invalid,
            i32::from(self.decode_invalid_numbers),
            self.precision,
            i32::from(self.keep_buffer),
        ]
        .map(|value| LuaValue::Number(f64::from(value)))
    }

    pub(crate) fn from_values(values: &[LuaValue]) -> Self {
        let integer = |index: usize| match values.get(index) {
            Some(LuaValue::Number(number)) => *number as i32,
            _ => 0,
        };
        Self {
            sparse_convert: integer(0) != 0,
            sparse_ratio: integer(1),
            sparse_safe: integer(2),
            encode_max_depth: integer(3),
            decode_max_depth: integer(4),
            encode_invalid_numbers: match integer(5) {
                0 => InvalidNumbers::Refused,
                1 => InvalidNumbers::Written,
                _ => InvalidNumbers::Null,
            },
            decode_invalid_numbers: integer(6) != 0,
            precision: integer(7),
            keep_buffer: integer(8) != 0,
        }
    }
}
