//! One function: what its registers hold before each instruction, and whom it calls.

use super::held::{CALLS, Captured, Held, Registers};
use super::search::{Search, TOO_MUCH};
use super::{CallArgument, CallSite, Part, Rest, Unseen};
use crate::instruction::{Instruction, Operand};
use crate::proto::{Capture, Constant, Proto};

/// Iterations of a loop whose end is a number that is written.
const ITERATIONS_MAX: f64 = 100_000.0;

/// Why a step ends the search.
type Step = Result<Option<Registers>, &'static str>;

/// A way through a function.
pub(super) struct Flow<'s, 'p> {
    search: &'s mut Search<'p>,
    number: usize,
    proto: &'p Proto,
    /// Where jumps lead to.
    is_target: Vec<bool>,
    /// What is known there.
    targets: Vec<Option<Registers>>,
    /// A jump backward has brought something new.
    again: bool,
}

impl<'s, 'p> Flow<'s, 'p> {
    pub(super) fn new(search: &'s mut Search<'p>, number: usize) -> Self {
        let proto = search.functions[number].proto;
        search.repeats |= number > 0 && search.root.map(usize::from) != Some(number);
        let mut is_target = vec![false; proto.code.len() + 2];
        for (pc, instruction) in proto.code.iter().enumerate() {
            let skips = matches!(instruction, Instruction::LoadBoolean { skip: true, .. }).then_some(pc + 2);
            let to = instruction.target().and_then(|to| usize::try_from(to).ok());
            to.into_iter().chain(skips).filter(|to| *to < proto.code.len()).for_each(|to| is_target[to] = true);
        }
        let targets = vec![None; is_target.len()];
        Self { search, number, proto, is_target, targets, again: true }
    }

    pub(super) fn run(mut self) -> Result<(), Unseen> {
        let known = self.search.sites.len();
        let parameters = self.search.functions[self.number].parameters.clone().unwrap_or_default();
        while std::mem::take(&mut self.again) {
            let budget = self.search.budget.checked_sub(self.proto.code.len());
            self.search.budget = budget.ok_or(Unseen { line: self.line(0), what: TOO_MUCH })?;
            self.search.sites.truncate(known);
            let mut current = Some(Registers::new(&parameters));
            for pc in 0..self.proto.code.len() {
                if self.is_target[pc] {
                    if let Some(falls) = current.take() {
                        self.join(pc, falls);
                    }
                    current = self.targets[pc].clone();
                }
                // Nothing leads here, or not yet.
                let Some(registers) = current.take() else { continue };
                current = self.step(pc, registers).map_err(|what| Unseen { line: self.line(pc), what })?;
            }
        }
        Ok(())
    }

    fn line(&self, pc: usize) -> u32 {
        self.proto.lines.get(pc).copied().unwrap_or_default()
    }

