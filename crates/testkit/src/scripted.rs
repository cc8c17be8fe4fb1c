//! Commands as a script: what a unit of work of histories is, when it is not a transaction.
//!
//! The same commands go over the wire in three ways, one for each class of scripts: with keys that the code names, with keys that
//! only its run shows, and with a command that may touch any key. A part of the scripts computes for so long behind the first
//! command that it is suspended, if that has changed nothing; one that ends when that is refused does behind the second.

use std::fmt::Write;

use crate::{Random, Value};

/// Rounds of the loop of a script that computes for long: three times as many instructions as the server runs without a look at
/// the clock.
const ROUNDS: u32 = 70_000;

/// How a script comes to its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// They are elements of KEYS.
    Planned,
    /// They are what another command answers.
    Computed,
    /// As elements of KEYS, beside a command that may touch any key.
    Alone,
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    class: Class,
    takes_long: bool,
    ends_refused: bool,
}

impl Script {
    /// A random one.
    pub fn random(random: &mut Random) -> Self {
        let class = *random.pick(&[Class::Planned, Class::Planned, Class::Computed, Class::Computed, Class::Alone]);
        Self { class, takes_long: random.chance(15), ends_refused: false }
    }

    /// The same, but it ends when its first command is refused.
    #[must_use]
    pub fn ends_refused(self) -> Self {
        Self { ends_refused: true, ..self }
    }

    /// The words of EVAL. Those of the commands that are among the keys are keys. The script answers with what each command has
    /// answered, errors among it.
    #[must_use]
    pub fn words(self, commands: &[Vec<Vec<u8>>], keys: &[Vec<u8>]) -> Vec<Vec<u8>> {
        // With a head, so that a server whose memory is full refuses it as a whole.
        let (mut code, mut args) = ("#!lua\nlocal told = {}\n".to_owned(), Vec::new());
        if self.class == Class::Alone {
            code += "redis.call('DBSIZE')\n";
        }
        for (number, words) in (1..).zip(commands) {
            let name = words.first().map(|name| String::from_utf8_lossy(name)).unwrap_or_default();
            let _ = write!(code, "told[{number}] = redis.pcall('{name}'");
            for word in words.iter().skip(1) {
                let _ = match (keys.iter().position(|key| key == word), self.class) {
                    (Some(key), Class::Computed) => write!(code, ", redis.call('ECHO', KEYS[{}])", key + 1),
                    (Some(key), _) => write!(code, ", KEYS[{}]", key + 1),
                    (None, _) => {
                        args.push(word.clone());
                        write!(code, ", ARGV[{}]", args.len())
                    }
                };
            }
            code += ")\n";
            if self.ends_refused && number == 1 {
                code += "if type(told[1]) == 'table' and told[1].err then return told end\n";
            }
            if self.takes_long && number == 1 + usize::from(self.ends_refused) {
                let _ = writeln!(code, "for i = 1, {ROUNDS} do end");
            }
        }
        code += "return told";
        [b"EVAL".to_vec(), code.into_bytes(), keys.len().to_string().into_bytes()]
            .into_iter()
            .chain(keys.iter().cloned())
            .chain(args)
            .collect()
    }
}

/// What a script tells of a reply: there is one nothing.
#[must_use]
pub fn told(reply: Value) -> Value {
    match reply {
        Value::Array(items) => Value::Array(items.into_iter().map(told).collect()),
        reply if reply.is_null() => Value::NullBulk,
        reply => reply,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_arguments_are_told_apart() {
        let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        let commands = [words("GET b"), words("SET a x")];
        let eval = |class, takes_long| {
            let words = Script { class, takes_long, ends_refused: false }.words(&commands, &words("a b"));
            words.iter().map(|word| String::from_utf8_lossy(word).replace('\n', "; ")).collect::<Vec<_>>().join(" | ")
        };
        let planned = "EVAL | #!lua; local told = {}; told[1] = redis.pcall('GET', KEYS[2]); \
                       told[2] = redis.pcall('SET', KEYS[1], ARGV[1]); return told | 2 | a | b | x";
        assert_eq!(eval(Class::Planned, false), planned);
        assert!(eval(Class::Computed, true).contains("'GET', redis.call('ECHO', KEYS[2])); for i = 1, 70000 do end; told[2]"));
        assert!(eval(Class::Alone, false).contains("redis.call('DBSIZE'); told[1] = redis.pcall('GET', KEYS[2])"));
    }
}
