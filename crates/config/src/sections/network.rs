//! Where the server listens.

use super::{NATURAL, PORT, TEXT, YES_NO};
use crate::kind::Kind;
use crate::parameter::section;

const ADDRESSES: Kind = Kind::Words(16);

section! {
    /// Where the server listens.
    Network "Network"
    "port": PORT = "6379" [] "TCP port; 0 for none." => port: u16;
    "bind": ADDRESSES = "* -::*" []
        "Addresses to listen on; `*` is every IPv4, `::*` every IPv6 address, a leading `-` tolerates absence."
        => bind: Vec<String>;
    "bind-source-addr": TEXT = "" [] "Source address of outgoing connections.";
    "unixsocket": TEXT = "" [protected] "Path of a Unix socket to listen on; empty for none." => unix_socket: String;
    "unixsocketperm": (Kind::Octal) = "0" [protected]
        "Permissions of the Unix socket, in octal; 0 leaves them to the umask." => unix_socket_permissions: u32;
    "unixsocketgroup": TEXT = "" [immutable hidden] "Group of the Unix socket, by name or number; empty leaves it to the process."
        => unix_socket_group: String;
    "tcp-backlog": NATURAL = "511" [] "Connections that may wait to be accepted." => tcp_backlog: u32;
    "tcp-keepalive": NATURAL = "300" [] "Seconds of silence before TCP probes a peer; 0 for never." => tcp_keepalive_s: u32;
    "socket-mark-id": (Kind::Integer(0, u32::MAX as i64)) = "0" [immutable]
        "Mark on every TCP socket, for the packet filter; 0 for none. Needs a privilege." => socket_mark: u32;
    "mptcp": YES_NO = "no" [immutable hidden] "Listen with multipath TCP." => multipath_tcp: bool;
    "max-new-connections-per-cycle": (Kind::Integer(1, 1000)) = "10" [] "Connections accepted in one turn of the event loop.";
    "rdma-bind": ADDRESSES = "" [immutable hidden] "Addresses to listen on with RDMA.";
    "rdma-port": PORT = "0" [immutable hidden] "RDMA port.";
    "rdma-rx-size": (Kind::Memory(65536, 16 << 20)) = "1mb" [immutable hidden] "Receive buffer of an RDMA connection.";
    "rdma-completion-vector": (Kind::Integer(-1, 1024)) = "-1" [immutable hidden] "Completion vector of RDMA.";
}
