//! The sequential model: what one operation on a group of keys answers and leaves behind.

use crate::scripted::{Script, told};
use crate::{Random, Value};

/// The values of a group's keys.
pub type State = Vec<Option<Vec<u8>>>;

/// What a group is used for: it decides which operations are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One key, written with values that occur once.
    Register,
    /// One key that counts.
    Counter,
    /// Three keys, written and read together, renamed and copied among themselves.
    Group,
}

impl Kind {
    /// Keys of a group of this kind.
    #[must_use]
    pub fn keys(self) -> usize {
        if self == Self::Group { 3 } else { 1 }
    }
}

/// One operation; keys are indices within the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// GET
    Get(usize),
    /// SET
    Set(usize, Vec<u8>),
    /// SETNX
    SetNx(usize, Vec<u8>),
    /// GETSET
    GetSet(usize, Vec<u8>),
    /// GETDEL
    GetDel(usize),
    /// INCR
    Incr(usize),
    /// APPEND
    Append(usize, Vec<u8>),
    /// DEL of all keys
    Del,
    /// MGET of all keys
    MGet,
    /// MSET of all keys to one value
    MSet(Vec<u8>),
    /// MSETNX of all keys to one value
    MSetNx(Vec<u8>),
    /// RENAME
    Rename(usize, usize),
    /// COPY … REPLACE
    Copy(usize, usize),
    /// A script that calls these
    Script(Script, Vec<Self>),
}

impl Op {
    /// A random operation for a group of `kind`; `stamp` occurs in no other operation.
    pub fn random(kind: Kind, stamp: &str, random: &mut Random) -> Self {
        let value = || stamp.as_bytes().to_vec();
        let n = random.below(100);
        match kind {
            Kind::Register => match n {
                0..35 => Self::Get(0),
                35..60 => Self::Set(0, value()),
                60..75 => Self::Append(0, value()),
                75..83 => Self::GetSet(0, value()),
                83..90 => Self::SetNx(0, value()),
                90..95 => Self::GetDel(0),
                _ => Self::Del,
            },
            Kind::Counter => match n {
                0..60 => Self::Incr(0),
                60..85 => Self::Get(0),
                85..90 => Self::Set(0, random.between(-1000, 1_000_000).to_string().into_bytes()),
                90..95 => Self::GetDel(0),
                _ => Self::Del,
            },
            Kind::Group => {
                let from = random.below(3);
                let to = (from + 1 + random.below(2)) % 3;
                match n {
                    0..40 => Self::MGet,
                    40..65 => Self::MSet(value()),
                    65..70 => Self::MSetNx(value()),
                    70..80 => Self::Rename(from, to),
                    80..90 => Self::Copy(from, to),
                    90..95 => Self::Get(from),
                    _ => Self::Del,
                }
            }
        }
    }

    /// A random one that only reads.
    fn random_read(kind: Kind, random: &mut Random) -> Self {
        if kind == Kind::Group && random.chance(70) { Self::MGet } else { Self::Get(random.below(kind.keys())) }
    }

    /// A script of random operations. Half of them begin with a look, behind which a script may be suspended.
    pub fn scripted(kind: Kind, stamp: &str, random: &mut Random) -> Self {
        let (script, count) = (Script::random(random), 1 + random.below(3));
        let (looks, only_reads) = (random.chance(50), random.chance(20));
        let op = |number: usize| {
            let is_read = only_reads || looks && number == 0;
            if is_read { Self::random_read(kind, random) } else { Self::random(kind, &format!("{stamp}{number};"), random) }
        };
        Self::Script(script, (0..count).map(op).collect())
    }

    /// The command, for a group whose keys have these names.
    #[must_use]
    pub fn command(&self, keys: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let word = |w: &str| w.as_bytes().to_vec();
        match self {
            Self::Get(k) => vec![word("GET"), keys[*k].clone()],
            Self::Set(k, v) => vec![word("SET"), keys[*k].clone(), v.clone()],
            Self::SetNx(k, v) => vec![word("SETNX"), keys[*k].clone(), v.clone()],
            Self::GetSet(k, v) => vec![word("GETSET"), keys[*k].clone(), v.clone()],
            Self::GetDel(k) => vec![word("GETDEL"), keys[*k].clone()],
            Self::Incr(k) => vec![word("INCR"), keys[*k].clone()],
            Self::Append(k, v) => vec![word("APPEND"), keys[*k].clone(), v.clone()],
            Self::Del => std::iter::once(word("DEL")).chain(keys.iter().cloned()).collect(),
            Self::MGet => std::iter::once(word("MGET")).chain(keys.iter().cloned()).collect(),
            Self::MSet(v) => std::iter::once(word("MSET")).chain(keys.iter().flat_map(|k| [k.clone(), v.clone()])).collect(),
            Self::MSetNx(v) => std::iter::once(word("MSETNX")).chain(keys.iter().flat_map(|k| [k.clone(), v.clone()])).collect(),
            Self::Rename(a, b) => vec![word("RENAME"), keys[*a].clone(), keys[*b].clone()],
            Self::Copy(a, b) => vec![word("COPY"), keys[*a].clone(), keys[*b].clone(), word("REPLACE")],
            Self::Script(script, ops) => script.words(&ops.iter().map(|op| op.command(keys)).collect::<Vec<_>>(), keys),
        }
    }

    /// Applies the operation and returns its answer.
    pub fn apply(&self, state: &mut State) -> Value {
        let bulk = |v: &Option<Vec<u8>>| v.clone().map_or(Value::NullBulk, Value::Bulk);
        match self {
            Self::Get(k) => bulk(&state[*k]),
            Self::Set(k, v) => {
                state[*k] = Some(v.clone());
                Value::ok()
            }
            Self::SetNx(k, v) => {
                let vacant = state[*k].is_none();
                if vacant {
                    state[*k] = Some(v.clone());
                }
                Value::Integer(vacant.into())
            }
            Self::GetSet(k, v) => bulk(&state[*k].replace(v.clone())),
            Self::GetDel(k) => bulk(&state[*k].take()),
            Self::Incr(k) => {
                let text = state[*k].as_deref().unwrap_or(b"0");
                match std::str::from_utf8(text).ok().and_then(|t| t.parse::<i64>().ok()) {
                    Some(n) => {
                        state[*k] = Some((n + 1).to_string().into_bytes());
                        Value::Integer(n + 1)
                    }
                    None => Value::Error(b"ERR value is not an integer or out of range".to_vec()),
                }
            }
            Self::Append(k, v) => {
                let value = state[*k].get_or_insert_default();
                value.extend_from_slice(v);
                Value::Integer(value.len() as i64)
            }
            Self::Del => Value::Integer(state.iter_mut().filter_map(Option::take).count() as i64),
            Self::MGet => Value::Array(state.iter().map(bulk).collect()),
            Self::MSet(v) => {
                state.fill(Some(v.clone()));
                Value::ok()
            }
            Self::MSetNx(v) => {
                let vacant = state.iter().all(Option::is_none);
                if vacant {
                    state.fill(Some(v.clone()));
                }
                Value::Integer(vacant.into())
            }
            Self::Rename(a, b) => match state[*a].take() {
                Some(v) => {
                    state[*b] = Some(v);
                    Value::ok()
                }
                None => Value::Error(b"ERR no such key".to_vec()),
            },
            Self::Copy(a, b) => {
                let found = state[*a].clone();
                let copied = found.is_some();
                if copied {
                    state[*b] = found;
                }
                Value::Integer(copied.into())
            }
            Self::Script(_, ops) => told(Value::Array(ops.iter().map(|op| op.apply(state)).collect())),
        }
    }
}
