//! A block of keys, and the exchange of pipelines about it.

use std::io;
use std::sync::MutexGuard;
use std::thread;
use std::time::{Duration, Instant};

use super::aim::Mark;
use super::explain::{Asked, KeyHistory};
use super::op::{Op, SOON_MS, State, Until};
use super::script::Script;
use crate::client::encode;
use crate::{Client, Value};

/// Keys that one MGET or MSET takes at most.
const TOGETHER: usize = 8;
/// Between two pipelines that are to be two batches.
const APART: Duration = Duration::from_micros(300);

/// Keys that are written, raced and looked at together.
pub(super) struct Block {
    pub(super) names: Vec<String>,
    pub(super) scripts: Vec<Script>,
    /// What each key holds.
    pub(super) states: Vec<State>,
    /// Parts that have been written.
    pub(super) slices: usize,
    pub(super) mark: Mark,
    pub(super) early: u64,
    /// When it was last looked at.
    pub(super) seen: Instant,
    /// Whether most of it has been deleted.
    pub(super) thinned: bool,
}

/// A pipeline on a block, and the use of each reply.
#[derive(Default)]
pub(super) struct Pipeline {
    wire: Vec<u8>,
    /// For each reply, the keys it is about.
    waiting: Vec<Vec<(usize, Op)>>,
}

impl Pipeline {
    /// The first operation of each key, then the second of each, and so on; keys in this order.
    pub(super) fn rounds<'o>(&mut self, names: &[String], order: &[usize], ops: impl Fn(usize) -> &'o [Op]) {
        let rounds = order.iter().map(|&key| ops(key).len()).max().unwrap_or(0);
        for round in 0..rounds {
            let mut group: Vec<(usize, Op)> = Vec::new();
            for &key in order {
                let Some(&op) = ops(key).get(round) else { continue };
                let joins = group.first().is_some_and(|(_, first)| first.name() == op.name() && group.len() < TOGETHER);
                if !joins || !matches!(op, Op::Get | Op::Mset(_)) {
                    self.command(names, std::mem::take(&mut group));
                }
                group.push((key, op));
            }
            self.command(names, group);
        }
    }

    fn command(&mut self, names: &[String], group: Vec<(usize, Op)>) {
        let Some((_, op)) = group.first() else { return };
        let name = if group.len() > 1 && *op == Op::Get { "MGET" } else { op.name() };
        let mut words = vec![name.as_bytes().to_vec()];
        for (key, op) in &group {
            words.push(names[*key].clone().into_bytes());
            words.append(&mut op.arguments());
        }
        encode(&words, &mut self.wire);
        self.waiting.push(group);
    }

    /// A command without keys of the race.
    pub(super) fn aside(&mut self, words: &[&[u8]]) {
        encode(words, &mut self.wire);
        self.waiting.push(Vec::new());
    }

    /// FLUSHDB, which each key of the block feels.
    pub(super) fn flush(&mut self, keys: usize) {
        encode(&["FLUSHDB"], &mut self.wire);
        self.waiting.push((0..keys).map(|key| (key, Op::FlushDb)).collect());
    }

    pub(super) fn send(&self, client: &mut Client) -> io::Result<()> {
        client.send_raw(&self.wire)
    }

    /// Reads the replies and gives each to the keys that wait for it.
    pub(super) fn receive(self, client: &mut Client, mut give: impl FnMut(usize, Asked)) -> io::Result<usize> {
        let commands = self.waiting.len();
        for group in self.waiting {
            let reply = client.receive()?;
            for (place, &(key, op)) in group.iter().enumerate() {
                let part = match &reply {
                    Value::Array(values) if op == Op::Get => values.get(place).unwrap_or(&reply),
                    _ => &reply,
                };
                give(key, Asked { op, reply: part.clone() });
            }
        }
        Ok(commands)
    }
}

impl Block {
    /// Sends the pipelines of both sides. If they race, all of the first side's are on their way at once, and the same part of
    /// the other side is sent while each of them runs, bit by bit over the given time. Reads the keys when all are answered.
    /// Returns one history per key, and the number of commands.
    pub(super) fn exchange(
        &self,
        clients: &mut [Client; 2],
        first: Vec<Pipeline>,
        second: Vec<Vec<Pipeline>>,
        race: Option<Duration>,
        turn: Option<MutexGuard<'_, ()>>,
    ) -> io::Result<(Vec<KeyHistory>, usize)> {
        let raced = race.is_some();
        let mut histories: Vec<KeyHistory> = self
            .names
            .iter()
            .zip(&self.states)
            .map(|(name, state)| KeyHistory {
                key: name.clone(),
                before: state.clone(),
                sides: [vec![], vec![]],
                raced,
                after: vec![],
            })
            .collect();
        let mut commands = 0;
        for pipeline in &first {
            pipeline.send(&mut clients[0])?;
            if raced {
                // The server has read it before the next one comes: that will be a batch of its own.
                thread::sleep(APART);
            }
        }
        let mut first = first.into_iter();
        let mut take_first = |most: usize, clients: &mut [Client; 2], histories: &mut Vec<KeyHistory>| {
            first.by_ref().take(most).try_fold(0, |sum, pipeline| {
                Ok::<_, io::Error>(sum + pipeline.receive(&mut clients[0], |key, asked| histories[key].sides[0].push(asked))?)
            })
        };
        if !raced {
            commands += take_first(usize::MAX, clients, &mut histories)?;
        }
        for section in &second {
            for part in section {
                part.send(&mut clients[1])?;
                race.into_iter().for_each(|race| thread::sleep(race / (section.len() + 1) as u32));
            }
            commands += take_first(1, clients, &mut histories)?;
        }
        commands += take_first(usize::MAX, clients, &mut histories)?;
        for part in second.into_iter().flatten() {
            commands += part.receive(&mut clients[1], |key, asked| histories[key].sides[1].push(asked))?;
        }
        drop(turn);
        let mut last = Pipeline::default();
        let order: Vec<usize> = (0..self.names.len()).collect();
        last.rounds(&self.names, &order, |_| &[Op::Get, Op::Pttl]);
        last.send(&mut clients[0])?;
        commands += last.receive(&mut clients[0], |key, asked| histories[key].after.push(asked))?;
        Ok((histories, commands))
    }
}

/// What a key holds, by what was read last.
pub(super) fn state_read(after: &[Asked]) -> State {
    let mut state = None;
    for asked in after {
        match (asked.op, &asked.reply) {
            (Op::Get, Value::Bulk(bytes)) => state = Some((bytes.clone(), Until::Never)),
            (Op::Pttl, Value::Integer(left)) => {
                let until = match *left {
                    -2 => return None,
                    -1 => Until::Never,
                    left if left <= SOON_MS as i64 => Until::Soon,
                    _ => Until::Far,
                };
                state.iter_mut().for_each(|held| held.1 = until);
            }
            _ => {}
        }
    }
    state
}
