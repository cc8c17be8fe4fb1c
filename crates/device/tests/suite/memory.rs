//! The devices without files: memory and nothing.

use almandine_device::{BLOCK_BYTES, Device, MemoryDevice, NullDevice};
use almandine_io::storage::Buffer;

#[test]
fn memory_conforms() {
    crate::conformance::all(4096, MemoryDevice::new);
}

#[test]
fn the_null_device_keeps_nothing() {
    crate::conformance::unaligned_is_refused(&NullDevice);
    let mut buffer = Buffer::new(BLOCK_BYTES);
    NullDevice.write(0, &buffer).unwrap();
    NullDevice.sync().unwrap();
    NullDevice.discard(0, 4096).unwrap();
    assert_eq!(NullDevice.used_bytes(), 0);
    let error = NullDevice.read(0, &mut buffer).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    assert!(error.to_string().contains("4096 bytes at 0"), "{error}");
    assert!(NullDevice.source(0, BLOCK_BYTES).is_err());
}
