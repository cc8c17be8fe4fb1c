//! Pure values: bitmaps, bit fields, numbers, subsequences, globs. No I/O, no clock.
