//! Every command: specification beside handler, one file per family.