    /// What is known behind an instruction; nothing where the next one does not follow it.
    fn step(&mut self, pc: usize, mut registers: Registers) -> Step {
        let instruction = self.proto.code[pc];
        let held = |register: u8| registers.held(register);
        let escapes = |operand: Operand| !operand.is_constant() && registers.held(operand.index() as u8).is_special();
        let mut result = Held::Unknown;
        match instruction {
            Instruction::Move { b, .. } => result = held(b),
            Instruction::LoadConstant { k, .. } => result = Held::Constant(k),
            Instruction::GetGlobal { k, .. } => {
                result = self.string(k).and_then(Held::of_global).ok_or("a global that may lead anywhere")?;
            }
            Instruction::GetUpvalue { b, .. } => {
                let function = &self.search.functions[self.number];
                let upvalue = usize::from(b);
                result = function.upvalues[upvalue].filter(|_| !function.sets[upvalue]).unwrap_or(Held::Unknown);
            }
            Instruction::SetUpvalue { a, .. } => self.keep(held(a))?,
            Instruction::GetField { b, k, .. } => match held(b) {
                Held::Host if self.string(k).is_some_and(|name| CALLS.contains(&name)) => result = Held::Call,
                Held::Host if self.string(k) == Some(b"register_function") => result = Held::Register,
                Held::Call | Held::Register | Held::Mixed => return Err(HIDDEN),
                _ => {}
            },
            Instruction::GetConstant { b, k, .. } => match held(b) {
                list @ (Held::Keys | Held::Arguments) if let Constant::Number(number) = self.proto.constants[k as usize] => {
                    result = element(list, number);
                }
                Held::Host | Held::Call | Held::Register | Held::Mixed => return Err(HIDDEN),
                _ => {}
            },
            Instruction::GetTable { b, c, .. } => match held(b) {
                _ if held(c).is_special() => return Err(HIDDEN),
                Held::Keys => result = Held::Key,
                Held::Arguments => result = Held::Argument,
                Held::Host | Held::Call | Held::Register | Held::Mixed => return Err(HIDDEN),
                _ => {}
            },
            Instruction::SetTable { a, key, value } => {
                if held(a).is_special() || held(key).is_special() || escapes(value) {
                    return Err(KEPT);
                }
                self.search.lose(held(a));
                self.keep_operand(&registers, value)?;
            }
            Instruction::SetField { a, value, .. } | Instruction::SetConstant { a, value, .. } => {
                if held(a).is_special() || escapes(value) {
                    return Err(KEPT);
                }
                self.search.lose(held(a));
                self.keep_operand(&registers, value)?;
            }
            Instruction::SetGlobal { a, .. } => self.keep(held(a))?,
            Instruction::Method { b, .. } if held(b).is_special() => return Err(HIDDEN),
            Instruction::SetList { a, count, .. } => {
                let last = if count == 0 { 255 } else { usize::from(a) + usize::from(count) };
                let values: Vec<Held> = registers.from(usize::from(a) + 1).take(last.saturating_sub(usize::from(a))).collect();
                values.into_iter().try_for_each(|value| self.keep(value))?;
            }
            Instruction::Call { a, b, .. } | Instruction::TailCall { a, b } => {
                let results = self.call(pc, &registers, a, b)?;
                if matches!(instruction, Instruction::TailCall { .. }) {
                    return Ok(None);
                }
                let Instruction::Call { c, .. } = instruction else { return Ok(None) };
                self.set_from(&mut registers, a, Held::Unknown)?;
                return self.set_results(registers, (a, c), results).map(Some);
            }
            Instruction::IteratorCall { a, c } => return self.iterator_call(pc, registers, (a, c)),
            Instruction::IteratorLoop { a, to } => {
                let mut taken = registers.clone();
                self.set(&mut taken, a.saturating_add(2), Held::Unknown)?;
                self.jump(pc, to, taken, true);
                return Ok(Some(registers));
            }
            Instruction::ForPrepare { a, to } => {
                let is_bounded = self.is_bounded(&registers, a);
                self.search.repeats = true;
                if !is_bounded {
                    self.search.endless = self.search.endless.or(Some(self.line(pc)));
                }
                self.set(&mut registers, a, Held::Unknown)?;
                self.jump(pc, to, registers, true);
                return Ok(None);
            }
            Instruction::ForLoop { a, to } => {
                self.set(&mut registers, a, Held::Unknown)?;
                self.set(&mut registers, a.saturating_add(3), Held::Unknown)?;
                self.jump(pc, to, registers.clone(), true);
                return Ok(Some(registers));
            }
            Instruction::Closure { a, prototype } => {
                self.close_over(&mut registers, a, prototype)?;
                return Ok(Some(registers));
            }
            Instruction::Close { a } => {
                registers.0[usize::from(a)..].iter_mut().for_each(|register| register.captured = Captured::No);
                return Ok(Some(registers));
            }
            Instruction::TestSet { a, b, to, .. } => {
                let mut taken = registers.clone();
                self.set(&mut taken, a, held(b))?;
                self.jump(pc, to, taken, false);
                return Ok(Some(registers));
            }
            Instruction::LoadBoolean { a, skip: true, .. } => {
                self.set(&mut registers, a, Held::Unknown)?;
                self.jump(pc, pc as i32 + 2, registers, false);
                return Ok(None);
            }
            Instruction::Jump { to } | Instruction::Loop { to } => {
                self.jump(pc, to, registers, false);
                return Ok(None);
            }
            Instruction::Return { a, b } => {
                // What the script itself returns becomes a reply.
                if self.number > 0 {
                    let count = if b == 0 { 256 } else { usize::from(b) - 1 };
                    let values: Vec<Held> = registers.from(usize::from(a)).take(count).collect();
                    values.into_iter().try_for_each(|value| self.keep(value))?;
                }
                return Ok(None);
            }
            Instruction::Length { .. } => result = Held::Count,
            Instruction::Concat { b, c, .. } => {
                result = self.concat((b..=c).map(held));
            }
            Instruction::AddConstant { b, .. } | Instruction::SubConstant { b, .. } | Instruction::DivConstant { b, .. }
                if held(b) == Held::Count =>
            {
                result = Held::Count;
            }
            other => {
                if let Some(to) = other.target() {
                    self.jump(pc, to, registers.clone(), false);
                }
            }
        }
        for register in 0..=u8::MAX {
            if instruction.sets(register) {
                self.set(&mut registers, register, Held::Unknown)?;
            }
        }
        if let Some(a) = destination(instruction) {
            self.set(&mut registers, a, result)?;
        }
        Ok(Some(registers))
    }

