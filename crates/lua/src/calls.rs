//! What a script calls, as far as its code says it before it runs: for a host that wants to know the keys of its commands.
//!
//! Only chunks that run from the top to the bottom are looked at: without loops and without functions of their own. Each
//! instruction is looked at once, with what is known of the registers before it; where paths meet, what they agree on is known.
//! Whatever could let the function of the host, or the table of the keys, out of sight ends the search.

use crate::instruction::{Instruction, Operand};
use crate::proto::{Constant, Proto};

/// A call of the host's function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// What is known of its arguments.
    pub arguments: Vec<CallArgument>,
    /// Further arguments may follow.
    pub is_open: bool,
}

/// What is known of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallArgument {
    /// This string.
    Constant(Box<[u8]>),
    /// One of the keys.
    Key,
    /// Nothing.
    Unknown,
}

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Unknown,
    /// The constant of this number.
    Constant(u32),
    /// The table with the functions of the host.
    Host,
    /// One of its functions that call.
    Call,
    /// The table of the keys.
    Keys,
    /// One of the keys.
    Key,
    /// A function that does not keep what it is given.
    Harmless,
    /// Perhaps one that must not get out of sight.
    Mixed,
}

/// Globals that neither keep nor return a table that they are given.
const HARMLESS: [&[u8]; 5] = [b"tonumber", b"tostring", b"type", b"unpack", b"next"];
/// Globals that lead to no function of the host.
const OTHERS: [&[u8]; 14] = [
    b"ARGV",
    b"select",
    b"ipairs",
    b"pairs",
    b"assert",
    b"error",
    b"string",
    b"table",
    b"math",
    b"os",
    b"bit",
    b"cjson",
    b"cmsgpack",
    b"struct",
];

/// Functions of the host's table that call.
const CALLS: [&[u8]; 2] = [b"call", b"pcall"];

impl Held {
    fn is_special(self) -> bool {
        matches!(self, Self::Host | Self::Call | Self::Keys | Self::Mixed)
    }

    fn merge(self, other: Self) -> Self {
        if self == other {
            self
        } else if self.is_special() || other.is_special() {
            Self::Mixed
        } else {
            Self::Unknown
        }
    }
}

type Registers = Vec<Held>;

struct Search<'p> {
    proto: &'p Proto,
    /// What is known where a jump leads to.
    targets: Vec<Option<Registers>>,
    sites: Vec<CallSite>,
}

impl Proto {
    /// The calls of `redis.call` and `redis.pcall` in a chunk; nothing when its code does not say all of them.
    #[must_use]
    pub fn calls(&self) -> Option<Vec<CallSite>> {
        if !self.prototypes.is_empty() {
            return None;
        }
        let mut search = Search { proto: self, targets: vec![None; self.code.len() + 2], sites: Vec::new() };
        search.run()?;
        Some(search.sites)
    }
}

