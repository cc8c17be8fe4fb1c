//! The compiler: one pass from tokens to instructions, without a tree in between.
//!
//! An expression is kept as what is known of it ([`expression`]) until its value has to be in a register ([`generate`]). Order of
//! evaluation, limits and messages are those of Lua 5.1, since scripts and their tests see them.

mod expression;
mod expressions;
mod function;
mod generate;
mod parser;
mod statements;

use std::sync::Arc;

pub use crate::lexer::SyntaxError;
use crate::lexer::Token;
use crate::proto::{Proto, Variadic};
use parser::Parser;

/// Compiles a chunk. Its `source` names it in messages: `=name`, `@file`, or the text itself. Compiled code is no text: its first
/// byte is a symbol that no chunk begins with.
///
/// # Errors
/// The text is not Lua 5.1, or passes a limit of the compiler.
pub fn compile(text: &[u8], source: &[u8]) -> Result<Arc<Proto>, SyntaxError> {
    let mut parser = Parser::new(text, source)?;
    parser.open_function(0);
    parser.function().variadic = Variadic::Yes;
    parser.chunk()?;
    parser.check(&Token::End)?;
    parser.close_function()
}