    /// What a text is built of; nothing where that is not known.
    fn parts(&self, held: Held) -> Option<Vec<Part>> {
        Some(match held {
            Held::Constant(k) => vec![Part::Constant(self.string(k)?.into())],
            Held::Key => vec![Part::Key(None)],
            Held::KeyAt(number) => vec![Part::Key(Some(number))],
            Held::Argument => vec![Part::Argument(None)],
            Held::ArgumentAt(number) => vec![Part::Argument(Some(number))],
            Held::Built(number) => self.search.built[usize::from(number)].to_vec(),
            _ => return None,
        })
    }

    fn iterator_call(&mut self, pc: usize, mut registers: Registers, (a, c): (u8, u8)) -> Step {
        self.iterate(pc, &registers, a)?;
        let given = match (registers.held(a), registers.held(a.saturating_add(1))) {
            (Held::KeyIterator, Held::Keys) => Some(Held::Key),
            (Held::ArgumentIterator, Held::Arguments) => Some(Held::Argument),
            _ => None,
        };
        self.set_from(&mut registers, a.saturating_add(3), Held::Unknown)?;
        if let Some(given) = given.filter(|_| c >= 2) {
            self.set(&mut registers, a.saturating_add(4), given)?;
        }
        Ok(Some(registers))
    }

    fn concat(&mut self, texts: impl Iterator<Item = Held>) -> Held {
        let parts: Option<Vec<Vec<Part>>> = texts.map(|text| self.parts(text)).collect();
        parts.map_or(Held::Unknown, |parts| self.search.build(parts.concat()))
    }

