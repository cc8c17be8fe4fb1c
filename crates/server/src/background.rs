//! The control thread: ten times a second it brings figures from where they arise to where they are asked for.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use almandine_io::{allocator, thread};
use almandine_net::Handle;
use almandine_node::{Message, Node};

use crate::storage::Watch;

const PERIOD: Duration = Duration::from_millis(100);

/// Starts the thread; it ends with the node's shutdown.
pub(crate) fn start(node: Arc<Node>, network: Handle<Message>, mut storage: Watch) -> io::Result<()> {
    thread::spawn("control", move || {
        let waker = thread::Waker::new();
        while !node.shutdown.requested() {
            turn(&node, &network);
            storage.turn(&node);
            allocator::release_unused();
            waker.wait(PERIOD);
        }
    })
    .map(drop)
}

fn turn(node: &Node, network: &Handle<Message>) {
    node.sample();
    let gauges = &node.gauges.network;
    gauges.connections_rejected.store(network.sum(|counters| &counters.rejected), Relaxed);
    gauges.connections_timed_out.store(network.sum(|counters| &counters.closed_by_timeout), Relaxed);
    let output = network.sum(|counters| &counters.output_pending_bytes);
    let input = network.sum(|counters| &counters.input_buffer_bytes);
    gauges.output_pending_bytes.store(output, Relaxed);
    gauges.input_buffer_bytes.store(input, Relaxed);
    node.keyspace.set_external_bytes(output + input + node.statistics.device_buffer_bytes());
}
