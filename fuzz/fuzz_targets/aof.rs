//! Any bytes are refused, or are commands that are the same when they come in small pieces, and when they are written again; a manifest
//! that is read and written is the same one.

#![no_main]

use std::io::Read;

use almandine_rdb::aof::{AofManifest, AofReader};
use libfuzzer_sys::fuzz_target;

/// Gives some bytes at a time.
struct Pieces<'b>(&'b [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.0.len().min(self.1).min(buffer.len());
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

type Commands = Vec<(u64, Vec<Vec<u8>>)>;

/// The commands, and where and why the bytes are refused.
fn commands(input: impl Read) -> (Commands, Option<String>, Option<i64>) {
    let (mut reader, mut commands) = (AofReader::new(input, 0), Vec::new());
    loop {
        match reader.read_command() {
            Ok(Some(command)) => commands.push((command.offset, command.words().map(<[u8]>::to_vec).collect())),
            Ok(None) => return (commands, None, reader.time_s()),
            Err(error) => return (commands, Some(error.to_string()), reader.time_s()),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let whole = commands(data);
    let pieces = if data.len() < 512 { 1 } else { 61 };
    assert_eq!(commands(Pieces(data, pieces)), whole);
    let mut again = Vec::new();
    for (_, words) in &whole.0 {
        assert!(!words.is_empty());
        again.extend(format!("*{}\r\n", words.len()).bytes());
        for word in words {
            again.extend(format!("${}\r\n", word.len()).bytes());
            again.extend(word);
            again.extend(b"\r\n");
        }
    }
    let (written, error, _) = commands(&*again);
    assert!(error.is_none() && written.iter().map(|(_, words)| words).eq(whole.0.iter().map(|(_, words)| words)));
    if let Ok(manifest) = AofManifest::decode(data) {
        assert_eq!(AofManifest::decode(&manifest.encode()), Ok(manifest));
    }
});
