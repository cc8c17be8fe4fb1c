//! What the grid measures: workloads of every data type, those of one group over the same keys.

use std::sync::Arc;

use crate::scenario::Scenario;
use almandine_bench::generate::value::Lengths;
use almandine_bench::workload::{Operation, Shape, Workload};

/// Connections of every load.
const CONNECTIONS: usize = 50;

/// Workloads over the same keys.
#[derive(Debug)]
pub(super) struct Group {
    /// Name on the command line.
    pub(super) name: &'static str,
    /// What is said above its table, behind the number of keys.
    pub(super) title: &'static str,
    keys: u64,
    members: u64,
    value: usize,
    /// Names, mixes with plus signs, and the batch sizes. What empties collections comes last.
    operations: &'static [(&'static str, &'static [usize])],
}

/// The command that a type is known for.
const ALL: &[usize] = &[1, 16, 64, 256];
/// The others.
const SOME: &[usize] = &[16, 64];
/// Replies or work of a thousand elements: more per batch, and a server answers too seldom to be measured for a second.
const LARGE: &[usize] = &[1];

const THOUSAND: Group = Group { name: "", title: "", keys: 1_000, members: 1_000, value: 8, operations: &[] };

/// All groups in their order.
pub(super) const GROUPS: &[Group] = &[
    Group {
        name: "strings",
        title: "strings of 8 bytes",
        keys: 1_000_000,
        operations: &[("get", ALL), ("set", ALL), ("incr", ALL), ("setex", SOME), ("mget", &[1, 16, 64]), ("mset", &[1, 16, 64])],
        ..THOUSAND
    },
    Group {
        name: "values",
        title: "strings of 1,000 bytes",
        keys: 100_000,
        value: 1_000,
        operations: &[("get", SOME), ("set", SOME), ("getrange", SOME), ("getbit", SOME), ("setbit", SOME), ("bitcount", SOME)],
        ..THOUSAND
    },
    Group {
        name: "small-hashes",
        title: "hashes of 5 fields",
        keys: 100_000,
        members: 5,
        operations: &[("hget", SOME), ("hset", SOME), ("hgetall", SOME)],
        ..THOUSAND
    },
    Group {
        name: "hashes",
        title: "hashes of 1,000 fields",
        operations: &[("hget", ALL), ("hset", ALL), ("hmget", SOME), ("hincrby", SOME), ("hgetall", LARGE), ("hdel+hset", SOME)],
        ..THOUSAND
    },
    Group {
        name: "lists",
        title: "lists of 1,000 elements",
        operations: &[("lindex", SOME), ("lset", SOME), ("lrange", SOME), ("lpush+rpop", ALL)],
        ..THOUSAND
    },
    Group {
        name: "sets",
        title: "sets of 1,000 members",
        operations: &[
            ("sismember", ALL),
            ("sadd", ALL),
            ("srandmember", SOME),
            ("smembers", LARGE),
            ("sunion", LARGE),
            ("spop+sadd", SOME),
        ],
        ..THOUSAND
    },
    Group {
        name: "sorted-sets",
        title: "sorted sets of 1,000 members",
        operations: &[
            ("zscore", ALL),
            ("zadd", ALL),
            ("zrank", SOME),
            ("zrange", SOME),
            ("zrangebyscore", SOME),
            ("zunionstore", LARGE),
            ("zpopmin+zadd", SOME),
        ],
        ..THOUSAND
    },
    Group {
        name: "streams",
        title: "streams of 1,000 entries",
        operations: &[("xadd", ALL), ("xrange", SOME), ("xreadgroup+xadd_group", SOME)],
        ..THOUSAND
    },
    Group {
        name: "geo",
        title: "geo indexes of 1,000 members",
        operations: &[("geodist", SOME), ("geosearch", SOME), ("geoadd", SOME)],
        ..THOUSAND
    },
    Group {
        name: "hyperloglogs",
        title: "HyperLogLogs of 1,000 members",
        operations: &[("pfcount", SOME), ("pfadd", SOME)],
        ..THOUSAND
    },
];

impl Group {
    /// Number of keys when only this share of them is asked for.
    pub(super) fn keys(&self, scale: f64) -> u64 {
        ((self.keys as f64 * scale) as u64).max(1)
    }

    /// Elements that filling a server takes, as a measure of how long that is.
    pub(super) fn elements(&self, scale: f64) -> f64 {
        let types = self.operations.iter().filter_map(|(names, _)| Operation::mix(&names.replace('+', ",")).ok()).flatten();
        let mut types: Vec<_> = types.map(|operation| operation.data).collect();
        types.sort_unstable();
        types.dedup();
        let strings = ["strings", "values"].contains(&self.name);
        (self.keys(scale) * types.len() as u64 * if strings { 1 } else { self.members }) as f64
    }

    /// Its loads with one of these batch sizes, or all where none is given.
    pub(super) fn scenarios(&self, scale: f64, pipelines: &[usize]) -> Result<Vec<Scenario>, String> {
        let shape =
            Shape { keys: self.keys(scale), members: self.members, lengths: Lengths::fixed(self.value), ..Shape::default() };
        let mut scenarios = Vec::new();
        for (names, sizes) in self.operations {
            let workload = Arc::new(Workload::new(Operation::mix(&names.replace('+', ","))?, shape.clone())?);
            let wanted = sizes.iter().filter(|size| pipelines.is_empty() || pipelines.contains(size));
            scenarios.extend(wanted.map(|&pipeline| Scenario {
                workload: workload.clone(),
                pipeline,
                connections: CONNECTIONS,
                samples: Vec::new(),
            }));
        }
        Ok(scenarios)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_has_loads_and_a_name_of_its_own() {
        let mut names: Vec<&str> = GROUPS.iter().map(|group| group.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), GROUPS.len());
        for group in GROUPS {
            assert!(!group.scenarios(0.001, &[]).unwrap().is_empty() && group.elements(1.0) >= 1e5, "{}", group.name);
            assert!(group.scenarios(1.0, &[16]).unwrap().iter().all(|scenario| scenario.pipeline == 16), "{}", group.name);
        }
        assert_eq!(GROUPS[3].elements(1.0), 2e6, "hashes and hashes of integers");
    }
}
