//! What a message calls a value: the variable or field from which an instruction took it.

use crate::instruction::Instruction;
use crate::proto::{Constant, Proto, c_string};

/// A kind of variable, and its name.
pub(crate) type Name<'a> = (&'static str, &'a [u8]);

/// The name of what is in a register before the instruction `pc`.
pub(crate) fn of_register(proto: &Proto, register: u8, pc: usize) -> Option<Name<'_>> {
    if let Some(name) = proto.local_name(usize::from(register), pc) {
        return Some(("local", name));
    }
    let at = last_setter(proto, register, pc)?;
    match proto.code[at] {
        Instruction::Move { a, b } if b < a => of_register(proto, b, at),
        Instruction::GetGlobal { k, .. } => Some(("global", string(proto, k))),
        Instruction::GetField { k, .. } => Some(("field", string(proto, k))),
        Instruction::GetTable { .. } | Instruction::GetConstant { .. } => Some(("field", b"?")),
        Instruction::GetUpvalue { b, .. } => Some(("upvalue", &proto.upvalues[usize::from(b)])),
        Instruction::Method { k, .. } => Some(("method", string(proto, k))),
        _ => None,
    }
}

fn string(proto: &Proto, k: u32) -> &[u8] {
    match &proto.constants[k as usize] {
        Constant::String(bytes) => c_string(bytes),
        _ => b"?",
    }
}

/// The last instruction before `pc` that changes a register, along forward jumps.
fn last_setter(proto: &Proto, register: u8, before: usize) -> Option<usize> {
    let (mut pc, mut last) = (0, None);
    while pc < before {
        let instruction = proto.code[pc];
        // PUC's search takes a test for a change: what was tested has no name.
        if instruction.sets(register) || matches!(instruction, Instruction::Test { a, .. } if a == register) {
            last = Some(pc);
        }
        pc = match instruction.target() {
            Some(to) if to as usize > pc && to as usize <= before => to as usize,
            _ => pc + 1,
        };
    }
    last
}

/// What a caller calls the function that its instruction before `pc` calls.
pub(crate) fn of_called(proto: &Proto, pc: usize) -> Option<Name<'_>> {
    let pc = pc.checked_sub(1)?;
    match proto.code[pc] {
        Instruction::Call { a, .. } | Instruction::TailCall { a, .. } | Instruction::IteratorCall { a, .. } => {
            of_register(proto, a, pc)
        }
        _ => None,
    }
}