    /// A register gets a value, which inner functions that see it may find there.
    fn set(&mut self, registers: &mut Registers, register: u8, held: Held) -> Result<(), &'static str> {
        let place = &mut registers.0[usize::from(register)];
        let captured = place.captured;
        if captured == Captured::Set {
            if held.is_special() {
                return Err(KEPT);
            }
            place.held = Held::Unknown;
        } else {
            place.held = held;
        }
        if captured == Captured::Read {
            let inner: Vec<u16> =
                (0..self.proto.prototypes.len() as u32).filter_map(|p| self.search.inner(self.number, p)).collect();
            for number in inner {
                self.captured_as(number, Capture::Register(register), held);
            }
        }
        if captured == Captured::Set {
            self.search.lose(held);
        }
        Ok(())
    }

    fn set_from(&mut self, registers: &mut Registers, first: u8, held: Held) -> Result<(), &'static str> {
        (first..=u8::MAX).try_for_each(|register| self.set(registers, register, held))
    }

    /// A function is made.
    fn close_over(&mut self, registers: &mut Registers, a: u8, prototype: u32) -> Result<(), &'static str> {
        let Some(number) = self.search.inner(self.number, prototype) else { return Err(TOO_MUCH) };
        self.set(registers, a, Held::Function(number))?;
        let function = &self.search.functions[usize::from(number)];
        let (captures, sets) = (&function.proto.captures, function.sets.clone());
        for (upvalue, (capture, is_set)) in captures.iter().zip(sets).enumerate() {
            let held = match *capture {
                Capture::Register(register) => {
                    let place = &mut registers.0[usize::from(register)];
                    let held = place.held;
                    place.captured = place.captured.max(if is_set { Captured::Set } else { Captured::Read });
                    if place.captured == Captured::Set {
                        if held.is_special() {
                            return Err(KEPT);
                        }
                        place.held = Held::Unknown;
                        self.search.lose(held);
                        Held::Unknown
                    } else {
                        held
                    }
                }
                Capture::Upvalue(outer) => {
                    let own = &self.search.functions[self.number];
                    let outer = usize::from(outer);
                    own.upvalues[outer].filter(|_| !own.sets[outer]).unwrap_or(Held::Unknown)
                }
            };
            self.search.capture(number, upvalue, held);
        }
        Ok(())
    }

    /// Inner functions see a new value of a variable.
    fn captured_as(&mut self, number: u16, capture: Capture, held: Held) {
        let captures = &self.search.functions[usize::from(number)].proto.captures;
        let upvalue = captures.iter().position(|other| *other == capture);
        if let Some(upvalue) = upvalue {
            self.search.capture(number, upvalue, held);
        }
    }

    /// A value gets to where it is not followed.
    fn keep(&mut self, held: Held) -> Result<(), &'static str> {
        if held.is_special() {
            return Err(KEPT);
        }
        self.search.lose(held);
        Ok(())
    }

    fn keep_operand(&mut self, registers: &Registers, value: Operand) -> Result<(), &'static str> {
        if value.is_constant() { Ok(()) } else { self.keep(registers.held(value.index() as u8)) }
    }

    fn jump(&mut self, pc: usize, to: i32, registers: Registers, is_bounded: bool) {
        let Ok(to) = usize::try_from(to) else { return };
        if to <= pc {
            self.search.repeats = true;
            if !is_bounded {
                self.search.endless = self.search.endless.or(Some(self.line(pc)));
            }
        }
        if self.join(to, registers) && to <= pc {
            self.again = true;
        }
    }

    /// True when anything new is known there.
    fn join(&mut self, to: usize, registers: Registers) -> bool {
        let Some(target) = self.targets.get_mut(to) else { return false };
        let mut lost = Vec::new();
        let changed = match target {
            Some(known) => known.merge(&registers, |held| lost.push(held)),
            None => {
                *target = Some(registers);
                true
            }
        };
        // Which function it is follows from the path.
        lost.into_iter().for_each(|held| self.search.lose(held));
        changed
    }

    fn string(&self, k: u32) -> Option<&'p [u8]> {
        match &self.proto.constants[k as usize] {
            Constant::String(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Whether a loop over numbers has an end that is near.
    fn is_bounded(&self, registers: &Registers, a: u8) -> bool {
        let number = |register: u8| match registers.held(register) {
            Held::Constant(k) => match self.proto.constants[k as usize] {
                Constant::Number(number) => Some(number),
                _ => None,
            },
            _ => None,
        };
        let is_near = |register: u8| {
            registers.held(register) == Held::Count || number(register).is_some_and(|number| number.abs() <= ITERATIONS_MAX)
        };
        is_near(a) && is_near(a + 1) && number(a + 2).is_some_and(|step| step.abs() >= 1.0)
    }

    /// What a call returns first.
    fn call(&mut self, pc: usize, registers: &Registers, a: u8, b: u8) -> Result<Held, &'static str> {
        let first = usize::from(a) + 1;
        let is_open = b == 0;
        let given: Vec<Held> = match is_open {
            // Nothing is known from the first of the open arguments on.
            true => registers.from(first).collect(),
            false => registers.from(first).take(usize::from(b) - 1).collect(),
        };
        self.called(pc, registers.held(a), &given, is_open)
    }

    fn called(&mut self, pc: usize, callee: Held, given: &[Held], is_open: bool) -> Result<Held, &'static str> {
        match callee {
            Held::Call => self.site(pc, given, is_open).map(|()| Held::Unknown),
            Held::Host | Held::Keys | Held::Mixed => Err(HIDDEN),
            Held::Register => {
                if given.iter().any(|held| held.is_special()) {
                    return Err(HIDDEN);
                }
                match given {
                    [Held::Constant(k), Held::Function(number)] if !is_open => {
                        if self.string(*k).is_some_and(|name| self.search.wanted == Some(name)) {
                            self.search.root = Some(*number);
                            self.search.enter(*number, &[Held::Keys, Held::Arguments]);
                        }
                    }
                    others => others.iter().for_each(|held| self.search.lose(*held)),
                }
                Ok(Held::Unknown)
            }
            Held::Protected => {
                let Some((callee, given)) = given.split_first() else { return Ok(Held::Unknown) };
                // Its first result is a truth value.
                self.called(pc, *callee, given, is_open).map(|_| Held::Unknown)
            }
            Held::Function(number) => {
                let given: Vec<Held> =
                    given.iter().map(|held| if *held == Held::KeysFromHere { Held::Key } else { *held }).collect();
                let count = usize::from(self.search.functions[usize::from(number)].proto.parameters);
                given.iter().skip(count).try_for_each(|held| self.keep(*held))?;
                self.search.enter(number, &given);
                let calls = &mut self.search.functions[self.number].calls;
                if !calls.contains(&number) {
                    calls.push(number);
                }
                Ok(Held::Unknown)
            }
            Held::Unpack if given.first() == Some(&Held::Keys) => {
                if given[1..].iter().any(|held| held.is_special()) {
                    Err(HIDDEN)
                } else {
                    Ok(Held::KeysFromHere)
                }
            }
            Held::Pairs if given == [Held::Keys] => Ok(Held::KeyIterator),
            Held::Pairs if given == [Held::Arguments] => Ok(Held::ArgumentIterator),
            callee => {
                for held in given {
                    let is_fine = !held.is_special() || *held == Held::Keys && matches!(callee, Held::Harmless);
                    if !is_fine {
                        return Err(HIDDEN);
                    }
                    let changes_nothing = matches!(callee, Held::Harmless | Held::Unpack | Held::Pairs);
                    if *held != Held::Arguments || !changes_nothing {
                        self.search.lose(*held);
                    }
                }
                Ok(Held::Unknown)
            }
        }
    }

    fn set_results(&mut self, mut registers: Registers, (a, c): (u8, u8), results: Held) -> Result<Registers, &'static str> {
        match results {
            Held::KeysFromHere if c == 0 => self.set(&mut registers, a, Held::KeysFromHere)?,
            Held::KeysFromHere => (a..a + c - 1).try_for_each(|register| self.set(&mut registers, register, Held::Key))?,
            Held::KeyIterator => {
                self.set(&mut registers, a, Held::KeyIterator)?;
                self.set(&mut registers, a + 1, Held::Keys)?;
            }
            Held::ArgumentIterator => {
                self.set(&mut registers, a, Held::ArgumentIterator)?;
                self.set(&mut registers, a + 1, Held::Arguments)?;
            }
            _ => {}
        }
        Ok(registers)
    }

    /// Calls the iterator of a loop.
    fn iterate(&mut self, pc: usize, registers: &Registers, a: u8) -> Result<(), &'static str> {
        self.search.repeats = true;
        let given = [registers.held(a + 1), registers.held(a + 2)];
        match registers.held(a) {
            Held::KeyIterator if given[0] == Held::Keys => return Ok(()),
            Held::ArgumentIterator if given[0] == Held::Arguments => return Ok(()),
            // `next`
            Held::Harmless => {}
            Held::Function(number) => {
                let line = self.search.functions[usize::from(number)].proto.lines.first().copied();
                self.search.endless = self.search.endless.or(line);
            }
            _ => {}
        }
        self.called(pc, registers.held(a), &given, false).map(|_| ())
    }

    /// A call of the host's function.
    fn site(&mut self, pc: usize, given: &[Held], is_open: bool) -> Result<(), &'static str> {
        let is_known = |held: &&Held| matches!(held, Held::Constant(_)) || self.parts(**held).is_some();
        let count = if is_open { given.iter().take_while(is_known).count() } else { given.len() };
        let rest = match given.get(count) {
            Some(Held::KeysFromHere) => Rest::Keys,
            _ if is_open => Rest::Anything,
            _ => Rest::Nothing,
        };
        let given = &given[..count];
        if given.iter().any(|held| held.is_special()) {
            return Err(HIDDEN);
        }
        let arguments = given.iter().map(|held| self.argument(*held)).collect();
        self.search.sites.push(CallSite { arguments, rest, line: self.line(pc) });
        Ok(())
    }

    fn argument(&self, held: Held) -> CallArgument {
        match held {
            Held::Key | Held::KeyAt(_) => CallArgument::Key,
            Held::Argument | Held::ArgumentAt(_) | Held::Built(_) => {
                self.parts(held).map_or(CallArgument::Unknown, |parts| CallArgument::Built(parts.into()))
            }
            Held::Constant(k) => self.string(k).map_or(CallArgument::Unknown, |bytes| CallArgument::Constant(bytes.into())),
            _ => CallArgument::Unknown,
        }
    }
}

