//! CLIENT TRACKING and CLIENT CACHING.

use super::CommandError;

/// CLIENT CACHING without the matching tracking mode.
pub const CACHING_NEEDS_TRACKING: CommandError = CommandError::Fixed(
    &"ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
);
/// CLIENT CACHING YES without OPTIN.
pub const CACHING_YES_NEEDS_OPT_IN: CommandError =
    CommandError::Fixed(&"ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.");
/// CLIENT CACHING NO without OPTOUT.
pub const CACHING_NO_NEEDS_OPT_OUT: CommandError =
    CommandError::Fixed(&"ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.");
/// CLIENT TRACKING with several redirections.
pub const REDIRECT_TWICE: CommandError = CommandError::Fixed(&"ERR A client can only redirect to a single other client");
/// CLIENT TRACKING with a redirection to no client.
pub const REDIRECT_UNKNOWN: CommandError = CommandError::Fixed(&"ERR The client ID you want redirect to does not exist");
/// CLIENT TRACKING PREFIX without BCAST.
pub const PREFIX_NEEDS_BROADCAST: CommandError = CommandError::Fixed(&"ERR PREFIX option requires BCAST mode to be enabled");
/// CLIENT TRACKING with another mode than the one that is on.
pub const MODE_SWITCH: CommandError = CommandError::Fixed(
    &"ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different \
      mode.",
);
/// CLIENT TRACKING BCAST together with OPTIN or OPTOUT.
pub const BROADCAST_OPTIONS: CommandError = CommandError::Fixed(&"ERR OPTIN and OPTOUT are not compatible with BCAST");
/// CLIENT TRACKING OPTIN together with OPTOUT.
pub const OPT_BOTH: CommandError = CommandError::Fixed(&"ERR You can't specify both OPTIN mode and OPTOUT mode");
/// CLIENT TRACKING OPTIN while OPTOUT is on, and the other way round.
pub const OPT_SWITCH: CommandError = CommandError::Fixed(
    &"ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different \
      mode.",
);

/// CLIENT TRACKING with a prefix of a prefix; `other` says which.
#[cold]
#[must_use]
pub fn prefixes_overlap(prefix: &[u8], which: &str, other: &[u8]) -> CommandError {
    let words = [b"ERR Prefix '", prefix, b"' overlaps with ", which.as_bytes(), b" prefix '", other];
    CommandError::new([&words.concat()[..], b"'. Prefixes for a single client must not overlap."].concat())
}
