//! What is called: scripts as applications have them, each by a command.

use clap::ValueEnum;

use crate::pipe;
use almandine_bench::control::{Control, Reply, Target};

/// A load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Load {
    /// GET without a script, for comparison.
    Plain,
    /// EVALSHA of one GET.
    Evalsha,
    /// EVAL of one GET.
    Eval,
    /// FCALL of one GET.
    Fcall,
    /// INCR, and EXPIRE of what is new.
    Limiter,
    /// A comparison before DEL.
    Unlock,
    /// A hundred GETs in a loop.
    Loop,
    /// Concatenation, patterns and formats.
    Strings,
    /// A job for a queue: its key has an id that is taken first.
    Job,
}

const GET: &str = "return redis.call('GET', KEYS[1])";
const LIMITER: &str = "local n = redis.call('INCR', KEYS[1])\nif n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end\n\
                       if n > tonumber(ARGV[2]) then return 0 end\nreturn 1";
const UNLOCK: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";
const LOOP: &str = "local n = 0\nfor i = 1, 100 do if redis.call('GET', KEYS[1]) then n = n + 1 end end\nreturn n";
const STRINGS: &str = "local parts = {}\n\
    for word in string.gmatch(ARGV[1], '%a+') do\n\
    parts[#parts + 1] = string.upper(string.sub(word, 1, 1)) .. string.sub(word, 2)\n\
    end\n\
    local text = table.concat(parts, ' ')\n\
    local n = 0\n\
    for i = 1, #text do if string.byte(text, i) == 101 then n = n + 1 end end\n\
    return string.format('%s %d %s', string.gsub(text, 'e', '3'), n, string.rep('-', 10))";
/// As libraries of queues add a job: the options of the queue, the next id, the job, a line for its listeners, and its place.
const JOB: &str = "local prefix = string.gsub(KEYS[1], 'key', 'queue', 1)\n\
    local options = redis.call('HMGET', prefix .. ':meta', 'paused', 'limit', 'events')\n\
    local id = redis.call('INCR', prefix .. ':id')\n\
    local job = prefix .. ':' .. id\n\
    if redis.call('EXISTS', job) == 1 then\n\
    redis.call('XADD', prefix .. ':events', 'MAXLEN', '~', 1000, '*', 'event', 'duplicated', 'job', id)\n\
    return id .. ''\n\
    end\n\
    redis.call('HSET', job, 'name', ARGV[1], 'data', ARGV[2], 'options', '{\"attempts\":3}',\n\
    'time', ARGV[3], 'delay', 0, 'priority', 0)\n\
    redis.call('EXPIRE', job, 10)\n\
    redis.call('XADD', prefix .. ':events', 'MAXLEN', '~', 1000, '*', 'event', 'added', 'job', id, 'name', ARGV[1])\n\
    local waiting = options[1] and prefix .. ':paused' or prefix .. ':wait'\n\
    redis.call('LPUSH', waiting, id)\n\
    redis.call('LTRIM', waiting, 0, 999)\n\
    redis.call('XADD', prefix .. ':events', 'MAXLEN', '~', 1000, '*', 'event', 'waiting', 'job', id)\n\
    return id .. ''";
const LIBRARY: &str =
    "#!lua name=lab\nredis.register_function('lab_get', function(keys, args) return redis.call('GET', keys[1]) end)";
/// The argument of the work on strings.
const TEXT: &str = "the quick brown fox jumps over the lazy dog while seven sleepers keep their eyes on the evening";

impl Load {
    pub(super) const ALL: [Self; 9] =
        [Self::Plain, Self::Evalsha, Self::Eval, Self::Fcall, Self::Limiter, Self::Unlock, Self::Loop, Self::Strings, Self::Job];

    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Plain => "GET",
            Self::Evalsha => "EVALSHA of one GET",
            Self::Eval => "EVAL of one GET",
            Self::Fcall => "FCALL of one GET",
            Self::Limiter => "EVALSHA of INCR and EXPIRE",
            Self::Unlock => "EVALSHA of GET and DEL",
            Self::Loop => "EVALSHA of 100 GETs in a loop",
            Self::Strings => "EVALSHA of work on strings",
            Self::Job => "EVALSHA that adds a job to a queue",
        }
    }

    /// What the project holds itself to: the share of the baseline's time.
    pub(super) fn limit(self) -> Option<f64> {
        match self {
            Self::Plain | Self::Unlock => None,
            Self::Evalsha | Self::Eval | Self::Fcall | Self::Limiter => Some(0.4),
            Self::Loop | Self::Job => Some(0.6),
            Self::Strings => Some(1.3),
        }
    }

    fn script(self) -> &'static str {
        match self {
            Self::Limiter => LIMITER,
            Self::Unlock => UNLOCK,
            Self::Loop => LOOP,
            Self::Strings => STRINGS,
            Self::Job => JOB,
            Self::Plain | Self::Evalsha | Self::Eval | Self::Fcall => GET,
        }
    }

    /// Puts what the load needs to a server, which is emptied first if this is its first turn. Returns a request per key.
    pub(super) fn prepare(self, target: &Target, keys: usize, fill: bool) -> Result<Vec<Vec<u8>>, String> {
        let mut control = target.control()?;
        if fill {
            control.ask(&["FLUSHALL"])?;
            if !matches!(self, Self::Limiter) {
                for key in 0..keys {
                    control.ask(&["SET", &key_name(key), "abcdefgh"])?;
                }
            }
        }
        let sha = self.load(&mut control)?;
        let request = |key: usize| {
            let key = key_name(key);
            let mut words: Vec<&str> = match self {
                Self::Plain => vec!["GET", &key],
                Self::Eval => vec!["EVAL", self.script(), "1", &key],
                Self::Fcall => vec!["FCALL", "lab_get", "1", &key],
                _ => vec!["EVALSHA", &sha, "1", &key],
            };
            words.extend::<&[&str]>(match self {
                Self::Limiter => &["60", "100"],
                Self::Unlock => &["not this"],
                Self::Strings => &[TEXT],
                Self::Job => &["send", "{\"to\":\"somebody@example.org\",\"text\":\"hello\"}", "1700000000000"],
                _ => &[],
            });
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let mut request = Vec::new();
            pipe::command(&words, &mut request);
            request
        };
        Ok((0..keys).map(request).collect())
    }

    /// Loads the script, or the library. Returns the script's digits.
    fn load(self, control: &mut Control) -> Result<String, String> {
        if self == Self::Fcall {
            control.ask(&["FUNCTION", "LOAD", "REPLACE", LIBRARY])?;
            return Ok(String::new());
        }
        match control.ask(&["SCRIPT", "LOAD", self.script()])? {
            Reply::Bulk(Some(sha)) => Ok(String::from_utf8_lossy(&sha).into_owned()),
            other => Err(format!("SCRIPT LOAD was answered with {other:?}")),
        }
    }
}

fn key_name(key: usize) -> String {
    format!("key:{key:012}")
}
