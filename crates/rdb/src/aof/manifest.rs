//! The manifest: which files there are, and in which order.

use std::fmt;

use almandine_base::words;

/// The longest line of a manifest, with its end.
const LINE_BYTES_MAX: usize = 1024;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AofKind {
    /// All data at its moment.
    Base,
    /// Replaced by a younger base; to be deleted.
    History,
    /// What was done since.
    Increment,
}

/// A file that a manifest names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AofFile {
    /// Its name in the directory of the manifest.
    pub name: Vec<u8>,
    /// Its number among those of its kind.
    pub sequence: i64,
    /// What it is.
    pub kind: AofKind,
}

/// A manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AofManifest {
    /// The file that counts of this kind.
    pub base: Option<AofFile>,
    /// Those that do not count any more.
    pub history: Vec<AofFile>,
    /// Those behind the base, in their order.
    pub increments: Vec<AofFile>,
}

/// What is wrong with a manifest, and in which line, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// The line.
    pub line: usize,
    /// What.
    pub fault: ManifestFault,
}

/// What is wrong with a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestFault {
    /// It names no file.
    Empty,
    /// A line is no list of names and values, or one of file, seq and type is missing.
    Format,
    /// A line is too long, or has no end.
    Line,
    /// A name has a directory in it.
    Path,
    /// There are two bases.
    SecondBase,
    /// An incremental file has a number that is not greater than the one before.
    Order,
    /// A type that is not known.
    Type,
}

impl std::error::Error for ManifestError {}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The first words of each are those that Redis logs: tools look for them.
        let what = match self.fault {
            ManifestFault::Empty => return f.write_str("Found an empty AOF manifest"),
            ManifestFault::Format => "Invalid AOF manifest file format",
            ManifestFault::Line => "The AOF manifest file contains too long line",
            ManifestFault::Path => "File can't be a path, just a filename",
            ManifestFault::SecondBase => "Found duplicate base file information",
            ManifestFault::Order => "Found a non-monotonic sequence number",
            ManifestFault::Type => "Unknown AOF file type",
        };
        write!(f, "{what}, in line {}", self.line)
    }
}

impl AofManifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        let (mut manifest, mut rest, mut line) = (Self::default(), bytes, 0);
        while !rest.is_empty() {
            line += 1;
            let refuse = |fault| ManifestError { line, fault };
            let end = rest.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n');
            let end = end.ok_or(refuse(ManifestFault::Line))?;
            let text = &rest[..end];
            rest = &rest[end + 1..];
            if text.first() != Some(&b'#') {
                let file = parse(text.trim_ascii()).map_err(refuse)?;
                manifest.take(file).map_err(refuse)?;
            }
        }
        if manifest == Self::default() {
            return Err(ManifestError { line, fault: ManifestFault::Empty });
        }
        Ok(manifest)
    }

    /// Writes it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for AofFile { name, sequence, kind } in self.base.iter().chain(&self.history).chain(&self.increments) {
            let kind = match kind {
                AofKind::Base => 'b',
                AofKind::History => 'h',
                AofKind::Increment => 'i',
            };
            out.extend_from_slice(b"file ");
            quote(name, &mut out);
            out.extend_from_slice(format!(" seq {sequence} type {kind}\n").as_bytes());
        }
        out
    }

    fn take(&mut self, file: AofFile) -> Result<(), ManifestFault> {
        match file.kind {
            AofKind::Base if self.base.is_some() => return Err(ManifestFault::SecondBase),
            AofKind::Base => self.base = Some(file),
            AofKind::History => self.history.push(file),
            AofKind::Increment => {
                if self.increments.last().is_some_and(|last| last.sequence >= file.sequence) {
                    return Err(ManifestFault::Order);
                }
                self.increments.push(file);
            }
        }
        Ok(())
    }
}

