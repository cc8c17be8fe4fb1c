//! The kernel: reactors, sockets, memory mappings, clocks, threads, entropy.
