//! The keys of a key file: a line each, a name and 64 hexadecimal digits. The first one is written with; the others can be read.
//! They are zeroed when they are dropped; of what AWS-LC derives from them that is not known.

use std::fmt;
use std::io;
use std::path::Path;

use almandine_base::step;
use almandine_io::files;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use zeroize::Zeroizing;

use super::cipher::{FileCipher, FileKind, SALT_BYTES};
use super::storage::StorageCipher;

/// Bytes that a key's name has at most.
pub const KEY_NAME_BYTES: usize = 16;
const CHECK_BYTES: usize = 8;
/// Bytes of a mark.
pub const MARK_BYTES: usize = KEY_NAME_BYTES + CHECK_BYTES;
const SECRET_BYTES: usize = 32;
/// What a line of a key file is.
const LINE: &str = "a line is the name of a key (up to 16 letters, digits, '.', '_' and '-'), a space and 64 hexadecimal digits, \
                    as `openssl rand -hex 32` makes them";

/// Which key: its name in the key file, and a value that tells it from another key of that name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyMark {
    name: [u8; KEY_NAME_BYTES],
    check: [u8; CHECK_BYTES],
}

/// The keys of a file; none by default.
#[derive(Default)]
pub struct LogKeys {
    keys: Vec<LogKey>,
    /// Whether the first one is written with.
    writes: bool,
}

struct LogKey {
    mark: KeyMark,
    secret: Zeroizing<[u8; SECRET_BYTES]>,
}

/// Why something that is encrypted cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoKey {
    /// There are no keys.
    None(KeyMark),
    /// There are others.
    Missing(KeyMark),
    /// There is another one of that name.
    Another(KeyMark),
}

impl KeyMark {
    fn new(name: &str, secret: &[u8; SECRET_BYTES]) -> Option<Self> {
        let mut mark = Self::named(name)?;
        let derived = Salt::new(HKDF_SHA256, b"almandine log key").extract(secret);
        derived.expand(&[&b"check"[..]], Check).and_then(|check| check.fill(&mut mark.check)).ok()?;
        Some(mark)
    }

    /// One of this name, which is no other text.
    fn named(name: &str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let mut mark = Self::default();
        mark.name.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        (!name.is_empty() && name.bytes().all(is_plain)).then_some(mark)
    }

    /// As a manifest has it: the name, and the check value in hexadecimal.
    #[must_use]
    pub fn parse(name: &str, check: &str) -> Option<Self> {
        let mut mark = Self::named(name)?;
        mark.check = u64::from_str_radix(check, 16).ok().filter(|_| check.len() == CHECK_BYTES * 2)?.to_be_bytes();
        Some(mark)
    }

    /// As it lies in a head.
    #[must_use]
    pub fn encode(&self) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[..KEY_NAME_BYTES].copy_from_slice(&self.name);
        bytes[KEY_NAME_BYTES..].copy_from_slice(&self.check);
        bytes
    }

    /// Reads what [`Self::encode`] makes.
    #[must_use]
    pub fn decode(bytes: &[u8; MARK_BYTES]) -> Self {
        let mut mark = Self::default();
        mark.name.copy_from_slice(&bytes[..KEY_NAME_BYTES]);
        mark.check.copy_from_slice(&bytes[KEY_NAME_BYTES..]);
        mark
    }

    /// The name of the key.
    #[must_use]
    pub fn name(&self) -> String {
        let len = self.name.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        String::from_utf8_lossy(&self.name[..len]).into_owned()
    }
}

impl fmt::Display for KeyMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:016x}", self.name(), u64::from_be_bytes(self.check))
    }
}

/// The length of a check value.
#[derive(Clone, Copy)]
struct Check;

impl KeyType for Check {
    fn len(&self) -> usize {
        CHECK_BYTES
    }
}

impl LogKeys {
    /// No keys: nothing is encrypted, and nothing that is can be read.
    pub const NONE: Self = Self { keys: Vec::new(), writes: false };

