//! The manifest: which files are the log, and which run writes it.
//!
//! A text of lines, so that an operator can read it; its last line has the checksum of those before. It is replaced whole, and a
//! file is named here before anything in it counts.
//!
//! ```text
//! almandine log 1
//! id 000102030405060708090a0b0c0d0e0f
//! run 3
//! last segment 5
//! base 2 LSN 8192 through 12288 epoch 9 parts 1        once a base is named
//! rings 2 boot 0123… count 8 /dev/shm/almandine-…      while a run has rings
//! segment 4 run 2 LSN 8192 sum aabbccdd bytes 67108864
//! segment 5 run 3 LSN 16384 sum 11223344 bytes 67108864 key NAME 0123456789abcdef     behind a base, too, if it is encrypted
//! end 20480                                            after a clean end
//! sum 99887766
//! ```

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::crc32c::sum;
use crate::directory::{base_path, segment_path};
use crate::encryption::{KeyMark, LogKeys};
use crate::fault::Fault;

/// The format that this writes.
const FIRST_LINE: &str = "almandine log 1";

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The log's own number, at random.
    pub id: u128,
    /// The last run: each start of a server is one.
    pub run: u64,
    /// The greatest number that a segment has had.
    pub last_segment: u64,
    /// Where a reader begins instead of with the first segment.
    pub base: Option<BaseEntry>,
    /// The rings that may hold units which are not in the segments.
    pub rings: Option<RingsEntry>,
    /// In the order of what they hold.
    pub segments: Vec<SegmentEntry>,
    /// The last run has ended cleanly, and the log with it at this LSN.
    pub end: Option<u64>,
}

/// A segment, by where it begins: there the segment before ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentEntry {
    /// Its number, which no other segment of the log ever has.
    pub number: u64,
    /// The run that writes it.
    pub run: u64,
    /// Where it begins.
    pub lsn: u64,
    /// The sum of the part before its first one.
    pub sum: u32,
    /// The length of its file.
    pub bytes: u64,
    /// The key that it is encrypted with, if it is.
    pub key: Option<KeyMark>,
}

/// A base: a copy of all data, made while the log went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseEntry {
    /// Its number, which no other base of the log ever has.
    pub number: u64,
    /// Redo begins here, with a segment.
    pub lsn: u64,
    /// A log that ends before this does not complete the base.
    pub through: u64,
    /// The greatest epoch of what it holds.
    pub epoch: u64,
    /// Its files.
    pub parts: u32,
    /// The key that they are encrypted with, if they are.
    pub key: Option<KeyMark>,
}

/// Rings of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingsEntry {
    /// The run that writes them.
    pub run: u64,
    /// The boot of the machine in which they lie.
    pub boot: u128,
    /// How many they are.
    pub count: u32,
    /// Their directory: a path, or a name in the directory of the log.
    pub place: PathBuf,
}

impl RingsEntry {
    /// Their directory, for a log in `log`.
    #[must_use]
    pub fn directory(&self, log: &Path) -> PathBuf {
        log.join(&self.place)
    }
}

impl Manifest {
    /// As it lies in its file.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = format!("{FIRST_LINE}\nid {:032x}\nrun {}\nlast segment {}\n", self.id, self.run, self.last_segment);
        if let Some(BaseEntry { number, lsn, through, epoch, parts, key }) = self.base {
            let _ = writeln!(text, "base {number} LSN {lsn} through {through} epoch {epoch} parts {parts}{}", KeyWords(key));
        }
        if let Some(RingsEntry { run, boot, count, place }) = &self.rings {
            let _ = writeln!(text, "rings {run} boot {boot:032x} count {count} {}", place.display());
        }
        for SegmentEntry { number, run, lsn, sum, bytes, key } in &self.segments {
            let _ = writeln!(text, "segment {number} run {run} LSN {lsn} sum {sum:08x} bytes {bytes}{}", KeyWords(*key));
        }
        if let Some(lsn) = self.end {
            let _ = writeln!(text, "end {lsn}");
        }
        let _ = writeln!(text, "sum {:08x}", sum(text.as_bytes()));
        text
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it is not what [`Self::encode`] makes.
    pub fn decode(path: &Path, bytes: &[u8]) -> Result<Self, Fault> {
        let damaged = |offset: usize, why: &str| Fault::damaged(path, offset as u64, why);
        let text = std::str::from_utf8(bytes).map_err(|error| damaged(error.valid_up_to(), "it is no text"))?;
        let first = text.lines().next().unwrap_or_default();
        if first != FIRST_LINE && first.starts_with("almandine log ") {
            return Err(Fault::Unknown { path: path.to_owned(), offset: 0, what: format!("the format '{first}'") });
        }
        let body = text.rfind("sum ").filter(|at| *at > 0 && text.as_bytes()[*at - 1] == b'\n');
        let Some((body, last)) = body.map(|at| text.split_at(at)) else { return Err(damaged(text.len(), "it has no checksum")) };
        if last != format!("sum {:08x}\n", sum(body.as_bytes())) {
            return Err(damaged(body.len(), "its checksum is not that of its lines"));
        }
        let mut manifest = Self::default();
        let mut offset = 0;
        for line in body.split_inclusive('\n') {
            let known = offset == 0 && first == FIRST_LINE || manifest.take(line.trim_end_matches('\n')).is_some();
            if !known {
                let what = format!("the line '{}'", line.trim_end());
                return Err(Fault::Unknown { path: path.to_owned(), offset: offset as u64, what });
            }
            offset += line.len();
        }
        manifest.check().map_err(|why| damaged(0, why))?;
        Ok(manifest)
    }

