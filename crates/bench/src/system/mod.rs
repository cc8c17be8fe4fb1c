//! What is asked of the operating system besides sockets: cores, processes, facts about the machine.

pub mod affinity;
pub mod machine;
pub mod process;
