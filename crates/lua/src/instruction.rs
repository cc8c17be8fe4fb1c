//! Instructions of the register machine, eight bytes each.
//!
//! `a`, `b`, `c` are registers, `k` indexes the constants, and a jump names the instruction that follows it. A comparison jumps by
//! itself, when its outcome is `when`.

/// A register, or a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operand(pub(crate) u16);

/// The bit of constants.
const CONSTANT: u16 = 1 << 15;

impl Operand {
    /// Constants that fit.
    pub(crate) const CONSTANTS_MAX: u32 = CONSTANT as u32;

    pub(crate) fn register(register: u8) -> Self {
        Self(u16::from(register))
    }

    pub(crate) fn constant(constant: u32) -> Self {
        Self(constant as u16 | CONSTANT)
    }

    #[inline]
    pub(crate) fn is_constant(self) -> bool {
        self.0 & CONSTANT != 0
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        (self.0 & !CONSTANT) as usize
    }
}

/// A constant that a register is compared with, and the outcome that jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compared(u16);

impl Compared {
    pub(crate) fn new(constant: u32, when: bool) -> Self {
        Self(constant as u16 | if when { CONSTANT } else { 0 })
    }

    #[inline]
    pub(crate) fn when(self) -> bool {
        self.0 & CONSTANT != 0
    }

    #[inline]
    pub(crate) fn constant(self) -> usize {
        (self.0 & !CONSTANT) as usize
    }

    pub(crate) fn inverted(self) -> Self {
        Self(self.0 ^ CONSTANT)
    }
}

/// Operators of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instruction {
    Move {
        a: u8,
        b: u8,
    },
    LoadConstant {
        a: u8,
        k: u32,
    },
    /// Skips the next instruction, if so.
    LoadBoolean {
        a: u8,
        value: bool,
        skip: bool,
    },
    /// Registers `a` to `b`.
    LoadNil {
        a: u8,
        b: u8,
    },
    GetUpvalue {
        a: u8,
        b: u8,
    },
    SetUpvalue {
        a: u8,
        b: u8,
    },
    GetGlobal {
        a: u8,
        k: u32,
    },
    SetGlobal {
        a: u8,
        k: u32,
    },
    GetTable {
        a: u8,
        b: u8,
        c: u8,
    },
    /// By a constant string.
    GetField {
        a: u8,
        b: u8,
        k: u32,
    },
    /// By another constant.
    GetConstant {
        a: u8,
        b: u8,
        k: u32,
    },
    SetTable {
        a: u8,
        key: u8,
        value: Operand,
    },
    SetField {
        a: u8,
        value: Operand,
        k: u32,
    },
    SetConstant {
        a: u8,
        value: Operand,
        k: u32,
    },
    NewTable {
        a: u8,
        array: u16,
        hash: u16,
    },
    /// `a + 1 = b; a = b[k]`
    Method {
        a: u8,
        b: u8,
        k: u32,
    },
    Add {
        a: u8,
        b: u8,
        c: u8,
    },
    Sub {
        a: u8,
        b: u8,
        c: u8,
    },
    Mul {
        a: u8,
        b: u8,
        c: u8,
    },
    Div {
        a: u8,
        b: u8,
        c: u8,
    },
    Mod {
        a: u8,
        b: u8,
        c: u8,
    },
    Pow {
        a: u8,
        b: u8,
        c: u8,
    },
    AddConstant {
        a: u8,
        b: u8,
        k: u32,
    },
    SubConstant {
        a: u8,
        b: u8,
        k: u32,
    },
    MulConstant {
        a: u8,
        b: u8,
        k: u32,
    },
    DivConstant {
        a: u8,
        b: u8,
        k: u32,
    },
    ModConstant {
        a: u8,
        b: u8,
        k: u32,
    },
    /// Any operands.
    Arithmetic {
        operator: Arithmetic,
        a: u8,
        left: Operand,
        right: Operand,
    },
    Negate {
        a: u8,
        b: u8,
    },
    Not {
        a: u8,
        b: u8,
    },
    Length {
        a: u8,
        b: u8,
    },
    /// Registers `b` to `c`.
    Concat {
        a: u8,
        b: u8,
        c: u8,
    },
    Jump {
        to: i32,
    },
    /// A backward jump, which is counted.
    Loop {
        to: i32,
    },
    /// Where a loop begins whose backward jump is conditional.
    Tick,
    Equal {
        a: u8,
        b: u8,
        when: bool,
        to: i32,
    },
    Less {
        a: u8,
        b: u8,
        when: bool,
        to: i32,
    },
    LessEqual {
        a: u8,
        b: u8,
        when: bool,
        to: i32,
    },
    EqualConstant {
        a: u8,
        k: Compared,
        to: i32,
    },
    /// Register < constant.
    LessConstant {
        a: u8,
        k: Compared,
        to: i32,
    },
    LessEqualConstant {
        a: u8,
        k: Compared,
        to: i32,
    },
    /// Constant < register.
    GreaterConstant {
        a: u8,
        k: Compared,
        to: i32,
    },
    GreaterEqualConstant {
        a: u8,
        k: Compared,
        to: i32,
    },
    /// Jumps when the truth of `a` is `when`.
    Test {
        a: u8,
        when: bool,
        to: i32,
    },
    /// The same, and copies `b` to `a` then.
    TestSet {
        a: u8,
        b: u8,
        when: bool,
        to: i32,
    },
    /// `b` is the number of arguments and one, `c` that of results and one; 0: up to the top.
    Call {
        a: u8,
        b: u8,
        c: u8,
    },
    TailCall {
        a: u8,
        b: u8,
    },
    Return {
        a: u8,
        b: u8,
    },
    ForPrepare {
        a: u8,
        to: i32,
    },
    ForLoop {
        a: u8,
        to: i32,
    },
    /// Calls the iterator; `c` results.
    IteratorCall {
        a: u8,
        c: u8,
    },
    IteratorLoop {
        a: u8,
        to: i32,
    },
    /// `count` values (0: up to the top) behind `a`, as the batch `batch`, from 1.
    SetList {
        a: u8,
        count: u8,
        batch: u32,
    },
    Close {
        a: u8,
    },
    Closure {
        a: u8,
        prototype: u32,
    },
    /// `b` as in a call's `c`.
    Vararg {
        a: u8,
        b: u8,
    },
}

