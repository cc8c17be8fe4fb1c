//! Values and references to objects of a heap.
//!
//! A value is 16 bytes and is copied. Objects are named by their index in the heap's slab of their type, so a virtual machine holds
//! no pointer and may move between threads.

/// A value of Lua.
// A tag of a whole word: values are copied as two words, never in pieces that the processor has to put together again.
#[derive(Clone, Copy, Debug, Default)]
#[repr(u64)]
pub enum LuaValue {
    /// `nil`
    #[default]
    Nil,
    /// `true` and `false`
    Boolean(bool),
    /// A number.
    Number(f64),
    /// A userdata that is only its own identity, as `cjson.null`.
    Light(u32),
    /// A string of bytes.
    String(StringRef),
    /// A table.
    Table(TableRef),
    /// A function that is written in Lua.
    Function(ClosureRef),
    /// A function of the library, or of the host.
    Native(NativeRef),
    /// A coroutine.
    Thread(ThreadRef),
}

const _: () = assert!(size_of::<LuaValue>() == 16);

/// A string in a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StringRef(pub(crate) u32);

/// A table in a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableRef(pub(crate) u32);

/// A function written in Lua, with its upvalues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClosureRef(pub(crate) u32);

/// A function that is written in Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NativeRef(pub(crate) u32);

/// A coroutine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadRef(pub(crate) u32);

/// A captured variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UpvalueRef(pub(crate) u32);

/// The bit of a reference to a string that was not interned when it was made.
const LONG: u32 = 1 << 31;

impl StringRef {
    pub(crate) const fn short(index: usize) -> Self {
        Self(index as u32)
    }

    pub(crate) fn long(index: usize) -> Self {
        Self(index as u32 | LONG)
    }

    /// True for a string whose equality is not that of its reference.
    pub(crate) fn is_long(self) -> bool {
        self.0 & LONG != 0
    }

    pub(crate) fn index(self) -> usize {
        (self.0 & !LONG) as usize
    }
}

impl LuaValue {
    /// The name of the value's type.
    #[must_use]
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Boolean(_) => "boolean",
            Self::Number(_) => "number",
            Self::Light(_) => "userdata",
            Self::String(_) => "string",
            Self::Table(_) => "table",
            Self::Function(_) | Self::Native(_) => "function",
            Self::Thread(_) => "thread",
        }
    }

    /// True for everything but `nil` and `false`.
    #[inline]
    #[must_use]
    pub fn is_true(self) -> bool {
        !matches!(self, Self::Nil | Self::Boolean(false))
    }

    /// True for `nil`.
    #[inline]
    #[must_use]
    pub fn is_nil(self) -> bool {
        matches!(self, Self::Nil)
    }

    /// True for functions of either language.
    #[must_use]
    pub fn is_function(self) -> bool {
        matches!(self, Self::Function(_) | Self::Native(_))
    }

    /// Equality of keys of tables, whose long strings are canonical.
    #[inline]
    pub(crate) fn same(self, other: Self) -> bool {
        match (self, other) {
            (Self::Nil, Self::Nil) => true,
            (Self::Boolean(a), Self::Boolean(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => a == b,
            (Self::Light(a), Self::Light(b)) => a == b,
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Table(a), Self::Table(b)) => a == b,
            (Self::Function(a), Self::Function(b)) => a == b,
            (Self::Native(a), Self::Native(b)) => a == b,
            (Self::Thread(a), Self::Thread(b)) => a == b,
            _ => false,
        }
    }
}
