//! Epoch protection with bump-and-drain actions, and the epoch-protected state machine.
