//! Threads, virtual time and the queue of events: what the holder of the baton reads and writes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use super::baton::Baton;
use super::schedule::{OVERTAKEN_NS, Policy, Priorities, STARVED_NS, Schedule, Stalls};
use crate::sim::choice::{Choices, Subsystem};
use crate::sim::trace::{Note, Trace};
use almandine_base::mutants::Mutant;

/// The cheapest slice of running, and how much dearer another one may be, in nanoseconds.
const SLICE_NS_MIN: u64 = 200;
const SLICE_NS_MORE: u64 = 19_800;

/// What the way to an inner point costs.
const STEP_NS: u64 = 50;
/// For how long a thread runs before another one that can run does, as on a processor that they share.
const QUANTUM_NS: u64 = 4_000_000;

/// What ends a wait; threads that wait for it are named by its number only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition(pub(super) u64);

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Its condition was notified.
    Notified,
    /// Its time had come.
    Late,
}

/// Time, and a number that keeps events of one time in order.
pub(super) type When = (u64, u64);

pub(super) enum Event {
    /// The wait of this thread ends.
    Wake(usize),
    Call(Box<dyn FnOnce() + Send>),
}

/// What has the baton.
#[derive(Debug, Default)]
pub(super) struct Holder {
    /// None is the driver, or an event of its own.
    pub(super) thread: Option<usize>,
    /// When that thread got it.
    since_ns: u64,
    /// The thread that passes the baton on has run for long enough, or says that others may.
    pub(super) gives_way: Option<usize>,
    /// It has run for long enough: no thread is starved for it.
    is_overdue: bool,
    /// For how long the thread that the policy starves could have had the baton and did not get it.
    starved_ns: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Status {
    Runnable,
    /// Waits for the condition or for its event, or for both.
    Blocked {
        condition: Option<Condition>,
        event: Option<When>,
        what: &'static str,
    },
    Ended,
}

pub(super) struct Thread {
    pub(super) name: String,
    pub(super) node: u32,
    pub(super) baton: Arc<Baton>,
    pub(super) status: Status,
    pub(super) woken: Woken,
    /// Its node has crashed: it unwinds when it gets the baton.
    pub(super) doomed: bool,
    /// It unwinds, and waits all the same.
    pub(super) waits_unwinding: bool,
    /// Notified when it has ended.
    pub(super) ended: Condition,
    /// Of the system's thread; 0 before it has run.
    pub(super) system_id: i32,
    runnable_ns: u64,
}

/// The last numbers that were given.
#[derive(Debug, Default)]
struct Given {
    events: u64,
    conditions: u64,
}

/// See the module.
pub(super) struct State {
    pub(super) now_ns: u64,
    pub(super) until_ns: u64,
    pub(super) choices: Choices,
    pub(super) trace: Trace,
    pub(super) schedule: Schedule,
    pub(super) priorities: Priorities,
    stalls: Stalls,
    pub(super) threads: Vec<Thread>,
    pub(super) queue: BTreeMap<When, Event>,
    pub(super) failure: Option<String>,
    /// Threads that are doomed and have not ended.
    pub(super) doomed: usize,
    /// The world ends: only doomed threads run.
    pub(super) ending: bool,
    pub(super) holder: Holder,
    /// Steps that the run leaves out.
    pub(super) left_out: Vec<Mutant>,
    given: Given,
    candidates: Vec<usize>,
}

impl State {
    pub(super) fn new(mut choices: Choices, schedule: Schedule) -> Self {
        let priorities = Priorities::new(&schedule.policy, &mut choices);
        let stalls = Stalls::new(&schedule.policy, &mut choices);
        Self {
            now_ns: 0,
            until_ns: 0,
            choices,
            trace: Trace::default(),
            schedule,
            priorities,
            stalls,
            threads: Vec::new(),
            queue: BTreeMap::new(),
            failure: None,
            doomed: 0,
            ending: false,
            holder: Holder::default(),
            left_out: Vec::new(),
            given: Given::default(),
            candidates: Vec::new(),
        }
    }

