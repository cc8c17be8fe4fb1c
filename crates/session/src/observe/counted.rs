//! Streamed replies count as output as they are made, for their worker and their client.

use std::sync::Arc;

use almandine_base::Output;
use almandine_base::output::{Broken, Stream};
use almandine_handler::{Client, Context};
use almandine_instance::{ClientShared, Instance};

/// A stream whose slices are counted by the worker that makes them.
struct Counted {
    stream: Box<dyn Stream>,
    instance: Arc<Instance>,
    worker: usize,
    client: Arc<ClientShared>,
}

impl Stream for Counted {
    fn next(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<bool, Broken> {
        let before = out.len();
        let more = self.stream.next(limit, out);
        let made = (out.len() - before) as u64;
        self.instance.statistics.worker(self.worker).counters.net_output_bytes.add(made);
        self.client.activity.record_output(made);
        more
    }
}

/// Lets the stream that the output ends with be counted, if it ends with one.
#[cold]
pub(crate) fn count(out: &mut Output, context: &Context, client: &Client) {
    out.wrap_stream(|stream| {
        let (instance, worker, client) = (Arc::clone(&context.instance), context.worker, Arc::clone(&client.shared));
        Box::new(Counted { stream, instance, worker, client })
    });
}
