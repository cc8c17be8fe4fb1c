//! Hit ratios of the store as a cache beside models of redis-server, for several streams of requests and sizes of cache.
//!
//! `cargo run --release -p almandine-store --example hit_ratios [keys]`

#![allow(clippy::unwrap_used, reason = "an example may end when something is wrong")]

#[path = "../tests/hits/mod.rs"]
mod hits;

use almandine_store::EvictionOrder;

fn main() {
    let keys = std::env::args().nth(1).and_then(|keys| keys.parse().ok()).unwrap_or(100_000);
    println!("{:14} {:>5} | {:>23} | {:>23}", "", "cache", "lru: model     store", "lfu: model     store");
    for stream in hits::STREAMS {
        for percent in [1, 10, 50] {
            let cache = keys * percent / 100;
            let requests = hits::requests(stream, keys, cache, keys * 20);
            let ratios = [EvictionOrder::Recency, EvictionOrder::Frequency].map(|order| {
                let (ratio, held) = hits::of_store(order, hits::budget(cache), keys, &requests);
                (hits::of_redis(order, held, keys, &requests), ratio, held)
            });
            let [lru, lfu] = ratios.map(|(model, ratio, held)| format!("{model:.4} {ratio:.4} ({held:6})"));
            println!("{:14} {percent:>3} % | {lru:>23} | {lfu:>23}", format!("{stream:?}"));
        }
    }
}
