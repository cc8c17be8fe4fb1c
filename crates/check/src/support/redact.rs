//! What of the server's replies goes into the bundle. Each text is compared with what it may be (a command, a number, a word of the
//! server's own); what is nothing of that is left out, and so is what these lists do not foresee.

use std::collections::{BTreeMap, BTreeSet};

use almandine_config::parameter;

use crate::server::Reply;

/// Stands where something was left out.
pub(super) const LEFT_OUT: &str = "(left out)";
/// Parameters of free text that says nothing about the server; names at other servers.
const FREE_TEXTS: [&str; 6] =
    ["debug-context", "proc-title-template", "ignore-warnings", "req-res-logfile", "masteruser", "syslog-ident"];
/// First words of errors. Scripts can make others.
const ERROR_CODES: [&str; 28] = [
    "BUSY",
    "BUSYGROUP",
    "BUSYKEY",
    "CLUSTERDOWN",
    "CROSSSLOT",
    "ERR",
    "ERRORSTATS_OVERFLOW",
    "EXECABORT",
    "INVALIDOBJ",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOAUTH",
    "NOGOODSLAVE",
    "NOGROUP",
    "NOPERM",
    "NOPROTO",
    "NOREPLICAS",
    "NOSCRIPT",
    "NOTBUSY",
    "OOM",
    "READONLY",
    "TRYAGAIN",
    "UNBLOCKED",
    "UNKILLABLE",
    "WRONGPASS",
    "WRONGTYPE",
];
/// Rules of users that are words.
const RULES: [&str; 12] = [
    "on",
    "off",
    "nopass",
    "resetpass",
    "allkeys",
    "resetkeys",
    "allchannels",
    "resetchannels",
    "nocommands",
    "allcommands",
    "sanitize-payload",
    "skip-sanitize-payload",
];
/// Libraries of clients, by how their names begin.
const LIBRARIES: [&str; 20] = [
    "redis-py",
    "redis-rs",
    "redis-rb",
    "redis-cli",
    "go-redis",
    "rueidis",
    "jedis",
    "lettuce",
    "redisson",
    "ioredis",
    "node-redis",
    "hiredis",
    "phpredis",
    "predis",
    "SE.Redis",
    "StackExchange",
    "valkey-",
    "GlidePy",
    "GlideJava",
    "iovalkey",
];
/// Fields of CLIENT LIST that are numbers, or letters of a small set.
const NUMBERS: [&str; 25] = [
    "id",
    "fd",
    "age",
    "idle",
    "db",
    "sub",
    "psub",
    "ssub",
    "multi",
    "watch",
    "qbuf",
    "qbuf-free",
    "argv-mem",
    "multi-mem",
    "rbs",
    "rbp",
    "obl",
    "oll",
    "omem",
    "tot-mem",
    "resp",
    "io-thread",
    "tot-net-in",
    "tot-net-out",
    "tot-cmds",
];

/// Other names for what is left out, the same for the same.
#[derive(Default)]
struct Pseudonyms(BTreeMap<String, String>);

impl Pseudonyms {
    fn of(&mut self, name: &str, kind: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        let number = self.0.len() + 1;
        self.0.entry(name.to_owned()).or_insert_with(|| format!("{kind}{number}")).clone()
    }
}

pub(super) struct Redactor {
    commands: BTreeSet<String>,
    users: Pseudonyms,
    names: Pseudonyms,
    hosts: Pseudonyms,
}

impl Redactor {
    pub(super) fn new() -> Self {
        let commands = almandine_server::command_names().into_iter().map(str::to_ascii_lowercase).collect();
        Self { commands, users: Pseudonyms::default(), names: Pseudonyms::default(), hosts: Pseudonyms::default() }
    }

    fn command(&self, name: &str) -> String {
        let name = name.to_ascii_lowercase();
        if name == "null" || self.commands.contains(&name) { name } else { LEFT_OUT.to_owned() }
    }

    fn user(&mut self, name: &str) -> String {
        if name == "default" { name.to_owned() } else { self.users.of(name, "user") }
    }