const _: () = assert!(size_of::<Instruction>() == 8);

/// Values that one [`Instruction::SetList`] sets.
pub(crate) const LIST_BATCH: usize = 50;

impl Instruction {
    /// The target of a jump.
    pub(crate) fn target_mut(&mut self) -> Option<&mut i32> {
        match self {
            Self::Jump { to }
            | Self::Loop { to }
            | Self::Equal { to, .. }
            | Self::Less { to, .. }
            | Self::LessEqual { to, .. }
            | Self::EqualConstant { to, .. }
            | Self::LessConstant { to, .. }
            | Self::LessEqualConstant { to, .. }
            | Self::GreaterConstant { to, .. }
            | Self::GreaterEqualConstant { to, .. }
            | Self::Test { to, .. }
            | Self::TestSet { to, .. }
            | Self::ForPrepare { to, .. }
            | Self::ForLoop { to, .. }
            | Self::IteratorLoop { to, .. } => Some(to),
            _ => None,
        }
    }

    /// The target of a jump.
    pub(crate) fn target(mut self) -> Option<i32> {
        self.target_mut().map(|to| *to)
    }

    /// Turns the condition of a comparison or test round.
    pub(crate) fn invert(&mut self) {
        match self {
            Self::Equal { when, .. }
            | Self::Less { when, .. }
            | Self::LessEqual { when, .. }
            | Self::Test { when, .. }
            | Self::TestSet { when, .. } => *when = !*when,
            Self::EqualConstant { k, .. }
            | Self::LessConstant { k, .. }
            | Self::LessEqualConstant { k, .. }
            | Self::GreaterConstant { k, .. }
            | Self::GreaterEqualConstant { k, .. } => *k = k.inverted(),
            _ => {}
        }
    }

    /// Sets the register that takes the result of an expression.
    pub(crate) fn set_destination(&mut self, register: u8) {
        match self {
            Self::GetUpvalue { a, .. }
            | Self::GetGlobal { a, .. }
            | Self::GetTable { a, .. }
            | Self::GetField { a, .. }
            | Self::GetConstant { a, .. }
            | Self::NewTable { a, .. }
            | Self::Add { a, .. }
            | Self::Sub { a, .. }
            | Self::Mul { a, .. }
            | Self::Div { a, .. }
            | Self::Mod { a, .. }
            | Self::Pow { a, .. }
            | Self::AddConstant { a, .. }
            | Self::SubConstant { a, .. }
            | Self::MulConstant { a, .. }
            | Self::DivConstant { a, .. }
            | Self::ModConstant { a, .. }
            | Self::Arithmetic { a, .. }
            | Self::Negate { a, .. }
            | Self::Not { a, .. }
            | Self::Length { a, .. }
            | Self::Concat { a, .. }
            | Self::Closure { a, .. }
            | Self::Vararg { a, .. } => *a = register,
            _ => debug_assert!(false, "{self:?} has no destination to set"),
        }
    }

    /// True when the instruction changes `register`.
    pub(crate) fn sets(self, register: u8) -> bool {
        match self {
            Self::LoadNil { a, b } => (a..=b).contains(&register),
            Self::Method { a, .. } => register == a || register == a.wrapping_add(1),
            Self::Call { a, .. } | Self::TailCall { a, .. } => register >= a,
            Self::IteratorCall { a, .. } => register >= a.saturating_add(2),
            Self::Vararg { a, b } => register >= a && (b == 0 || register < a.saturating_add(b - 1)),
            Self::Move { a, .. }
            | Self::LoadConstant { a, .. }
            | Self::LoadBoolean { a, .. }
            | Self::GetUpvalue { a, .. }
            | Self::GetGlobal { a, .. }
            | Self::GetTable { a, .. }
            | Self::GetField { a, .. }
            | Self::GetConstant { a, .. }
            | Self::NewTable { a, .. }
            | Self::Add { a, .. }
            | Self::Sub { a, .. }
            | Self::Mul { a, .. }
            | Self::Div { a, .. }
            | Self::Mod { a, .. }
            | Self::Pow { a, .. }
            | Self::AddConstant { a, .. }
            | Self::SubConstant { a, .. }
            | Self::MulConstant { a, .. }
            | Self::DivConstant { a, .. }
            | Self::ModConstant { a, .. }
            | Self::Arithmetic { a, .. }
            | Self::Negate { a, .. }
            | Self::Not { a, .. }
            | Self::Length { a, .. }
            | Self::Concat { a, .. }
            | Self::TestSet { a, .. }
            | Self::ForLoop { a, .. }
            | Self::ForPrepare { a, .. }
            | Self::Closure { a, .. } => a == register,
            _ => false,
        }
    }
}
