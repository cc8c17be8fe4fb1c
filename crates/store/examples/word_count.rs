//! Counts words with two threads over one store: `cargo run --release -p almandine-store --example word_count -- FILE…`
//! (without a file, it counts its own source).

use almandine_store::{Kind, Options, Put, Slot, Store};
use std::error::Error;

const THREADS: usize = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let text = if files.is_empty() {
        include_str!("word_count.rs").to_owned()
    } else {
        files.iter().map(std::fs::read_to_string).collect::<Result<Vec<_>, _>>()?.concat()
    };
    let store = Store::open(Options::default())?;
    let words = store.allocate_namespace()?;
    let lines: Vec<&str> = text.lines().collect();
    let share = lines.len().div_ceil(THREADS).max(1);
    std::thread::scope(|scope| {
        let handles: Vec<_> =
            lines.chunks(share).map(|part| scope.spawn(|| count(&store, words, part).map_err(|error| error.to_string()))).collect();
        handles.into_iter().try_for_each(|handle| handle.join().map_err(|_| "a counting thread panicked".to_owned())?)
    })?;

    let mut session = store.session().ok_or("no free session")?;
    let mut counts: Vec<(u64, String)> = Vec::new();
    let mut cursor = 0;
    loop {
        session.enter(0);
        let scanned = session.keys(words).scan(cursor, 1000, |word, view| {
            let count = view.bytes().and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
            counts.push((count, String::from_utf8_lossy(word).into_owned()));
        });
        cursor = scanned.cursor;
        session.leave();
        if cursor == 0 {
            break;
        }
    }
    counts.sort_unstable_by(|left, right| right.cmp(left));
    for (count, word) in counts.iter().take(10) {
        println!("{count:8} {word}");
    }
    println!("{} different words", store.figures().namespace_len(words).0);
    Ok(())
}

fn count(store: &Store, words: u16, lines: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut session = store.session().ok_or("no free session")?;
    for line in lines {
        session.enter(0);
        for word in line.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()) {
            match session.entry(session.key(words, word.as_bytes())).expect("in memory") {
                Slot::Occupied(mut entry) => {
                    let count = u64::from_le_bytes(entry.value().try_into()?) + 1;
                    entry.write_at(0, &count.to_le_bytes())?;
                }
                Slot::Vacant(entry) => entry.insert(Kind::String, &1u64.to_le_bytes(), Put::default())?,
            }
        }
        session.leave();
    }
    Ok(())
}
