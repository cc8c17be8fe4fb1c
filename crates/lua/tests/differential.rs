//! Generated programs beside PUC's Lua 5.1: `lua5.1` in the path, which `cargo xtask test` installs, or what ALMANDINE_LUA51 names.
//!
//! ALMANDINE_LUA_PROGRAMS says how many programs, ALMANDINE_LUA_SEED where they begin.

mod common;
mod generate;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use almandine_lua::MachineOptions;

/// Programs that one process of the oracle runs.
const BATCH: u64 = 500;

const DRIVER: &str = "
local function show(v)
  local kind = type(v)
  if kind == 'table' or kind == 'function' or kind == 'thread' then return kind end
  return tostring(v)
end
for index, program in ipairs(programs) do
  local env = {}
  for k, v in pairs(_G) do env[k] = v end
  env._G = env
  env.out = function(...)
    local texts = {}
    for i = 1, select('#', ...) do texts[i] = show((select(i, ...))) end
    io.write(table.concat(texts, ' '), '\\n')
  end
  local f, message = loadstring(program, '=p')
  if not f then io.write('syntax: ', message, '\\n')
  else
    local ok, message = pcall(setfenv(f, env))
    if not ok then io.write('error: ', type(message) == 'string' and message or type(message), '\\n') end
  end
  io.write('\\1\\n')
end";

#[test]
fn generated_programs_behave_as_in_lua_5_1() {
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let oracle = std::env::var("ALMANDINE_LUA51").unwrap_or_else(|_| "lua5.1".to_owned());
    let found = Command::new(&oracle).arg("-v").output().is_ok();
    assert!(found, "there is no {oracle}: install Debian's package lua5.1, or name another binary by ALMANDINE_LUA51");
    let (seed, programs) = (number("ALMANDINE_LUA_SEED", 1), number("ALMANDINE_LUA_PROGRAMS", 1000));
    let mut differences = 0;
    for batch in 0..programs.div_ceil(BATCH) {
        let first = seed + batch * BATCH;
        let texts: Vec<String> = (first..first + BATCH).map(generate::program).collect();
        let expected = run_oracle(&oracle, &texts, first);
        for (index, (text, expected)) in texts.iter().zip(expected.split("\u{1}\n")).enumerate() {
            // The globals of a program are its own.
            let mut machine = common::machine(&MachineOptions { deprecated: true, ..MachineOptions::default() });
            let slice = if index % 2 == 0 { u64::MAX } else { 7 };
            let shown = common::show(&mut machine, text, slice);
            // Texts of objects have addresses, which differ.
            let has_address = shown.contains(": 0x") || expected.contains(": 0x");
            // Redis' compiler takes `[[` within a long string; and Lua's own command makes strings of gigabytes.
            let too_large = ["not enough memory", "resulting string too large"]
                .iter()
                .any(|refusal| shown.contains(refusal) || expected.contains(refusal));
            let documented = expected.contains("nesting of [[...]]") || too_large;
            if !has_address && !documented && shown != expected && !differs_from_itself(&oracle, text, expected) {
                differences += 1;
                let number = first + index as u64;
                eprintln!("program {number}:\n{text}\nis: {shown:.20000}\nought to be: {expected:.20000}\n");
                assert!(differences < 5, "too many differences");
            }
        }
    }
    assert_eq!(differences, 0);
}

/// Whether the oracle says something else when it runs once more: a program may look for a digit in the address of an object.
fn differs_from_itself(oracle: &str, text: &str, expected: &str) -> bool {
    (0..20).any(|_| run_oracle(oracle, &[text.to_owned()], 0).split("\u{1}\n").next() != Some(expected))
}

const ORACLE_MEMORY_KIB: u32 = 1 << 20;

fn run_oracle(oracle: &str, programs: &[String], first: u64) -> String {
    let mut text = "programs = {\n".to_owned();
    for program in programs {
        writeln!(text, "[====[\n{program}]====],").expect("a string takes text");
    }
    text.push('}');
    text.push_str(DRIVER);
    let file: PathBuf = std::env::temp_dir().join(format!("almandine-lua-{}-{first}.lua", std::process::id()));
    std::fs::write(&file, text).expect("the programs are written");
    // It makes strings as large as its memory admits.
    let limited = format!("ulimit -v {ORACLE_MEMORY_KIB}; exec {oracle} {}", file.display());
    let output = Command::new("sh").args(["-c", &limited]).output().expect("the oracle runs");
    std::fs::remove_file(&file).expect("the programs are removed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    without_places(&String::from_utf8_lossy(&output.stdout), &format!("{}:", file.display()))
}

/// A level of `error` beyond the program is a place in the oracle's own file, which has none here.
fn without_places(text: &str, file: &str) -> String {
    let mut parts = text.split(file);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    parts.for_each(|part| shown.push_str(part.split_once(": ").map_or(part, |(_, behind)| behind)));
    shown
}
