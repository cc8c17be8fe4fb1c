//! The state of a machine: its heap, its stacks of values and frames, and what the run may still use.

use super::context::Continuation;
use crate::heap::Heap;
use crate::heap::gathered::Full;
use crate::heap::objects::Upvalue;
use crate::json::JsonSettings;
use crate::value::{LuaValue, StringRef, TableRef, ThreadRef, UpvalueRef};

/// Calls that may be open in a coroutine.
pub(crate) const CALLS_MAX: usize = 20_000;
/// Calls that go through native functions, metamethods and the like: what is C's stack in PUC's Lua.
pub(crate) const DEPTH_MAX: u16 = 200;
/// Values that a native function may have on the stack, arguments included.
pub(crate) const STACK_MAX: usize = 8000;
/// Slots of a new machine's stack.
pub(crate) const STACK_START: usize = 1024;
/// Slots beyond a function's registers: a metamethod and its arguments.
const SLACK: usize = 8;

/// Why a run does not go on by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// An error of Lua: `pcall` catches it.
    Error(LuaValue),
    /// The run is over: nothing of Lua catches it.
    Abort,
}

impl From<Full> for Fault {
    fn from(_: Full) -> Self {
        Self::Error(LuaValue::String(NOT_ENOUGH_MEMORY))
    }
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    Lua,
    /// A native function that does not wait for another.
    Native,
    /// `pcall`
    Protected,
    /// `xpcall`; its handler is the first argument's slot.
    Handled,
    /// `xpcall` whose handler runs; how often it failed.
    Handling(u8),
    /// `coroutine.resume`
    Resumer,
    /// A function of `coroutine.wrap`.
    Wrapper,
    /// A native function that goes on with the results of what it called.
    Continued,
    /// A host function that is to be called again.
    Host,
}

/// What happens with the results of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// They replace the function and its arguments: this number of them, or all.
    Results(i16),
    /// The same for the function of a `for` loop, which is called by way of C: it may not yield.
    Iterated(i16),
    /// The first one goes into a register of the caller.
    Register(u8),
    /// The first one decides the comparison that called; `negate`: by its contrary.
    Compare {
        negate: bool,
    },
    Discard,
    /// The first one is an operand of the concatenation that called, whose last register this is.
    Concat(u8),
    /// They are for the native frame below.
    Native,
    /// They are those of the coroutine or of the run.
    Exit,
}

/// A function that runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    pub(crate) then: Then,
    /// The slot of the function.
    pub(crate) function: u32,
    /// The slot of the first register, or of the first argument.
    pub(crate) base: u32,
    /// The next instruction; of a native frame that waits: the slot of the results.
    pub(crate) pc: u32,
    /// The number of the code; of a native frame: that of its arguments.
    pub(crate) proto: u32,
    pub(crate) tail_calls: u32,
    /// See [`DEPTH_MAX`].
    pub(crate) depth: u16,
}

/// How far a coroutine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Suspended,
    Running,
    /// It has resumed another one.
    Normal,
    Dead,
}

/// A stack of values with the frames on it.
#[derive(Debug)]
pub(crate) struct Coroutine {
    pub(crate) stack: Vec<LuaValue>,
    pub(crate) top: usize,
    pub(crate) frames: Vec<Frame>,
    /// Captured variables that are still on the stack, in ascending order.
    pub(crate) open: Vec<(u32, UpvalueRef)>,
    /// Of the frames that are [`FrameKind::Continued`], in their order.
    pub(crate) continuations: Vec<Box<dyn Continuation>>,
    pub(crate) status: Status,
    pub(crate) resumer: Option<ThreadRef>,
    /// The depth at which it was resumed.
    pub(crate) depth: u16,
}

impl Coroutine {
    pub(crate) fn new(size: usize) -> Self {
        Self {
            stack: vec![LuaValue::Nil; size],
            top: 0,
            frames: Vec::new(),
            open: Vec::new(),
            continuations: Vec::new(),
            status: Status::Suspended,
            resumer: None,
            depth: 0,
        }
    }
}

