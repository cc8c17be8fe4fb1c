//! The commands of many keys, elements, pairs, patterns or watches, each with what makes it long.

/// Commands of size n.
pub(crate) type Commands = fn(usize) -> Vec<Vec<String>>;

/// A command that a client can make long.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Keyspace events that are told.
    pub(crate) events: &'static str,
    /// What runs before, and is not measured.
    pub(crate) before: Commands,
    pub(crate) measured: Commands,
    /// It takes the same steps whatever n is.
    pub(crate) is_flat: bool,
}

pub(crate) const CASES: &[Case] = &[
    // Keys.
    told("MSET of new keys, others told", "Ex", |_| Vec::new(), |n| one(pairs("MSET", n))),
    told("MSET of new keys, new told", "En", |_| Vec::new(), |n| one(pairs("MSET", n))),
    told("MSET of keys that are there, all told", "KEAn", |n| one(pairs("MSET", n)), |n| one(pairs("MSET", n))),
    told("MSETNX, all told", "KEAn", |_| Vec::new(), |n| one(pairs("MSETNX", n))),
    told("MSETEX, all told", "KEAn", |_| Vec::new(), |n| one(pairs(&format!("MSETEX {n}"), n))),
    case("MSET of one key n times", |_| Vec::new(), |n| one(words("MSET", n, |_| vec!["k".into(), "v".into()]))),
    case("MGET", |n| one(pairs("MSET", n)), |n| one(keys("MGET", n))),
    told("MGET of absent keys, misses told", "Em", |_| Vec::new(), |n| one(keys("MGET", n))),
    case("DEL", |n| one(pairs("MSET", n)), |n| one(keys("DEL", n))),
    told("DEL, all told", "KEAn", |n| one(pairs("MSET", n)), |n| one(keys("DEL", n))),
    case("UNLINK", |n| one(pairs("MSET", n)), |n| one(keys("UNLINK", n))),
    case("EXISTS", |n| one(pairs("MSET", n)), |n| one(keys("EXISTS", n))),
    case(
        "EXISTS of one key n times",
        |_| one(words("SET k v", 0, |_| Vec::new())),
        |n| one(words("EXISTS", n, |_| vec!["k".into()])),
    ),
    case("TOUCH", |n| one(pairs("MSET", n)), |n| one(keys("TOUCH", n))),
    case("PFCOUNT", |_| Vec::new(), |n| one(keys("PFCOUNT", n))),
    case("PFMERGE", |_| Vec::new(), |n| one(keys("PFMERGE d", n))),
    case("BITOP", |n| one(pairs("MSET", n)), |n| one(keys("BITOP OR d", n))),
    // A client waits, watches or listens.
    case("BLPOP of absent keys", |_| Vec::new(), |n| one(closed(keys("BLPOP", n), "0"))),
    case("BZMPOP of absent keys", |_| Vec::new(), |n| one(closed(keys(&format!("BZMPOP 0 {n}"), n), "MIN"))),
    case(
        "XREAD BLOCK of absent streams",
        |_| Vec::new(),
        |n| {
            let mut words = keys("XREAD BLOCK 0 STREAMS", n);
            words.extend((0..n).map(|_| "$".to_owned()));
            one(words)
        },
    ),
    case("WATCH", |_| Vec::new(), |n| one(keys("WATCH", n))),
    case("UNWATCH", |n| one(keys("WATCH", n)), |_| lines(&["UNWATCH"])),
    case(
        "WATCH n times, EXEC",
        |_| Vec::new(),
        |n| {
            let mut all: Vec<_> = (0..n).map(|number| line(&format!("WATCH key:{number}"))).collect();
            all.extend(lines(&["MULTI", "SET key:0 v", "EXEC"]));
            all
        },
    ),
    case("SUBSCRIBE", |_| Vec::new(), |n| one(keys("SUBSCRIBE", n))),
    case("PSUBSCRIBE", |_| Vec::new(), |n| one(keys("PSUBSCRIBE", n))),
    case("PUNSUBSCRIBE", |n| one(keys("PSUBSCRIBE", n)), |n| one(keys("PUNSUBSCRIBE", n))),
    case(
        "MULTI of n commands",
        |_| Vec::new(),
        |n| {
            let mut all = lines(&["MULTI"]);
            all.extend((0..n).map(|number| line(&format!("SET key:{number} v"))));
            all.extend(lines(&["EXEC"]));
            all
        },
    ),
    case(
        "MULTI of n scripts that say their keys",
        |_| Vec::new(),
        |n| {
            let mut all = lines(&["MULTI"]);
            let eval = |number| line(&format!("EVAL return(redis.call('SET',KEYS[1],ARGV[1]..ARGV[1])) 1 key:{number} v"));
            all.extend((0..n).map(eval));
            all.extend(lines(&["EXEC"]));
            all
        },
    ),
    // Sets and sorted sets.
    case("SADD", |_| Vec::new(), |n| one(keys("SADD s", n))),
    case("SREM", |n| one(keys("SADD s", n)), |n| one(keys("SREM s", n))),
    case("SMISMEMBER", |n| one(keys("SADD s", n)), |n| one(keys("SMISMEMBER s", n))),
    case("SPOP n of n", |n| one(keys("SADD s", n)), |n| one(line(&format!("SPOP s {n}")))),
    case("SPOP n of 2n", |n| one(keys("SADD s", 2 * n)), |n| one(line(&format!("SPOP s {n}")))),
    case("SRANDMEMBER n", |n| one(keys("SADD s", 2 * n)), |n| one(line(&format!("SRANDMEMBER s {n}")))),
    case("SRANDMEMBER -n", |n| one(keys("SADD s", 2 * n)), |n| one(line(&format!("SRANDMEMBER s -{n}")))),
    case("SINTER", both_sets, |_| lines(&["SINTER a b"])),
    case("SINTERSTORE", both_sets, |_| lines(&["SINTERSTORE d a b"])),
    case("SUNION", both_sets, |_| lines(&["SUNION a b"])),
    case("SUNIONSTORE", both_sets, |_| lines(&["SUNIONSTORE d a b"])),
    case("SDIFF", both_sets, |_| lines(&["SDIFF a b"])),
    case("SDIFFSTORE", both_sets, |_| lines(&["SDIFFSTORE d a b"])),
    case("SUNION of n keys", |_| Vec::new(), |n| one(keys("SUNION", n))),
    flat("SINTERCARD LIMIT 10 of large sets", both_sets, |_| lines(&["SINTERCARD 2 a b LIMIT 10"])),
    case("ZADD", |_| Vec::new(), |n| one(members("ZADD z", n))),
    case("ZADD of members that are there", |n| one(members("ZADD z", n)), |n| one(members("ZADD z", n))),
    case("ZREM", |n| one(members("ZADD z", n)), |n| one(keys("ZREM z", n))),
    case("ZMSCORE", |n| one(members("ZADD z", n)), |n| one(keys("ZMSCORE z", n))),
    case("ZPOPMIN n", |n| one(members("ZADD z", n)), |n| one(line(&format!("ZPOPMIN z {n}")))),
    case("ZRANGEBYLEX", |n| one(members("ZADD z", n)), |_| lines(&["ZRANGEBYLEX z - +"])),
    case("ZRANGE", |n| one(members("ZADD z", n)), |_| lines(&["ZRANGE z 0 -1"])),
    case("ZREMRANGEBYSCORE", |n| one(members("ZADD z", n)), |_| lines(&["ZREMRANGEBYSCORE z -inf +inf"])),
    case("ZUNIONSTORE", both_sorted, |_| lines(&["ZUNIONSTORE d 2 a b"])),
    case("ZINTERSTORE", both_sorted, |_| lines(&["ZINTERSTORE d 2 a b"])),
    case("ZDIFFSTORE", both_sorted, |_| lines(&["ZDIFFSTORE d 2 a b"])),
    case("ZUNION of n keys", |_| Vec::new(), |n| one(keys(&format!("ZUNION {n}"), n))),
    case("ZINTERCARD", both_sorted, |_| lines(&["ZINTERCARD 2 a b"])),
    flat("ZINTERCARD LIMIT 10 of large sets", both_sorted, |_| lines(&["ZINTERCARD 2 a b LIMIT 10"])),
    case("GEOADD", |_| Vec::new(), |n| one(positions("GEOADD g", n))),
    case("GEOSEARCH", |n| one(positions("GEOADD g", n)), |_| lines(&["GEOSEARCH g FROMLONLAT 0 0 BYRADIUS 30000 km ASC"])),
    // Hashes, lists, strings.
    case("HSET", |_| Vec::new(), |n| one(pairs("HSET h", n))),
    case("HMGET", |n| one(pairs("HSET h", n)), |n| one(keys("HMGET h", n))),
    case("HDEL", |n| one(pairs("HSET h", n)), |n| one(keys("HDEL h", n))),
    LINEAR,
    case("HRANDFIELD n", |n| one(pairs("HSET h", 2 * n)), |n| one(line(&format!("HRANDFIELD h {n}")))),
    case("HPEXPIRE", |n| one(pairs("HSET h", n)), |n| one(keys(&format!("HPEXPIRE h 100000 FIELDS {n}"), n))),
    case("HTTL", |n| one(pairs("HSET h", n)), |n| one(keys(&format!("HTTL h FIELDS {n}"), n))),
    case("RPUSH", |_| Vec::new(), |n| one(keys("RPUSH l", n))),
    case("LPOP n", |n| one(keys("RPUSH l", n)), |n| one(line(&format!("LPOP l {n}")))),
    case("LREM of one element", |n| one(keys("RPUSH l", n)), |n| one(line(&format!("LREM l 0 key:{}", n - 1)))),
    case("LREM of all elements", |n| one(words("RPUSH l", n, |_| vec!["e".into()])), |_| lines(&["LREM l 0 e"])),
    case("LINSERT", |n| one(keys("RPUSH l", n)), |n| one(line(&format!("LINSERT l BEFORE key:{} e", n - 1)))),
    case("LPOS", |n| one(keys("RPUSH l", n)), |n| one(line(&format!("LPOS l key:{}", n - 1)))),
    case("LTRIM", |n| one(keys("RPUSH l", n)), |n| one(line(&format!("LTRIM l {} -1", n / 2)))),
    case("SORT", |n| one(words("RPUSH l", n, |number| vec![(number * 7919 % 10_007).to_string()])), |_| lines(&["SORT l"])),
    case(
        "SORT BY keys, GET, STORE",
        |n| vec![pairs("MSET", n), words("RPUSH l", n, |number| vec![number.to_string()])],
        |_| lines(&["SORT l BY key:* ALPHA GET key:* GET # STORE d"]),
    ),
    case("BITFIELD", |_| Vec::new(), |n| one(words("BITFIELD b", n, |number| line(&format!("SET u8 #{number} 1"))))),
    case(
        "LCS of a short string",
        |n| vec![line(&format!("SET a {}", "ab".repeat(40 * n))), line("SET b ba")],
        |_| lines(&["LCS a b"]),
    ),
    case(
        "LCS LEN of a short string",
        |n| vec![line(&format!("SET a {}", "ab".repeat(40 * n))), line("SET b ba")],
        |_| lines(&["LCS a b LEN"]),
    ),
    // Streams.
    case("XADD n times, trimmed", |_| Vec::new(), |n| (1..=n).map(|id| line(&format!("XADD s MAXLEN 10 {id}-1 f v"))).collect()),
    case("XADD of n fields", |_| Vec::new(), |n| one(pairs("XADD s 1-1", n))),
    case("XRANGE", entries, |_| lines(&["XRANGE s - +"])),
    case("XDEL", entries, |n| one(ids("XDEL s", n))),
    case("XTRIM", entries, |_| lines(&["XTRIM s MAXLEN 0"])),
    case("XACK", delivered, |n| one(ids("XACK s g", n))),
    case("XCLAIM", delivered, |n| one(ids("XCLAIM s g d 0", n))),
    case("XAUTOCLAIM", delivered, |n| one(line(&format!("XAUTOCLAIM s g d 0 - COUNT {n}")))),
    case("XPENDING", delivered, |n| one(line(&format!("XPENDING s g - + {n}")))),
    case("XREADGROUP", entries, |n| {
        vec![line("XGROUP CREATE s g 0"), line(&format!("XREADGROUP GROUP g c COUNT {n} STREAMS s >"))]
    }),
    case("XGROUP DELCONSUMER", delivered, |_| lines(&["XGROUP DELCONSUMER s g c"])),
    // Servers.
    case("CONFIG GET of n names", |_| Vec::new(), |n| one(words("CONFIG GET", n, |number| vec![format!("nothing{number}")]))),
    case("ACL SETUSER of n rules", |_| Vec::new(), |n| one(words("ACL SETUSER u", n, |number| vec![format!("~key:{number}")]))),
    case("COMMAND INFO of n names", |_| Vec::new(), |n| one(words("COMMAND INFO", n, |_| vec!["get".into()]))),
    flat("FLUSHDB of ten keys beside a large database", beside_many, |_| lines(&["FLUSHDB"])),
    flat("DBSIZE beside a large database", beside_many, |_| lines(&["DBSIZE"])),
    flat("RANDOMKEY beside a large database", beside_many, |_| lines(&["RANDOMKEY"])),
    flat("GET among many keys", |n| one(pairs("MSET", n)), |_| lines(&["GET key:1"])),
];

