//! The parser's state: tokens, functions being compiled, names.

use std::sync::Arc;

use super::expression::{Expression, Kind};
use super::function::{Block, Function, Limit, Outcome};
use super::generate::Generator;
use crate::instruction::Instruction;
use crate::lexer::{Lexer, SyntaxError, Token};
use crate::proto::{Capture, Proto};

/// Nested constructs.
const DEPTH_MAX: usize = 200;

pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    pub(super) token: Token,
    /// Line of the token before.
    pub(super) last_line: u32,
    functions: Vec<Function>,
    depth: usize,
    source: Arc<[u8]>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a [u8], source: &'a [u8]) -> Result<Self, SyntaxError> {
        let lexer = Lexer::new(text, source);
        let mut parser =
            Self { lexer, token: Token::End, last_line: 1, functions: Vec::new(), depth: 0, source: Arc::from(source) };
        parser.next()?;
        Ok(parser)
    }

    // Tokens.

    pub(super) fn next(&mut self) -> Result<Token, SyntaxError> {
        self.last_line = self.lexer.line;
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    pub(super) fn line(&self) -> u32 {
        self.lexer.line
    }

    /// The token behind the present one.
    pub(super) fn look_ahead(&mut self) -> Result<Token, SyntaxError> {
        let state = self.lexer.state();
        let token = self.lexer.next()?;
        self.lexer.restore(state);
        Ok(token)
    }

    pub(super) fn is(&self, symbol: &str) -> bool {
        matches!(&self.token, Token::Symbol(other) | Token::Word(other) if *other == symbol)
    }

    /// Passes a token if it is the present one.
    pub(super) fn accept(&mut self, symbol: &str) -> Result<bool, SyntaxError> {
        let is = self.is(symbol);
        if is {
            self.next()?;
        }
        Ok(is)
    }

    pub(super) fn expect(&mut self, symbol: &str) -> Result<(), SyntaxError> {
        if self.accept(symbol)? { Ok(()) } else { Err(self.expected(symbol)) }
    }

    pub(super) fn check(&mut self, token: &Token) -> Result<(), SyntaxError> {
        if self.token == *token { Ok(()) } else { Err(self.expected("<eof>")) }
    }

    /// The token that ends what began with `opening` in `line`.
    pub(super) fn expect_closing(&mut self, closing: &str, opening: &str, line: u32) -> Result<(), SyntaxError> {
        if self.accept(closing)? {
            return Ok(());
        }
        if line == self.line() {
            return Err(self.expected(closing));
        }
        Err(self.error(&format!("'{closing}' expected (to close '{opening}' at line {line})")))
    }

    pub(super) fn expect_name(&mut self) -> Result<Box<[u8]>, SyntaxError> {
        if !matches!(self.token, Token::Name(_)) {
            return Err(self.expected("<name>"));
        }
        match self.next()? {
            Token::Name(name) => Ok(name),
            _ => Ok(Box::default()),
        }
    }

    fn expected(&self, what: &str) -> SyntaxError {
        self.error(&format!("'{what}' expected"))
    }

    /// An error at the present token.
    pub(super) fn error(&self, message: &str) -> SyntaxError {
        // The number of a zero byte is that of no token at all.
        let near = (self.token != Token::Byte(0)).then(|| self.lexer.token_text(&self.token));
        self.lexer.error(message, near.as_deref())
    }

    pub(super) fn limit(&self, limit: &Limit) -> SyntaxError {
        let line_defined = self.functions.last().map_or(0, |function| function.line_defined);
        self.lexer.error(&limit.message(line_defined), None)
    }

    /// Runs a step of the generator; a limit becomes an error.
    pub(super) fn emit_with<T>(&mut self, step: impl FnOnce(&mut Generator<'_>) -> Outcome<T>) -> Result<T, SyntaxError> {
        let line = self.last_line;
        let outcome = step(&mut Generator { function: self.function(), line });
        outcome.map_err(|limit| self.limit(&limit))
    }

    pub(super) fn emit(&mut self, instruction: Instruction) -> usize {
        let line = self.last_line;
        self.function().emit(instruction, line)
    }

    pub(super) fn jump(&mut self) -> usize {
        let line = self.last_line;
        self.function().jump(line)
    }

    pub(super) fn enter(&mut self) -> Result<(), SyntaxError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(self.lexer.error("chunk has too many syntax levels", None)) } else { Ok(()) }
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    // Functions and scopes.

    /// The function that is being compiled.
    pub(super) fn function(&mut self) -> &mut Function {
        if self.functions.is_empty() {
            self.functions.push(Function::new(0));
        }
        let last = self.functions.len() - 1;
        &mut self.functions[last]
    }

    pub(super) fn open_function(&mut self, line_defined: u32) {
        self.functions.push(Function::new(line_defined));
    }

    pub(super) fn close_function(&mut self) -> Result<Arc<Proto>, SyntaxError> {
        self.function().deactivate_to(0);
        self.emit(Instruction::Return { a: 0, b: 1 });
        let function = self.functions.pop().ok_or_else(|| self.error("no function"))?;
        Ok(Arc::new(function.finish(&self.source)))
    }

    pub(super) fn declare(&mut self, name: &[u8]) -> Result<(), SyntaxError> {
        self.function().declare(name).map_err(|limit| self.limit(&limit))
    }

    pub(super) fn enter_block(&mut self, is_loop: bool) {
        let function = self.function();
        let outside = function.active.len();
        function.blocks.push(Block { breaks: super::expression::NO_JUMP, outside, has_captured: false, is_loop });
    }

    pub(super) fn leave_block(&mut self) {
        let Some(block) = self.function().blocks.pop() else { return };
        self.function().deactivate_to(block.outside);
        if block.has_captured {
            self.emit(Instruction::Close { a: block.outside as u8 });
        }
        self.function().free = block.outside as u8;
        self.function().patch_to_here(block.breaks);
    }

    /// The variable of a name: local, captured or global.
    pub(super) fn variable(&mut self, name: &[u8]) -> Result<Expression, SyntaxError> {
        let innermost = self.functions.len() - 1;
        let kind = match self.resolve(innermost, name)? {
            Some(Capture::Register(register)) => Kind::Local(register),
            Some(Capture::Upvalue(index)) => Kind::Upvalue(index),
            None => Kind::Global(self.emit_with(|g| g.string(name))?),
        };
        Ok(Expression::new(kind))
    }

    fn resolve(&mut self, level: usize, name: &[u8]) -> Result<Option<Capture>, SyntaxError> {
        if let Some(register) = self.functions[level].find_local(name) {
            return Ok(Some(Capture::Register(register)));
        }
        let Some(outer) = level.checked_sub(1) else { return Ok(None) };
        let Some(capture) = self.resolve(outer, name)? else { return Ok(None) };
        if let Capture::Register(register) = capture {
            self.functions[outer].note_captured(register);
        }
        let line_defined = self.functions[level].line_defined;
        let found = self.functions[level].find_upvalue(name, capture);
        found.map(|index| Some(Capture::Upvalue(index))).map_err(|limit| self.lexer.error(&limit.message(line_defined), None))
    }
}
