//! Parsing of statements.

use super::expression::{Expression, Key, Kind, NO_JUMP};
use super::parser::Parser;
use crate::instruction::Instruction;
use crate::lexer::{SyntaxError, Token};

impl Parser<'_> {
    /// Statements up to the end of a block.
    pub(super) fn chunk(&mut self) -> Result<(), SyntaxError> {
        self.enter()?;
        let mut is_last = false;
        while !is_last && !self.ends_block() {
            is_last = self.statement()?;
            self.accept(";")?;
            let function = self.function();
            function.free = function.active.len() as u8;
        }
        self.leave();
        Ok(())
    }

    fn ends_block(&self) -> bool {
        matches!(self.token, Token::End | Token::Word("else" | "elseif" | "end" | "until"))
    }

    fn block(&mut self) -> Result<(), SyntaxError> {
        self.enter_block(false);
        self.chunk()?;
        self.leave_block();
        Ok(())
    }

    /// One statement; true for one that must be the last of its block.
    fn statement(&mut self) -> Result<bool, SyntaxError> {
        let line = self.line();
        match self.token {
            Token::Word("if") => self.if_statement(line)?,
            Token::Word("while") => self.while_statement(line)?,
            Token::Word("do") => {
                self.next()?;
                self.block()?;
                self.expect_closing("end", "do", line)?;
            }
            Token::Word("for") => self.for_statement(line)?,
            Token::Word("repeat") => self.repeat_statement(line)?,
            Token::Word("function") => self.function_statement(line)?,
            Token::Word("local") => {
                self.next()?;
                if self.accept("function")? { self.local_function()? } else { self.local_statement()? }
            }
            Token::Word("return") => {
                self.return_statement()?;
                return Ok(true);
            }
            Token::Word("break") => {
                self.next()?;
                self.break_statement()?;
                return Ok(true);
            }
            _ => self.expression_statement()?,
        }
        Ok(false)
    }

    /// A condition; the jumps that leave when it is false.
    fn condition(&mut self) -> Result<i32, SyntaxError> {
        let mut e = self.expression()?;
        if e.kind == Kind::Nil {
            e.kind = Kind::False;
        }
        self.emit_with(|g| g.go_if_true(&mut e))?;
        Ok(e.when_false)
    }

    fn if_statement(&mut self, line: u32) -> Result<(), SyntaxError> {
        let mut ends = NO_JUMP;
        self.next()?;
        let mut otherwise = self.condition_and_block()?;
        while self.is("elseif") {
            let jump = self.jump() as i32;
            self.function().append_jumps(&mut ends, jump);
            self.function().patch_to_here(otherwise);
            self.next()?;
            otherwise = self.condition_and_block()?;
        }
        if self.is("else") {
            let jump = self.jump() as i32;
            self.function().append_jumps(&mut ends, jump);
            self.function().patch_to_here(otherwise);
            self.next()?;
            self.block()?;
        } else {
            self.function().append_jumps(&mut ends, otherwise);
        }
        self.function().patch_to_here(ends);
        self.expect_closing("end", "if", line)
    }

    fn condition_and_block(&mut self) -> Result<i32, SyntaxError> {
        let otherwise = self.condition()?;
        self.expect("then")?;
        self.block()?;
        Ok(otherwise)
    }

    fn while_statement(&mut self, line: u32) -> Result<(), SyntaxError> {
        self.next()?;
        let start = self.function().label();
        let exit = self.condition()?;
        self.enter_block(true);
        self.expect("do")?;
        self.block()?;
        self.emit(Instruction::Loop { to: start as i32 });
        self.expect_closing("end", "while", line)?;
        self.leave_block();
        self.function().patch_to_here(exit);
        Ok(())
    }

    fn repeat_statement(&mut self, line: u32) -> Result<(), SyntaxError> {
        let start = self.function().label();
        self.enter_block(true);
        self.enter_block(false);
        self.next()?;
        self.emit(Instruction::Tick);
        self.chunk()?;
        self.expect_closing("until", "repeat", line)?;
        let exit = self.condition()?;
        let has_captured = self.function().blocks.last().is_some_and(|block| block.has_captured);
        if has_captured {
            // The variables are closed on both ways out.
            self.break_statement()?;
            self.function().patch_to_here(exit);
            self.leave_block();
            self.emit(Instruction::Loop { to: start as i32 });
        } else {
            self.leave_block();
            self.function().patch_list(exit, start);
        }
        self.leave_block();
        Ok(())
    }

    fn break_statement(&mut self) -> Result<(), SyntaxError> {
        let mut captured = false;
        let mut found = None;
        for (index, block) in self.function().blocks.iter().enumerate().rev() {
            if block.is_loop {
                found = Some((index, block.outside));
                break;
            }
            captured |= block.has_captured;
        }
        let Some((index, outside)) = found else { return Err(self.error("no loop to break")) };
        if captured {
            self.emit(Instruction::Close { a: outside as u8 });
        }
        let jump = self.jump() as i32;
        let mut breaks = self.function().blocks[index].breaks;
        self.function().append_jumps(&mut breaks, jump);
        self.function().blocks[index].breaks = breaks;
        Ok(())
    }

    fn for_statement(&mut self, line: u32) -> Result<(), SyntaxError> {
        self.enter_block(true);
        self.next()?;
        let name = self.expect_name()?;
        match self.token {
            Token::Symbol("=") => self.numeric_for(&name, line)?,
            Token::Symbol(",") | Token::Word("in") => self.generic_for(&name)?,
            _ => return Err(self.error("'=' or 'in' expected")),
        }
        self.expect_closing("end", "for", line)?;
        self.leave_block();
        Ok(())
    }

    fn numeric_for(&mut self, name: &[u8], line: u32) -> Result<(), SyntaxError> {
        let base = self.function().free;
        for hidden in [&b"(for index)"[..], b"(for limit)", b"(for step)", name] {
            self.declare(hidden)?;
        }
        self.next()?;
        self.one_expression()?;
        self.expect(",")?;
        self.one_expression()?;
        if self.accept(",")? {
            self.one_expression()?;
        } else {
            self.load_number(1.0)?;
        }
        self.function().activate(3);
        self.expect("do")?;
        let prepare = self.emit(Instruction::ForPrepare { a: base, to: NO_JUMP });
        self.loop_body(1)?;
        let here = self.function().code.len() as i32;
        if let Some(to) = self.function().code[prepare].target_mut() {
            *to = here;
        }
        self.function().label();
        self.emit(Instruction::ForLoop { a: base, to: prepare as i32 + 1 });
        self.function().set_last_line(line);
        Ok(())
    }

    fn generic_for(&mut self, name: &[u8]) -> Result<(), SyntaxError> {
        let base = self.function().free;
        for hidden in [&b"(for generator)"[..], b"(for state)", b"(for control)", name] {
            self.declare(hidden)?;
        }
        let mut names = 1;
        while self.accept(",")? {
            let name = self.expect_name()?;
            self.declare(&name)?;
            names += 1;
        }
        self.expect("in")?;
        let line = self.line();
        let (number, last) = self.expressions()?;
        self.adjust(3, number, last)?;
        self.emit_with(|g| g.function.check_registers(3))?;
        self.function().activate(3);
        self.expect("do")?;
        let prepare = self.jump() as i32;
        let body = self.function().code.len();
        self.loop_body(names)?;
        self.function().patch_to_here(prepare);
        self.emit(Instruction::IteratorCall { a: base, c: names as u8 });
        self.function().set_last_line(line);
        self.emit(Instruction::IteratorLoop { a: base, to: body as i32 });
        self.function().set_last_line(line);
        Ok(())
    }

    /// The block of a loop over `names` variables.
    fn loop_body(&mut self, names: usize) -> Result<(), SyntaxError> {
        self.function().label();
        self.enter_block(false);
        self.function().activate(names);
        self.emit_with(|g| g.function.reserve(names))?;
        self.block()?;
        self.leave_block();
        Ok(())
    }

    fn one_expression(&mut self) -> Result<(), SyntaxError> {
        let mut e = self.expression()?;
        self.emit_with(|g| g.put_in_next_register(&mut e))
    }

    fn function_statement(&mut self, line: u32) -> Result<(), SyntaxError> {
        self.next()?;
        let name = self.expect_name()?;
        let mut place = self.variable(&name)?;
        while self.is(".") {
            self.field(&mut place)?;
        }
        let is_method = self.is(":");
        if is_method {
            self.field(&mut place)?;
        }
        let mut body = self.function_body(is_method, line)?;
        self.emit_with(|g| g.store(&place, &mut body))?;
        self.function().set_last_line(line);
        Ok(())
    }

    fn local_function(&mut self) -> Result<(), SyntaxError> {
        let name = self.expect_name()?;
        self.declare(&name)?;
        let register = self.function().free;
        self.emit_with(|g| g.function.reserve(1))?;
        self.function().activate(1);
        let line = self.line();
        let mut body = self.function_body(false, line)?;
        self.emit_with(|g| g.store(&Expression::new(Kind::Local(register)), &mut body))?;
        // The variable may be seen from here on.
        self.function().restart_last_local();
        Ok(())
    }

    fn local_statement(&mut self) -> Result<(), SyntaxError> {
        let mut names = 0;
        loop {
            let name = self.expect_name()?;
            self.declare(&name)?;
            names += 1;
            if !self.accept(",")? {
                break;
            }
        }
        let (number, last) = if self.accept("=")? { self.expressions()? } else { (0, Expression::new(Kind::Void)) };
        self.adjust(names, number, last)?;
        self.function().activate(names);
        Ok(())
    }

    /// Brings `number` values, the last of which is not in a register yet, to `wanted`.
    fn adjust(&mut self, wanted: usize, number: usize, mut last: Expression) -> Result<(), SyntaxError> {
        self.emit_with(|g| {
            if last.is_open() {
                let results = (wanted + 1).saturating_sub(number);
                g.set_results(&last, Some(results))?;
                return if results > 1 { g.function.reserve(results - 1) } else { Ok(()) };
            }
            if last.kind != Kind::Void {
                g.put_in_next_register(&mut last)?;
            }
            if wanted > number {
                let from = g.function.free;
                g.function.reserve(wanted - number)?;
                g.load_nil(from, wanted - number);
            }
            Ok(())
        })?;
        // Values without a variable are dropped.
        if number > wanted && !last.is_open() {
            self.function().free -= (number - wanted) as u8;
        } else if number > wanted + 1 {
            self.function().free -= (number - wanted - 1) as u8;
        }
        Ok(())
    }

    fn return_statement(&mut self) -> Result<(), SyntaxError> {
        self.next()?;
        if self.ends_block() || self.is(";") {
            self.emit(Instruction::Return { a: 0, b: 1 });
            return Ok(());
        }
        let (number, mut last) = self.expressions()?;
        let active = self.function().active.len() as u8;
        if last.is_open() {
            self.emit_with(|g| g.set_results(&last, None))?;
            if let Kind::Call(at) = last.kind
                && number == 1
                && let Instruction::Call { a, b, .. } = self.function().code[at]
            {
                self.function().code[at] = Instruction::TailCall { a, b };
            }
            self.emit(Instruction::Return { a: active, b: 0 });
        } else if number == 1 {
            let a = self.emit_with(|g| g.put_in_any_register(&mut last))?;
            self.emit(Instruction::Return { a, b: 2 });
        } else {
            self.emit_with(|g| g.put_in_next_register(&mut last))?;
            self.emit(Instruction::Return { a: active, b: number as u8 + 1 });
        }
        Ok(())
    }

    fn expression_statement(&mut self) -> Result<(), SyntaxError> {
        let e = self.primary()?;
        if let Kind::Call(at) = e.kind {
            if let Instruction::Call { c, .. } = &mut self.function().code[at] {
                *c = 1;
            }
            return Ok(());
        }
        let mut places = vec![e];
        self.assignment(&mut places)
    }

    fn assignment(&mut self, places: &mut Vec<Expression>) -> Result<(), SyntaxError> {
        loop {
            let is_variable = places
                .last()
                .is_some_and(|e| matches!(e.kind, Kind::Local(_) | Kind::Upvalue(_) | Kind::Global(_) | Kind::Indexed { .. }));
            if !is_variable {
                return Err(self.error("syntax error"));
            }
            if !self.accept(",")? {
                break;
            }
            let place = self.primary()?;
            if let Kind::Local(register) = place.kind {
                self.protect(places, register)?;
            }
            if places.len() >= 200 {
                return Err(self.limit(&super::function::Limit::Count(200, "variables in assignment")));
            }
            places.push(place);
        }
        self.expect("=")?;
        let (number, mut last) = self.expressions()?;
        if number == places.len() {
            self.emit_with(|g| {
                g.set_one_result(&mut last);
                g.store(&places[number - 1], &mut last)
            })?;
            places.pop();
        } else {
            self.adjust(places.len(), number, last)?;
        }
        for place in places.iter().rev() {
            let mut value = Expression::new(Kind::Register(self.function().free - 1));
            self.emit_with(|g| g.store(place, &mut value))?;
        }
        Ok(())
    }

    /// Copies a variable that is assigned in the same statement in which earlier places index by it.
    fn protect(&mut self, places: &mut [Expression], register: u8) -> Result<(), SyntaxError> {
        let copy = self.function().free;
        let mut is_used = false;
        for place in places.iter_mut() {
            if let Kind::Indexed { table, key } = &mut place.kind {
                if *table == register {
                    (is_used, *table) = (true, copy);
                }
                if *key == Key::Register(register) {
                    (is_used, *key) = (true, Key::Register(copy));
                }
            }
        }
        if is_used {
            self.emit(Instruction::Move { a: copy, b: register });
            self.emit_with(|g| g.function.reserve(1))?;
        }
        Ok(())
    }
}
