//! Cluster.

use super::{LONG, MEMORY, NATURAL, PORT, TEXT, YES_NO, host_name};
use crate::kind::Kind;
use crate::parameter::section;

const ENDPOINT: Kind = Kind::Choice(&["ip", "hostname", "unknown-endpoint"]);
const NAME: Kind = Kind::Text(host_name);

section! {
    /// Cluster.
    Cluster "Cluster"
    "cluster-enabled": YES_NO = "no" [immutable] "Be a node of a cluster.";
    "cluster-config-file": TEXT = "nodes.conf" [immutable] "File that holds the state of the cluster.";
    "cluster-config-save-behavior": (Kind::Choice(&["sync", "best-effort"])) = "sync" [] "What a failure to write that file does.";
    "cluster-databases": (Kind::Integer(1, i32::MAX as i64)) = "1" [immutable hidden] "Number of databases in a cluster.";
    "cluster-port": PORT = "0" [immutable] "Port of the cluster bus; 0 for the port plus 10000.";
    "cluster-node-timeout": LONG = "15000" [] "Milliseconds after which a silent node may have failed.";
    "cluster-ping-interval": (Kind::Integer(1, i32::MAX as i64)) = "1000" [hidden] "Milliseconds between pings.";
    "cluster-message-gossip-perc": (Kind::Integer(0, 100)) = "10" [hidden] "Percent of the nodes in the gossip of a message.";
    "cluster-manual-failover-timeout": (Kind::Integer(1, i32::MAX as i64)) = "5000" []
        "Milliseconds that a manual failover may take.";
    "cluster-blacklist-ttl": NATURAL = "60" [] "Seconds for which a forgotten node stays forgotten.";
    "cluster-announce-ip": TEXT = "" [] "Address that the node reports.";
    "cluster-announce-client-ipv4": TEXT = "" [] "IPv4 address that the node reports to clients.";
    "cluster-announce-client-ipv6": TEXT = "" [] "IPv6 address that the node reports to clients.";
    "cluster-announce-client-port": PORT = "0" [] "Port that the node reports to clients.";
    "cluster-announce-client-tls-port": PORT = "0" [] "TLS port that the node reports to clients.";
    "cluster-announce-hostname": NAME = "" [] "Host name that the node reports.";
    "cluster-announce-human-nodename": NAME = "" [] "Name of the node in logs.";
    "cluster-announce-port": PORT = "0" [] "Port that the node reports.";
    "cluster-announce-tls-port": PORT = "0" [] "TLS port that the node reports.";
    "cluster-announce-bus-port": PORT = "0" [] "Bus port that the node reports.";
    "cluster-preferred-endpoint-type": ENDPOINT = "ip" [] "What CLUSTER SLOTS and redirections name nodes by.";
    "cluster-require-full-coverage": YES_NO = "yes" [] "Serve only while every slot is served.";
    "cluster-allow-reads-when-down": YES_NO = "no" [] "Serve reads while the cluster is down.";
    "cluster-allow-pubsubshard-when-down": YES_NO = "yes" [] "Serve shard channels while the cluster is down.";
    "cluster-allow-replica-migration": YES_NO = "yes" [] "Let replicas move to primaries that have none.";
    "cluster-migration-barrier": NATURAL = "1" [] "Replicas that a primary keeps.";
    "cluster-replica-no-failover" / "cluster-slave-no-failover": YES_NO = "no" [] "Never take over from the primary.";
    "cluster-replica-validity-factor" / "cluster-slave-validity-factor": NATURAL = "10" []
        "Node timeouts after which a replica is too old to take over.";
    "cluster-link-sendbuf-limit": MEMORY = "0" [] "Bytes that may wait on a link of the bus; 0 for no limit.";
    "cluster-slot-stats-enabled": YES_NO = "no" [] "Count traffic and CPU for each slot.";
    "cluster-compatibility-sample-ratio": (Kind::Integer(0, 100)) = "0" [] "Percent of commands checked for use in a cluster.";
    "cluster-slot-migration-log-max-len": LONG = "1000" [] "Finished slot migrations that are remembered.";
    "slot-migration-max-failover-repl-bytes": (Kind::Integer(-1, i64::MAX)) = "0" []
        "Bytes in flight at which a slot migration may finish.";
}
