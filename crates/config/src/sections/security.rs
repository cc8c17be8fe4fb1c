//! Which clients may connect, and what is locked.

use super::{ALLOWED, LONG, TEXT, YES_NO};
use crate::choices::{Allowed, ChannelsByDefault, Choice};
use crate::kind::Kind;
use crate::parameter::section;

section! {
    /// Which clients may connect, and what is locked.
    Security "Security"
    "protected-mode": YES_NO = "yes" [] "Without a password, answer to peers on this machine only." => protected_mode: bool;
    "requirepass": TEXT = "" [sensitive] "Password of the default user; empty for none." => requirepass: String;
    "enable-protected-configs": ALLOWED = "no" [immutable]
        "Which clients may change protected parameters: none (no), all (yes), or local ones." => enable_protected_configs: Allowed;
    "enable-debug-command": ALLOWED = "no" [immutable]
        "Which clients may use DEBUG: none (no), all (yes), or local ones." => enable_debug_command: Allowed;
    "enable-module-command": ALLOWED = "no" [immutable] "Which clients may use MODULE: none (no), all (yes), or local ones.";
    "aclfile": TEXT = "" [immutable] "File with the users." => acl_file: String;
    "acl-pubsub-default": (Kind::Choice(ChannelsByDefault::NAMES)) = "resetchannels" [] "Channels of a new user."
        => channels_by_default: ChannelsByDefault;
    "acllog-max-len": LONG = "128" [] "Entries of the ACL log." => acl_log_entries_max: u64;
    "hide-user-data-from-log": YES_NO = "yes" [] "Keep keys and values out of the log.";
    "sanitize-dump-payload": (Kind::Choice(&["no", "yes", "clients"])) = "no" [] "Check the payload of RESTORE in depth.";
    "lua-enable-deprecated-api": YES_NO = "no" [immutable hidden] "Offer deprecated functions to scripts."
        => lua_deprecated_api: bool;
    "lua-enable-insecure-api": YES_NO = "no" [] "Offer insecure functions to scripts.";
}