/// Names of metamethods; the first eight are remembered as absent by tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Event {
    Index,
    NewIndex,
    Equal,
    Length,
    Call,
    Less,
    LessEqual,
    Concat,
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    Negate,
    Mode,
    ToString,
    Metatable,
}

const EVENT_NAMES: [&str; 18] = [
    "__index",
    "__newindex",
    "__eq",
    "__len",
    "__call",
    "__lt",
    "__le",
    "__concat",
    "__add",
    "__sub",
    "__mul",
    "__div",
    "__mod",
    "__pow",
    "__unm",
    "__mode",
    "__tostring",
    "__metatable",
];

/// The message of a run that has used up its memory: it is there when nothing can be allocated.
pub(crate) const NOT_ENOUGH_MEMORY: StringRef = StringRef::short(EVENT_NAMES.len());
/// Strings that the machine refers to by their number.
pub(crate) const FIXED_STRINGS: usize = EVENT_NAMES.len() + 1;

impl Event {
    /// The name's string: they are the first strings of a heap.
    pub(crate) fn name(self) -> StringRef {
        StringRef::short(self as usize)
    }
}

/// What is known of errors.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    /// `pcall` gives the text of an error that is a table with the field `err`.
    pub(crate) tables: bool,
    /// Code and line of the last error.
    pub(crate) place: Option<(u32, u32)>,
}

/// Everything of a machine but its code.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) heap: Heap,
    /// The coroutine that runs, or the main one.
    pub(crate) at: Coroutine,
    pub(crate) current: ThreadRef,
    /// The other coroutines, by their references.
    pub(crate) coroutines: Vec<Option<Box<Coroutine>>>,
    pub(crate) globals: TableRef,
    pub(crate) string_metatable: Option<TableRef>,
    /// `next`, whatever a script has put into the global of this name.
    pub(crate) next_function: LuaValue,
    /// What `ipairs` returns: the same function each time.
    pub(crate) ipairs_iterator: LuaValue,
    /// Backward jumps and calls before the run is suspended.
    pub(crate) budget: u64,
    pub(crate) random: crate::random::Random,
    /// What the program that embeds the machine keeps alive.
    pub(crate) roots: Vec<LuaValue>,
    /// Where concatenations are put together.
    pub(crate) text: Vec<u8>,
    /// Results of host functions, kept for their memory.
    pub(crate) results: Vec<LuaValue>,
    /// What `os.clock` calls: the host's seconds.
    pub(crate) clock: fn() -> f64,
    /// What `cjson` does, until the run ends.
    pub(crate) json: JsonSettings,
    pub(crate) errors: Errors,
}

impl State {
    pub(crate) fn new(seed: u64) -> Self {
        let mut heap = Heap::new(seed);
        for name in EVENT_NAMES {
            heap.string(name.as_bytes());
        }
        heap.string(b"not enough memory");
        let current = heap.new_thread();
        let globals = heap.new_table(0, 64);
        Self {
            heap,
            at: Coroutine::new(STACK_START),
            current,
            coroutines: vec![None],
            globals,
            string_metatable: None,
            next_function: LuaValue::Nil,
            ipairs_iterator: LuaValue::Nil,
            budget: 0,
            random: crate::random::Random::default(),
            roots: Vec::new(),
            text: Vec::new(),
            results: Vec::new(),
            clock: || 0.0,
            json: JsonSettings::default(),
            errors: Errors::default(),
        }
    }

    #[inline]
    pub(crate) fn frame(&self) -> Frame {
        self.at.frames[self.at.frames.len() - 1]
    }

    #[inline]
    pub(crate) fn frame_mut(&mut self) -> &mut Frame {
        let last = self.at.frames.len() - 1;
        &mut self.at.frames[last]
    }

    /// Makes room for `slots` from the slot `from` on.
    #[inline]
    pub(crate) fn need(&mut self, from: usize, slots: usize) {
        if from + slots + SLACK > self.at.stack.len() {
            self.grow(from + slots + SLACK);
        }
    }

