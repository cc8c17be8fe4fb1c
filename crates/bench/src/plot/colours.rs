//! Which colour a server has: the same in every chart, also of another result.

use std::collections::HashMap;

use serde_json::Value;

use super::chart::Look;

/// Colours of the palette, and as many patterns as are told apart.
pub(super) const COLOURS: usize = 8;

/// Servers that keep their colour whatever they are compared with. Others take what is left, in the order in which they appear.
const KNOWN: [(&str, usize); 7] =
    [("almandine", 0), ("redis", 1), ("valkey", 2), ("dragonfly", 3), ("garnet", 4), ("keydb", 5), ("floor", 7)];

/// The colours of the servers of a result.
#[derive(Debug, Default)]
pub(super) struct Colours(HashMap<String, usize>);

impl Colours {
    pub(super) fn of(runs: &[Value]) -> Self {
        let names: Vec<&str> = runs.iter().filter_map(|run| run["server"].as_str()).collect();
        let mut colours = HashMap::new();
        for name in &names {
            if let Some((_, colour)) = KNOWN.iter().find(|(known, _)| known == name) {
                colours.insert((*name).to_owned(), *colour);
            }
        }
        for name in names {
            if !colours.contains_key(name) {
                let free = (0..COLOURS).find(|colour| !colours.values().any(|taken| taken == colour));
                colours.insert(name.to_owned(), free.unwrap_or(colours.len() % COLOURS));
            }
        }
        Self(colours)
    }

    /// The colour of a server.
    pub(super) fn server(&self, name: &str) -> usize {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Looks of lines of these servers. Where the result has one server only, its lines have colours of their own.
    pub(super) fn looks<'n>(&self, servers: impl Iterator<Item = &'n str>) -> Vec<Look> {
        let mut lines: HashMap<&str, usize> = HashMap::new();
        let look = |name: &'n str| {
            let line = lines.entry(name).or_default();
            let number = *line;
            *line += 1;
            if self.0.len() > 1 {
                Look { colour: self.server(name), pattern: number }
            } else {
                Look { colour: number % COLOURS, pattern: number / COLOURS }
            }
        };
        servers.map(look).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn colours(names: &[&str]) -> Colours {
        Colours::of(&names.iter().map(|name| json!({"server": name})).collect::<Vec<_>>())
    }

    #[test]
    fn servers_keep_their_colours_in_every_result() {
        let (some, others) = (colours(&["almandine", "redis", "redis8"]), colours(&["valkey", "redis", "almandine"]));
        assert_eq!([some.server("almandine"), some.server("redis"), some.server("redis8")], [0, 1, 2]);
        assert_eq!(["almandine", "redis", "valkey"].map(|name| others.server(name)), [0, 1, 2]);
    }

    #[test]
    fn lines_of_a_server_differ_in_pattern_and_those_of_the_only_server_in_colour() {
        let looks = |all: &[&str], lines: &[&'static str]| {
            colours(all).looks(lines.iter().copied()).iter().map(|look| (look.colour, look.pattern)).collect::<Vec<_>>()
        };
        assert_eq!(looks(&["almandine", "redis"], &["almandine", "redis", "almandine"]), [(0, 0), (1, 0), (0, 1)]);
        assert_eq!(looks(&["redis"], &["redis", "redis"]), [(0, 0), (1, 0)]);
    }
}
