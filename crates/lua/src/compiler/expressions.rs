//! Parsing of expressions.

use super::expression::{Binary, Expression, Kind, Unary};
use super::parser::Parser;
use crate::instruction::{Arithmetic, Instruction, LIST_BATCH};
use crate::lexer::{SyntaxError, Token};
use crate::proto::{Constant, Variadic};

/// How strongly operators of one operand bind.
const UNARY_PRIORITY: u8 = 8;

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Result<Expression, SyntaxError> {
        self.operators(0)
    }

    /// Operators that bind more strongly than `limit`.
    fn operators(&mut self, limit: u8) -> Result<Expression, SyntaxError> {
        self.enter()?;
        let mut left = match self.unary() {
            Some(operator) => {
                self.next()?;
                let mut operand = self.operators(UNARY_PRIORITY)?;
                self.emit_with(|g| g.prefix(operator, &mut operand))?;
                operand
            }
            None => self.simple()?,
        };
        while let Some((operator, _, right_priority)) = self.binary().filter(|(_, priority, _)| *priority > limit) {
            self.next()?;
            self.emit_with(|g| g.infix(operator, &mut left))?;
            let mut right = self.operators(right_priority)?;
            self.emit_with(|g| g.postfix(operator, &mut left, &mut right))?;
        }
        self.leave();
        Ok(left)
    }

    fn unary(&self) -> Option<Unary> {
        match self.token {
            Token::Word("not") => Some(Unary::Not),
            Token::Symbol("-") => Some(Unary::Negate),
            Token::Symbol("#") => Some(Unary::Length),
            _ => None,
        }
    }

    /// The operator with its priorities to the left and to the right.
    fn binary(&self) -> Option<(Binary, u8, u8)> {
        let (Token::Symbol(symbol) | Token::Word(symbol)) = self.token else { return None };
        Some(match symbol {
            "+" => (Binary::Arithmetic(Arithmetic::Add), 6, 6),
            "-" => (Binary::Arithmetic(Arithmetic::Sub), 6, 6),
            "*" => (Binary::Arithmetic(Arithmetic::Mul), 7, 7),
            "/" => (Binary::Arithmetic(Arithmetic::Div), 7, 7),
            "%" => (Binary::Arithmetic(Arithmetic::Mod), 7, 7),
            "^" => (Binary::Arithmetic(Arithmetic::Pow), 10, 9),
            ".." => (Binary::Concat, 5, 4),
            "==" => (Binary::Equal(true), 3, 3),
            "~=" => (Binary::Equal(false), 3, 3),
            "<" => (Binary::Less, 3, 3),
            "<=" => (Binary::LessEqual, 3, 3),
            ">" => (Binary::Greater, 3, 3),
            ">=" => (Binary::GreaterEqual, 3, 3),
            "and" => (Binary::And, 2, 2),
            "or" => (Binary::Or, 1, 1),
            _ => return None,
        })
    }

    fn simple(&mut self) -> Result<Expression, SyntaxError> {
        let kind = match &self.token {
            Token::Number(number) => Kind::Number(*number),
            Token::Text(text) => {
                let text = text.clone();
                Kind::Constant(self.emit_with(|g| g.string(&text))?)
            }
            Token::Word("nil") => Kind::Nil,
            Token::Word("true") => Kind::True,
            Token::Word("false") => Kind::False,
            Token::Symbol("...") => {
                if self.function().variadic == Variadic::No {
                    return Err(self.error("cannot use '...' outside a vararg function"));
                }
                self.function().variadic = Variadic::Yes;
                Kind::Vararg(self.emit(Instruction::Vararg { a: 0, b: 1 }))
            }
            Token::Symbol("{") => return self.table(),
            Token::Word("function") => {
                self.next()?;
                let line = self.line();
                return self.function_body(false, line);
            }
            _ => return self.primary(),
        };
        self.next()?;
        Ok(Expression::new(kind))
    }

    fn prefix_expression(&mut self) -> Result<Expression, SyntaxError> {
        match self.token {
            Token::Symbol("(") => {
                let line = self.line();
                self.next()?;
                let mut e = self.expression()?;
                self.expect_closing(")", "(", line)?;
                self.emit_with(|g| {
                    g.discharge(&mut e);
                    Ok(())
                })?;
                Ok(e)
            }
            Token::Name(_) => {
                let name = self.expect_name()?;
                self.variable(&name)
            }
            _ => Err(self.error("unexpected symbol")),
        }
    }

    /// Variables, fields, calls.
    pub(super) fn primary(&mut self) -> Result<Expression, SyntaxError> {
        let mut e = self.prefix_expression()?;
        loop {
            match self.token {
                Token::Symbol(".") => self.field(&mut e)?,
                Token::Symbol("[") => {
                    self.emit_with(|g| g.put_in_any_register(&mut e))?;
                    let mut key = self.index()?;
                    self.emit_with(|g| g.indexed(&mut e, &mut key))?;
                }
                Token::Symbol(":") => {
                    self.next()?;
                    let name = self.expect_name()?;
                    self.emit_with(|g| {
                        let k = g.string(&name)?;
                        g.method(&mut e, k)
                    })?;
                    self.arguments(&mut e)?;
                }
                Token::Symbol("(" | "{") | Token::Text(_) => {
                    self.emit_with(|g| g.put_in_next_register(&mut e))?;
                    self.arguments(&mut e)?;
                }
                _ => return Ok(e),
            }
        }
    }

    /// `.name`
    pub(super) fn field(&mut self, e: &mut Expression) -> Result<(), SyntaxError> {
        self.emit_with(|g| g.put_in_any_register(e))?;
        self.next()?;
        let name = self.expect_name()?;
        self.emit_with(|g| {
            let mut key = Expression::new(Kind::Constant(g.string(&name)?));
            g.indexed(e, &mut key)
        })
    }

    /// `[expression]`
    fn index(&mut self) -> Result<Expression, SyntaxError> {
        self.next()?;
        let mut key = self.expression()?;
        self.emit_with(|g| g.make_value(&mut key))?;
        self.expect("]")?;
        Ok(key)
    }

    fn arguments(&mut self, function: &mut Expression) -> Result<(), SyntaxError> {
        let line = self.line();
        let mut last = match &self.token {
            Token::Symbol("(") => {
                if line != self.last_line {
                    return Err(self.error("ambiguous syntax (function call x new statement)"));
                }
                self.next()?;
                let last = if self.is(")") { Expression::new(Kind::Void) } else { self.expressions()?.1 };
                self.expect_closing(")", "(", line)?;
                last
            }
            Token::Symbol("{") => self.table()?,
            Token::Text(text) => {
                let text = text.clone();
                let k = self.emit_with(|g| g.string(&text))?;
                self.next()?;
                Expression::new(Kind::Constant(k))
            }
            _ => return Err(self.error("function arguments expected")),
        };
        let Kind::Register(base) = function.kind else { return Err(self.error("function expected")) };
        let b = self.emit_with(|g| {
            if last.is_open() {
                g.set_results(&last, None)?;
                return Ok(0);
            }
            if last.kind != Kind::Void {
                g.put_in_next_register(&mut last)?;
            }
            Ok(g.function.free - base)
        })?;
        function.kind = Kind::Call(self.emit(Instruction::Call { a: base, b, c: 2 }));
        self.function().set_last_line(line);
        self.function().free = base + 1;
        Ok(())
    }

    /// A list of expressions, all but the last in registers; their number and the last.
    pub(super) fn expressions(&mut self) -> Result<(usize, Expression), SyntaxError> {
        let mut number = 1;
        let mut e = self.expression()?;
        while self.accept(",")? {
            self.emit_with(|g| g.put_in_next_register(&mut e))?;
            e = self.expression()?;
            number += 1;
        }
        Ok((number, e))
    }

    fn table(&mut self) -> Result<Expression, SyntaxError> {
        let line = self.line();
        let at = self.emit(Instruction::NewTable { a: 0, array: 0, hash: 0 });
        let mut table = Expression::new(Kind::Relocatable(at));
        self.emit_with(|g| g.put_in_next_register(&mut table))?;
        let Kind::Register(register) = table.kind else { return Ok(table) };
        let (mut items, mut fields, mut pending) = (0_usize, 0_usize, 0_usize);
        let mut item = Expression::new(Kind::Void);
        self.expect("{")?;
        while !self.is("}") {
            pending = self.close_item(&mut item, register, items, pending)?;
            let is_field = match self.token {
                Token::Symbol("[") => true,
                Token::Name(_) => self.look_ahead()? == Token::Symbol("="),
                _ => false,
            };
            if is_field {
                self.record(register)?;
                fields += 1;
            } else {
                item = self.expression()?;
                items += 1;
            }
            if !self.accept(",")? && !self.accept(";")? {
                break;
            }
        }
        self.expect_closing("}", "{", line)?;
        self.last_items(item, register, items, pending)?;
        if let Instruction::NewTable { array, hash, .. } = &mut self.function().code[at] {
            (*array, *hash) = (items.min(usize::from(u16::MAX)) as u16, fields.min(usize::from(u16::MAX)) as u16);
        }
        Ok(table)
    }

    /// Puts the item before into a register, and a full batch into the table; the number of items in registers.
    fn close_item(&mut self, item: &mut Expression, a: u8, items: usize, pending: usize) -> Result<usize, SyntaxError> {
        if item.kind == Kind::Void {
            return Ok(pending);
        }
        self.emit_with(|g| g.put_in_next_register(item))?;
        item.kind = Kind::Void;
        if pending + 1 < LIST_BATCH {
            return Ok(pending + 1);
        }
        self.emit(Instruction::SetList { a, count: LIST_BATCH as u8, batch: (items / LIST_BATCH) as u32 });
        self.function().free = a + 1;
        Ok(0)
    }

    fn last_items(&mut self, mut item: Expression, a: u8, items: usize, pending: usize) -> Result<(), SyntaxError> {
        let mut count = pending;
        if item.is_open() {
            self.emit_with(|g| g.set_results(&item, None))?;
            count = 0;
        } else if item.kind != Kind::Void {
            self.emit_with(|g| g.put_in_next_register(&mut item))?;
            count += 1;
        } else if pending == 0 {
            return Ok(());
        }
        let batch = ((items - 1) / LIST_BATCH + 1) as u32;
        self.emit(Instruction::SetList { a, count: count as u8, batch });
        self.function().free = a + 1;
        Ok(())
    }

    /// `name = value` or `[key] = value`
    fn record(&mut self, table: u8) -> Result<(), SyntaxError> {
        let free = self.function().free;
        let mut key = if let Token::Name(_) = self.token {
            let name = self.expect_name()?;
            Expression::new(Kind::Constant(self.emit_with(|g| g.string(&name))?))
        } else {
            self.index()?
        };
        self.expect("=")?;
        let mut place = Expression::new(Kind::Register(table));
        self.emit_with(|g| g.indexed(&mut place, &mut key))?;
        let mut value = self.expression()?;
        self.emit_with(|g| g.store(&place, &mut value))?;
        self.function().free = free;
        Ok(())
    }

    /// Parameters and body of a function.
    pub(super) fn function_body(&mut self, is_method: bool, line: u32) -> Result<Expression, SyntaxError> {
        self.open_function(line);
        self.expect("(")?;
        if is_method {
            self.declare(b"self")?;
            self.function().activate(1);
        }
        self.parameters()?;
        self.expect(")")?;
        self.chunk()?;
        self.expect_closing("end", "function", line)?;
        let proto = self.close_function()?;
        let prototypes = &mut self.function().prototypes;
        prototypes.push(proto);
        let prototype = prototypes.len() as u32 - 1;
        Ok(Expression::new(Kind::Relocatable(self.emit(Instruction::Closure { a: 0, prototype }))))
    }

    fn parameters(&mut self) -> Result<(), SyntaxError> {
        let mut number = 0;
        if !self.is(")") {
            loop {
                match self.token {
                    Token::Name(_) => {
                        let name = self.expect_name()?;
                        self.declare(&name)?;
                        number += 1;
                    }
                    Token::Symbol("...") => {
                        self.next()?;
                        self.declare(b"arg")?;
                        number += 1;
                        self.function().variadic = Variadic::Table;
                        break;
                    }
                    _ => return Err(self.error("<name> or '...' expected")),
                }
                if !self.accept(",")? {
                    break;
                }
            }
        }
        let function = self.function();
        function.activate(number);
        let hidden = usize::from(function.variadic == Variadic::Table);
        function.parameters = (function.active.len() - hidden) as u8;
        let registers = function.active.len();
        self.emit_with(|g| g.function.reserve(registers))
    }

    /// The constant of a number, for the control of loops.
    pub(super) fn load_number(&mut self, number: f64) -> Result<(), SyntaxError> {
        self.emit_with(|g| {
            let k = g.function.constant(Constant::Number(number))?;
            let a = g.function.free;
            g.function.emit(Instruction::LoadConstant { a, k }, g.line);
            g.function.reserve(1)
        })
    }
}
