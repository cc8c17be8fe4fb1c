//! Test tools: golden sessions, the oracle, histories, hostile clients.
