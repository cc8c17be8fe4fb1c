//! Generated programs by EVAL on two servers: `cargo run -p almandine-lua --example eval -- PORT OTHER_PORT SEED PROGRAMS`.
//!
//! Prints the programs whose replies differ, and how many there were.

#[path = "../tests/generate/mod.rs"]
mod generate;

use std::io::{Read, Write};
use std::net::TcpStream;

use almandine_testkit::{Value, client};

/// Programs that are sent together.
const BATCH: u64 = 1;

/// `out` collects lines, which are the reply; globals cannot be made, so that every second program has locals in their place.
fn script(seed: u64) -> String {
    let globals = if seed % 4 < 2 { "local g1, g2, undefined " } else { "" };
    format!(
        "local lines = {{}} local function show(v) local kind = type(v) \
         if kind == 'table' or kind == 'function' or kind == 'thread' then return kind end return tostring(v) end \
         local function out(...) local texts = {{}} for i = 1, select('#', ...) do texts[i] = show((select(i, ...))) end \
         lines[#lines + 1] = table.concat(texts, ' ') end {globals}\n{}return lines",
        generate::program(seed)
    )
}

/// The replies of a server to the scripts.
fn replies(server: &mut TcpStream, scripts: &[String]) -> std::io::Result<Vec<Value>> {
    let mut request = Vec::new();
    for script in scripts {
        client::encode(&[b"EVAL", script.as_bytes(), b"0"], &mut request);
    }
    server.write_all(&request)?;
    let (mut input, mut found) = (Vec::new(), Vec::new());
    let mut at = 0;
    while found.len() < scripts.len() {
        match client::decode(&input[at..])? {
            Some((value, length)) => {
                found.push(value);
                at += length;
            }
            None => {
                let mut chunk = [0; 1 << 16];
                let length = server.read(&mut chunk)?;
                if length == 0 {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
                input.extend_from_slice(&chunk[..length]);
            }
        }
    }
    Ok(found)
}

/// A reply as lines.
fn text(value: &Value) -> String {
    match value {
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join("\n"),
        Value::Bulk(bytes) | Value::Error(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    }
}

fn main() -> std::io::Result<()> {
    let words: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [port, other, seed, programs] = words[..] else {
        eprintln!("usage: eval PORT OTHER_PORT SEED PROGRAMS");
        std::process::exit(2);
    };
    let (mut server, mut other) =
        (TcpStream::connect(("127.0.0.1", port as u16))?, TcpStream::connect(("127.0.0.1", other as u16))?);
    let mut differences = 0;
    for batch in 0..programs.div_ceil(BATCH) {
        let scripts: Vec<String> = (seed + batch * BATCH..seed + (batch + 1) * BATCH).map(script).collect();
        let first = seed + batch * BATCH;
        let ended = |e| std::io::Error::other(format!("at program {first}: {e}"));
        let (ours, theirs) = (replies(&mut server, &scripts).map_err(ended)?, replies(&mut other, &scripts).map_err(ended)?);
        for ((script, ours), theirs) in scripts.iter().zip(ours).zip(theirs) {
            let (ours, theirs) = (text(&ours), text(&theirs));
            // Texts of objects have addresses, which differ.
            let address = ours.contains(": 0x") || theirs.contains(": 0x");
            if ours != theirs && !address && !ours.contains("not enough memory") && !ours.contains("ERR unknown error") {
                differences += 1;
                println!("{script}\n{ours}\n{theirs}\n");
            }
        }
    }
    println!("{programs} programs, {differences} differences");
    Ok(())
}
