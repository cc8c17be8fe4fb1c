//! Hit ratios: streams of requests, the store as a cache, and models of what redis-server does by sampling.

use almandine_store::{EvictionOrder, EvictionPolicy, Options, Put, Store};
use std::collections::BTreeSet;

/// A small generator of random numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (((self.next() >> 32) * limit as u64) >> 32) as usize
    }

    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Kinds of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Zipf 0.99.
    Zipf,
    /// The same; every fourth request goes on with a scan of all keys.
    Scan,
    /// Nine of ten requests go to a hot set of half the cache, which moves as a whole now and then.
    Shift,
    /// Zipf 0.99 whose ranks move on by a tenth of the keys after as many requests as there are keys.
    ShiftingZipf,
}

#[allow(dead_code, reason = "the test takes them one by one")]
pub(crate) const STREAMS: [Stream; 4] = [Stream::Zipf, Stream::Scan, Stream::Shift, Stream::ShiftingZipf];

/// Requests for keys below `keys`, for a cache of `cache` keys.
pub(crate) fn requests(stream: Stream, keys: usize, cache: usize, count: usize) -> Vec<u32> {
    let mut random = Random(0x5EED_1234);
    let mut sum = 0.0;
    let cumulated: Vec<f64> = (1..=keys)
        .map(|rank| {
            sum += (rank as f64).powf(-0.99);
            sum
        })
        .collect();
    let mut shuffled: Vec<u32> = (0..keys as u32).collect();
    for at in (1..keys).rev() {
        shuffled.swap(at, random.below(at + 1));
    }
    let zipf = |random: &mut Random| {
        let point = random.fraction() * sum;
        cumulated.partition_point(|&end| end < point).min(keys - 1)
    };
    let hot = (cache / 2).max(1);
    let mut base = 0;
    (0..count)
        .map(|at| match stream {
            Stream::Zipf => shuffled[zipf(&mut random)],
            Stream::Scan if at % 4 == 0 => (at / 4 % keys) as u32,
            Stream::Scan => shuffled[zipf(&mut random)],
            Stream::Shift => {
                if at % (20 * hot) == 0 {
                    base = random.below(keys);
                }
                let within = if random.below(10) == 0 { random.below(keys) } else { random.below(hot) };
                shuffled[(base + within) % keys]
            }
            Stream::ShiftingZipf => shuffled[(zipf(&mut random) + at / keys * (keys / 10)) % keys],
        })
        .collect()
}

/// Share of requests that find their key when missing keys are put, after the first half; and the mean number of keys then.
pub(crate) fn of_store(order: EvictionOrder, budget: u64, keys: usize, requests: &[u32]) -> (f64, usize) {
    let store = Store::open(Options { background: false, ..Options::default() }).unwrap();
    let namespace = store.allocate_namespace().unwrap();
    store.settings().set_eviction(EvictionPolicy { order, volatile_only: false });
    store.settings().set_budget(budget);
    let mut session = store.session().unwrap();
    let value = [7; 200];
    let (mut hits, mut looks, mut live, mut samples) = (0u64, 0u64, 0, 0);
    for (at, &number) in requests.iter().enumerate() {
        let bytes = number.to_le_bytes();
        session.enter(0);
        let key = session.key(namespace, &bytes);
        let hit = session.read(key, |_| ()).unwrap().is_some();
        if !hit {
            session.upsert(key, &value, Put::default()).unwrap();
        }
        session.leave();
        if at >= requests.len() / 2 {
            looks += 1;
            hits += u64::from(hit);
            if at % 64 == 0 {
                live += store.figures().namespace_len(namespace).0;
                samples += 1;
            }
        }
        if at % 512 == 0 {
            store.maintain(0);
        }
    }
    let used = store.figures().memory().used_bytes();
    assert!(used <= budget + budget / 50 + 65_536, "{used} of {budget}");
    assert!(store.figures().totals().evicted > 0 || keys as u64 == store.figures().namespace_len(namespace).0);
    (hits as f64 / looks as f64, (live / samples.max(1)) as usize)
}

/// The same of a cache of `cache` keys that evicts as Redis does: the best of a pool of 16 that five random keys join each time,
/// by the time of the last use (exact here), or by a logarithmic counter that starts at 5 (factor 10; no decay).
pub(crate) fn of_redis(order: EvictionOrder, cache: usize, keys: usize, requests: &[u32]) -> f64 {
    let mut random = Random(77);
    let by_frequency = order == EvictionOrder::Frequency;
    let (mut rank, mut place, mut resident) = (vec![0u64; keys], vec![usize::MAX; keys], Vec::<u32>::new());
    let mut pool = BTreeSet::<(u64, u32)>::new();
    let mut hits = 0u64;
    for (now, &number) in requests.iter().enumerate() {
        let key = number as usize;
        if place[key] != usize::MAX {
            hits += u64::from(now >= requests.len() / 2);
            let step = rank[key].saturating_sub(5) * 10 + 1;
            match by_frequency {
                false => rank[key] = now as u64,
                true if rank[key] < 255 && random.below(step as usize) == 0 => rank[key] += 1,
                true => {}
            }
            continue;
        }
        while resident.len() >= cache {
            for _ in 0..5 {
                let candidate = resident[random.below(resident.len())];
                if !pool.iter().any(|&(_, known)| known == candidate) {
                    pool.insert((rank[candidate as usize], candidate));
                }
            }
            while pool.len() > 16 {
                pool.pop_last();
            }
            while let Some((_, victim)) = pool.pop_first() {
                let at = std::mem::replace(&mut place[victim as usize], usize::MAX);
                if at != usize::MAX {
                    resident.swap_remove(at);
                    if let Some(&moved) = resident.get(at) {
                        place[moved as usize] = at;
                    }
                    break;
                }
            }
        }
        place[key] = resident.len();
        rank[key] = if by_frequency { 5 } else { now as u64 };
        resident.push(number);
    }
    hits as f64 / (requests.len() - requests.len() / 2) as f64
}

/// A budget for about this number of keys.
pub(crate) fn budget(cache: usize) -> u64 {
    cache as u64 * 245 + 5_000
}
