//! Reading: one item after the other, each checked as far as where it ends. Values are checked by the caller.

use std::io::Read;

use super::fault::{Fault, FileError};
use super::shape::{self, Shape, Steps};
use super::version::{FileVersion, MAGIC_BYTES};
use super::window::Window;
use super::writer::EntryMetadata;
use super::{module, opcodes};
use crate::{Text, read_text};

/// The first version whose files end with a checksum.
const VERSION_SUMMED: u16 = 5;
/// Types of values of modules: of candidates of Redis 4.0, and since.
const MODULE_CANDIDATE: u8 = 6;
const MODULE: u8 = 7;

/// What is asked of a file.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// That its checksum is right, where it has one.
    pub checksum: bool,
    /// Whether versions younger than those known are tried, too.
    pub any_version: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { checksum: true, any_version: false }
    }
}

/// A part of a file.
#[derive(Debug)]
pub enum Item<'r> {
    /// A name and what it stands for.
    Aux {
        /// The name.
        name: Text<'r>,
        /// What it stands for.
        value: Text<'r>,
    },
    /// The database of the keys that follow.
    Database(u64),
    /// How large that database is.
    Sizes {
        /// Keys.
        keys: u64,
        /// Those among them that expire.
        expiring: u64,
    },
    /// How large a slot of that database is.
    SlotSizes {
        /// The slot.
        slot: u64,
        /// Keys.
        keys: u64,
        /// Those among them that expire.
        expiring: u64,
    },
    /// A slot import of Valkey that was under way: its name.
    SlotImport(Text<'r>),
    /// The text of a library of functions.
    Function(Text<'r>),
    /// The name of a module that keeps data beside the keys.
    ModuleAux(String),
    /// A key.
    Entry(Entry<'r>),
    /// A key whose collection has no elements. Redis passes it over.
    EmptyEntry(Text<'r>),
}

/// A key and its value.
#[derive(Clone, Debug)]
pub struct Entry<'r> {
    /// The key.
    pub key: Text<'r>,
    /// The type byte of its value.
    pub value_type: u8,
    /// The value behind the type byte.
    pub value: &'r [u8],
    /// What is said of it.
    pub metadata: EntryMetadata,
    /// Where the item ends.
    end: u64,
}

impl Entry<'_> {
    /// The value is not what its type byte promises.
    #[must_use]
    pub fn malformed(&self) -> FileError {
        FileError { offset: self.end - self.value.len() as u64, fault: Fault::Malformed("value") }
    }
}

/// Reads a file from its beginning to its end.
#[derive(Debug)]
pub struct FileReader<R> {
    window: Window<R>,
    version: FileVersion,
    ended: bool,
}

/// An item whose strings lie in the window, at these distances from its first byte.
enum Found {
    Aux { name: usize, value: usize },
    Database(u64),
    Sizes { keys: u64, expiring: u64 },
    SlotSizes { slot: u64, keys: u64, expiring: u64 },
    SlotImport { job: usize },
    Function { code: usize },
    ModuleAux(String),
    Entry { value_type: u8, key: usize, value: usize, shape: Shape, metadata: EntryMetadata },
}

impl<R: Read> FileReader<R> {
    /// Begins to read a file.
    ///
    /// # Errors
    /// When it is none, or of a version that is not known.
    pub fn open(input: R, options: ReadOptions) -> Result<Self, FileError> {
        let mut window = Window::new(input, options.checksum);
        let version = FileVersion::parse(window.array::<MAGIC_BYTES>()?, options.any_version)
            .map_err(|fault| FileError { offset: 0, fault })?;
        Ok(Self { window, version, ended: false })
    }

    /// The file's version.
    #[must_use]
    pub fn version(&self) -> FileVersion {
        self.version
    }

    /// Bytes that were read.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.window.offset()
    }

    /// The next item; `None` behind the last one.
    ///
    /// # Errors
    /// When the file is malformed, ends too early, cannot be read, or its checksum is wrong. Nothing is to be expected of it
    /// afterwards.
    pub fn read_item(&mut self) -> Result<Option<Item<'_>>, FileError> {
        if self.ended {
            return Ok(None);
        }
        let found = self.find()?;
        let Some(found) = found else {
            self.ended = true;
            return Ok(None);
        };
        self.item(found).map(Some)
    }

    /// Moves over the next item.
    fn find(&mut self) -> Result<Option<Found>, FileError> {
        let is_valkey = self.is_valkey();
        let window = &mut self.window;
        window.begin_item();
        let found = match window.byte()? {
            opcodes::END => return self.check_end().map(|()| None),
            opcodes::AUX => {
                let name = window.item_len();
                window.text()?;
                let value = window.item_len();
                window.text()?;
                Found::Aux { name, value }
            }
            opcodes::DATABASE => Found::Database(window.number()?),
            opcodes::SIZES => Found::Sizes { keys: window.number()?, expiring: window.number()? },
            opcodes::SLOT_SIZES => Found::SlotSizes { slot: window.number()?, keys: window.number()?, expiring: window.number()? },
            opcodes::SLOT_IMPORT if is_valkey => self.find_slot_import()?,
            opcodes::FUNCTION => {
                let code = window.item_len();
                window.text()?;
                Found::Function { code }
            }
            opcodes::FUNCTION_CANDIDATE => return Err(window.fault(Fault::FunctionCandidate)),
            opcodes::MODULE_AUX => Found::ModuleAux(module::skip_aux(window)?),
            first => self.find_entry(first)?,
        };
        Ok(Some(found))
    }

    fn is_valkey(&self) -> bool {
        self.version.dialect() == crate::value::hash::Dialect::Valkey
    }

    fn find_slot_import(&mut self) -> Result<Found, FileError> {
        let window = &mut self.window;
        let job = window.item_len();
        window.text()?;
        // Ranges of slots.
        for _ in 0..window.number()? {
            window.number()?;
            window.number()?;
        }
        Ok(Found::SlotImport { job })
    }

    /// What is said of a key, and the key. `first` is the first of its bytes.
    fn find_entry(&mut self, first: u8) -> Result<Found, FileError> {
        let is_valkey = self.is_valkey();
        let (mut value_type, mut metadata) = (first, EntryMetadata::default());
        let window = &mut self.window;
        loop {
            match value_type {
                opcodes::EXPIRY_MS => metadata.expiry_ms = Some(i64::from_le_bytes(window.array()?)),
                opcodes::EXPIRY_S => metadata.expiry_ms = Some(i64::from(i32::from_le_bytes(window.array()?)) * 1000),
                opcodes::IDLE => metadata.idle_s = Some(window.number()?),
                opcodes::FREQUENCY => metadata.frequency = Some(window.byte()?),
                opcodes::KEY_METADATA if !is_valkey => {
                    if window.number()? > 0 {
                        return Err(window.fault(Fault::KeyMetadata));
                    }
                }
                _ => break,
            }
            value_type = window.byte()?;
        }
        let unknown = FileError { offset: window.offset() - 1, fault: Fault::Type(value_type) };
        let key = window.item_len();
        if matches!(value_type, MODULE | MODULE_CANDIDATE) {
            window.text()?;
            let name = module::name(window.number()?);
            return Err(window.fault(Fault::ModuleValue(name)));
        }
        if !shape::is_known(value_type, self.version.number()) {
            return Err(unknown);
        }
        window.text()?;
        let value = window.item_len();
        let shape = shape::walk(window, value_type, self.version.number())?;
        Ok(Found::Entry { value_type, key, value, shape, metadata })
    }

    fn check_end(&mut self) -> Result<(), FileError> {
        self.window.begin_item();
        if self.version.number() < VERSION_SUMMED {
            return Ok(());
        }
        let (offset, sum) = (self.window.offset(), self.window.sum());
        let expected = u64::from_le_bytes(self.window.array()?);
        match sum {
            Some(found) if expected != 0 && expected != found => {
                Err(FileError { offset, fault: Fault::Checksum { expected, found } })
            }
            _ => Ok(()),
        }
    }

    fn item(&self, found: Found) -> Result<Item<'_>, FileError> {
        let (bytes, end) = (self.window.item(), self.window.offset());
        let text = |at: usize| {
            read_text(&mut &bytes[at..])
                .ok_or(FileError { offset: end - (bytes.len() - at) as u64, fault: Fault::Malformed("string") })
        };
        Ok(match found {
            Found::Aux { name, value } => Item::Aux { name: text(name)?, value: text(value)? },
            Found::Database(number) => Item::Database(number),
            Found::Sizes { keys, expiring } => Item::Sizes { keys, expiring },
            Found::SlotSizes { slot, keys, expiring } => Item::SlotSizes { slot, keys, expiring },
            Found::SlotImport { job } => Item::SlotImport(text(job)?),
            Found::Function { code } => Item::Function(text(code)?),
            Found::ModuleAux(name) => Item::ModuleAux(name),
            Found::Entry { key, shape: Shape::Empty, .. } => Item::EmptyEntry(text(key)?),
            Found::Entry { value_type, key, value, metadata, .. } => {
                Item::Entry(Entry { key: text(key)?, value_type, value: &bytes[value..], metadata, end })
            }
        })
    }
}
