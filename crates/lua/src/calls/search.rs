//! The functions of a script, and what is known of each: gone through until nothing new is learnt.

use super::flow::Flow;
use super::held::Held;
use super::{CallArgument, CallSite, Calls, Part, Unseen};
use crate::instruction::Instruction;
use crate::proto::{Capture, Proto};

/// Times that all functions are gone through, beyond which the search ends.
const ROUNDS_MAX: usize = 50;
/// Instructions and functions of a script that is looked through.
const INSTRUCTIONS_MAX: usize = 20_000;
/// Instructions that are gone through, over all rounds.
const STEPS_MAX: usize = 200_000;
const FUNCTIONS_MAX: usize = 500;
/// Texts that are built, and parts of one.
const BUILT_MAX: usize = 200;
const PARTS_MAX: usize = 16;

/// A function of the script. It is one for all instances of its code.
#[derive(Debug)]
pub(super) struct Function<'p> {
    pub(super) proto: &'p Proto,
    /// Nothing is known of it while nothing has called it.
    pub(super) parameters: Option<Vec<Held>>,
    /// The same, while it was not made.
    pub(super) upvalues: Vec<Option<Held>>,
    /// Upvalues that a function sets.
    pub(super) sets: Vec<bool>,
    /// Functions that it calls.
    pub(super) calls: Vec<u16>,
    /// The function that it stands in.
    pub(super) parent: usize,
}

pub(super) const TOO_MUCH: &str = "more code than is looked through";

/// A search.
#[derive(Debug)]
pub(super) struct Search<'p> {
    pub(super) functions: Vec<Function<'p>>,
    pub(super) sites: Vec<CallSite>,
    pub(super) repeats: bool,
    pub(super) endless: Option<u32>,
    /// Texts that are built of what is known when the script begins.
    pub(super) built: Vec<Box<[Part]>>,
    /// The table of the arguments may have others meanwhile.
    pub(super) arguments_change: bool,
    /// Something new was learnt.
    pub(super) changed: bool,
    /// Instructions that may still be gone through.
    pub(super) budget: usize,
    /// The function of a library that is asked for, by the name that it is registered by.
    pub(super) wanted: Option<&'p [u8]>,
    /// Its number, once that is registered. It runs once for a call.
    pub(super) root: Option<u16>,
}

impl<'p> Search<'p> {
    pub(super) fn new(proto: &'p Proto, wanted: Option<&'p [u8]>) -> Self {
        let mut search = Self {
            functions: Vec::new(),
            sites: Vec::new(),
            repeats: false,
            endless: None,
            built: Vec::new(),
            arguments_change: false,
            changed: false,
            budget: STEPS_MAX,
            wanted,
            root: None,
        };
        search.add(proto, 0);
        search.functions[0].parameters = Some(Vec::new());
        search
    }

    /// Adds a function and those inside it, which have the numbers behind its own.
    fn add(&mut self, proto: &'p Proto, parent: usize) {
        if self.functions.len() > FUNCTIONS_MAX {
            return;
        }
        let number = self.functions.len();
        let upvalues = vec![None; proto.upvalues.len()];
        let (sets, calls) = (sets_of(proto), Vec::new());
        self.functions.push(Function { proto, parameters: None, upvalues, sets, calls, parent });
        proto.prototypes.iter().for_each(|inner| self.add(inner, number));
    }

    pub(super) fn run(mut self) -> Result<Calls, Unseen> {
        let instructions: usize = self.functions.iter().map(|function| function.proto.code.len()).sum();
        let too_much = Unseen { line: 1, what: TOO_MUCH };
        if instructions > INSTRUCTIONS_MAX || self.functions.len() > FUNCTIONS_MAX {
            return Err(too_much);
        }
        for _ in 0..ROUNDS_MAX {
            self.changed = false;
            self.sites.clear();
            for number in 0..self.functions.len() {
                if self.functions[number].parameters.is_some() {
                    Flow::new(&mut self, number).run()?;
                }
            }
            if !self.changed && self.wanted.is_some() && self.root.is_none() {
                return Err(Unseen { line: 1, what: "a function that is registered otherwise than by its name and itself" });
            }
            if !self.changed {
                self.find_recursion();
                self.forget_arguments();
                let nests = self.nests();
                return Ok(Calls { sites: self.sites, repeats: self.repeats, nests, endless: self.endless });
            }
        }
        Err(too_much)
    }

    /// The number of a function that stands in another one.
    pub(super) fn inner(&self, parent: usize, prototype: u32) -> Option<u16> {
        let mut inner = (parent + 1..self.functions.len()).filter(|number| self.functions[*number].parent == parent);
        inner.nth(prototype as usize).and_then(|number| u16::try_from(number).ok())
    }

