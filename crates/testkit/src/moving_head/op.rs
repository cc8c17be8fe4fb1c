//! What is done to a key, and the model: what each operation answers and leaves.

use std::fmt;
use std::io::Write as _;

use crate::Value;

/// A value that occurs once: its number, then letters up to its length.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text {
    /// Unique in a run.
    pub number: u64,
    /// In bytes.
    pub len: usize,
}

impl Text {
    /// The bytes.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = format!("<{:x}>", self.number).into_bytes();
        bytes.resize(self.len.max(bytes.len()), b'a' + (self.number % 26) as u8);
        bytes
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{:x}>×{}", self.number, self.len)
    }
}

/// When a value ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// It has no expiry.
    Never,
    /// After the run.
    Far,
    /// Within [`SOON_MS`]: it may be gone at any moment from now on.
    Soon,
}

/// The longest of the short expiries.
pub(super) const SOON_MS: usize = 30;
const FAR_SECONDS: &str = "100000";

/// What a key holds.
pub type State = Option<(Vec<u8>, Until)>;

/// One operation on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// GET, or MGET together with neighbours that are read too.
    Get,
    /// PTTL
    Pttl,
    /// SET
    Set(Text),
    /// SET of a number.
    SetNumber(i64),
    /// SET … EX, long
    SetFar(Text),
    /// SET … PX, short
    SetSoon(Text, usize),
    /// SETNX
    SetNx(Text),
    /// GETSET
    GetSet(Text),
    /// MSET, together with neighbours that are set so too.
    Mset(Text),
    /// SETRANGE
    SetRange(usize, Text),
    /// APPEND
    Append(Text),
    /// INCR
    Incr,
    /// INCRBY
    IncrBy(i64),
    /// DEL
    Del,
    /// UNLINK
    Unlink,
    /// GETDEL
    GetDel,
    /// PEXPIRE, short
    ExpireSoon(usize),
    /// PERSIST
    Persist,
    /// FLUSHDB, which each key of the database feels.
    FlushDb,
}

impl Op {
    /// The name of the command.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Pttl => "PTTL",
            Self::Set(_) | Self::SetNumber(_) | Self::SetFar(_) | Self::SetSoon(..) => "SET",
            Self::SetNx(_) => "SETNX",
            Self::GetSet(_) => "GETSET",
            Self::Mset(_) => "MSET",
            Self::SetRange(..) => "SETRANGE",
            Self::Append(_) => "APPEND",
            Self::Incr => "INCR",
            Self::IncrBy(_) => "INCRBY",
            Self::Del => "DEL",
            Self::Unlink => "UNLINK",
            Self::GetDel => "GETDEL",
            Self::ExpireSoon(_) => "PEXPIRE",
            Self::Persist => "PERSIST",
            Self::FlushDb => "FLUSHDB",
        }
    }

    /// The arguments behind name and key.
    #[must_use]
    pub fn arguments(self) -> Vec<Vec<u8>> {
        let word = |n: &dyn fmt::Display| n.to_string().into_bytes();
        match self {
            Self::Set(text) | Self::SetNx(text) | Self::GetSet(text) | Self::Mset(text) | Self::Append(text) => vec![text.bytes()],
            Self::SetNumber(n) | Self::IncrBy(n) => vec![word(&n)],
            Self::SetFar(text) => vec![text.bytes(), b"EX".to_vec(), word(&FAR_SECONDS)],
            Self::SetSoon(text, ms) => vec![text.bytes(), b"PX".to_vec(), word(&ms)],
            Self::SetRange(offset, text) => vec![word(&offset), text.bytes()],
            Self::ExpireSoon(ms) => vec![word(&ms)],
            Self::Get | Self::Pttl | Self::Incr | Self::Del | Self::Unlink | Self::GetDel | Self::Persist | Self::FlushDb => vec![],
        }
    }

    /// Runs the operation on the model: what it answers. PTTL answers 1 for any time that is left.
    ///
    /// # Panics
    /// When a counter does not hold a number: scripts do not mix counters and texts.
    pub fn apply(self, state: &mut State) -> Value {
        let held = |state: &State| Value::Integer(state.is_some().into());
        let bulk = |state: State| state.map_or(Value::NullBulk, |(bytes, _)| Value::Bulk(bytes));
        let put = |state: &mut State, bytes: Vec<u8>, until: Until| {
            *state = Some((bytes, until));
            Value::ok()
        };
        match self {
            Self::Get => bulk(state.clone()),
            Self::Pttl => Value::Integer(state.as_ref().map_or(-2, |held| if held.1 == Until::Never { -1 } else { 1 })),
            Self::Set(text) | Self::Mset(text) => put(state, text.bytes(), Until::Never),
            Self::SetNumber(n) => put(state, n.to_string().into_bytes(), Until::Never),
            Self::SetFar(text) => put(state, text.bytes(), Until::Far),
            Self::SetSoon(text, _) => put(state, text.bytes(), Until::Soon),
            Self::SetNx(text) => {
                let vacant = state.is_none();
                state.get_or_insert_with(|| (text.bytes(), Until::Never));
                Value::Integer(vacant.into())
            }
            Self::GetSet(text) => bulk(state.replace((text.bytes(), Until::Never))),
            Self::SetRange(offset, text) => edit(state, |bytes| {
                let part = text.bytes();
                bytes.resize(bytes.len().max(offset + part.len()), 0);
                bytes[offset..offset + part.len()].copy_from_slice(&part);
            }),
            Self::Append(text) => edit(state, |bytes| bytes.extend_from_slice(&text.bytes())),
            Self::Incr => count(state, 1),
            Self::IncrBy(n) => count(state, n),
            Self::Del | Self::Unlink => Value::Integer(state.take().is_some().into()),
            Self::GetDel => bulk(state.take()),
            Self::ExpireSoon(_) => {
                state.iter_mut().for_each(|held| held.1 = Until::Soon);
                held(state)
            }
            Self::Persist => {
                let before = state.as_mut().map(|held| std::mem::replace(&mut held.1, Until::Never));
                Value::Integer(before.is_some_and(|until| until != Until::Never).into())
            }
            Self::FlushDb => {
                *state = None;
                Value::ok()
            }
        }
    }
}

/// Changes the bytes and answers their number.
fn edit(state: &mut State, change: impl FnOnce(&mut Vec<u8>)) -> Value {
    let (bytes, _) = state.get_or_insert_with(|| (Vec::new(), Until::Never));
    change(bytes);
    Value::Integer(bytes.len() as i64)
}

fn count(state: &mut State, by: i64) -> Value {
    let (bytes, _) = state.get_or_insert_with(|| (b"0".to_vec(), Until::Never));
    let number: i64 = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).expect("a counter");
    bytes.clear();
    let _ = write!(bytes, "{}", number + by);
    Value::Integer(number + by)
}