/// The element of the keys or of the arguments at a place that is written.
fn element(list: Held, number: f64) -> Held {
    let place = (number.fract() == 0.0 && (1.0..=255.0).contains(&number)).then_some(number as u8);
    match list {
        Held::Keys => place.map_or(Held::Key, Held::KeyAt),
        _ => place.map_or(Held::Argument, Held::ArgumentAt),
    }
}

/// `redis.call`, or the table of the keys, is used in a way that hides what it does.
const HIDDEN: &str = "`redis`, one of its functions or KEYS used otherwise than by its name";
/// It is kept where it is not followed.
const KEPT: &str = "`redis`, one of its functions or KEYS kept or changed";

/// The register that takes the result of an expression.
fn destination(instruction: Instruction) -> Option<u8> {
    match instruction {
        Instruction::Move { a, .. }
        | Instruction::LoadConstant { a, .. }
        | Instruction::GetGlobal { a, .. }
        | Instruction::GetUpvalue { a, .. }
        | Instruction::GetField { a, .. }
        | Instruction::GetConstant { a, .. }
        | Instruction::GetTable { a, .. }
        | Instruction::Length { a, .. }
        | Instruction::Concat { a, .. }
        | Instruction::AddConstant { a, .. }
        | Instruction::SubConstant { a, .. }
        | Instruction::DivConstant { a, .. } => Some(a),
        _ => None,
    }
}
