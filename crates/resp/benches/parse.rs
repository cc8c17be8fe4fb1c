//! Nanoseconds per command of parsing pipelines, and per reply of writing them.
//!
//! `cargo bench -p almandine-resp` on an otherwise idle machine. Each figure is the best of many rounds over one input that stays
//! in the CPU's cache: what the code costs, without what the memory costs. It prints; it does not judge.

#[path = "../tests/client/mod.rs"]
mod client;

use almandine_base::Output;
use almandine_resp::{Batch, Limits, Parser, ProtocolVersion, Reply};
use client::encode;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 3000;

/// The best time of `work` in nanoseconds per operation.
fn measure(name: &str, operations: usize, mut work: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_nanos() as f64 / operations as f64);
    }
    println!("{name:<44} {best:7.2} ns");
}

fn pipeline(name: &str, commands: usize, command: impl Fn(usize) -> Vec<Vec<u8>>) {
    let mut input = Vec::new();
    for index in 0..commands {
        encode(&mut input, &command(index));
    }
    let (mut parser, mut batch, limits) = (Parser::new(), Batch::new(), Limits::default());
    measure(name, commands, || {
        batch.clear();
        let parsed = parser.parse(black_box(&input), &limits, &mut batch, commands).expect("well-formed");
        assert_eq!((parsed.consumed, batch.len()), (input.len(), commands));
    });
}

fn key(index: usize) -> Vec<u8> {
    format!("key:{index:012}").into_bytes()
}

fn main() {
    pipeline("GET key16, pipeline 256", 256, |i| vec![b"GET".to_vec(), key(i)]);
    pipeline("GET key16, pipeline 16", 16, |i| vec![b"GET".to_vec(), key(i)]);
    pipeline("GET key16, pipeline 1", 1, |i| vec![b"GET".to_vec(), key(i)]);
    pipeline("GET key5, pipeline 256", 256, |i| vec![b"GET".to_vec(), format!("k{i:04}").into_bytes()]);
    pipeline("SET key16 value8, pipeline 256", 256, |i| vec![b"SET".to_vec(), key(i), b"12345678".to_vec()]);
    pipeline("SET key16 value100, pipeline 256", 256, |i| vec![b"SET".to_vec(), key(i), vec![b'x'; 100]]);
    pipeline("SET key16 value1024, pipeline 16", 16, |i| vec![b"SET".to_vec(), key(i), vec![b'x'; 1024]]);
    pipeline("SET key5..14 value1..200, pipeline 256", 256, |i| {
        vec![b"SET".to_vec(), vec![b'k'; 5 + i * 7 % 10], vec![b'x'; 1 + i * 97 % 200]]
    });
    pipeline("MGET of 10 key16, pipeline 16", 16, |i| {
        std::iter::once(b"MGET".to_vec()).chain((0..10).map(|k| key(i * 10 + k))).collect()
    });

    let mut inline = b"SET key:000000000001 value\r\n".repeat(256);
    inline.extend_from_slice(b"PI");
    let (mut batch, limits) = (Batch::new(), Limits::default());
    measure("SET, inline, pipeline 256, last one cut", 256, || {
        batch.clear();
        let parsed = Parser::new().parse(black_box(&inline), &limits, &mut batch, 512).expect("well-formed");
        assert_eq!((parsed.consumed, batch.len()), (inline.len() - 2, 256));
    });

    let mut out = Output::new();
    let mut reply = |name: &str, write: &dyn Fn(&mut Reply<'_>)| {
        measure(name, 256, || {
            out.clear();
            let mut reply = Reply::new(&mut out, ProtocolVersion::Resp2);
            (0..256).for_each(|_| write(black_box(&mut reply)));
        });
    };
    reply("reply: +OK", &|r| r.ok());
    reply("reply: bulk of 8", &|r| r.bulk(black_box(b"12345678")));
    reply("reply: bulk of 100", &|r| r.bulk(black_box(&[b'x'; 100])));
    reply("reply: integer 123456", &|r| r.integer(black_box(123_456)));
    reply("reply: double 12", &|r| r.double(black_box(12.0)));
    reply("reply: double 2.72", &|r| r.double(black_box(2.72)));
}