    /// Loopback and Unix sockets as such, hosts by a number, without ports.
    fn address(&mut self, address: &str) -> String {
        if address.contains('/') {
            return "unix".to_owned();
        }
        match address.rsplit_once(':').map_or("", |(host, _)| host.trim_matches(['[', ']'])) {
            "" => String::new(),
            host if host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback()) => "loopback".to_owned(),
            host => self.hosts.of(host, "host"),
        }
    }

    /// INFO: names of commands and codes of errors are compared, URLs left out.
    pub(super) fn info(&self, text: &str) -> String {
        text.lines().map(|line| self.info_line(line) + "\n").collect()
    }

    fn info_line(&self, line: &str) -> String {
        let Some((name, value)) = line.split_once(':') else { return line.to_owned() };
        for prefix in ["cmdstat_", "latency_percentiles_usec_"] {
            if let Some(command) = name.strip_prefix(prefix) {
                return format!("{prefix}{}:{value}", self.command(command));
            }
        }
        match name.strip_prefix("errorstat_") {
            Some(code) => format!("errorstat_{}:{value}", error_code(code)),
            None => format!("{name}:{}", without_urls(value)),
        }
    }

    /// CONFIG GET: what is secret only by whether it is set.
    pub(super) fn parameters(&self, pairs: &[Reply]) -> String {
        let mut shown = String::new();
        for pair in pairs.chunks_exact(2) {
            let (name, value) = (pair[0].text().unwrap_or_default(), pair[1].text().unwrap_or_default());
            let Some((_, parameter)) = parameter::lookup(name) else {
                shown.push_str(&format!("{LEFT_OUT}: a parameter that this program does not know\n"));
                continue;
            };
            let value = match value {
                "" => String::new(),
                _ if parameter.flags.sensitive || FREE_TEXTS.contains(&parameter.name) => LEFT_OUT.to_owned(),
                value => without_urls(value),
            };
            shown.push_str(&format!("{} {value}\n", name.to_ascii_lowercase()));
        }
        shown
    }

    /// ACL LIST.
    pub(super) fn users(&mut self, lines: &[Reply]) -> String {
        let mut shown = String::new();
        for line in lines.iter().filter_map(Reply::text) {
            let mut words = line.split(' ').skip(1);
            let user = self.user(words.next().unwrap_or_default());
            let rules: Vec<String> = words.map(|word| self.rule(word)).collect();
            shown.push_str(&format!("user {user} {}\n", rules.join(" ")));
        }
        shown
    }

    /// A rule of a user: patterns and hashes only by their kind.
    fn rule(&self, word: &str) -> String {
        let (open, word) = word.strip_prefix('(').map_or(("", word), |rest| ("(", rest));
        let (word, close) = word.strip_suffix(')').map_or((word, ""), |rest| (rest, ")"));
        let first = word.chars().next().unwrap_or_default();
        let rest = word.get(first.len_utf8()..).unwrap_or_default();
        let shown = match first {
            _ if RULES.contains(&word) => word.to_owned(),
            '#' => format!("#{LEFT_OUT}"),
            '~' | '&' if rest == "*" => word.to_owned(),
            '~' | '&' => format!("{first}{LEFT_OUT}"),
            '%' if ["%R~*", "%W~*", "%RW~*"].contains(&word) => word.to_owned(),
            '%' => format!("%{LEFT_OUT}"),
            '+' | '-' if rest.strip_prefix('@').is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_lowercase())) => {
                if CATEGORIES.contains(&&rest[1..]) {
                    word.to_owned()
                } else {
                    format!("{first}@{LEFT_OUT}")
                }
            }
            '+' | '-' => format!("{first}{}", self.command(rest)),
            _ => word.strip_prefix("db=").filter(|list| is_made_of(list, "0123456789,")).map_or(LEFT_OUT, |_| word).to_owned(),
        };
        format!("{open}{shown}{close}")
    }

    /// CLIENT LIST.
    pub(super) fn clients(&mut self, text: &str) -> String {
        let mut shown = String::new();
        for line in text.lines() {
            let fields: Vec<String> = line.split(' ').filter_map(|field| self.client_field(field)).collect();
            shown.push_str(&fields.join(" "));
            shown.push('\n');
        }
        shown
    }

    fn client_field(&mut self, field: &str) -> Option<String> {
        let (name, value) = field.split_once('=')?;
        let value = match name {
            "addr" | "laddr" => self.address(value),
            "name" => self.names.of(value, "name"),
            "user" => self.user(value),
            "cmd" => self.command(value),
            "flags" | "events" if value.bytes().all(|byte| byte.is_ascii_alphabetic()) && value.len() <= 16 => value.to_owned(),
            "redir" if value.parse::<i64>().is_ok() => value.to_owned(),
            "lib-name" => library(value).to_owned(),
            "lib-ver" if is_made_of(value, "0123456789.") => value.to_owned(),
            name if NUMBERS.contains(&name) && is_made_of(value, "-0123456789") => value.to_owned(),
            _ => return None,
        };
        Some(format!("{name}={value}"))
    }

    /// SLOWLOG GET and COMMANDLOG GET: the command and how many arguments it had.
    pub(super) fn slow(&self, entries: &[Reply]) -> String {
        let mut shown = String::new();
        for entry in entries {
            let [Reply::Integer(id), Reply::Integer(time_s), Reply::Integer(value), words, ..] = entry.list() else { continue };
            let words: Vec<&str> = words.list().iter().filter_map(Reply::text).collect();
            let name = words.first().copied().unwrap_or_default();
            let with_subcommand = words.get(1).map(|word| format!("{name}|{word}")).filter(|name| self.command(name) != LEFT_OUT);
            let name = self.command(with_subcommand.as_deref().unwrap_or(name));
            // The last word says how many were not kept.
            let more = words.last().and_then(|word| word.strip_prefix("... (")?.split(' ').next()?.parse::<usize>().ok());
            let arguments = words.len() + more.map_or(0, |more| more.saturating_sub(1));
            shown.push_str(&format!("id={id} time={time_s} value={value} command={name} words={arguments}\n"));
        }
        shown
    }

    /// ACL LOG: how often what was denied, not to whom and on which keys.
    pub(super) fn denied(&self, entries: &[Reply]) -> String {
        let mut shown = String::new();
        for entry in entries {
            for pair in entry.list().chunks_exact(2) {
                let words =
                    ["command", "key", "channel", "auth", "tls-cert", "database", "toplevel", "multi", "lua", "script", "module"];
                match (pair[0].text(), &pair[1]) {
                    (Some(name @ ("count" | "entry-id")), Reply::Integer(number)) => shown.push_str(&format!("{name}={number} ")),
                    (Some(name @ ("reason" | "context")), Reply::Text(word)) if words.contains(&word.as_str()) => {
                        shown.push_str(&format!("{name}={word} "));
                    }
                    (Some(name @ "age-seconds"), Reply::Text(age)) if is_made_of(age, "0123456789.") => {
                        shown.push_str(&format!("{name}={age} "));
                    }
                    _ => {}
                }
            }
            shown.push('\n');
        }
        shown
    }

    /// LATENCY HISTOGRAM.
    pub(super) fn histograms(&self, pairs: &[Reply]) -> String {
        let commands = pairs.chunks_exact(2);
        commands.map(|pair| format!("{}{}\n", self.command(pair[0].text().unwrap_or_default()), figures(&pair[1]))).collect()
    }
}

