//! Time per operation. Run as `docs/BENCHMARKING.md` says.

use std::time::Instant;

use almandine_base::object::Object;
use almandine_datatypes::hash::{HashObject, Placement};
use almandine_datatypes::packed::Due;
use almandine_testkit::random::Random;

fn nanoseconds(count: usize, mut work: impl FnMut(usize)) -> f64 {
    let mut rounds: Vec<f64> = (0..5)
        .map(|round| {
            let begin = Instant::now();
            (round * count..(round + 1) * count).for_each(&mut work);
            begin.elapsed().as_nanos() as f64 / count as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[2]
}

fn field(i: usize) -> [u8; 11] {
    let mut field = *b"f0000000000";
    let mut rest = i;
    for digit in field.iter_mut().rev() {
        if rest == 0 {
            break;
        }
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    field
}

#[test]
#[ignore = "measures"]
fn speed() {
    println!("  fields     grow      get     miss      set    churn   random     walk    bytes");
    let counts = std::env::var("ALMANDINE_BENCH_FIELDS").unwrap_or("1000 100000 10000000".to_owned());
    for count in counts.split(' ').map(|count| count.parse().expect("numbers of fields")) {
        let begin = Instant::now();
        let mut hash = HashObject::new(Placement::new(1));
        for i in 0..count {
            hash.set(&field(i), b"0123456789", Due::Keep).unwrap();
        }
        let grow = begin.elapsed().as_nanos() as f64 / count as f64;
        let bytes = hash.memory() as f64 / count as f64;
        let mut random = Random::new(1);
        let picks: Vec<[u8; 11]> = (0..1 << 16).map(|_| field(random.below(count))).collect();
        let pick = |i: usize| &picks[i & 0xFFFF];
        let mut sum = 0;
        let get = nanoseconds(200_000, |i| sum += hash.find(pick(i)).unwrap().map_or(0, |entry| usize::from(entry.value[0])));
        let miss = nanoseconds(200_000, |i| {
            let mut field = *pick(i);
            field[0] = b'g';
            sum += usize::from(hash.find(&field).unwrap().is_some());
        });
        let random =
            nanoseconds(50_000, |_| sum += hash.nth(random.below(hash.len())).unwrap().map_or(0, |entry| entry.value.len()));
        let set = nanoseconds(200_000, |i| sum += usize::from(hash.set(pick(i), b"9876543210", Due::Keep).unwrap()));
        let churn = nanoseconds(50_000, |i| {
            sum += usize::from(hash.remove(pick(i)).unwrap());
            sum += usize::from(hash.set(pick(i), b"0123456789", Due::Keep).unwrap());
        });
        let begin = Instant::now();
        sum += hash.iter().map(|entry| entry.map_or(0, |entry| entry.value.len())).sum::<usize>();
        let walk = begin.elapsed().as_nanos() as f64 / count as f64;
        println!("{count:>8} {grow:>8.1} {get:>8.1} {miss:>8.1} {set:>8.1} {churn:>8.1} {random:>8.1} {walk:>8.2} {bytes:>8.2}");
        std::hint::black_box(sum);
    }
}
