//! Makes a scenario that fails small: less time, fewer workers and clients, fewer classes of faults, fewer operations, and choices
//! that are 0 wherever the failure needs no other ones.
//!
//! Each step is kept if the run still fails, in whatever way: a smaller run that fails otherwise is as good a find.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use almandine_io::sim::turn::Policy;

use crate::proofs;
use crate::run;
use crate::scenario::{Medium, Scenario};

/// A scenario that fails, and how.
#[derive(Clone, Debug)]
pub struct Failing {
    /// What fails.
    pub scenario: Scenario,
    /// What went wrong.
    pub report: String,
    /// Operations of its clients.
    pub operations: Vec<(usize, u64)>,
    /// Runs that it took to find it.
    pub runs: u64,
}

/// What making a scenario small may take.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// Real time.
    Time(Duration),
    /// Runs, so that the result is the same on every machine.
    Runs(u64),
}

/// A small scenario that fails, made of one that does.
#[must_use]
pub fn shrink(scenario: &Scenario, bound: Bound) -> Option<Failing> {
    run::quiet();
    let (operations, report) = fails(scenario)?;
    let best = Failing { scenario: scenario.clone(), report, operations, runs: 1 };
    let mut shrinker = Shrinker { best, began: Instant::now(), bound };
    shrinker.shorten();
    shrinker.simplify();
    shrinker.leave_operations_out();
    shrinker.shorten();
    shrinker.zero_choices();
    Some(shrinker.best)
}

/// The operations of a run that fails, each once, and how it does.
fn fails(scenario: &Scenario) -> Option<(Vec<(usize, u64)>, String)> {
    let recorded = proofs::run(scenario);
    let mut known = BTreeSet::new();
    let operations = recorded.operations.iter().copied().filter(|operation| known.insert(*operation)).collect();
    recorded.check().err().map(|report| (operations, report))
}

struct Shrinker {
    best: Failing,
    began: Instant,
    bound: Bound,
}

impl Shrinker {
    fn is_over(&self) -> bool {
        match self.bound {
            Bound::Time(time) => self.began.elapsed() >= time,
            Bound::Runs(runs) => self.best.runs >= runs,
        }
    }

    /// Tries a change; keeps it if the run still fails.
    fn attempt(&mut self, change: impl FnOnce(&mut Scenario)) -> bool {
        let mut scenario = self.best.scenario.clone();
        change(&mut scenario);
        if self.is_over() {
            return false;
        }
        self.best.runs += 1;
        let Some((operations, report)) = fails(&scenario) else { return false };
        (self.best.scenario, self.best.report, self.best.operations) = (scenario, report, operations);
        true
    }

    /// Halves the time, then takes a quarter or an eighth of it away.
    fn shorten(&mut self) {
        for divisor in [2, 4, 8] {
            while self.best.scenario.millis > 1
                && self.attempt(|scenario| scenario.millis -= scenario.millis.div_ceil(divisor).max(1))
            {}
        }
    }

    fn simplify(&mut self) {
        for workers in 1..self.best.scenario.workers {
            if self.attempt(|scenario| scenario.workers = workers) {
                break;
            }
        }
        for clients in [2, 3, 4] {
            if self.attempt(|scenario| scenario.clients = clients) {
                break;
            }
        }
        if self.best.scenario.medium != Medium::Memory {
            self.attempt(|scenario| scenario.set_medium(Medium::Memory));
        }
        if !self.attempt(|scenario| scenario.network.clear()) {
            for class in self.best.scenario.network.clone() {
                self.attempt(|scenario| _ = scenario.network.remove(class));
            }
        }
        if !self.attempt(|scenario| scenario.disk.clear()) {
            for class in self.best.scenario.disk.clone() {
                self.attempt(|scenario| _ = scenario.disk.remove(class));
            }
        }
        if !self.attempt(|scenario| scenario.pages.clear()) {
            for class in self.best.scenario.pages.clone() {
                self.attempt(|scenario| _ = scenario.pages.remove(class));
            }
        }
        self.attempt(|scenario| scenario.schedule.stalls_per_million = 0);
        self.attempt(|scenario| scenario.schedule.policy = Policy::Random);
        while self.best.scenario.schedule.inner_per_million > 0 && self.attempt(|scenario| scenario.schedule.inner_per_million /= 4)
        {
        }
    }

    /// Takes operations away by parts, first half of them, then smaller ones, until none of the last ones can go. (Zeller and
    /// Hildebrandt, "Simplifying and isolating failure-inducing input", TSE 2002.)
    fn leave_operations_out(&mut self) {
        // A run that has failed has come no further, so nothing is lost by this.
        let all: BTreeSet<(usize, u64)> = self.best.operations.iter().copied().collect();
        if all.is_empty() || !self.attempt(|scenario| scenario.only = Some(all)) {
            return;
        }
        let mut part = self.best.operations.len().div_ceil(2);
        while part > 0 && !self.is_over() {
            let mut at = 0;
            while at < self.best.operations.len() {
                let operations = &self.best.operations;
                let end = operations.len().min(at + part);
                let left: BTreeSet<(usize, u64)> = [&operations[..at], &operations[end..]].concat().into_iter().collect();
                if !self.attempt(|scenario| scenario.only = Some(left)) {
                    at += part;
                }
            }
            part /= 2;
        }
    }

    /// Repeats the choices of the run, with blocks of them 0: nothing bad happens there.
    fn zero_choices(&mut self) {
        let made = proofs::run(&self.best.scenario).outcome.choices;
        if !self.attempt(|scenario| scenario.choices = Some(made)) {
            return;
        }
        let streams = self.best.scenario.choices.as_ref().map_or(0, |record| record.streams.len());
        for stream in 0..streams {
            let len = self.best.scenario.choices.as_ref().map_or(0, |record| record.streams[stream].len());
            let mut block = len;
            while block > len / 64 && !self.is_over() {
                for from in (0..len).step_by(block) {
                    let zero = |scenario: &mut Scenario| {
                        let Some(record) = &mut scenario.choices else { return };
                        let until = len.min(from + block);
                        record.streams[stream].get_mut(from..until).into_iter().for_each(|block| block.fill(0));
                    };
                    let is_zero = |scenario: &Scenario| {
                        let record =
                            scenario.choices.as_ref().and_then(|record| record.streams[stream].get(from..len.min(from + block)));
                        record.is_none_or(|block| block.iter().all(|choice| *choice == 0))
                    };
                    if !is_zero(&self.best.scenario) {
                        self.attempt(zero);
                    }
                }
                block /= 2;
            }
        }
    }
}