impl Search<'_> {
    fn run(&mut self) -> Option<()> {
        let mut current: Option<Registers> = Some(vec![Held::Unknown; 256]);
        for pc in 0..self.proto.code.len() {
            current = match (current, self.targets[pc].take()) {
                (Some(mut falls), Some(jumps)) => {
                    falls.iter_mut().zip(jumps).for_each(|(held, other)| *held = held.merge(other));
                    Some(falls)
                }
                (falls, jumps) => falls.or(jumps),
            };
            // Nothing leads here.
            let Some(registers) = current else { continue };
            current = self.step(pc, registers)?;
        }
        Some(())
    }

    /// What is known behind an instruction; nothing where the next one does not follow it.
    fn step(&mut self, pc: usize, mut registers: Registers) -> Option<Option<Registers>> {
        let instruction = self.proto.code[pc];
        let held = |register: u8| registers[usize::from(register)];
        let escapes = |operand: Operand| !operand.is_constant() && registers[operand.index()].is_special();
        let mut result = Held::Unknown;
        match instruction {
            Instruction::Move { b, .. } => result = held(b),
            Instruction::LoadConstant { k, .. } => result = Held::Constant(k),
            Instruction::GetGlobal { k, .. } => result = self.global(k)?,
            Instruction::GetField { b, k, .. } => match held(b) {
                Held::Host if CALLS.contains(&self.string(k)?) => result = Held::Call,
                Held::Call | Held::Mixed => return None,
                _ => {}
            },
            Instruction::GetConstant { b, k, .. } => match held(b) {
                Held::Keys if matches!(self.proto.constants[k as usize], Constant::Number(_)) => result = Held::Key,
                Held::Host | Held::Call | Held::Mixed => return None,
                _ => {}
            },
            Instruction::GetTable { b, c, .. } => match held(b) {
                _ if held(c).is_special() => return None,
                Held::Keys => result = Held::Key,
                Held::Host | Held::Call | Held::Mixed => return None,
                _ => {}
            },
            Instruction::SetTable { a, key, value } => {
                if held(a).is_special() || held(key).is_special() || escapes(value) {
                    return None;
                }
            }
            Instruction::SetField { a, value, .. } | Instruction::SetConstant { a, value, .. } => {
                if held(a).is_special() || escapes(value) {
                    return None;
                }
            }
            Instruction::SetGlobal { a, .. } | Instruction::Method { b: a, .. } if held(a).is_special() => return None,
            Instruction::SetList { a, count, .. } => {
                let last = if count == 0 { 255 } else { usize::from(a) + usize::from(count) };
                if registers[usize::from(a)..=last.min(255)].iter().any(|held| held.is_special()) {
                    return None;
                }
            }
            Instruction::Call { a, b, .. } | Instruction::TailCall { a, b } => self.call(&registers, a, b)?,
            Instruction::TestSet { a, b, to, .. } => {
                let mut taken = registers.clone();
                taken[usize::from(a)] = held(b);
                self.join(pc, to, taken)?;
                return Some(Some(registers));
            }
            Instruction::LoadBoolean { a, skip: true, .. } => {
                registers[usize::from(a)] = Held::Unknown;
                self.join(pc, pc as i32 + 2, registers)?;
                return Some(None);
            }
            Instruction::Jump { to } => {
                self.join(pc, to, registers)?;
                return Some(None);
            }
            // What is returned becomes a reply.
            Instruction::Return { .. } => return Some(None),
            Instruction::Loop { .. }
            | Instruction::Tick
            | Instruction::ForPrepare { .. }
            | Instruction::ForLoop { .. }
            | Instruction::IteratorCall { .. }
            | Instruction::IteratorLoop { .. }
            | Instruction::Closure { .. }
            | Instruction::GetUpvalue { .. }
            | Instruction::SetUpvalue { .. } => return None,
            other => {
                if let Some(to) = other.target() {
                    self.join(pc, to, registers.clone())?;
                }
            }
        }
        for register in 0..=u8::MAX {
            if instruction.sets(register) {
                registers[usize::from(register)] = Held::Unknown;
            }
        }
        if let Instruction::Move { a, .. }
        | Instruction::LoadConstant { a, .. }
        | Instruction::GetGlobal { a, .. }
        | Instruction::GetField { a, .. }
        | Instruction::GetConstant { a, .. }
        | Instruction::GetTable { a, .. } = instruction
        {
            registers[usize::from(a)] = result;
        }
        let ends = matches!(instruction, Instruction::TailCall { .. });
        Some((!ends).then_some(registers))
    }

    fn join(&mut self, pc: usize, to: i32, registers: Registers) -> Option<()> {
        let to = usize::try_from(to).ok().filter(|to| *to > pc)?;
        let target = self.targets.get_mut(to)?;
        match target {
            Some(known) => known.iter_mut().zip(registers).for_each(|(held, other)| *held = held.merge(other)),
            None => *target = Some(registers),
        }
        Some(())
    }

    fn string(&self, k: u32) -> Option<&[u8]> {
        match &self.proto.constants[k as usize] {
            Constant::String(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn global(&self, k: u32) -> Option<Held> {
        match self.string(k)? {
            b"redis" | b"server" => Some(Held::Host),
            b"KEYS" => Some(Held::Keys),
            name if HARMLESS.contains(&name) => Some(Held::Harmless),
            name if OTHERS.contains(&name) => Some(Held::Unknown),
            _ => None,
        }
    }

    fn call(&mut self, registers: &Registers, a: u8, b: u8) -> Option<()> {
        let first = usize::from(a) + 1;
        let is_open = b == 0;
        // Of an open call, what lies above its last known argument is what was called for it.
        let count = if is_open { self.known_arguments(registers, first) } else { usize::from(b) - 1 };
        let arguments = registers.get(first..first + count)?;
        match registers[usize::from(a)] {
            Held::Call => {
                if arguments.iter().any(|held| held.is_special()) {
                    return None;
                }
                let arguments = arguments.iter().map(|held| self.argument(*held)).collect();
                self.sites.push(CallSite { arguments, is_open });
                Some(())
            }
            Held::Host | Held::Keys | Held::Mixed => None,
            callee => {
                let passed = if is_open { &registers[first..] } else { arguments };
                let is_fine = |held: &Held| !held.is_special() || *held == Held::Keys && callee == Held::Harmless;
                passed.iter().all(is_fine).then_some(())
            }
        }
    }

    /// Arguments of an open call that stand before the open ones: up to the first unknown one, which may be the begin of these.
    fn known_arguments(&self, registers: &Registers, first: usize) -> usize {
        registers[first..].iter().take_while(|held| matches!(held, Held::Constant(_) | Held::Key)).count()
    }

    fn argument(&self, held: Held) -> CallArgument {
        match held {
            Held::Key => CallArgument::Key,
            Held::Constant(k) => self.string(k).map_or(CallArgument::Unknown, |bytes| CallArgument::Constant(bytes.into())),
            _ => CallArgument::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile;

    fn calls(text: &str) -> Option<Vec<String>> {
        let shown = |argument: &CallArgument| match argument {
            CallArgument::Constant(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            CallArgument::Key => "<key>".to_owned(),
            CallArgument::Unknown => "?".to_owned(),
        };
        let sites = compile(text.as_bytes(), b"@t").unwrap().calls()?;
        let site = |site: &CallSite| {
            let words: Vec<String> = site.arguments.iter().map(shown).collect();
            format!("{}{}", words.join(" "), if site.is_open { " …" } else { "" })
        };
        Some(sites.iter().map(site).collect())
    }

    #[test]
    fn calls_of_scripts_as_they_are_written() {
        let all: [(&str, &[&str]); 11] = [
            ("return 1", &[]),
            ("return redis.call('GET', KEYS[1])", &["GET <key>"]),
            (
                "local call = redis.call local k = KEYS[1] call('SET', k, ARGV[1]) return call('GET', k)",
                &["SET <key> ?", "GET <key>"],
            ),
            (
                "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
                &["get <key>", "del <key>"],
            ),
            (
                "local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end return n",
                &["INCR <key>", "EXPIRE <key> ?"],
            ),
            ("local k if ARGV[1] then k = KEYS[1] else k = KEYS[2] end return redis.call('GET', k)", &["GET <key>"]),
            ("local k = ARGV[1] or KEYS[1] return redis.call('GET', k)", &["GET ?"]),
            ("return redis.call('GET', KEYS[1] .. ':x')", &["GET ?"]),
            ("return redis.call('GET', 'fixed')", &["GET fixed"]),
            ("return redis.call('DEL', KEYS[1], unpack(ARGV))", &["DEL <key> …"]),
            ("return server.pcall('ZADD', KEYS[#KEYS], tonumber(ARGV[1]) + 1, cjson.encode({a = 1}))", &["ZADD <key> …"]),
        ];
        for (text, expected) in all {
            assert_eq!(
                calls(text).as_deref(),
                Some(&expected.iter().map(|site| (*site).to_owned()).collect::<Vec<_>>()[..]),
                "{text}"
            );
        }
    }

    #[test]
    fn what_could_call_unseen_is_not_looked_through() {
        let hidden = [
            "for i = 1, 2 do redis.call('GET', KEYS[i]) end",
            "while redis.call('GET', KEYS[1]) do end",
            "local f = function() return redis.call('GET', 'x') end return f()",
            "return pcall(redis.call, 'GET', 'x')",
            "local t = {redis.call} return t[1]('GET', 'x')",
            "local t = {} t.f = redis.call return t.f('GET', 'x')",
            "return redis['ca' .. 'll']('GET', 'x')",
            "return loadstring(ARGV[1])()",
            "return _G['redis'].call('GET', 'x')",
            "KEYS[1] = ARGV[1] return redis.call('GET', KEYS[1])",
            "table.insert(KEYS, 1, ARGV[1]) return redis.call('GET', KEYS[1])",
            "local k = KEYS k[1] = 'x' return redis.call('GET', KEYS[1])",
            "local k = ARGV[1] and KEYS or {} k[1] = 'x' return redis.call('GET', KEYS[1])",
            "local k = select(1, KEYS) k[1] = 'x' return redis.call('GET', KEYS[1])",
            "local _, k = ipairs(KEYS) k[1] = 'x' return redis.call('GET', KEYS[1])",
            "local k = assert(KEYS) k[1] = 'x' return redis.call('GET', KEYS[1])",
            "local f = ARGV[1] and redis.call or tostring return f('GET', 'x')",
            "return select(2, 1, redis.call)('GET', 'x')",
            "local r = setmetatable({}, {__index = redis}) return r.call('GET', 'x')",
            "return redis.call(redis.call)",
        ];
        for text in hidden {
            assert_eq!(calls(text), None, "{text}");
        }
    }
}