    /// Takes what a line says; none when it is not known.
    fn take(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.splitn(7, ' ').collect();
        let hex = |word: &str| u128::from_str_radix(word, 16).ok();
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["id", id] => self.id = hex(id)?,
            ["run", run] => self.run = run.parse().ok()?,
            ["last", "segment", number] => self.last_segment = number.parse().ok()?,
            ["end", lsn] => self.end = Some(lsn.parse().ok()?),
            ["base", number, "LSN", lsn, "through", through, "epoch", epoch, "parts", parts, key @ ..] => {
                self.base = Some(BaseEntry {
                    number: number.parse().ok()?,
                    lsn: lsn.parse().ok()?,
                    through: through.parse().ok()?,
                    epoch: epoch.parse().ok()?,
                    parts: parts.parse().ok()?,
                    key: take_key(key)?,
                });
            }
            ["segment", number, "run", run, "LSN", lsn, "sum", sum, "bytes", bytes, key @ ..] => self.segments.push(SegmentEntry {
                number: number.parse().ok()?,
                run: run.parse().ok()?,
                lsn: lsn.parse().ok()?,
                sum: u32::from_str_radix(sum, 16).ok()?,
                bytes: bytes.parse().ok()?,
                key: take_key(key)?,
            }),
            _ => match words.as_slice() {
                ["rings", run, "boot", boot, "count", count, place] => {
                    self.rings = Some(RingsEntry {
                        run: run.parse().ok()?,
                        boot: hex(boot)?,
                        count: count.parse().ok()?,
                        place: place.into(),
                    });
                }
                _ => return None,
            },
        }
        Some(())
    }

    /// Whether all that it names can be read with these keys.
    ///
    /// # Errors
    /// With the first file that cannot.
    pub fn check_keys(&self, directory: &Path, keys: &LogKeys) -> Result<(), Fault> {
        let base = self.base.iter().map(|base| (base.key, base_path(directory, base.number, 0)));
        let segments = self.segments.iter().map(|segment| (segment.key, segment_path(directory, segment.number)));
        for (mark, path) in base.chain(segments) {
            if let Some(why) = mark.and_then(|mark| keys.check(&mark).err()) {
                return Err(Fault::Key { path, why });
            }
        }
        Ok(())
    }

    /// Whether it is consistent with itself.
    fn check(&self) -> Result<(), &'static str> {
        let ascend =
            |pair: &[SegmentEntry]| pair[0].number < pair[1].number && pair[0].run <= pair[1].run && pair[0].lsn <= pair[1].lsn;
        if !self.segments.windows(2).all(ascend) {
            return Err("its segments do not follow each other");
        }
        if self.segments.last().is_some_and(|last| last.run > self.run || last.number > self.last_segment) {
            return Err("a segment is later than the last one, or of a run that was not begun");
        }
        // An empty log may have a base before its first segment.
        let begins = |lsn: u64| {
            self.segments.iter().any(|segment| segment.lsn == lsn) || lsn == 0 && self.segments.is_empty() && self.last_segment == 0
        };
        if self.base.is_some_and(|base| !begins(base.lsn) || base.through < base.lsn) {
            return Err("no segment begins where its base does");
        }
        Ok(())
    }
}

/// The last words of a line, of a file that is encrypted.
struct KeyWords(Option<KeyMark>);

