//! One parameter table: configuration file, flags, CONFIG GET, SET and REWRITE.
