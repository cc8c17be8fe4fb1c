//! Time per operation. Run as `docs/BENCHMARKING.md` says.

use std::time::Instant;

use almandine_datatypes::list::{End, ListObject};
use almandine_testkit::random::Random;

fn nanoseconds(count: usize, mut work: impl FnMut(usize)) -> f64 {
    let begin = Instant::now();
    (0..count).for_each(&mut work);
    begin.elapsed().as_nanos() as f64 / count as f64
}

#[test]
#[ignore = "measures"]
fn speed() {
    println!(" elements     push    queue    index range100      set   insert  position (per element)     trim      pop");
    for count in [1000, 100_000, 10_000_000] {
        let random = &mut Random::new(1);
        let mut list = ListObject::new();
        let elements: Vec<String> = (0..1 << 12).map(|i| format!("{i:08}")).collect();
        let element = |i: usize| elements[i & 0xFFF].as_bytes();
        let mut sum = 0;
        let push = nanoseconds(count, |i| list.push(End::Left, element(i)));
        let queue = nanoseconds(1_000_000, |i| {
            list.push(End::Left, element(i));
            sum += list.pop(End::Right, <[u8]>::len).unwrap().unwrap_or(0);
        });
        let index = nanoseconds(200_000, |_| sum += list.nth(random.below(count)).unwrap().map_or(0, |element| element.len()));
        let range = nanoseconds(20_000, |_| {
            let from = random.below(count);
            list.visit(from, 100, |element| sum += element.len()).unwrap();
        });
        let set = nanoseconds(100_000, |i| sum += usize::from(list.set(random.below(count), element(i)).unwrap()));
        let insert = nanoseconds(count.min(100_000), |i| list.insert(random.below(count), element(i)).unwrap());
        let looks = 20_000_000 / count;
        let position =
            nanoseconds(looks, |_| list.find(End::Left, b"absentee", usize::MAX, &mut |_| true).unwrap()) / list.len() as f64;
        let trims = count.min(1000) / 3;
        let trim = nanoseconds(trims, |_| list.trim(1..list.len() - 1, &mut drop).unwrap());
        let pop = nanoseconds(count / 2, |_| sum += list.pop(End::Right, <[u8]>::len).unwrap().unwrap_or(0));
        println!(
            "{count:>9} {push:>8.0} {queue:>8.0} {index:>8.0} {range:>8.0} {set:>8.0} {insert:>8.0} {position:>9.2} \
             {trim:>22.0} {pop:>8.0}"
        );
        std::hint::black_box(sum);
    }
}