/// What must be found: each of n commands reads n fields.
pub(crate) const QUADRATIC: Case = case("HGETALL n times", |n| one(pairs("HSET h", n)), |n| vec![line("HGETALL h"); n]);

/// What must be found where nothing may grow.
pub(crate) const LINEAR: Case = case("HGETALL", |n| one(pairs("HSET h", n)), |_| lines(&["HGETALL h"]));

const fn told(name: &'static str, events: &'static str, before: Commands, measured: Commands) -> Case {
    Case { name, events, before, measured, is_flat: false }
}

const fn case(name: &'static str, before: Commands, measured: Commands) -> Case {
    told(name, "", before, measured)
}

const fn flat(name: &'static str, before: Commands, measured: Commands) -> Case {
    Case { is_flat: true, ..case(name, before, measured) }
}

fn line(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

fn lines(all: &[&str]) -> Vec<Vec<String>> {
    all.iter().map(|text| line(text)).collect()
}

fn one(command: Vec<String>) -> Vec<Vec<String>> {
    vec![command]
}

/// A command's words, and behind them n times what `each` gives.
fn words(head: &str, n: usize, each: impl Fn(usize) -> Vec<String>) -> Vec<String> {
    let mut words = line(head);
    words.extend((0..n).flat_map(each));
    words
}

fn closed(mut command: Vec<String>, last: &str) -> Vec<String> {
    command.push(last.to_owned());
    command
}

fn keys(head: &str, n: usize) -> Vec<String> {
    words(head, n, |number| vec![format!("key:{number}")])
}

fn pairs(head: &str, n: usize) -> Vec<String> {
    words(head, n, |number| vec![format!("key:{number}"), "value".to_owned()])
}

fn members(head: &str, n: usize) -> Vec<String> {
    words(head, n, |number| vec![(number % 97).to_string(), format!("key:{number}")])
}

fn positions(head: &str, n: usize) -> Vec<String> {
    words(head, n, |number| vec![(number % 170).to_string(), (number % 80).to_string(), format!("key:{number}")])
}

fn ids(head: &str, n: usize) -> Vec<String> {
    words(head, n, |number| vec![format!("{}-1", number + 1)])
}

/// Two sets that share half of their members.
fn both_sets(n: usize) -> Vec<Vec<String>> {
    vec![keys("SADD a", n), words("SADD b", n, |number| vec![format!("key:{}", number + n / 2)])]
}

/// Two sorted sets with the same members.
fn both_sorted(n: usize) -> Vec<Vec<String>> {
    vec![members("ZADD a", n), members("ZADD b", n)]
}

fn entries(n: usize) -> Vec<Vec<String>> {
    (1..=n).map(|id| line(&format!("XADD s {id}-1 f v"))).collect()
}

/// Entries of which a consumer has all.
fn delivered(n: usize) -> Vec<Vec<String>> {
    let mut all = entries(n);
    all.extend(lines(&["XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >"]));
    all
}

/// Many keys in one database, and ten in the one that is selected.
fn beside_many(n: usize) -> Vec<Vec<String>> {
    let mut all = lines(&["SELECT 1"]);
    all.push(pairs("MSET", 10 * n));
    all.push(line("SELECT 0"));
    all.push(pairs("MSET", 10));
    all
}