/// A line without its end. What has a name that is not known is passed over.
fn parse(line: &[u8]) -> Result<AofFile, ManifestFault> {
    let words = words::split(line).ok_or(ManifestFault::Format)?;
    if words.len() < 6 || !words.len().is_multiple_of(2) {
        return Err(ManifestFault::Format);
    }
    let (mut name, mut sequence, mut kind) = (None, None, None);
    for pair in words.chunks_exact(2) {
        let value = &pair[1];
        match pair[0].to_ascii_lowercase().as_slice() {
            b"file" if value.contains(&b'/') => return Err(ManifestFault::Path),
            b"file" => name = Some(value.clone()).filter(|name| !name.is_empty()),
            b"seq" => sequence = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok()),
            b"type" => {
                kind = Some(match value.as_slice() {
                    b"b" => AofKind::Base,
                    b"h" => AofKind::History,
                    b"i" => AofKind::Increment,
                    _ => return Err(ManifestFault::Type),
                });
            }
            _ => {}
        }
    }
    match (name, sequence.filter(|sequence| *sequence > 0), kind) {
        (Some(name), Some(sequence), Some(kind)) => Ok(AofFile { name, sequence, kind }),
        _ => Err(ManifestFault::Format),
    }
}

/// Writes a word so that it is one word.
fn quote(word: &[u8], out: &mut Vec<u8>) {
    if word.iter().all(|byte| byte.is_ascii_graphic() && !b"\"'\\".contains(byte)) {
        return out.extend_from_slice(word);
    }
    words::quote(word, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, sequence: i64, kind: AofKind) -> AofFile {
        AofFile { name: name.into(), sequence, kind }
    }

    #[test]
    fn files_are_told_by_their_kinds() {
        let text = b"# remark\nfile a.1.base.rdb seq 1 type b\nfile a.1.incr.aof seq 1 type h\n\
                     file a.2.incr.aof seq 2 type i startoffset 7\nseq 5 type i file \" f \\n\\x41.aof \"\n";
        let manifest = AofManifest::decode(text).unwrap();
        assert_eq!(manifest.base, Some(file("a.1.base.rdb", 1, AofKind::Base)));
        assert_eq!(manifest.history, [file("a.1.incr.aof", 1, AofKind::History)]);
        let increments = [file("a.2.incr.aof", 2, AofKind::Increment), file(" f \nA.aof ", 5, AofKind::Increment)];
        assert_eq!(manifest.increments, increments);
        assert_eq!(AofManifest::decode(&manifest.encode()), Ok(manifest));
        let quotes = AofManifest { base: Some(file("'a\\\"\u{e9}", 1, AofKind::Base)), ..AofManifest::default() };
        assert_eq!(AofManifest::decode(&quotes.encode()), Ok(quotes));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let long = format!("file {} seq 1 type b\n", "x".repeat(1024));
        for (text, line, what) in [
            ("", 0, "Found an empty AOF manifest"),
            ("#\n", 1, "Found an empty AOF manifest"),
            ("\n", 1, "Invalid AOF manifest file format"),
            ("file a seq 1 type b", 1, "too long line"),
            (&long, 1, "too long line"),
            ("file a seq 1\n", 1, "Invalid AOF manifest file format"),
            ("file a seq 1 type\n", 1, "Invalid AOF manifest file format"),
            ("file a seq x type b\n", 1, "Invalid AOF manifest file format"),
            ("file a seq 1 type b x\n", 1, "Invalid AOF manifest file format"),
            ("file \"a seq 1 type b\n", 1, "Invalid AOF manifest file format"),
            ("filx a seq 1 type b\n", 1, "Invalid AOF manifest file format"),
            ("file a seq 1 type k\n", 1, "Unknown AOF file type"),
            ("file ../a seq 1 type b\n", 1, "File can't be a path"),
            ("file a seq 1 type b\nfile b seq 2 type b\n", 2, "Found duplicate base file information"),
            ("file a seq 2 type i\nfile b seq 2 type i\n", 2, "Found a non-monotonic sequence number"),
        ] {
            let error = AofManifest::decode(text.as_bytes()).unwrap_err();
            assert!(error.line == line && error.to_string().contains(what), "{text}: {error}");
        }
    }
}
