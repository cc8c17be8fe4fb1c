//! RESP2, RESP3 and inline commands, without I/O.
