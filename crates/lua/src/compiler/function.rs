//! The function that is being compiled: its code, constants, registers, scopes and lists of jumps.
//!
//! Errors of limits are messages without place; the parser adds it.

use std::collections::HashMap;
use std::sync::Arc;

use super::expression::NO_JUMP;
use crate::instruction::Instruction;
use crate::proto::{Capture, Constant, LocalVariable, Proto, Variadic};

/// Registers of a function.
const REGISTERS_MAX: usize = 250;
const LOCALS_MAX: usize = 200;
const UPVALUES_MAX: usize = 60;
/// A register that no function has.
pub(super) const NO_REGISTER: u8 = u8::MAX;

/// What went wrong, without its place.
pub(super) type Outcome<T> = Result<T, Limit>;

/// A limit that a function passed.
#[derive(Debug)]
pub(super) enum Limit {
    /// More than this number of these.
    Count(usize, &'static str),
    Message(&'static str),
}

#[derive(Debug)]
pub(super) struct Block {
    pub(super) breaks: i32,
    /// Active variables outside of the block.
    pub(super) outside: usize,
    pub(super) has_captured: bool,
    pub(super) is_loop: bool,
}

/// A constant as a key: numbers by their bits.
#[derive(Debug, PartialEq, Eq, Hash)]
enum ConstantKey {
    Nil,
    Boolean(bool),
    Number(u64),
    String(Box<[u8]>),
}

// reason: what belongs to code, constants, registers and scopes is changed together, function by function.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) code: Vec<Instruction>,
    lines: Vec<u32>,
    constants: Vec<Constant>,
    constant_index: HashMap<ConstantKey, u32>,
    pub(super) prototypes: Vec<Arc<Proto>>,
    pub(super) upvalues: Vec<(Box<[u8]>, Capture)>,
    locals: Vec<LocalVariable>,
    /// Indices into `locals` of the variables in scope; a variable's register is its place here.
    pub(super) active: Vec<usize>,
    /// Declared variables whose scope has not begun.
    pub(super) pending: Vec<usize>,
    pub(super) blocks: Vec<Block>,
    pub(super) free: u8,
    registers: u8,
    /// Jumps to the next instruction.
    pending_jumps: i32,
    /// The last instruction that a jump was led to.
    pub(super) last_target: i32,
    /// 0 in the main function of a chunk.
    pub(super) line_defined: u32,
    pub(super) parameters: u8,
    pub(super) variadic: Variadic,
}

impl Function {
    pub(super) fn new(line_defined: u32) -> Self {
        Self {
            code: Vec::new(),
            lines: Vec::new(),
            constants: Vec::new(),
            constant_index: HashMap::new(),
            prototypes: Vec::new(),
            upvalues: Vec::new(),
            locals: Vec::new(),
            active: Vec::new(),
            pending: Vec::new(),
            blocks: Vec::new(),
            free: 0,
            registers: 2,
            pending_jumps: NO_JUMP,
            last_target: -1,
            line_defined,
            parameters: 0,
            variadic: Variadic::No,
        }
    }

    pub(super) fn finish(self, source: &Arc<[u8]>) -> Proto {
        let (names, captures): (Vec<_>, Vec<_>) = self.upvalues.into_iter().unzip();
        Proto {
            code: self.code.into(),
            lines: self.lines.into(),
            constants: self.constants.into(),
            prototypes: self.prototypes.into(),
            captures: captures.into(),
            upvalues: names.into(),
            locals: self.locals.into(),
            source: Arc::clone(source),
            parameters: self.parameters,
            variadic: self.variadic,
            registers: self.registers,
        }
    }

    // Code.

    pub(super) fn emit(&mut self, instruction: Instruction, line: u32) -> usize {
        let here = self.code.len();
        self.patch_pending(here);
        self.code.push(instruction);
        self.lines.push(line);
        here
    }

    fn patch_pending(&mut self, here: usize) {
        let pending = std::mem::replace(&mut self.pending_jumps, NO_JUMP);
        self.patch_list_with(pending, here, NO_REGISTER, here);
    }

    pub(super) fn set_last_line(&mut self, line: u32) {
        if let Some(last) = self.lines.last_mut() {
            *last = line;
        }
    }

    // Constants.

    pub(super) fn constant(&mut self, constant: Constant) -> Outcome<u32> {
        let key = match &constant {
            Constant::Nil => ConstantKey::Nil,
            Constant::Boolean(value) => ConstantKey::Boolean(*value),
            Constant::Number(number) => ConstantKey::Number((number + 0.0).to_bits()),
            Constant::String(bytes) => ConstantKey::String(bytes.clone()),
        };
        if let Some(index) = self.constant_index.get(&key) {
            return Ok(*index);
        }
        let index = self.constants.len() as u32;
        if index >= 1 << 18 {
            return Err(Limit::Message("constant table overflow"));
        }
        self.constants.push(constant);
        self.constant_index.insert(key, index);
        Ok(index)
    }

    pub(super) fn is_number(&self, constant: u32) -> bool {
        matches!(self.constants.get(constant as usize), Some(Constant::Number(_)))
    }

    // Registers.

    pub(super) fn check_registers(&mut self, number: usize) -> Outcome<()> {
        let wanted = usize::from(self.free) + number;
        if wanted > usize::from(self.registers) {
            if wanted >= REGISTERS_MAX {
                return Err(Limit::Message("function or expression too complex"));
            }
            self.registers = wanted as u8;
        }
        Ok(())
    }

