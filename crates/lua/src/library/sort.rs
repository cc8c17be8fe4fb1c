//! `table.sort`: quicksort in the order of comparisons of Lua 5.1, so that equal elements end where they do there.
//!
//! A comparison may call a function of Lua, so the algorithm is a machine that stops at each comparison.

use crate::value::{LuaValue, TableRef};
use crate::vm::context::{Context, Continuation, Stepped};
use crate::vm::error::compare_error;
use crate::vm::state::Fault;

/// The comparison whose outcome the machine waits for.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    /// For a range to begin with.
    Nothing,
    /// `a[high] < a[low]`
    HighLow,
    /// `a[middle] < a[low]`
    MiddleLow,
    /// `a[high] < a[middle]`
    HighMiddle,
    /// `a[i] < pivot`, upwards
    Up,
    /// `pivot < a[j]`, downwards
    Down,
}

#[derive(Debug)]
struct Sorter {
    table: TableRef,
    /// Ranges that are still to be sorted, the next one last.
    ranges: Vec<(i64, i64)>,
    low: i64,
    high: i64,
    i: i64,
    j: i64,
    pivot: LuaValue,
    waiting: Waiting,
    /// The outcome of the last comparison, while the run is suspended.
    paused: Option<bool>,
}

/// Comparisons without a call between two looks at the budget.
const BATCH: usize = 256;

pub(super) fn sort(context: &mut Context<'_>) -> Stepped {
    let table = context.table(0)?;
    let length = context.state.heap.table(table).length() as i64;
    if !context.get(1).is_nil() {
        context.function(1)?;
    }
    let sorter = Sorter {
        table,
        ranges: vec![(1, length)],
        low: 0,
        high: 0,
        i: 0,
        j: 0,
        pivot: LuaValue::Nil,
        waiting: Waiting::Nothing,
        paused: None,
    };
    go_on(Box::new(sorter), context, false)
}

/// Sorts until a function has to be called.
fn go_on(mut sorter: Box<Sorter>, context: &mut Context<'_>, answer: bool) -> Stepped {
    let (mut answer, mut compared) = (answer, 0);
    while let Some((left, right)) = sorter.next_comparison(context, answer)? {
        if context.get(1).is_nil() {
            if let Some(truth) = context.state.plain_order(false, left, right) {
                answer = truth;
                compared += 1;
                if compared % BATCH == 0 {
                    context.charge(BATCH / 4);
                    if context.has_to_pause() {
                        sorter.paused = Some(answer);
                        return context.go_on_later(sorter);
                    }
                }
                continue;
            }
            let Some((method, _)) = context.state.order_method(false, left, right) else {
                return Err(compare_error(context.state, context.code, left, right));
            };
            context.state.push(method);
        } else {
            let function = context.get(1);
            context.state.push(function);
        }
        context.state.push(left);
        context.state.push(right);
        return context.call_then(2, sorter);
    }
    context.return_none()
}

impl Sorter {
    fn get(&self, context: &mut Context<'_>, index: i64) -> LuaValue {
        match usize::try_from(index) {
            Ok(index) => context.state.heap.table(self.table).get_index(index),
            Err(_) => context.state.heap.get(self.table, LuaValue::Number(index as f64)),
        }
    }

    fn set(&self, context: &mut Context<'_>, index: i64, value: LuaValue) -> Result<(), Fault> {
        let key = LuaValue::Number(index as f64);
        if context.state.heap.replace(self.table, key, value) {
            return Ok(());
        }
        context.raw_set(self.table, key, value)
    }

    fn swap(&self, context: &mut Context<'_>, i: i64, j: i64) -> Result<(), Fault> {
        let (a, b) = (self.get(context, i), self.get(context, j));
        self.set(context, i, b)?;
        self.set(context, j, a)
    }

    /// The next two values to compare, given the outcome of the last comparison; `None` when everything is sorted.
    fn next_comparison(&mut self, context: &mut Context<'_>, answer: bool) -> Result<Option<(LuaValue, LuaValue)>, Fault> {
        let middle = i64::midpoint(self.low, self.high);
        match self.waiting {
            Waiting::Nothing => return Ok(self.begin_range(context)),
            Waiting::HighLow => {
                if answer {
                    self.swap(context, self.low, self.high)?;
                }
                if self.high - self.low == 1 {
                    return Ok(self.begin_range(context));
                }
                self.waiting = Waiting::MiddleLow;
                return Ok(Some((self.get(context, middle), self.get(context, self.low))));
            }
            Waiting::MiddleLow => {
                if !answer {
                    self.waiting = Waiting::HighMiddle;
                    return Ok(Some((self.get(context, self.high), self.get(context, middle))));
                }
                self.swap(context, middle, self.low)?;
                return self.partition(context, middle);
            }
            Waiting::HighMiddle => {
                if answer {
                    self.swap(context, middle, self.high)?;
                }
                return self.partition(context, middle);
            }
            Waiting::Up => {
                if answer {
                    if self.i > self.high {
                        return Err(context.error("invalid order function for sorting"));
                    }
                    return Ok(Some(self.up(context)));
                }
                return Ok(Some(self.down(context)));
            }
            Waiting::Down => {
                if answer {
                    if self.j < self.low {
                        return Err(context.error("invalid order function for sorting"));
                    }
                    return Ok(Some(self.down(context)));
                }
            }
        }
        if self.j < self.i {
            self.swap(context, self.high - 1, self.i)?;
            self.split();
            return Ok(self.begin_range(context));
        }
        self.swap(context, self.i, self.j)?;
        Ok(Some(self.up(context)))
    }

    fn begin_range(&mut self, context: &mut Context<'_>) -> Option<(LuaValue, LuaValue)> {
        loop {
            (self.low, self.high) = self.ranges.pop()?;
            if self.low < self.high {
                self.waiting = Waiting::HighLow;
                return Some((self.get(context, self.high), self.get(context, self.low)));
            }
        }
    }

    fn partition(&mut self, context: &mut Context<'_>, middle: i64) -> Result<Option<(LuaValue, LuaValue)>, Fault> {
        if self.high - self.low == 2 {
            return Ok(self.begin_range(context));
        }
        self.pivot = self.get(context, middle);
        self.swap(context, middle, self.high - 1)?;
        (self.i, self.j) = (self.low, self.high - 1);
        Ok(Some(self.up(context)))
    }

    fn up(&mut self, context: &mut Context<'_>) -> (LuaValue, LuaValue) {
        self.i += 1;
        self.waiting = Waiting::Up;
        (self.get(context, self.i), self.pivot)
    }

    fn down(&mut self, context: &mut Context<'_>) -> (LuaValue, LuaValue) {
        self.j -= 1;
        self.waiting = Waiting::Down;
        (self.pivot, self.get(context, self.j))
    }

    /// Both sides of the pivot are to be sorted, the smaller one first.
    fn split(&mut self) {
        let (left, right) = ((self.low, self.i - 1), (self.i + 1, self.high));
        if self.i - self.low < self.high - self.i {
            self.ranges.extend([right, left]);
        } else {
            self.ranges.extend([left, right]);
        }
    }
}

impl Continuation for Sorter {
    fn resume(mut self: Box<Self>, context: &mut Context<'_>, first: usize) -> Stepped {
        let answer = match self.paused.take() {
            Some(answer) => answer,
            None => context.take_result(first).is_true(),
        };
        go_on(self, context, answer)
    }

    fn mark(&self, mark: &mut dyn FnMut(LuaValue)) {
        mark(LuaValue::Table(self.table));
        mark(self.pivot);
    }
}
