//! Expressions into instructions.

use super::expression::{Binary, Expression, Key, Kind, NO_JUMP, Unary};
use super::function::{Function, Limit, NO_REGISTER, Outcome};
use crate::instruction::{Arithmetic, Compared, Instruction, Operand};
use crate::number_operations::arithmetic;
use crate::proto::Constant;

/// A function and the line that its next instructions are of.
pub(super) struct Generator<'a> {
    pub(super) function: &'a mut Function,
    pub(super) line: u32,
}

impl Generator<'_> {
    fn emit(&mut self, instruction: Instruction) -> usize {
        self.function.emit(instruction, self.line)
    }

    pub(super) fn string(&mut self, bytes: &[u8]) -> Outcome<u32> {
        self.function.constant(Constant::String(bytes.into()))
    }

    pub(super) fn load_nil(&mut self, from: u8, number: usize) {
        let here = self.function.code.len();
        if here as i32 > self.function.last_target {
            if here == 0 {
                if usize::from(from) >= self.function.active.len() {
                    return;
                }
            } else if let Some(Instruction::LoadNil { a, b }) = self.function.code.last_mut()
                && *a <= from
                && u16::from(from) <= u16::from(*b) + 1
            {
                *b = (*b).max(from + number as u8 - 1);
                return;
            }
        }
        self.emit(Instruction::LoadNil { a: from, b: from + number as u8 - 1 });
    }

    /// Asks a call or `...` for `results` values, or for all.
    pub(super) fn set_results(&mut self, e: &Expression, results: Option<usize>) -> Outcome<()> {
        let wanted = results.map_or(0, |results| results as u8 + 1);
        match e.kind {
            Kind::Call(at) => {
                if let Instruction::Call { c, .. } = &mut self.function.code[at] {
                    *c = wanted;
                }
            }
            Kind::Vararg(at) => {
                let free = self.function.free;
                if let Instruction::Vararg { a, b } = &mut self.function.code[at] {
                    (*a, *b) = (free, wanted);
                }
                self.function.reserve(1)?;
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn set_one_result(&mut self, e: &mut Expression) {
        match e.kind {
            Kind::Call(at) => {
                if let Instruction::Call { a, .. } = self.function.code[at] {
                    e.kind = Kind::Register(a);
                }
            }
            Kind::Vararg(at) => {
                if let Instruction::Vararg { b, .. } = &mut self.function.code[at] {
                    *b = 2;
                }
                e.kind = Kind::Relocatable(at);
            }
            _ => {}
        }
    }

    /// Turns a variable into its value.
    pub(super) fn discharge(&mut self, e: &mut Expression) {
        match e.kind {
            Kind::Local(register) => e.kind = Kind::Register(register),
            Kind::Upvalue(b) => e.kind = Kind::Relocatable(self.emit(Instruction::GetUpvalue { a: 0, b })),
            Kind::Global(k) => e.kind = Kind::Relocatable(self.emit(Instruction::GetGlobal { a: 0, k })),
            Kind::Indexed { table, key } => {
                if let Key::Register(register) = key {
                    self.function.release(register);
                }
                self.function.release(table);
                let instruction = match key {
                    Key::Register(c) => Instruction::GetTable { a: 0, b: table, c },
                    Key::Field(k) => Instruction::GetField { a: 0, b: table, k },
                    Key::Constant(k) => Instruction::GetConstant { a: 0, b: table, k },
                };
                e.kind = Kind::Relocatable(self.emit(instruction));
            }
            Kind::Call(_) | Kind::Vararg(_) => self.set_one_result(e),
            _ => {}
        }
    }

    fn discharge_to(&mut self, e: &mut Expression, register: u8) -> Outcome<()> {
        self.discharge(e);
        match e.kind {
            Kind::Nil => self.load_nil(register, 1),
            Kind::True | Kind::False => {
                self.emit(Instruction::LoadBoolean { a: register, value: e.kind == Kind::True, skip: false });
            }
            Kind::Constant(k) => {
                self.emit(Instruction::LoadConstant { a: register, k });
            }
            Kind::Number(number) => {
                let k = self.function.constant(Constant::Number(number))?;
                self.emit(Instruction::LoadConstant { a: register, k });
            }
            Kind::Relocatable(at) => self.function.code[at].set_destination(register),
            Kind::Register(from) => {
                if from != register {
                    self.emit(Instruction::Move { a: register, b: from });
                }
            }
            _ => return Ok(()),
        }
        e.kind = Kind::Register(register);
        Ok(())
    }

    fn discharge_to_any(&mut self, e: &mut Expression) -> Outcome<()> {
        if matches!(e.kind, Kind::Register(_)) {
            return Ok(());
        }
        self.function.reserve(1)?;
        self.discharge_to(e, self.function.free - 1)
    }

    fn put_in_register(&mut self, e: &mut Expression, register: u8) -> Outcome<()> {
        self.discharge_to(e, register)?;
        if let Kind::Jump(at) = e.kind {
            let mut list = e.when_true;
            self.function.append_jumps(&mut list, at as i32);
            e.when_true = list;
        }
        if e.has_jumps() {
            let (mut load_false, mut load_true) = (NO_JUMP as usize, NO_JUMP as usize);
            if self.function.needs_value(e.when_true) || self.function.needs_value(e.when_false) {
                let over = if matches!(e.kind, Kind::Jump(_)) { NO_JUMP } else { self.function.jump(self.line) as i32 };
                self.function.label();
                load_false = self.emit(Instruction::LoadBoolean { a: register, value: false, skip: true });
                self.function.label();
                load_true = self.emit(Instruction::LoadBoolean { a: register, value: true, skip: false });
                self.function.patch_to_here(over);
            }
            let end = self.function.label();
            self.function.patch_list_with(e.when_false, end, register, load_false);
            self.function.patch_list_with(e.when_true, end, register, load_true);
        }
        *e = Expression::new(Kind::Register(register));
        Ok(())
    }

    fn release_expression(&mut self, e: &Expression) {
        if let Kind::Register(register) = e.kind {
            self.function.release(register);
        }
    }

    pub(super) fn put_in_next_register(&mut self, e: &mut Expression) -> Outcome<()> {
        self.discharge(e);
        self.release_expression(e);
        self.function.reserve(1)?;
        self.put_in_register(e, self.function.free - 1)
    }

    pub(super) fn put_in_any_register(&mut self, e: &mut Expression) -> Outcome<u8> {
        self.discharge(e);
        if let Kind::Register(register) = e.kind {
            if !e.has_jumps() {
                return Ok(register);
            }
            if usize::from(register) >= self.function.active.len() {
                self.put_in_register(e, register)?;
                return Ok(register);
            }
        }
        self.put_in_next_register(e)?;
        Ok(if let Kind::Register(register) = e.kind { register } else { 0 })
    }

    pub(super) fn make_value(&mut self, e: &mut Expression) -> Outcome<()> {
        if e.has_jumps() {
            self.put_in_any_register(e)?;
        } else {
            self.discharge(e);
        }
        Ok(())
    }

    /// The constant that the expression is.
    fn as_constant(&mut self, e: &Expression) -> Outcome<Option<u32>> {
        if e.has_jumps() {
            return Ok(None);
        }
        let constant = match e.kind {
            Kind::Constant(k) => return Ok(Some(k)),
            Kind::Nil => Constant::Nil,
            Kind::True => Constant::Boolean(true),
            Kind::False => Constant::Boolean(false),
            Kind::Number(number) => Constant::Number(number),
            _ => return Ok(None),
        };
        self.function.constant(constant).map(Some)
    }

    fn make_operand(&mut self, e: &mut Expression) -> Outcome<Operand> {
        self.make_value(e)?;
        if let Some(k) = self.as_constant(e)?
            && k < Operand::CONSTANTS_MAX
        {
            e.kind = Kind::Constant(k);
            return Ok(Operand::constant(k));
        }
        self.put_in_any_register(e).map(Operand::register)
    }

    pub(super) fn store(&mut self, variable: &Expression, e: &mut Expression) -> Outcome<()> {
        match variable.kind {
            Kind::Local(register) => {
                self.release_expression(e);
                return self.put_in_register(e, register);
            }
            Kind::Upvalue(b) => {
                let a = self.put_in_any_register(e)?;
                self.emit(Instruction::SetUpvalue { a, b });
            }
            Kind::Global(k) => {
                let a = self.put_in_any_register(e)?;
                self.emit(Instruction::SetGlobal { a, k });
            }
            Kind::Indexed { table, key } => {
                let value = self.make_operand(e)?;
                self.emit(match key {
                    Key::Register(key) => Instruction::SetTable { a: table, key, value },
                    Key::Field(k) => Instruction::SetField { a: table, value, k },
                    Key::Constant(k) => Instruction::SetConstant { a: table, value, k },
                });
            }
            _ => {}
        }
        self.release_expression(e);
        Ok(())
    }

    /// `e:name`: the function and the object in two registers.
    pub(super) fn method(&mut self, e: &mut Expression, name: u32) -> Outcome<()> {
        let b = self.put_in_any_register(e)?;
        self.release_expression(e);
        let a = self.function.free;
        self.function.reserve(2)?;
        self.emit(Instruction::Method { a, b, k: name });
        e.kind = Kind::Register(a);
        Ok(())
    }

    /// Jumps when the expression is `when`. A constant is tested, too: a plain jump in its place would carry the jumps that wait
    /// for the next instruction, and they would be taken for ones without a value.
    fn jump_on(&mut self, e: &mut Expression, when: bool) -> Outcome<usize> {
        if let Kind::Relocatable(at) = e.kind
            && at + 1 == self.function.code.len()
            && let Instruction::Not { b, .. } = self.function.code[at]
        {
            self.function.code[at] = Instruction::Test { a: b, when: !when, to: NO_JUMP };
            return Ok(at);
        }
        self.discharge_to_any(e)?;
        self.release_expression(e);
        let b = if let Kind::Register(register) = e.kind { register } else { 0 };
        Ok(self.emit(Instruction::TestSet { a: NO_REGISTER, b, when, to: NO_JUMP }))
    }

    /// Goes on behind when the expression is true.
    pub(super) fn go_if_true(&mut self, e: &mut Expression) -> Outcome<()> {
        self.discharge(e);
        let jump = match e.kind {
            Kind::Constant(_) | Kind::Number(_) | Kind::True => NO_JUMP,
            Kind::Jump(at) => {
                self.function.code[at].invert();
                at as i32
            }
            _ => self.jump_on(e, false)? as i32,
        };
        self.function.append_jumps(&mut e.when_false, jump);
        self.function.patch_to_here(e.when_true);
        e.when_true = NO_JUMP;
        Ok(())
    }

    fn go_if_false(&mut self, e: &mut Expression) -> Outcome<()> {
        self.discharge(e);
        let jump = match e.kind {
            Kind::Nil | Kind::False => NO_JUMP,
            Kind::Jump(at) => at as i32,
            _ => self.jump_on(e, true)? as i32,
        };
        self.function.append_jumps(&mut e.when_true, jump);
        self.function.patch_to_here(e.when_false);
        e.when_false = NO_JUMP;
        Ok(())
    }

    fn not(&mut self, e: &mut Expression) -> Outcome<()> {
        self.discharge(e);
        match e.kind {
            Kind::Nil | Kind::False => e.kind = Kind::True,
            Kind::Constant(_) | Kind::Number(_) | Kind::True => e.kind = Kind::False,
            Kind::Jump(at) => self.function.code[at].invert(),
            Kind::Relocatable(_) | Kind::Register(_) => {
                self.discharge_to_any(e)?;
                self.release_expression(e);
                let b = if let Kind::Register(register) = e.kind { register } else { 0 };
                e.kind = Kind::Relocatable(self.emit(Instruction::Not { a: 0, b }));
            }
            _ => {}
        }
        std::mem::swap(&mut e.when_true, &mut e.when_false);
        self.function.remove_values(e.when_false);
        self.function.remove_values(e.when_true);
        Ok(())
    }

    /// `table[key]`; the table is in a register.
    pub(super) fn indexed(&mut self, table: &mut Expression, key: &mut Expression) -> Outcome<()> {
        let register = if let Kind::Register(register) | Kind::Local(register) = table.kind { register } else { 0 };
        self.make_value(key)?;
        let key = match self.as_constant(key)? {
            Some(k) if matches!(key.kind, Kind::Constant(_)) => Key::Field(k),
            Some(k) if matches!(key.kind, Kind::Number(_)) => Key::Constant(k),
            _ => Key::Register(self.put_in_any_register(key)?),
        };
        table.kind = Kind::Indexed { table: register, key };
        Ok(())
    }

    pub(super) fn prefix(&mut self, operator: Unary, e: &mut Expression) -> Outcome<()> {
        match operator {
            Unary::Not => return self.not(e),
            Unary::Negate => {
                if let Some(number) = e.numeral().filter(|number| !(-number).is_nan()) {
                    e.kind = Kind::Number(-number);
                    return Ok(());
                }
            }
            Unary::Length => {}
        }
        let b = self.put_in_any_register(e)?;
        self.release_expression(e);
        let instruction = if operator == Unary::Length { Instruction::Length { a: 0, b } } else { Instruction::Negate { a: 0, b } };
        *e = Expression::new(Kind::Relocatable(self.emit(instruction)));
        Ok(())
    }

    /// Prepares the left operand before the right one is read.
    pub(super) fn infix(&mut self, operator: Binary, left: &mut Expression) -> Outcome<()> {
        match operator {
            Binary::And => self.go_if_true(left),
            Binary::Or => self.go_if_false(left),
            Binary::Concat => self.put_in_next_register(left),
            Binary::Arithmetic(_) if left.numeral().is_some() => Ok(()),
            Binary::Equal(_) | Binary::Arithmetic(_) => self.make_operand(left).map(|_| ()),
            _ => self.make_comparable(left).map(|_| ()),
        }
    }

    pub(super) fn postfix(&mut self, operator: Binary, left: &mut Expression, right: &mut Expression) -> Outcome<()> {
        match operator {
            Binary::And => {
                self.discharge(right);
                self.function.append_jumps(&mut right.when_false, left.when_false);
                *left = *right;
                Ok(())
            }
            Binary::Or => {
                self.discharge(right);
                self.function.append_jumps(&mut right.when_true, left.when_true);
                *left = *right;
                Ok(())
            }
            Binary::Concat => self.concat(left, right),
            Binary::Arithmetic(operator) => self.arithmetic(operator, left, right),
            Binary::Equal(when) => self.equal(when, left, right),
            Binary::Less => self.order(false, left, right),
            Binary::LessEqual => self.order(true, left, right),
            Binary::Greater => self.order(false, right, left).map(|()| *left = *right),
            Binary::GreaterEqual => self.order(true, right, left).map(|()| *left = *right),
        }
    }

    fn concat(&mut self, left: &mut Expression, right: &mut Expression) -> Outcome<()> {
        self.make_value(right)?;
        let first = if let Kind::Register(register) = left.kind { register } else { 0 };
        if let Kind::Relocatable(at) = right.kind
            && let Instruction::Concat { b, .. } = &mut self.function.code[at]
        {
            debug_assert_eq!(u16::from(*b), u16::from(first) + 1, "a chain of concatenations is in adjacent registers");
            *b = first;
            self.release_expression(left);
            left.kind = Kind::Relocatable(at);
            return Ok(());
        }
        self.put_in_next_register(right)?;
        let last = if let Kind::Register(register) = right.kind { register } else { 0 };
        self.release_expression(right);
        self.release_expression(left);
        *left = Expression::new(Kind::Relocatable(self.emit(Instruction::Concat { a: 0, b: first, c: last })));
        Ok(())
    }

    fn release_both(&mut self, left: &Expression, right: &Expression) {
        // The higher register first: they are a stack.
        match (left.kind, right.kind) {
            (Kind::Register(a), Kind::Register(b)) if a > b => {
                self.function.release(a);
                self.function.release(b);
            }
            _ => {
                self.release_expression(right);
                self.release_expression(left);
            }
        }
    }

    fn arithmetic(&mut self, operator: Arithmetic, left: &mut Expression, right: &mut Expression) -> Outcome<()> {
        if let (Some(a), Some(b)) = (left.numeral(), right.numeral()) {
            let divides_by_zero = matches!(operator, Arithmetic::Div | Arithmetic::Mod) && b == 0.0;
            let result = arithmetic(operator, a, b);
            if !divides_by_zero && !result.is_nan() {
                left.kind = Kind::Number(result);
                return Ok(());
            }
        }
        let c = self.make_operand(right)?;
        let b = self.make_operand(left)?;
        self.release_both(left, right);
        let is_number = right.is_number_constant(self.function);
        let instruction = match (b.is_constant(), c.is_constant()) {
            (false, false) => of_registers(operator, b.index() as u8, c.index() as u8),
            (false, true) if is_number => of_constant(operator, b.index() as u8, c.index() as u32),
            _ => None,
        };
        let instruction = instruction.unwrap_or(Instruction::Arithmetic { operator, a: 0, left: b, right: c });
        *left = Expression::new(Kind::Relocatable(self.emit(instruction)));
        Ok(())
    }

    fn equal(&mut self, when: bool, left: &mut Expression, right: &mut Expression) -> Outcome<()> {
        let mut b = self.make_operand(right)?;
        let mut a = self.make_operand(left)?;
        if a.is_constant() && b.is_constant() {
            // Two constants are rare: the right one goes into a register.
            right.kind = Kind::Constant(b.index() as u32);
            self.put_in_next_register(right)?;
            b = Operand::register(if let Kind::Register(register) = right.kind { register } else { 0 });
        }
        self.release_both(left, right);
        if a.is_constant() {
            std::mem::swap(&mut a, &mut b);
        }
        let a = a.index() as u8;
        let instruction = if b.is_constant() {
            Instruction::EqualConstant { a, k: Compared::new(b.index() as u32, when), to: NO_JUMP }
        } else {
            Instruction::Equal { a, b: b.index() as u8, when, to: NO_JUMP }
        };
        *left = Expression::new(Kind::Jump(self.emit(instruction)));
        Ok(())
    }

    /// A number's constant, or a register.
    fn make_comparable(&mut self, e: &mut Expression) -> Outcome<Operand> {
        self.make_value(e)?;
        if e.numeral().is_some() || e.is_number_constant(self.function) {
            return self.make_operand(e);
        }
        self.put_in_any_register(e).map(Operand::register)
    }

    /// `left < right` or `left <= right`, in whichever order they were read.
    fn order(&mut self, or_equal: bool, left: &mut Expression, right: &mut Expression) -> Outcome<()> {
        let mut a = self.make_comparable(left)?;
        let mut b = self.make_comparable(right)?;
        if a.is_constant() && b.is_constant() {
            right.kind = Kind::Constant(b.index() as u32);
            self.put_in_next_register(right)?;
            b = Operand::register(if let Kind::Register(register) = right.kind { register } else { 0 });
        }
        self.release_both(left, right);
        let instruction = match (a.is_constant(), b.is_constant()) {
            (false, false) => {
                let (a, b) = (a.index() as u8, b.index() as u8);
                if or_equal {
                    Instruction::LessEqual { a, b, when: true, to: NO_JUMP }
                } else {
                    Instruction::Less { a, b, when: true, to: NO_JUMP }
                }
            }
            (false, true) => {
                let (a, k) = (a.index() as u8, Compared::new(b.index() as u32, true));
                if or_equal {
                    Instruction::LessEqualConstant { a, k, to: NO_JUMP }
                } else {
                    Instruction::LessConstant { a, k, to: NO_JUMP }
                }
            }
            (true, _) => {
                std::mem::swap(&mut a, &mut b);
                let (a, k) = (a.index() as u8, Compared::new(b.index() as u32, true));
                if or_equal {
                    Instruction::GreaterEqualConstant { a, k, to: NO_JUMP }
                } else {
                    Instruction::GreaterConstant { a, k, to: NO_JUMP }
                }
            }
        };
        let jump = Expression::new(Kind::Jump(self.emit(instruction)));
        (*left, *right) = (jump, jump);
        Ok(())
    }
}

impl Expression {
    fn is_number_constant(&self, function: &Function) -> bool {
        matches!(self.kind, Kind::Constant(k) if function.is_number(k)) && !self.has_jumps()
    }
}

fn of_registers(operator: Arithmetic, b: u8, c: u8) -> Option<Instruction> {
    Some(match operator {
        Arithmetic::Add => Instruction::Add { a: 0, b, c },
        Arithmetic::Sub => Instruction::Sub { a: 0, b, c },
        Arithmetic::Mul => Instruction::Mul { a: 0, b, c },
        Arithmetic::Div => Instruction::Div { a: 0, b, c },
        Arithmetic::Mod => Instruction::Mod { a: 0, b, c },
        Arithmetic::Pow => Instruction::Pow { a: 0, b, c },
    })
}

fn of_constant(operator: Arithmetic, b: u8, k: u32) -> Option<Instruction> {
    Some(match operator {
        Arithmetic::Add => Instruction::AddConstant { a: 0, b, k },
        Arithmetic::Sub => Instruction::SubConstant { a: 0, b, k },
        Arithmetic::Mul => Instruction::MulConstant { a: 0, b, k },
        Arithmetic::Div => Instruction::DivConstant { a: 0, b, k },
        Arithmetic::Mod => Instruction::ModConstant { a: 0, b, k },
        Arithmetic::Pow => return None,
    })
}

impl Limit {
    /// The message, in a function that begins in a line (0: the main one).
    pub(super) fn message(&self, line_defined: u32) -> String {
        match self {
            Self::Message(message) => (*message).to_owned(),
            Self::Count(most, what) if line_defined == 0 => format!("main function has more than {most} {what}"),
            Self::Count(most, what) => format!("function at line {line_defined} has more than {most} {what}"),
        }
    }
}