    pub(super) fn reserve(&mut self, number: usize) -> Outcome<()> {
        self.check_registers(number)?;
        self.free += number as u8;
        Ok(())
    }

    /// Gives a temporary register back; variables keep theirs.
    pub(super) fn release(&mut self, register: u8) {
        if usize::from(register) >= self.active.len() {
            self.free -= 1;
            debug_assert_eq!(register, self.free, "temporary registers are a stack");
        }
    }

    // Scopes.

    pub(super) fn declare(&mut self, name: &[u8]) -> Outcome<()> {
        if self.active.len() + self.pending.len() + 1 > LOCALS_MAX {
            return Err(Limit::Count(LOCALS_MAX, "local variables"));
        }
        self.locals.push(LocalVariable { name: name.into(), from: 0, to: 0 });
        self.pending.push(self.locals.len() - 1);
        Ok(())
    }

    /// The scope of the `number` oldest declared variables begins.
    pub(super) fn activate(&mut self, number: usize) {
        let here = self.code.len() as u32;
        for index in self.pending.drain(..number) {
            self.locals[index].from = here;
            self.active.push(index);
        }
    }

    /// The scope of the newest variable begins here, for messages.
    pub(super) fn restart_last_local(&mut self) {
        if let Some(index) = self.active.last() {
            self.locals[*index].from = self.code.len() as u32;
        }
    }

    pub(super) fn deactivate_to(&mut self, number: usize) {
        let here = self.code.len() as u32;
        for index in self.active.drain(number..) {
            self.locals[index].to = here;
        }
    }

    /// The register of the variable of a name.
    pub(super) fn find_local(&self, name: &[u8]) -> Option<u8> {
        self.active.iter().rposition(|index| *self.locals[*index].name == *name).map(|register| register as u8)
    }

    pub(super) fn find_upvalue(&mut self, name: &[u8], capture: Capture) -> Outcome<u8> {
        if let Some(index) = self.upvalues.iter().position(|(_, other)| *other == capture) {
            return Ok(index as u8);
        }
        if self.upvalues.len() >= UPVALUES_MAX {
            return Err(Limit::Count(UPVALUES_MAX, "upvalues"));
        }
        self.upvalues.push((name.into(), capture));
        Ok(self.upvalues.len() as u8 - 1)
    }

    /// The block of the variable in `register` has to close it.
    pub(super) fn note_captured(&mut self, register: u8) {
        if let Some(block) = self.blocks.iter_mut().rev().find(|block| block.outside <= usize::from(register)) {
            block.has_captured = true;
        }
    }

    // Jumps.

    pub(super) fn jump(&mut self, line: u32) -> usize {
        let pending = std::mem::replace(&mut self.pending_jumps, NO_JUMP);
        let here = self.emit(Instruction::Jump { to: NO_JUMP }, line);
        let mut list = here as i32;
        self.append_jumps(&mut list, pending);
        here
    }

    /// Marks the next instruction as a target.
    pub(super) fn label(&mut self) -> usize {
        self.last_target = self.code.len() as i32;
        self.code.len()
    }

    fn next_jump(&self, at: i32) -> i32 {
        self.code[at as usize].target().unwrap_or(NO_JUMP)
    }

    fn set_target(&mut self, at: i32, target: i32) {
        if let Some(to) = self.code[at as usize].target_mut() {
            *to = target;
        }
    }

    pub(super) fn append_jumps(&mut self, list: &mut i32, more: i32) {
        if more == NO_JUMP {
            return;
        }
        if *list == NO_JUMP {
            *list = more;
            return;
        }
        let mut last = *list;
        while self.next_jump(last) != NO_JUMP {
            last = self.next_jump(last);
        }
        self.set_target(last, more);
    }

    /// True when a jump of the list leaves without a value.
    pub(super) fn needs_value(&self, mut list: i32) -> bool {
        while list != NO_JUMP {
            if !matches!(self.code[list as usize], Instruction::TestSet { .. }) {
                return true;
            }
            list = self.next_jump(list);
        }
        false
    }

    /// Lets a test put its value into `register`, or nowhere; false for jumps without a value.
    fn set_test_register(&mut self, at: i32, register: u8) -> bool {
        let Instruction::TestSet { a, b, when, to } = &mut self.code[at as usize] else { return false };
        if register != NO_REGISTER && register != *b {
            *a = register;
        } else {
            self.code[at as usize] = Instruction::Test { a: *b, when: *when, to: *to };
        }
        true
    }

    pub(super) fn remove_values(&mut self, mut list: i32) {
        while list != NO_JUMP {
            self.set_test_register(list, NO_REGISTER);
            list = self.next_jump(list);
        }
    }

    /// Leads the jumps with a value to `with_value`, and the others to `without`.
    pub(super) fn patch_list_with(&mut self, mut list: i32, with_value: usize, register: u8, without: usize) {
        while list != NO_JUMP {
            let next = self.next_jump(list);
            let target = if self.set_test_register(list, register) { with_value } else { without };
            self.set_target(list, target as i32);
            list = next;
        }
    }

    pub(super) fn patch_list(&mut self, list: i32, target: usize) {
        if target == self.code.len() {
            self.patch_to_here(list);
        } else {
            self.patch_list_with(list, target, NO_REGISTER, target);
        }
    }

    pub(super) fn patch_to_here(&mut self, list: i32) {
        self.label();
        let mut pending = self.pending_jumps;
        self.append_jumps(&mut pending, list);
        self.pending_jumps = pending;
    }
}