/// Categories of commands.
const CATEGORIES: [&str; 22] = [
    "all",
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// The code of an error, if it is one of the server's.
pub(super) fn error_code(text: &str) -> &str {
    let word = text.split(' ').next().unwrap_or_default();
    if ERROR_CODES.contains(&word) { word } else { LEFT_OUT }
}

/// A reply of the server's own words and numbers, on one line.
pub(super) fn figures(reply: &Reply) -> String {
    match reply {
        Reply::Text(text) => format!(" {text}"),
        Reply::Error(text) => format!(" {}", error_code(text)),
        Reply::Integer(number) => format!(" {number}"),
        Reply::List(list) => list.iter().map(figures).collect(),
        Reply::Nil => " -".to_owned(),
    }
}

/// A URL may hold a password or a token.
fn without_urls(value: &str) -> String {
    let words = value.split(' ').map(|word| match word.split_once("://") {
        Some((scheme, _)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => format!("{scheme}://{LEFT_OUT}"),
        Some(_) => LEFT_OUT.to_owned(),
        None => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn library(name: &str) -> &str {
    if name.is_empty() {
        return "";
    }
    LIBRARIES.iter().find(|known| name.starts_with(**known)).copied().unwrap_or(LEFT_OUT)
}

fn is_made_of(text: &str, letters: &str) -> bool {
    text.len() <= 24 && text.chars().all(|letter| letters.contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_show_their_kind_and_no_pattern() {
        let redactor = Redactor::new();
        for (rule, shown) in [
            ("on", "on"),
            ("#5e884898da28047151d0e56f8dc62927", "#(left out)"),
            ("~*", "~*"),
            ("~shop:*", "~(left out)"),
            ("%R~shop:*", "%(left out)"),
            ("%R~sesame~*", "%(left out)"),
            ("(%R~*", "(%R~*"),
            ("+@read)", "+@read)"),
            ("+@unheard", "+@(left out)"),
            ("+config|get", "+config|get"),
            ("+get|sesame", "+(left out)"),
            ("db=0,1", "db=0,1"),
            ("db=sesame", "(left out)"),
            (">sesame", "(left out)"),
        ] {
            assert_eq!(redactor.rule(rule), shown, "{rule}");
        }
    }

    #[test]
    fn addresses_are_kinds_and_numbers() {
        let mut redactor = Redactor::new();
        let shown = ["10.1.2.3:5", "10.1.2.4:5", "[fe80::1]:6", "10.1.2.3:9", "127.0.0.1:5", "[::1]:5", "/run/a b.sock:0"]
            .map(|a| redactor.address(a));
        assert_eq!(shown, ["host1", "host2", "host3", "host1", "loopback", "loopback", "unix"]);
    }

    #[test]
    fn slow_commands_are_counted_not_shown() {
        let text = |text: &str| Reply::Text(text.to_owned());
        let entry = |words: Vec<Reply>| {
            Reply::List(vec![Reply::Integer(1), Reply::Integer(2), Reply::Integer(3), Reply::List(words), text("a:1"), text("n")])
        };
        let redactor = Redactor::new();
        let shown = redactor.slow(&[
            entry(vec![text("CONFIG"), text("SET"), text("masterauth"), text("sesame")]),
            entry(vec![text("get"), text("sesame")]),
            entry(vec![text("sesame")]),
            entry(vec![text("MSET"), text("k"), text("... (30 more arguments)")]),
        ]);
        let lines: Vec<&str> = shown.lines().map(|line| line.split_once("command=").unwrap().1).collect();
        assert_eq!(lines, ["config|set words=4", "get words=2", "(left out) words=1", "mset words=32"]);
    }
}
