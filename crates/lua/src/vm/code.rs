//! The code that one machine has loaded: shared prototypes with their constants as values of the machine.
//!
//! It only grows while a script runs, and an entry does not move: the interpreter keeps a reference to the code that it executes
//! while it changes everything else.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use crate::heap::Heap;
use crate::instruction::Instruction;
use crate::proto::{Constant, Proto};
use crate::value::LuaValue;

/// Entries of the first chunk; each further one is twice as large.
const FIRST: usize = 64;
const CHUNKS: usize = 24;

/// A prototype as one machine sees it.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) proto: Arc<Proto>,
    pub(crate) constants: Box<[LuaValue]>,
    /// The functions inside, by their numbers here.
    pub(crate) prototypes: Box<[u32]>,
    /// What the instructions that ask for global variables have found, by their places; nothing for code without one.
    pub(crate) found: Box<[Cell<Found>]>,
}

/// What an instruction that asks for a global variable has found, where that stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    pub(crate) value: LuaValue,
    /// It holds as long as the code has this generation, which is never zero.
    pub(crate) generation: u32,
    /// Whether the next instruction is done with it: the value is that of its field.
    pub(crate) skips: bool,
}

/// A function of the library.
pub(crate) type Native = fn(&mut super::context::Context<'_>) -> super::context::Stepped;

/// The plain case of one: its result, `Some(None)` for no value; `None` when the call is not plain. Nothing has changed then.
pub(crate) type Plain = fn(&mut Heap, &[LuaValue]) -> Option<Option<LuaValue>>;

#[derive(Debug)]
pub(crate) struct Code {
    chunks: [OnceCell<Box<[OnceCell<Loaded>]>>; CHUNKS],
    length: Cell<usize>,
    natives: Vec<Native>,
    /// Their plain cases.
    plain: Vec<Option<Plain>>,
    /// How often what instructions have found was forgotten.
    generation: Cell<u32>,
    /// No function gets other globals.
    pub(crate) one_environment: bool,
    /// Entries below it outlive the region.
    watermark: usize,
}

impl Code {
    pub(crate) fn new(natives: Vec<Native>, plain: Vec<Option<Plain>>, one_environment: bool) -> Self {
        Self {
            chunks: std::array::from_fn(|_| OnceCell::new()),
            length: Cell::new(0),
            natives,
            plain,
            generation: Cell::new(1),
            one_environment,
            watermark: 0,
        }
    }

    /// The native function of a number; `None` for those of the host.
    #[inline]
    pub(crate) fn native(&self, function: u32) -> Option<Native> {
        self.natives.get(function as usize).copied()
    }

    /// The plain case of a native function, if it has one.
    #[inline]
    pub(crate) fn plain(&self, function: u32) -> Option<Plain> {
        self.plain.get(function as usize).copied().flatten()
    }

    #[inline]
    fn place(index: usize) -> (usize, usize) {
        let chunk = (index / FIRST + 1).ilog2() as usize;
        (chunk, index - FIRST * ((1 << chunk) - 1))
    }

    /// The code of a number that [`Self::load`] gave.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &Loaded {
        let (chunk, offset) = Self::place(index as usize);
        let loaded = self.chunks[chunk].get().and_then(|chunk| chunk[offset].get());
        match loaded {
            Some(loaded) => loaded,
            None => unreachable!("code {index} is not loaded"),
        }
    }

    /// Loads a function and those inside it; the function's number, or `None` when there is no more room.
    pub(crate) fn load(&self, proto: &Arc<Proto>, heap: &mut Heap) -> Option<u32> {
        let prototypes = proto.prototypes.iter().map(|inner| self.load(inner, heap)).collect::<Option<_>>()?;
        let constants: Box<[LuaValue]> = proto.constants.iter().map(|constant| value(constant, heap)).collect();
        let asks = proto.code.iter().any(|instruction| matches!(instruction, Instruction::GetGlobal { .. }));
        let found = vec![Cell::default(); if asks { proto.code.len() } else { 0 }].into_boxed_slice();
        heap.memory.take(size_of::<Loaded>() + constants.len() * size_of::<LuaValue>() + size_of_val(&*found));
        let index = self.length.get();
        let (chunk, offset) = Self::place(index);
        let entries = self.chunks.get(chunk)?.get_or_init(|| (0..FIRST << chunk).map(|_| OnceCell::new()).collect());
        let placed = entries[offset].set(Loaded { proto: Arc::clone(proto), constants, prototypes, found });
        debug_assert!(placed.is_ok(), "an entry is filled once");
        self.length.set(index + 1);
        Some(index as u32)
    }

    /// A global variable has changed: what instructions have found holds no more. That is one step, however much is loaded.
    pub(crate) fn forget_found(&self) {
        let next = self.generation.get().wrapping_add(1);
        if next == 0 {
            // All generations were used: those of the first ones are not to be taken for the next.
            let found = (0..self.length.get()).flat_map(|index| &*self.get(index as u32).found);
            found.for_each(|found| found.set(Found::default()));
        }
        self.generation.set(next.max(1));
    }

    /// What instructions find now has this generation.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.generation.get()
    }

    /// Constants of all that is loaded.
    pub(crate) fn constants(&self) -> impl Iterator<Item = LuaValue> + '_ {
        (0..self.length.get()).flat_map(|index| self.get(index as u32).constants.iter().copied())
    }

    pub(crate) fn begin_region(&mut self) {
        self.watermark = self.length.get();
    }

    /// Drops what was loaded in the region.
    pub(crate) fn cut(&mut self) {
        if self.length.get() == self.watermark {
            return;
        }
        for index in self.watermark..self.length.get() {
            let (chunk, offset) = Self::place(index);
            if let Some(entries) = self.chunks[chunk].get_mut() {
                entries[offset].take();
            }
        }
        self.length.set(self.watermark);
        let (chunk, _) = Self::place(self.watermark);
        for chunk in &mut self.chunks[chunk + 1..] {
            chunk.take();
        }
    }
}

fn value(constant: &Constant, heap: &mut Heap) -> LuaValue {
    match constant {
        Constant::Nil => LuaValue::Nil,
        Constant::Boolean(value) => LuaValue::Boolean(*value),
        Constant::Number(number) => LuaValue::Number(*number),
        Constant::String(bytes) => {
            let string = LuaValue::String(heap.string(bytes));
            // Constants are keys more often than not.
            heap.key(string)
        }
    }
}
