//! Positions, distances and searches against redis-server, to the last digit, and against a search that looks at everything.

mod oracle;

use almandine_datatypes::geo::{self, DistanceUnit, Found, Point, Search, Shape, text};
use oracle::{Oracle, Random, command};

/// Where searches meet what is special: poles, the date line, Greenwich, the equator, and nothing.
const PLACES: [(f64, f64); 10] = [
    (0.0, 0.0),
    (180.0, 0.0),
    (-180.0, 10.0),
    (179.9, -70.0),
    (13.361_389, 38.115_556),
    (45.0, 85.05),
    (-120.0, 80.5),
    (100.0, -85.051_128_78),
    (-0.001, 66.1),
    (90.0, -45.0),
];

fn fraction(random: &mut Random) -> f64 {
    random.below(1 << 30) as f64 / (1u64 << 30) as f64
}

/// A position near one of the places, mostly.
fn position(random: &mut Random) -> Point {
    loop {
        let (longitude, latitude) = random.of(&PLACES);
        let spread = 10f64.powf(fraction(random) * 8.0 - 6.0);
        let point = Point::new(longitude + (fraction(random) - 0.5) * 3.0 * spread, latitude + (fraction(random) - 0.5) * spread);
        match point {
            Some(point) => return point,
            None if random.below(3) == 0 => {
                return Point { longitude: fraction(random) * 360.0 - 180.0, latitude: fraction(random) * 170.0 - 85.0 };
            }
            None => {}
        }
    }
}

fn text_of(write: fn(f64, &mut Vec<u8>), value: f64) -> Vec<u8> {
    let mut out = Vec::new();
    write(value, &mut out);
    out
}

fn coordinates(point: Point) -> [Vec<u8>; 2] {
    [point.longitude, point.latitude].map(|degrees| format!("{degrees}").into_bytes())
}

/// GEOADD of the positions, each by its index.
fn add(points: &[Point]) -> Vec<Vec<u8>> {
    let mut add = command([b"GEOADD", b"k"]);
    for (name, point) in points.iter().enumerate() {
        add.extend(coordinates(*point));
        add.push(name.to_string().into_bytes());
    }
    add
}

#[test]
fn positions_and_distances_are_those_of_redis() {
    let mut oracle = Oracle::start();
    let mut random = Random(11);
    let points: Vec<Point> = (0..4_000).map(|_| position(&mut random)).collect();
    oracle.ask_all(&[add(&points)]);
    let mut commands = Vec::new();
    for name in 0..points.len() {
        let name = name.to_string().into_bytes();
        let other = random.below(points.len() as u64).to_string().into_bytes();
        let unit: &[u8] = random.of(&[&b"m"[..], b"KM", b"Ft", b"mi"]);
        commands.extend([
            command([b"ZSCORE", b"k", &name]),
            command([b"GEOPOS", b"k", &name]),
            command([b"GEOHASH", b"k", &name]),
            command([b"GEODIST", b"k", &name, &other, unit]),
        ]);
    }
    let replies = oracle.ask_all(&commands);
    for ((point, asked), replies) in points.iter().zip(commands.chunks(4)).zip(replies.chunks(4)) {
        let score = point.score();
        assert_eq!(replies[0].text(), text_of(almandine_datatypes::number::write_g17, score), "{point:?}");
        let found = Point::of_score(score);
        let position: Vec<_> = replies[1].array()[0].array().iter().map(|degrees| degrees.text().to_vec()).collect();
        assert_eq!(
            position,
            [found.longitude, found.latitude].map(|degrees| text_of(text::write_coordinate, degrees)),
            "{point:?}"
        );
        assert_eq!(replies[2].array()[0].text(), text::hash(found), "{point:?}");
        let other: usize = str::from_utf8(&asked[3][3]).unwrap().parse().unwrap();
        let distance =
            geo::distance(found, Point::of_score(points[other].score())) / DistanceUnit::parse(&asked[3][4]).unwrap().metres();
        assert_eq!(replies[3].text(), text_of(text::write_distance, distance), "{point:?} {:?}", points[other]);
    }
}