    pub(super) fn note(&mut self, thread: Option<usize>, what: &'static str, numbers: [u64; 2]) {
        self.trace.note(Note { now_ns: self.now_ns, thread, what, numbers });
    }

    pub(super) fn condition(&mut self) -> Condition {
        self.given.conditions += 1;
        Condition(self.given.conditions)
    }

    pub(super) fn add(&mut self, name: &str, node: u32) -> (usize, Arc<Baton>) {
        let baton = Arc::new(Baton::default());
        let ended = self.condition();
        self.threads.push(Thread {
            name: name.to_owned(),
            node,
            baton: Arc::clone(&baton),
            status: Status::Runnable,
            woken: Woken::Late,
            doomed: self.ending,
            waits_unwinding: false,
            ended,
            system_id: 0,
            runnable_ns: self.now_ns,
        });
        self.doomed += usize::from(self.ending);
        self.priorities.add(&mut self.choices);
        (self.threads.len() - 1, baton)
    }

    pub(super) fn queue(&mut self, at_ns: u64, event: Event) -> When {
        self.given.events += 1;
        let when = (at_ns.max(self.now_ns), self.given.events);
        self.queue.insert(when, event);
        when
    }

    pub(super) fn block(&mut self, thread: usize, condition: Option<Condition>, until_ns: Option<u64>, what: &'static str) {
        let event = until_ns.map(|at_ns| self.queue(at_ns, Event::Wake(thread)));
        self.threads[thread].status = Status::Blocked { condition, event, what };
        self.note(Some(thread), what, [condition.map_or(0, |condition| condition.0), until_ns.unwrap_or(0)]);
    }

    pub(super) fn wake(&mut self, thread: usize, woken: Woken) {
        let now_ns = self.now_ns;
        let thread = &mut self.threads[thread];
        if let Status::Blocked { event, .. } = thread.status {
            if let Some(event) = event {
                self.queue.remove(&event);
            }
            (thread.status, thread.woken, thread.runnable_ns) = (Status::Runnable, woken, now_ns);
            thread.waits_unwinding = false;
        }
    }

    /// Ends the waits for a condition, in the order of the threads; all of them or one.
    pub(super) fn notify(&mut self, condition: Condition, most: usize) {
        let waits = |thread: &Thread| matches!(thread.status, Status::Blocked { condition: Some(c), .. } if c == condition);
        let mut waiting: Vec<usize> = (0..self.threads.len()).filter(|&thread| waits(&self.threads[thread])).collect();
        if most < waiting.len() {
            let first = self.choices.below(Subsystem::Schedule, waiting.len() as u64);
            waiting.rotate_left(usize::try_from(first).unwrap_or(0));
        }
        waiting.into_iter().take(most).for_each(|thread| self.wake(thread, Woken::Notified));
    }

    /// The threads of a node, or all, end at their next point.
    pub(super) fn doom(&mut self, node: Option<u32>) {
        for thread in &mut self.threads {
            if node.is_none_or(|node| node == thread.node) && !thread.doomed && thread.status != Status::Ended {
                thread.doomed = true;
                self.doomed += 1;
            }
        }
    }

    /// The running thread comes to a point: for how long it is stalled there, if it is.
    pub(super) fn stalls(&mut self) -> Option<u64> {
        self.stalls.step(self.schedule.stalls_per_million, &mut self.choices)
    }

    /// A thread comes to an inner point. Whether it has run for long enough.
    pub(super) fn spend(&mut self, thread: usize) -> bool {
        self.now_ns += STEP_NS;
        let is_overdue = self.now_ns - self.holder.since_ns > QUANTUM_NS;
        if is_overdue {
            (self.holder.gives_way, self.holder.is_overdue) = (Some(thread), true);
        }
        is_overdue
    }

