//! `load` and `loadstring`: text into functions. Compiled code is refused.

use crate::compiler::compile;
use crate::heap::gathered::Gathered;
use crate::heap::objects::Closure;
use crate::value::LuaValue;
use crate::vm::code::Native;
use crate::vm::context::{Action, Context, Continuation, Stepped};

pub(super) const FUNCTIONS: &[(&str, Native)] = &[("load", load), ("loadstring", loadstring)];

/// Longest text.
const TEXT_MAX: usize = 4 << 20;

fn loadstring(context: &mut Context<'_>) -> Stepped {
    context.string(0)?;
    let text = context.bytes(0).to_vec();
    let name = name(context, 1, &text)?;
    compile_text(context, &text, &name)
}

fn name(context: &mut Context<'_>, index: usize, default: &[u8]) -> Result<Vec<u8>, crate::vm::state::Fault> {
    // As in C, a zero byte ends a name.
    let until_zero = |name: &[u8]| name.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
    if context.get(index).is_nil() {
        return Ok(until_zero(default));
    }
    context.string(index)?;
    Ok(until_zero(context.bytes(index)))
}

fn compile_text(context: &mut Context<'_>, text: &[u8], name: &[u8]) -> Stepped {
    // Code takes several times the bytes of its text.
    context.reserve(text.len().saturating_mul(8))?;
    context.charge(text.len() / 4);
    let compiled = if text.len() > TEXT_MAX {
        Err(b"script is too long".to_vec())
    } else {
        compile(text, name).map_err(|error| error.message)
    };
    let loaded = compiled.and_then(|proto| {
        let index = context.code.load(&proto, &mut context.state.heap);
        index.ok_or_else(|| b"too many chunks".to_vec())
    });
    match loaded {
        Ok(proto) => {
            context.state.heap.memory.take(text.len());
            let environment = context.state.globals;
            let closure = context.state.heap.new_closure(Closure { proto, upvalues: Box::default(), environment });
            context.return_one(LuaValue::Function(closure))
        }
        Err(message) => {
            let message = context.new_string(&message);
            context.state.push(LuaValue::Nil);
            context.state.push(message);
            Ok(Action::Return(2))
        }
    }
}

/// Collects the pieces that the reader of `load` returns.
#[derive(Debug, Default)]
struct Pieces {
    text: Gathered,
}

fn load(context: &mut Context<'_>) -> Stepped {
    if !context.get(1).is_nil() {
        context.string(1)?;
    }
    context.function(0)?;
    ask(context, Box::default())
}

fn ask(context: &mut Context<'_>, pieces: Box<Pieces>) -> Stepped {
    let reader = context.get(0);
    context.state.push(reader);
    context.call_then(0, pieces)
}

impl Continuation for Pieces {
    fn resume(mut self: Box<Self>, context: &mut Context<'_>, first: usize) -> Stepped {
        match context.take_result(first) {
            LuaValue::String(piece) if !context.state.heap.bytes(piece).is_empty() => {
                let heap = &context.state.heap;
                self.text.append(&heap.memory, heap.bytes(piece))?;
                if self.text.len() > TEXT_MAX {
                    compile_text(context, self.text.as_slice(), b"=(load)")
                } else {
                    ask(context, self)
                }
            }
            LuaValue::Nil | LuaValue::String(_) => {
                let name = name(context, 1, b"=(load)")?;
                compile_text(context, self.text.as_slice(), &name)
            }
            _ => {
                let message = context.new_string(b"reader function must return a string");
                context.state.push(LuaValue::Nil);
                context.state.push(message);
                Ok(Action::Return(2))
            }
        }
    }

    fn catches(&self) -> bool {
        true
    }

    fn mark(&self, _mark: &mut dyn FnMut(LuaValue)) {}
}
