//! The bytes that announce something else than a key.

/// Of Redis 8: metadata of modules for the key that follows.
pub(super) const KEY_METADATA: u8 = 243;
/// Of Valkey 9: a slot import that was under way.
pub(super) const SLOT_IMPORT: u8 = 243;
pub(super) const SLOT_SIZES: u8 = 244;
pub(super) const FUNCTION: u8 = 245;
pub(super) const FUNCTION_CANDIDATE: u8 = 246;
pub(super) const MODULE_AUX: u8 = 247;
pub(super) const IDLE: u8 = 248;
pub(super) const FREQUENCY: u8 = 249;
pub(super) const AUX: u8 = 250;
pub(super) const SIZES: u8 = 251;
pub(super) const EXPIRY_MS: u8 = 252;
pub(super) const EXPIRY_S: u8 = 253;
pub(super) const DATABASE: u8 = 254;
pub(super) const END: u8 = 255;
