//! What is known of an expression before its value is in a register.

/// End of a list of jumps.
pub(super) const NO_JUMP: i32 = -1;

/// Where a value is, or how it is had.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// No expression.
    Void,
    Nil,
    True,
    False,
    /// A constant, by index.
    Constant(u32),
    Number(f64),
    /// A local variable's register.
    Local(u8),
    Upvalue(u8),
    /// A global variable, by the constant that is its name.
    Global(u32),
    Indexed {
        table: u8,
        key: Key,
    },
    /// A comparison: the instruction jumps.
    Jump(usize),
    /// An instruction whose destination is still open.
    Relocatable(usize),
    /// A register.
    Register(u8),
    Call(usize),
    Vararg(usize),
}

/// A key of an indexed expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Register(u8),
    /// A constant that is a string.
    Field(u32),
    Constant(u32),
}

/// An expression with the jumps that leave it when it is true, and when it is false.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expression {
    pub(super) kind: Kind,
    pub(super) when_true: i32,
    pub(super) when_false: i32,
}

impl Expression {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, when_true: NO_JUMP, when_false: NO_JUMP }
    }

    pub(super) fn has_jumps(&self) -> bool {
        self.when_true != self.when_false
    }

    /// The number that the expression is.
    pub(super) fn numeral(&self) -> Option<f64> {
        match self.kind {
            Kind::Number(number) if !self.has_jumps() => Some(number),
            _ => None,
        }
    }

    /// True for what may have several values.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.kind, Kind::Call(_) | Kind::Vararg(_))
    }
}

/// Operators of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Arithmetic(crate::instruction::Arithmetic),
    Concat,
    Equal(bool),
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
}

/// Operators of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Negate,
    Not,
    Length,
}
