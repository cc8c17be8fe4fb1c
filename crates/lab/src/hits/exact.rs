//! The hit ratio of a perfect LRU, computed: what recency alone can reach with a number of keys.
//!
//! Servers approximate it, some of them with clocks that are too coarse for a short run; this one has none.

use std::collections::{BTreeMap, HashMap};

use super::trace::Trace;

/// Hits per request of `requests` requests after `warm_up`, scans not counted, with room for `capacity` keys.
pub(super) fn exact_lru(mut trace: Trace, capacity: u64, warm_up: u64, requests: u64) -> f64 {
    let (mut used, mut ages) = (HashMap::new(), BTreeMap::new());
    let (mut asked, mut hits) = (0u64, 0u64);
    for now in 0..warm_up + requests {
        let request = trace.next_request();
        let before = used.insert(request.key, now);
        if let Some(before) = before {
            ages.remove(&before);
        }
        ages.insert(now, request.key);
        if used.len() as u64 > capacity
            && let Some((_, oldest)) = ages.pop_first()
        {
            used.remove(&oldest);
        }
        if now >= warm_up && !request.scanned {
            asked += 1;
            hits += u64::from(before.is_some());
        }
    }
    hits as f64 / asked.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::trace::Pattern;
    use super::*;

    fn ratio(capacity: u64, pattern: Pattern) -> f64 {
        exact_lru(Trace::new(1000, 0.99, pattern, 1), capacity, 20_000, 50_000)
    }

    #[test]
    fn more_room_hits_more_and_scans_hurt() {
        let (small, half, all) = (ratio(10, Pattern::Zipf), ratio(500, Pattern::Zipf), ratio(1000, Pattern::Zipf));
        assert!(small < half && half < all, "{small} {half} {all}");
        assert!((0.2..0.5).contains(&small) && (0.85..0.99).contains(&half) && all > 0.99, "{small} {half} {all}");
        let scanned = ratio(100, Pattern::Scan { every: 1000, length: 200 });
        assert!(scanned < ratio(100, Pattern::Zipf) - 0.02, "{scanned}");
    }
}
