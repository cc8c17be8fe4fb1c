//! Time per operation. Run as `docs/BENCHMARKING.md` says.

use std::time::Instant;

use almandine_datatypes::sorted_set::{Placement, SortedSetObject};
use almandine_testkit::random::Random;

fn nanoseconds(count: usize, mut work: impl FnMut(usize)) -> f64 {
    let begin = Instant::now();
    (0..count).for_each(&mut work);
    begin.elapsed().as_nanos() as f64 / count as f64
}

#[test]
#[ignore = "measures"]
fn speed() {
    println!(" members      add    score     miss     rank  range10      set      pop     scan");
    for count in [1000, 100_000, 1_000_000] {
        let random = &mut Random::new(1);
        let members: Vec<String> = (0..count).map(|i| format!("{i:013}")).collect();
        let mut set = SortedSetObject::new(Placement::new(1));
        let add = nanoseconds(count, |i| _ = set.set(members[i].as_bytes(), random.below(10_000_000) as f64).unwrap());
        let picks: Vec<&[u8]> = (0..1 << 16).map(|_| members[random.below(count)].as_bytes()).collect();
        let pick = |i: usize| picks[i & 0xFFFF];
        let mut sum = 0.0;
        let score = nanoseconds(200_000, |i| sum += set.find(pick(i)).unwrap().map_or(0.0, |entry| entry.score));
        let miss = nanoseconds(200_000, |i| sum += f64::from(u8::from(set.find(&pick(i)[1..]).unwrap().is_some())));
        let rank = nanoseconds(200_000, |i| sum += set.rank(pick(i)).unwrap().map_or(0, |(rank, _)| rank) as f64);
        let range = nanoseconds(100_000, |_| {
            let from = random.below(count);
            sum += set.order().iter_from(from).take(10).map(|entry| entry.map_or(0.0, |entry| entry.score)).sum::<f64>();
        });
        let change = nanoseconds(100_000, |i| _ = set.set(pick(i), random.below(10_000_000) as f64).unwrap());
        let begin = Instant::now();
        let mut cursor = 0;
        loop {
            cursor = set.scan(cursor, 10, &mut |entry| sum += entry.score).unwrap();
            if cursor == 0 {
                break;
            }
        }
        let scan = begin.elapsed().as_nanos() as f64 / count as f64;
        let pop = nanoseconds(count / 2, |_| _ = set.remove_nth(0, &mut |entry| sum += entry.score).unwrap());
        println!("{count:>8} {add:>8.0} {score:>8.0} {miss:>8.0} {rank:>8.0} {range:>8.0} {change:>8.0} {pop:>8.0} {scan:>8.0}");
        std::hint::black_box(sum);
    }
    let mut set = SortedSetObject::new(Placement::new(1));
    (0..1_000_000u32).for_each(|i| _ = set.set(&i.to_le_bytes(), 0.0).unwrap());
    let (mut calls, mut longest, mut cursor, begin) = (0, 0, 0, Instant::now());
    loop {
        let call = Instant::now();
        cursor = set.scan(cursor, 10, &mut |_| {}).unwrap();
        (calls, longest) = (calls + 1, longest.max(call.elapsed().as_micros()));
        if cursor == 0 {
            break;
        }
    }
    println!("a scan of 1,000,000 equal scores: {calls} calls, {} ms, the longest {longest} us", begin.elapsed().as_millis());
}
