//! Clusters.

use super::CommandError;

/// A command of clusters, which this server is no part of. Clients find out so whether there is one.
pub const DISABLED: CommandError = CommandError::Fixed(&"ERR This instance has cluster support disabled");