    #[cold]
    fn grow(&mut self, size: usize) {
        let size = size.max(self.at.stack.len() * 3 / 2);
        self.heap.memory.take((size - self.at.stack.len()) * size_of::<LuaValue>());
        self.at.stack.resize(size, LuaValue::Nil);
    }

    #[inline]
    pub(crate) fn push(&mut self, value: LuaValue) {
        if self.at.top == self.at.stack.len() {
            self.grow(self.at.top + 1);
        }
        let top = self.at.top;
        self.at.stack[top] = value;
        self.at.top += 1;
    }

    /// The variable that captures a slot of the running coroutine.
    pub(crate) fn capture(&mut self, slot: u32) -> UpvalueRef {
        let position = self.at.open.partition_point(|(other, _)| *other < slot);
        if let Some((other, upvalue)) = self.at.open.get(position)
            && *other == slot
        {
            return *upvalue;
        }
        let upvalue = self.heap.new_upvalue(Upvalue::Open { thread: self.current, slot });
        self.at.open.insert(position, (slot, upvalue));
        upvalue
    }

    /// Closes the captured variables in slots from `from` on.
    #[inline]
    pub(crate) fn close(&mut self, from: usize) {
        while let Some((slot, upvalue)) = self.at.open.last().copied()
            && slot as usize >= from
        {
            self.at.open.pop();
            self.heap.set_upvalue(upvalue, Upvalue::Closed(self.at.stack[slot as usize]));
        }
    }

    #[inline]
    pub(crate) fn upvalue(&self, upvalue: UpvalueRef) -> LuaValue {
        match self.heap.upvalue(upvalue) {
            Upvalue::Closed(value) => value,
            Upvalue::Open { thread, slot } if thread == self.current => self.at.stack[slot as usize],
            Upvalue::Open { thread, slot } => self.other(thread).map_or(LuaValue::Nil, |other| other.stack[slot as usize]),
        }
    }

    #[inline]
    pub(crate) fn set_upvalue(&mut self, upvalue: UpvalueRef, value: LuaValue) {
        match self.heap.upvalue(upvalue) {
            Upvalue::Closed(_) => self.heap.set_upvalue(upvalue, Upvalue::Closed(value)),
            Upvalue::Open { thread, slot } if thread == self.current => self.at.stack[slot as usize] = value,
            Upvalue::Open { thread, slot } => {
                if let Some(other) = self.coroutines.get_mut(thread.0 as usize).and_then(Option::as_mut) {
                    other.stack[slot as usize] = value;
                }
            }
        }
    }

    pub(crate) fn other(&self, thread: ThreadRef) -> Option<&Coroutine> {
        self.coroutines.get(thread.0 as usize).and_then(Option::as_deref)
    }

    pub(crate) fn status(&self, thread: ThreadRef) -> Status {
        if thread == self.current { Status::Running } else { self.other(thread).map_or(Status::Dead, |other| other.status) }
    }

    /// The metatable of a value.
    #[inline]
    pub(crate) fn metatable(&self, value: LuaValue) -> Option<TableRef> {
        match value {
            LuaValue::Table(table) => self.heap.table(table).metatable(),
            LuaValue::String(_) => self.string_metatable,
            _ => None,
        }
    }

    /// The metamethod of a value; nil without one.
    #[inline]
    pub(crate) fn metamethod(&mut self, value: LuaValue, event: Event) -> LuaValue {
        match self.metatable(value) {
            Some(metatable) => self.method_of(metatable, event),
            None => LuaValue::Nil,
        }
    }

    pub(crate) fn method_of(&mut self, metatable: TableRef, event: Event) -> LuaValue {
        let bit = 1_u8.checked_shl(event as u32).unwrap_or(0);
        let table = self.heap.table(metatable);
        if table.lacks(bit) {
            return LuaValue::Nil;
        }
        let method = table.get_string(event.name());
        if method.is_nil() && bit != 0 {
            self.heap.note_lacking(metatable, bit);
        }
        method
    }
}
