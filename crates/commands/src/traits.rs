//! Traits that most commands on data have in common.

use almandine_command_spec::Traits;

/// Reads.
pub(crate) const SLOW_READ: Traits = Traits { readonly: true, ..Traits::NONE };
/// Reads in about constant time.
pub(crate) const READ: Traits = Traits { fast: true, ..SLOW_READ };
/// Writes without taking memory.
pub(crate) const CHANGE: Traits = Traits { write: true, fast: true, ..Traits::NONE };
/// Writes, and may take memory.
pub(crate) const WRITE: Traits = Traits { denyoom: true, ..CHANGE };
/// As [`WRITE`], in more than constant time.
pub(crate) const SLOW_WRITE: Traits = Traits { fast: false, ..WRITE };
/// For handlers whose one verb is atomic by itself, so that the session need not lock the key first.
pub(crate) const ONE_VERB: Traits = Traits { self_locking: true, ..WRITE };
/// As [`CHANGE`], by one verb.
pub(crate) const CHANGE_BY_ONE_VERB: Traits = Traits { self_locking: true, ..CHANGE };
