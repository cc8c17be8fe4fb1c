//! A pair of connections and the blocks that are theirs: written, raced when their pages leave, looked at again when they are cold.

use std::collections::VecDeque;
use std::sync::MutexGuard;
use std::thread;
use std::time::{Duration, Instant};

use super::aim::{Aim, Mark};
use super::block::{Block, Pipeline, state_read};
use super::explain::explain;
use super::linger::{COMMAND, LINGER, Linger};
use super::op::Op;
use super::report::Report;
use super::script::{Script, Writer};
use super::{KeyHistory, Settings};
use crate::{Client, Server, Value};

const KEYS: usize = 384;
/// Keys that one pipeline of the second side is about.
const PART_KEYS: usize = 32;
/// Keys that one batch of the first side is about.
const SECTION_KEYS: usize = 96;
/// Parts in which a block is written, one per page of the log, so that whenever it is raced some of its keys are about to leave.
const SLICES: usize = 4;
/// A slice is written after so long if the log does not move.
const SLICE_TIME_MAX: Duration = Duration::from_millis(50);
/// Blocks that may wait to be looked at again before new ones are written.
const COLD_MAX: usize = 60;
/// How long a block rests before it is looked at again; longer than the short expiries.
const REST: Duration = Duration::from_millis(700);
/// One in this number of races of the last pair contains a FLUSHDB.
const RACES_PER_FLUSH: usize = 6;

/// Two connections on different workers.
pub(super) struct Pair<'a> {
    aim: &'a Aim,
    clients: [Client; 2],
    /// Its own.
    database: usize,
    flushes: bool,
    writer: Writer,
    linger: Linger,
    /// All of them.
    pairs: usize,
    pages: usize,
    blocks: usize,
    races: usize,
    /// Where the log's end was when slices were written last, and when that was.
    page: u64,
    slice_at: Instant,
    /// Written in part.
    young: VecDeque<Block>,
    /// Written, in order.
    waiting: VecDeque<Block>,
    /// Raced, in order of the time when they were last looked at.
    cold: VecDeque<Block>,
    /// Keys of blocks that are done.
    left: i64,
    report: Report,
}

impl<'a> Pair<'a> {
    pub(super) fn new(server: &Server, aim: &'a Aim, number: usize, settings: Settings) -> Self {
        let flushes = number + 1 == settings.pairs;
        let database = number + 1;
        let mut clients = [(); 2].map(|()| {
            let mut client = server.client();
            assert_eq!(client.line(&format!("SELECT {database}")), Value::ok());
            client
        });
        let writer = Writer::new(settings.seed.wrapping_mul(1000) + number as u64, number as u64);
        let linger = Linger::measure(&mut clients[0]);
        let (young, waiting, cold) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Self {
            aim,
            clients,
            database,
            flushes,
            writer,
            linger,
            pairs: settings.pairs,
            pages: number,
            blocks: 0,
            races: 0,
            page: 0,
            slice_at: Instant::now(),
            young,
            waiting,
            cold,
            left: 0,
            report: Report::default(),
        }
    }

    /// Works until the deadline, then looks at all that is left.
    pub(super) fn run(mut self, deadline: Instant) -> Report {
        while Instant::now() < deadline {
            self.turn();
        }
        while let Some(block) = self.waiting.pop_front().or_else(|| self.young.pop_front()) {
            self.race(block, None);
        }
        while let Some(block) = self.cold.pop_front() {
            thread::sleep(REST.saturating_sub(block.seen.elapsed()));
            self.look_again(block);
        }
        Linger::remove(&mut self.clients[0]);
        self.report.keys_left.insert(self.database, self.left);
        self.report
    }

    /// Races a block whose time has come, or looks at an old one again, or writes one.
    fn turn(&mut self) {
        // One that has missed its moment is only looked at.
        while let Some(block) = self.waiting.pop_front_if(|block| self.aim.is_late(block.mark)) {
            self.cold.push_back(block);
        }
        let aim = self.aim;
        if self.waiting.front().is_some_and(|block| aim.is_due(block.mark, block.early))
            && let Ok(turn) = aim.turn.try_lock()
            && let Some(block) = self.waiting.pop_front()
        {
            return self.race(block, Some(turn));
        }
        let mark = self.aim.mark();
        if mark.page != self.page || self.slice_at.elapsed() > SLICE_TIME_MAX {
            (self.page, self.slice_at) = (mark.page, Instant::now());
            return self.write_slices(mark);
        }
        match self.cold.pop_front_if(|block| block.seen.elapsed() > REST) {
            Some(block) => self.look_again(block),
            None => thread::sleep(Duration::from_micros(300)),
        }
    }

    /// Writes some keys of each young block, so that each block is spread over several pages.
    fn write_slices(&mut self, mark: Mark) {
        self.pages += 1;
        // As many as can be raced, one pair at a time.
        if self.pages.is_multiple_of(self.pairs) && self.cold.len() < COLD_MAX {
            let block = self.new_block(mark);
            self.young.push_back(block);
        }
        for block in &mut self.young {
            let order: Vec<usize> = (block.slices..KEYS).step_by(SLICES).collect();
            block.slices += 1;
            let mut pipeline = Pipeline::default();
            pipeline.rounds(&block.names, &order, |key| &block.scripts[key].create);
            pipeline.send(&mut self.clients[0]).expect("send");
            let states = &mut block.states;
            let answered = pipeline.receive(&mut self.clients[0], |key, asked| {
                assert_eq!(asked.reply, asked.op.apply(&mut states[key]), "{:?}", asked.op);
            });
            self.report.commands += answered.expect("replies");
        }
        while let Some(block) = self.young.pop_front_if(|block| block.slices == SLICES) {
            self.waiting.push_back(block);
        }
    }