#[test]
fn any_score_is_read_as_in_redis() {
    let mut oracle = Oracle::start();
    let mut random = Random(12);
    let mut scores = vec![
        0.0,
        -0.0,
        -1.0,
        0.9,
        4503599627370495.0,
        4503599627370496.0,
        9e15,
        1e16,
        9.3e18,
        1.9e19,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    scores.extend((0..500).map(|_| (fraction(&mut random) - 0.2) * 10f64.powi(random.below(22) as i32)));
    let mut commands: Vec<_> = scores
        .iter()
        .enumerate()
        .map(|(name, score)| command([b"ZADD", b"k", score.to_string().as_bytes(), name.to_string().as_bytes()]))
        .collect();
    commands.extend((0..scores.len()).map(|name| command([b"GEOPOS", b"k", name.to_string().as_bytes()])));
    let replies = oracle.ask_all(&commands);
    for (score, reply) in scores.iter().zip(&replies[scores.len()..]) {
        let found = Point::of_score(*score);
        let position: Vec<_> = reply.array()[0].array().iter().map(|degrees| degrees.text().to_vec()).collect();
        assert_eq!(position, [found.longitude, found.latitude].map(|degrees| text_of(text::write_coordinate, degrees)), "{score}");
    }
}

/// What a search finds: all names in the order of ranges, then of scores.
fn search(scores: &[(f64, usize)], shape: Shape) -> Vec<(usize, Found)> {
    let search = Search::new(shape);
    let within = |[low, high]: [f64; 2]| {
        let from = scores.partition_point(|(score, _)| *score < low);
        let to = scores.partition_point(|(score, _)| *score < high);
        &scores[from..to]
    };
    search.ranges().flat_map(within).filter_map(|(score, name)| search.look(*score).map(|found| (*name, found))).collect()
}

#[test]
fn searches_find_what_redis_finds() {
    let mut oracle = Oracle::start();
    let mut random = Random(13);
    let mut hits = 0;
    for _ in 0..12 {
        let points: Vec<Point> = (0..1_000).map(|_| position(&mut random)).collect();
        oracle.ask_all(&[command([b"DEL", b"k"]), add(&points)]);
        let mut scores: Vec<_> = points.iter().enumerate().map(|(name, point)| (point.score(), name)).collect();
        // Redis has equal scores in the order of names' bytes.
        scores.sort_by(|one, other| one.0.total_cmp(&other.0).then_with(|| one.1.to_string().cmp(&other.1.to_string())));
        let mut commands = Vec::new();
        let mut shapes = Vec::new();
        for _ in 0..500 {
            let centre = position(&mut random);
            let [length, other] = [(); 2].map(|()| 10f64.powf(fraction(&mut random) * 7.8));
            let [x, y] = coordinates(centre);
            let mut search = command([b"GEOSEARCH", b"k", b"FROMLONLAT", &x, &y]);
            if random.below(2) == 0 {
                search.extend(command([b"BYRADIUS", length.to_string().as_bytes(), b"m"]));
                shapes.push(Shape::Circle { centre, radius: length });
            } else {
                search.extend(command([b"BYBOX", length.to_string().as_bytes(), other.to_string().as_bytes(), b"m"]));
                shapes.push(Shape::Box { centre, width: length, height: other });
            }
            search.extend(command([b"WITHDIST", b"WITHHASH"]));
            commands.push(search);
        }
        for (shape, reply) in shapes.into_iter().zip(oracle.ask_all(&commands)) {
            let ours: Vec<_> = search(&scores, shape.clone())
                .into_iter()
                .map(|(name, found)| {
                    let hash = geo::integer_of_score(points[name].score());
                    (name.to_string().into_bytes(), text_of(text::write_distance, found.distance), hash)
                })
                .collect();
            let theirs: Vec<_> = reply
                .array()
                .iter()
                .map(|one| one.array())
                .map(|one| (one[0].text().to_vec(), one[1].text().to_vec(), one[2].integer()))
                .collect();
            assert_eq!(ours, theirs, "{shape:?}");
            hits += ours.len();
        }
    }
    assert!(hits > 100_000, "too few to prove anything: {hits}");
}

/// redis-server 7.0 has no polygons: what a search finds is what a look at all positions finds, and Valkey's example is answered as
/// there.
#[test]
fn polygons_hold_what_is_in_them() {
    let mut random = Random(14);
    let points: Vec<Point> = (0..3_000).map(|_| position(&mut random)).collect();
    let mut scores: Vec<_> = points.iter().enumerate().map(|(name, point)| (point.score(), name)).collect();
    scores.sort_by(|one, other| one.partial_cmp(other).unwrap());
    let mut hits = 0;
    for _ in 0..2_000 {
        let (middle, size) = (position(&mut random), 10f64.powf(fraction(&mut random) * 5.0 - 4.0));
        let vertices: Vec<Point> = (0..3 + random.below(8))
            .filter_map(|_| {
                Point::new(
                    middle.longitude + (fraction(&mut random) - 0.5) * size,
                    middle.latitude + (fraction(&mut random) - 0.5) * size,
                )
            })
            .collect();
        let mut found: Vec<usize> = search(&scores, Shape::Polygon(vertices.clone())).into_iter().map(|(name, _)| name).collect();
        found.sort_unstable();
        let all: Vec<usize> = (0..points.len()).filter(|name| inside(&vertices, Point::of_score(points[*name].score()))).collect();
        assert_eq!(found, all, "{vertices:?}");
        hits += all.len();
    }
    assert!(hits > 1_000, "too few to prove anything: {hits}");
}

/// By the definition: how often a ray crosses an edge.
fn inside(vertices: &[Point], point: Point) -> bool {
    let crossed = (0..vertices.len()).filter(|at| {
        let (a, b) = (vertices[*at], vertices[(at + vertices.len() - 1) % vertices.len()]);
        (a.latitude > point.latitude) != (b.latitude > point.latitude)
            && point.longitude
                < (b.longitude - a.longitude) * (point.latitude - a.latitude) / (b.latitude - a.latitude) + a.longitude
    });
    crossed.count() % 2 == 1
}

#[test]
fn polygons_distances_are_those_of_valkey() {
    let polygon = [
        (151.21619137411474, -33.869643764947696),
        (151.20408853981647, -33.87845382042545),
        (151.2123775086366, -33.87864711938855),
        (151.21046943124387, -33.87588862400425),
        (151.21701035939626, -33.874286511854834),
        (151.2239557405701, -33.8735722632175),
        (151.22495056246407, -33.87893571656996),
        (151.2274447496748, -33.882307713036354),
        (151.23212935868654, -33.88136096120022),
        (151.23097291274465, -33.87456240592362),
        (151.22475424781445, -33.87099633192101),
    ];
    let search = Search::new(Shape::Polygon(polygon.map(|(longitude, latitude)| Point { longitude, latitude }).to_vec()));
    let look = |longitude, latitude| {
        search.look(Point { longitude, latitude }.score()).map(|found| text_of(text::write_distance, found.distance))
    };
    assert_eq!(look(151.20932132005692, -33.877723137822436).as_deref(), Some(&b"1035.7735"[..]));
    assert_eq!(look(151.22852593660355, -33.88116782387797).as_deref(), Some(&b"929.4979"[..]));
    assert_eq!(look(151.22953444719315, -33.874838625143106).as_deref(), Some(&b"858.3013"[..]));
    assert_eq!(look(151.2119820713997, -33.87697539508043), None);
}
