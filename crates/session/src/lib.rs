//! A connection's life: parse, plan, prefetch, execute, reply.
