//! Listeners, connections, buffers and back-pressure. Knows bytes, not RESP.