impl std::fmt::Display for KeyWords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |mark| write!(f, " key {mark}"))
    }
}

/// Reads them; none when they are not known.
fn take_key(words: &[&str]) -> Option<Option<KeyMark>> {
    match words {
        [] => Some(None),
        ["key", name, check] => KeyMark::parse(name, check).map(Some),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            id: 0x0102,
            run: 3,
            last_segment: 5,
            base: Some(BaseEntry { number: 2, lsn: 8192, through: 12288, epoch: 9, parts: 1, key: None }),
            rings: Some(RingsEntry { run: 2, boot: 0xAB, count: 8, place: "/dev/shm/a ring-".into() }),
            segments: vec![
                SegmentEntry { number: 4, run: 2, lsn: 8192, sum: 0xAABB_CCDD, bytes: 65536, key: None },
                SegmentEntry { number: 5, run: 3, lsn: 16384, sum: 0x11, bytes: 65536, key: None },
            ],
            end: Some(20480),
        }
    }

    /// The layout is fixed: logs outlive the program.
    #[test]
    fn the_text_is_pinned() {
        let golden = "almandine log 1\n\
            id 00000000000000000000000000000102\n\
            run 3\n\
            last segment 5\n\
            base 2 LSN 8192 through 12288 epoch 9 parts 1\n\
            rings 2 boot 000000000000000000000000000000ab count 8 /dev/shm/a ring-\n\
            segment 4 run 2 LSN 8192 sum aabbccdd bytes 65536\n\
            segment 5 run 3 LSN 16384 sum 00000011 bytes 65536\n\
            end 20480\n";
        assert_eq!(manifest().encode(), format!("{golden}sum {:08x}\n", sum(golden.as_bytes())));
    }

    /// What an earlier program does not know is the line as a whole.
    #[test]
    fn files_that_are_encrypted_are_named_with_their_keys() {
        let mark = KeyMark::parse("one", "00000000000000ab");
        let mut encrypted = manifest();
        encrypted.base = encrypted.base.map(|base| BaseEntry { key: mark, ..base });
        encrypted.segments[1].key = mark;
        let text = encrypted.encode();
        assert!(text.contains("\nbase 2 LSN 8192 through 12288 epoch 9 parts 1 key one 00000000000000ab\n"), "{text}");
        assert!(text.contains("\nsegment 5 run 3 LSN 16384 sum 00000011 bytes 65536 key one 00000000000000ab\n"), "{text}");
        assert_eq!(Manifest::decode(Path::new("MANIFEST"), text.as_bytes()).unwrap(), encrypted);
        let fault = encrypted.check_keys(Path::new("log"), &LogKeys::NONE).unwrap_err().to_string();
        assert!(fault.contains("base-00000002.0") && fault.contains("'one'"), "{fault}");
        assert!(manifest().check_keys(Path::new("log"), &LogKeys::NONE).is_ok());
    }

    #[test]
    fn it_is_read_as_written_and_no_other_text_passes() {
        let path = Path::new("MANIFEST");
        let text = manifest().encode();
        assert_eq!(Manifest::decode(path, text.as_bytes()).unwrap(), manifest());
        let least = Manifest { id: 1, ..Manifest::default() };
        assert_eq!(Manifest::decode(path, least.encode().as_bytes()).unwrap(), least);
        for len in 0..text.len() {
            assert!(Manifest::decode(path, &text.as_bytes()[..len]).is_err(), "{len}");
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[len] ^= 1 << bit;
                assert!(Manifest::decode(path, &bytes).is_err(), "byte {len}, bit {bit}");
            }
        }
    }

    #[test]
    fn what_a_later_program_writes_is_refused() {
        let path = Path::new("MANIFEST");
        let with_sum = |body: String| format!("{body}sum {:08x}\n", sum(body.as_bytes()));
        let body = manifest().encode().rsplit_once("sum ").unwrap().0.to_owned();
        for text in [with_sum(body.clone() + "tier s3\n"), with_sum(body.replace("log 1", "log 2"))] {
            assert!(matches!(Manifest::decode(path, text.as_bytes()), Err(Fault::Unknown { .. })), "{text}");
        }
        for (from, to) in [("run 3\nlast", "run 2\nlast"), ("segment 5", "segment 3"), ("2 LSN 8192 thr", "2 LSN 8193 thr")] {
            let text = with_sum(body.replace(from, to));
            assert!(matches!(Manifest::decode(path, text.as_bytes()), Err(Fault::Damaged { .. })), "{text}");
        }
    }
}