    /// The thread that has the baton pays for what it has done. At an inner point of a schedule by priorities, which is each of
    /// them, it has paid for a step, and a slice for each would leave no time to those below it.
    pub(super) fn pay_slice(&mut self, own: usize) {
        let is_by_priority = matches!(self.schedule.policy, Policy::Pct { .. });
        if is_by_priority && self.threads[own].status == Status::Runnable && self.holder.gives_way.is_none() {
            return;
        }
        self.now_ns += SLICE_NS_MIN + self.choices.below(Subsystem::Clock, SLICE_NS_MORE + 1);
    }

    /// A doomed thread, which goes before all others.
    pub(super) fn pick_doomed(&mut self) -> Option<usize> {
        if self.doomed == 0 {
            return None;
        }
        let unwinds = |thread: &&Thread| thread.doomed && thread.status != Status::Ended;
        let next = self.threads.iter().position(|thread| unwinds(&thread) && !thread.waits_unwinding);
        // At the end all threads unwind, and none is left that would end the wait of another.
        let next = next.or_else(|| self.threads.iter().position(|thread| unwinds(&thread)).filter(|_| self.ending))?;
        self.wake(next, Woken::Late);
        Some(next)
    }

    /// The thread that runs next, of those that can. Choice 0 is the one that has the baton, if it does not give way, else the
    /// first one.
    pub(super) fn pick(&mut self, own: Option<usize>) -> Option<usize> {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        candidates.extend((0..self.threads.len()).filter(|&thread| self.threads[thread].status == Status::Runnable));
        let gives_way = self.holder.gives_way.take();
        let is_overdue = std::mem::take(&mut self.holder.is_overdue);
        if let Some(at) = candidates.iter().position(|candidate| Some(*candidate) == own) {
            candidates[..=at].rotate_right(1);
            if gives_way == own {
                candidates.rotate_left(1);
            }
        }
        if let Policy::Starve(name) = &self.schedule.policy
            && !is_overdue
            && candidates.iter().any(|&thread| self.threads[thread].name != *name)
        {
            let (threads, now_ns) = (&self.threads, self.now_ns + self.holder.starved_ns);
            candidates.retain(|&thread| threads[thread].name != *name || now_ns - threads[thread].runnable_ns > STARVED_NS);
        }
        let next = match self.schedule.policy {
            Policy::Pct { .. } => {
                let (threads, now_ns) = (&self.threads, self.now_ns);
                let is_overtaken = |&&thread: &&usize| now_ns - threads[thread].runnable_ns > OVERTAKEN_NS;
                if let Some(&overtaken) = candidates.iter().filter(is_overtaken).min_by_key(|&&thread| threads[thread].runnable_ns)
                {
                    self.priorities.go_ahead(overtaken);
                }
                self.priorities.highest(&candidates)
            }
            _ if candidates.is_empty() => None,
            _ => {
                let drawn = self.choices.below(Subsystem::Schedule, candidates.len() as u64);
                candidates.get(usize::try_from(drawn).unwrap_or(0)).copied()
            }
        };
        self.candidates = candidates;
        if let Some(next) = next {
            let could_run_ns = self.now_ns - self.threads[next].runnable_ns;
            if Some(next) != own && matches!(&self.schedule.policy, Policy::Starve(name) if *name == self.threads[next].name) {
                self.holder.starved_ns += could_run_ns;
            }
            self.threads[next].runnable_ns = self.now_ns;
            if Some(next) != own || gives_way.is_some() {
                self.holder.since_ns = self.now_ns;
            }
        }
        next
    }

    /// Which threads wait for what, when nothing can end a wait any more; none when all have ended.
    pub(super) fn deadlock(&self) -> Option<String> {
        let mut text = String::new();
        for thread in &self.threads {
            if let Status::Blocked { what, .. } = thread.status {
                let _ = write!(text, "{}{}: {what}", if text.is_empty() { "deadlock: " } else { "; " }, thread.title());
            }
        }
        (!text.is_empty()).then_some(text)
    }
}

impl Thread {
    /// Name and node, for reports.
    pub(super) fn title(&self) -> String {
        format!("{} of node {}", self.name, self.node)
    }
}
