//! An object as the contents of an extent.
//!
//! ```text
//! what the object counts as on the device     8 bytes
//! parts of its image, each:  length 4 | part
//! ```

use crate::heap::HeapValue;
use almandine_base::object::{ImageCursor, Kind, Missing, Object, Types};

/// Bytes after which a part of an image ends.
const PART_BYTES: usize = 256 << 10;

/// The image of a value that is an object; `weight` is its [`HeapValue::device_bytes`].
pub(crate) fn of(object: &dyn Object, weight: usize) -> Result<Vec<u8>, Missing> {
    let mut image = Vec::with_capacity(object.memory() / 2);
    image.extend_from_slice(&(weight as u64).to_le_bytes());
    let mut cursor = Some(ImageCursor::default());
    while let Some(at) = cursor {
        let length_at = image.len();
        image.extend_from_slice(&[0; 4]);
        cursor = object.write_part(at, PART_BYTES, &mut image)?;
        let length = (image.len() - length_at - 4) as u32;
        image[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    }
    Ok(image)
}

/// The value of an image. None: it is damaged, or there are no such objects.
pub(crate) fn read(types: Option<&dyn Types>, kind: Kind, image: &[u8]) -> Option<HeapValue> {
    let mut object = types?.empty(kind)?;
    let (weight, mut rest) = image.split_first_chunk::<8>()?;
    loop {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (part, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        rest = after;
        if object.read_part(part).ok()? {
            return Some(HeapValue::weighing(object, usize::try_from(u64::from_le_bytes(*weight)).ok()?));
        }
    }
}