    /// Those of a file that only its owner may read.
    ///
    /// # Errors
    /// When it cannot be read, others may read it, or it is no key file.
    pub fn read(path: &Path) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("the key file {}: {error}", path.display()));
        let text = Zeroizing::new(files::read_private(path).map_err(named)?);
        Self::parse(&text).map_err(|why| named(io::Error::new(io::ErrorKind::InvalidData, why)))
    }

    /// The keys of a text.
    ///
    /// # Errors
    /// With what is wrong, which tells nothing of keys.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let mut keys: Vec<LogKey> = Vec::new();
        for (line, number) in text.split(|byte| *byte == b'\n').zip(1..) {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let key = LogKey::parse(line).ok_or_else(|| format!("line {number} is no key: {LINE}"))?;
            if keys.iter().any(|other| other.mark.name == key.mark.name) {
                return Err(format!("line {number} has the name of a key before it"));
            }
            keys.push(key);
        }
        if keys.is_empty() {
            return Err(format!("it has no key: {LINE}"));
        }
        Ok(Self { keys, writes: true })
    }

    /// The same for reading alone: what is written is plain.
    #[must_use]
    pub fn for_reading(&self) -> Self {
        let keys = self.keys.iter().map(|key| LogKey { mark: key.mark, secret: key.secret.clone() }).collect();
        Self { keys, writes: false }
    }

    /// The key that is written with; none where files are plain.
    #[must_use]
    pub fn current(&self) -> Option<KeyMark> {
        self.keys.first().filter(|_| self.writes).map(|key| key.mark)
    }

    /// The cipher of a new file; none where it is to be plain.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn begin(&self, kind: FileKind) -> io::Result<Option<FileCipher>> {
        let first = self.keys.first().filter(|_| self.writes);
        first.map(|key| FileCipher::fresh(kind, (key.mark, &*key.secret))).transpose()
    }

    /// The cipher of a file that is read.
    ///
    /// # Errors
    /// When its key is not there.
    pub fn open(&self, kind: FileKind, mark: &KeyMark, salt: [u8; SALT_BYTES]) -> Result<FileCipher, NoKey> {
        let key = self.find(mark)?;
        FileCipher::of(kind, (key.mark, &*key.secret), salt).map_err(|_| NoKey::Missing(*mark))
    }

    /// The cipher of what a run puts to the devices below memory; none where that is to be plain.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn begin_storage(&self) -> io::Result<Option<StorageCipher>> {
        let first = self.keys.first().filter(|_| self.writes);
        first.map(|key| StorageCipher::fresh((key.mark, &*key.secret))).transpose()
    }

    /// The cipher of what an earlier run has put there.
    ///
    /// # Errors
    /// When its key is not there.
    pub fn open_storage(&self, mark: &KeyMark, salt: [u8; SALT_BYTES]) -> Result<StorageCipher, NoKey> {
        let key = self.find(mark)?;
        StorageCipher::of((key.mark, &*key.secret), salt).map_err(|_| NoKey::Missing(*mark))
    }

    /// Whether a key is there.
    ///
    /// # Errors
    /// When it is not.
    pub fn check(&self, mark: &KeyMark) -> Result<(), NoKey> {
        self.find(mark).map(|_| ())
    }

    fn find(&self, mark: &KeyMark) -> Result<&LogKey, NoKey> {
        if self.keys.is_empty() {
            return Err(NoKey::None(*mark));
        }
        let named = self.keys.iter().find(|key| key.mark.name == mark.name);
        let named = step!(MatchKeys, named, else self.keys.first()).ok_or(NoKey::Missing(*mark))?;
        let is_same = step!(MatchKeys, named.mark == *mark, else true);
        if is_same { Ok(named) } else { Err(NoKey::Another(*mark)) }
    }
}

impl LogKey {
    fn parse(line: &[u8]) -> Option<Self> {
        let space = line.iter().position(u8::is_ascii_whitespace)?;
        let (name, digits) = (std::str::from_utf8(&line[..space]).ok()?, line[space..].trim_ascii());
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        if digits.len() != SECRET_BYTES * 2 {
            return None;
        }
        for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self { mark: KeyMark::new(name, &secret)?, secret })
    }
}

impl fmt::Debug for LogKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| key.mark)).finish()
    }
}

impl fmt::Display for NoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None(mark) => write!(f, "it is encrypted with the key '{}', and no key file is given", mark.name()),
            Self::Missing(mark) => write!(f, "it is encrypted with the key '{}', which the key file does not have", mark.name()),
            Self::Another(mark) => {
                write!(f, "it is encrypted with another key '{}' than that of the key file", mark.name())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const TWO: &str = "F00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1F";

    #[test]
    fn the_first_key_is_written_with_and_all_are_read() {
        let keys = LogKeys::parse(format!("# of 2026\n\n k-2\t{TWO}\r\nk.1 {ONE}").as_bytes()).unwrap();
        let former = LogKeys::parse(format!("k.1 {ONE}").as_bytes()).unwrap();
        let (now, before) = (keys.current().unwrap(), former.current().unwrap());
        assert_eq!((now.name(), before.name()), ("k-2".to_owned(), "k.1".to_owned()));
        assert!(keys.check(&now).is_ok() && keys.check(&before).is_ok());
        assert_eq!(former.check(&now), Err(NoKey::Missing(now)));
        assert_eq!(LogKeys::NONE.check(&now), Err(NoKey::None(now)));
        let other = LogKeys::parse(format!("k.1 {TWO}").as_bytes()).unwrap();
        assert_eq!(other.check(&before), Err(NoKey::Another(before)));
        assert!(keys.for_reading().current().is_none() && keys.for_reading().check(&before).is_ok());
        assert_eq!(KeyMark::decode(&now.encode()), now);
        let text = now.to_string();
        let (name, check) = text.split_once(' ').unwrap();
        assert_eq!(KeyMark::parse(name, check), Some(now));
        for (name, check) in [("", check), ("a'", check), (&ONE[..17], check), (name, &check[1..]), (name, &ONE[..17])] {
            assert_eq!(KeyMark::parse(name, check), None, "{name} {check}");
        }
    }

    #[test]
    fn what_is_no_key_file_is_refused_and_not_told() {
        let long = format!("seventeen-letters {ONE}");
        let short = format!("k {}", &ONE[1..]);
        let letter = format!("k {}g", &ONE[1..]);
        let twice = format!("k {ONE}\nk {TWO}");
        for text in ["", "\n# no key\n", ONE, &long, &short, &letter, &twice, &format!("k' {ONE}"), &format!("k {ONE} {TWO}")] {
            let why = LogKeys::parse(text.as_bytes()).unwrap_err();
            assert!(!why.contains(&ONE[2..10]), "{why}");
        }
        let keys = LogKeys::parse(format!("k {ONE}").as_bytes()).unwrap();
        assert!(!format!("{keys:?}").contains("03, 4"), "{keys:?}");
    }
}