    fn new_block(&mut self, mark: Mark) -> Block {
        self.blocks += 1;
        let scripts = self.writer.scripts(KEYS);
        let names = (0..KEYS).map(|key| format!("raced:{}:{}:{key}", self.database, self.blocks)).collect();
        let early = self.writer.random.below(4) as u64 + 2;
        Block { names, scripts, states: vec![None; KEYS], slices: 0, mark, early, seen: Instant::now(), thinned: false }
    }

    fn race(&mut self, mut block: Block, turn: Option<MutexGuard<'_, ()>>) {
        self.races += 1;
        let flush = self.flushes && self.races.is_multiple_of(RACES_PER_FLUSH);
        self.linger.write(&mut self.clients[0]);
        let (first, mut second) = self.sides(&block);
        if flush {
            second.push(vec![self.flush(&block)]);
        }
        let raced = !self.writer.random.chance(15);
        let found = block.exchange(&mut self.clients, first, second, raced.then_some(LINGER), turn);
        self.check(&mut block, found.expect("replies"));
        self.report.raced_keys += if raced { KEYS } else { 0 };
        self.cold.push_back(block);
    }

    /// The pipelines of both sides: batches that linger before they touch their keys, and for each some that do not.
    fn sides(&mut self, block: &Block) -> (Vec<Pipeline>, Vec<Vec<Pipeline>>) {
        let (swap, order) = (self.writer.random.below(2), self.order());
        let pipeline = |keys: &[usize], side: usize, repeats: usize| {
            let mut pipeline = Pipeline::default();
            (0..repeats).for_each(|_| pipeline.aside(COMMAND));
            pipeline.rounds(&block.names, keys, |key| &block.scripts[key].sides[side]);
            pipeline
        };
        let first = order.chunks(SECTION_KEYS).map(|keys| pipeline(keys, swap, self.linger.repeats)).collect();
        let parts = |keys: &[usize]| keys.chunks(PART_KEYS).map(|keys| pipeline(keys, 1 - swap, 0)).collect();
        (first, order.chunks(SECTION_KEYS).map(parts).collect())
    }

    /// FLUSHDB, and something new for most keys of the block. All other keys of the database are gone.
    fn flush(&mut self, block: &Block) -> Pipeline {
        let texts = self.writer.scripts(KEYS);
        let counts = |script: &Script| matches!(script.create[..], [Op::SetNumber(_)]);
        // A key that counts goes on counting, because the other side may still do so.
        let then = |key: usize| match (counts(&block.scripts[key]), counts(&texts[key])) {
            (true, _) => &[Op::Incr][..],
            (false, true) => &[],
            (false, false) => &texts[key].create,
        };
        let mut pipeline = Pipeline::default();
        pipeline.flush(KEYS);
        pipeline.rounds(&block.names, &self.order(), then);
        self.left = 0;
        self.waiting.iter_mut().chain(&mut self.cold).chain(&mut self.young).for_each(|other| other.states.fill(None));
        pipeline
    }

    /// All keys, forwards or backwards, from anywhere.
    fn order(&mut self) -> Vec<usize> {
        let first = self.writer.random.below(KEYS);
        let mut order: Vec<usize> = (0..KEYS).map(|key| (first + key) % KEYS).collect();
        if self.writer.random.chance(30) {
            order.reverse();
        }
        order
    }

    /// The first time most keys are deleted, the second time they must still be away.
    fn look_again(&mut self, mut block: Block) {
        let mut deletions = Pipeline::default();
        if !block.thinned {
            const DELETIONS: [&[Op]; 4] =
                [&[Op::Get, Op::Del, Op::Get], &[Op::Get, Op::Unlink], &[Op::Del], &[Op::Get, Op::GetDel]];
            let chosen: Vec<usize> = (0..KEYS).map(|_| self.writer.random.below(9) / 2).collect();
            let ops = |key: usize| DELETIONS.get(chosen[key]).copied().unwrap_or(&[Op::Get]);
            deletions.rounds(&block.names, &self.order(), ops);
        }
        let found = block.exchange(&mut self.clients, vec![deletions], Vec::new(), None, None);
        self.check(&mut block, found.expect("replies"));
        if block.thinned {
            self.left += block.states.iter().flatten().count() as i64;
        } else {
            block.thinned = true;
            self.cold.push_back(block);
        }
    }

    fn check(&mut self, block: &mut Block, (histories, commands): (Vec<KeyHistory>, usize)) {
        self.report.commands += commands;
        for (key, history) in histories.iter().enumerate() {
            if !explain(history) {
                let earlier =
                    if block.seen > block.mark.at { format!("\n  script: {:?}", block.scripts[key]) } else { String::new() };
                self.report.breach(history, &earlier);
            }
            block.states[key] = state_read(&history.after);
        }
        block.seen = Instant::now();
    }
}