    /// A function is called with these arguments.
    pub(super) fn enter(&mut self, number: u16, arguments: &[Held]) {
        let function = &mut self.functions[usize::from(number)];
        let count = usize::from(function.proto.parameters);
        let given = |index: usize| arguments.get(index).map_or(Held::Unknown, |held| held.elsewhere());
        let (before, mut lost) = (function.parameters.clone(), Vec::new());
        let after: Vec<Held> = match &before {
            None => (0..count).map(given).collect(),
            Some(known) => (0..count).map(|index| merged(known[index], given(index), &mut lost)).collect(),
        };
        self.changed |= before.as_ref() != Some(&after);
        function.parameters = Some(after);
        // What goes to `...` is not followed.
        lost.extend(arguments.iter().skip(count).copied());
        lost.into_iter().for_each(|held| self.lose(held));
    }

    /// What is not followed any more may be called by anything, itself included, with anything.
    pub(super) fn lose(&mut self, held: Held) {
        self.arguments_change |= held == Held::Arguments;
        let Held::Function(number) = held else { return };
        self.endless = self.endless.or(self.functions[usize::from(number)].proto.lines.first().copied());
        if self.functions[usize::from(number)]
            .parameters
            .as_ref()
            .is_none_or(|known| known.iter().any(|held| *held != Held::Unknown))
        {
            self.enter(number, &[]);
        }
    }

    /// An upvalue of a function is this.
    pub(super) fn capture(&mut self, number: u16, upvalue: usize, held: Held) {
        let mut lost = Vec::new();
        let known = &mut self.functions[usize::from(number)].upvalues[upvalue];
        let after = known.map_or(held.elsewhere(), |known| merged(known, held.elsewhere(), &mut lost));
        if *known != Some(after) {
            *known = Some(after);
            self.changed = true;
        }
        lost.into_iter().for_each(|held| self.lose(held));
    }

    /// A text that is built of parts; nothing is known of one of many.
    pub(super) fn build(&mut self, parts: Vec<Part>) -> Held {
        let is_known = parts.len() <= PARTS_MAX && parts.iter().filter(|part| part.is_any()).count() <= 1;
        let known = self.built.iter().position(|other| **other == *parts);
        if !is_known || known.is_none() && self.built.len() == BUILT_MAX {
            return Held::Unknown;
        }
        let number = known.unwrap_or_else(|| {
            self.built.push(parts.into());
            self.built.len() - 1
        });
        u16::try_from(number).map_or(Held::Unknown, Held::Built)
    }

    /// Where arguments may have changed, what is built of them is not known.
    fn forget_arguments(&mut self) {
        if !self.arguments_change {
            return;
        }
        for argument in self.sites.iter_mut().flat_map(|site| &mut site.arguments) {
            if matches!(argument, CallArgument::Built(parts) if parts.iter().any(|part| matches!(part, Part::Argument(_)))) {
                *argument = CallArgument::Unknown;
            }
        }
    }

    /// Whether functions that may run are called by others, or have loops within loops.
    fn nests(&self) -> bool {
        let root = usize::from(self.root.unwrap_or(0));
        let runs = |number: &usize| self.functions[*number].parameters.is_some();
        let is_called = (1..self.functions.len()).filter(runs).any(|number| number != root);
        is_called || has_nested_loops(self.functions[root].proto)
    }

    /// A function that calls itself may have no end.
    fn find_recursion(&mut self) {
        for number in 0..self.functions.len() {
            let (mut seen, mut rest) = (vec![false; self.functions.len()], self.functions[number].calls.clone());
            while let Some(next) = rest.pop().map(usize::from) {
                if next == number {
                    self.endless = self.endless.or(self.functions[number].proto.lines.first().copied());
                }
                if !std::mem::replace(&mut seen[next], true) {
                    rest.extend(&self.functions[next].calls);
                }
            }
        }
    }
}

fn merged(one: Held, other: Held, lost: &mut Vec<Held>) -> Held {
    let merged = one.merge(other);
    if one != other {
        lost.extend([one, other]);
    }
    merged
}

fn has_nested_loops(proto: &Proto) -> bool {
    // Each loop ends with a jump to its begin.
    let begin_of = |(pc, instruction): (usize, &Instruction)| {
        let to = instruction.target().and_then(|to| usize::try_from(to).ok())?;
        (to <= pc).then_some((to, pc))
    };
    let loops = || proto.code.iter().enumerate().filter_map(begin_of);
    loops().any(|(begin, end)| loops().any(|(inner, other)| other < end && inner >= begin))
}

/// Upvalues that a function, or one inside it, sets.
pub(crate) fn sets_of(proto: &Proto) -> Vec<bool> {
    let mut sets = vec![false; proto.upvalues.len()];
    for (pc, instruction) in proto.code.iter().enumerate() {
        match instruction {
            Instruction::SetUpvalue { b, .. } => sets[usize::from(*b)] = true,
            Instruction::Closure { prototype, .. } => {
                debug_assert!(pc < proto.code.len(), "an instruction stands in its function");
                let inner = &proto.prototypes[*prototype as usize];
                for (capture, is_set) in inner.captures.iter().zip(sets_of(inner)) {
                    if let Capture::Upvalue(upvalue) = capture {
                        sets[usize::from(*upvalue)] |= is_set;
                    }
                }
            }
            _ => {}
        }
    }
    sets
}
