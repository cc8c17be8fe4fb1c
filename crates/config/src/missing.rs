//! What is promised by parameters of Redis and does not exist yet: values that rely on it are refused.
//!
//! Most parameters without an effect cost nothing but speed or convenience when they are ignored, and are accepted. These would
//! leave data unprotected while the configuration says that it is protected.

use crate::kind::Value;
use crate::parameter::Parameter;

/// Parameter, and what is missing and what to do about it.
const MISSING: &[(&str, &str)] = &[
    ("replicaof", "There is no replication yet. Remove it to start an independent server"),
    ("min-replicas-to-write", "There is no replication yet, so no replica would have a write. Set it to 0"),
    ("cluster-enabled", "There is no cluster yet. Set it to no to start a single server"),
    ("rdma-port", "There is no RDMA. Set it to 0, and listen on TCP"),
    ("import-mode", "Expiry cannot be held back during an import yet. Set it to no"),
];

/// Why a value is refused; nothing for values that rely on nothing.
pub(crate) fn refusal(parameter: &Parameter, value: &Value) -> Option<&'static str> {
    let (_, reason) = MISSING.iter().find(|(name, _)| *name == parameter.name)?;
    (*value != parameter.default_value()).then_some(*reason)
}

/// Whether values of a parameter are refused.
pub(crate) fn is_missing(parameter: &Parameter) -> bool {
    MISSING.iter().any(|(name, _)| *name == parameter.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter;

    #[test]
    fn what_is_missing_has_no_effect_and_is_off_by_default() {
        for (name, reason) in MISSING {
            let (_, parameter) = parameter::lookup(name).unwrap();
            assert!(parameter.name == *name && !parameter.effective, "{name}");
            assert!(refusal(parameter, &parameter.default_value()).is_none(), "{name}");
            assert!(reason.contains(". ") || reason.contains(": "), "{name} says what to do");
        }
    }
}
