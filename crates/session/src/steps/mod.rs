//! The steps before and behind the commands of a group: plan, admit, find and read cold records, compute, reply.

pub(crate) mod admit;
pub(crate) mod cold;
pub(crate) mod computing;
pub(crate) mod plan;
pub(crate) mod reads;
pub(crate) mod reply;
pub(crate) mod residency;
