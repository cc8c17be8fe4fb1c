//! The commands of many keys, elements, pairs, patterns or watches, each with what makes it long.

/// A command that a client can make long.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Keyspace events that are told.
    pub(crate) events: &'static str,
    /// What runs before, and is not measured.
    pub(crate) before: fn(usize) -> Vec<Vec<String>>,
    pub(crate) measured: fn(usize) -> Vec<Vec<String>>,
    /// It takes the same steps whatever n is.
    pub(crate) is_flat: bool,
}

const PLAIN: Case = Case { name: "", events: "", before: |_| Vec::new(), measured: |_| Vec::new(), is_flat: false };

pub(crate) const CASES: &[Case] = &[
    Case { name: "MSET of new keys, others told", events: "Ex", measured: |n| vec![pairs("MSET", n)], ..PLAIN },
    Case { name: "MSET of new keys, new told", events: "En", measured: |n| vec![pairs("MSET", n)], ..PLAIN },
    Case { name: "MSETNX, all told", events: "KEAn", measured: |n| vec![pairs("MSETNX", n)], ..PLAIN },
    Case { name: "MSETEX, all told", events: "KEAn", measured: |n| vec![pairs(&format!("MSETEX {n}"), n)], ..PLAIN },
    Case {
        name: "ZINTERCARD LIMIT 10 of large sets",
        before: |n| vec![members("ZADD a", n), members("ZADD b", n)],
        measured: |_| vec![words("ZINTERCARD 2 a b LIMIT 10", 0, |_| Vec::new())],
        is_flat: true,
        ..PLAIN
    },
    Case {
        name: "ZINTERCARD",
        before: |n| vec![members("ZADD a", n), members("ZADD b", n)],
        measured: |_| vec![words("ZINTERCARD 2 a b", 0, |_| Vec::new())],
        ..PLAIN
    },
];

/// A command's words, and behind them n times what `each` gives.
fn words(head: &str, n: usize, each: impl Fn(usize) -> Vec<String>) -> Vec<String> {
    let mut words: Vec<String> = head.split_ascii_whitespace().map(str::to_owned).collect();
    words.extend((0..n).flat_map(each));
    words
}

fn pairs(head: &str, n: usize) -> Vec<String> {
    words(head, n, |number| vec![format!("key:{number}"), "value".to_owned()])
}

fn members(head: &str, n: usize) -> Vec<String> {
    words(head, n, |number| vec![number.to_string(), format!("member:{number}")])
}
