//! Ten pure programs beside PUC's Lua 5.1: `cargo run --profile fast -p almandine-lua --example speed [NAME]`.
//!
//! Each is run alternately here and by `lua5.1` (or what ALMANDINE_LUA51 names), which measures itself; medians of the processor's
//! time and their ratio are printed.

use std::process::Command;

use almandine_lua::{Machine, MachineOptions, NoHost, RunEnd, compile};

/// Names and texts.
const PROGRAMS: [(&str, &str); 10] = [
    ("fib", "local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end return fib(29)"),
    (
        "loops",
        "local sum = 0 for i = 1, 3000000 do if i % 3 == 0 then sum = sum + i else sum = sum - i * 0.5 end end
         local n = 0 while n < 2000000 do n = n + 1 end return sum + n",
    ),
    ("strings", "local s for r = 1, 100 do s = '' for i = 1, 1500 do s = s .. 'x' .. i end end return #s"),
    (
        "inserts",
        "local t for r = 1, 8 do t = {} for i = 1, 100000 do t[#t + 1] = i end for i = 1, 30000 do table.insert(t, i) end
         for i = 1, 40000 do t['k' .. i % 500] = i end end return #t",
    ),
    (
        "sort",
        "local t, x = {}, 42 for i = 1, 60000 do x = (x * 16807) % 2147483647 t[i] = x end table.sort(t)
         table.sort(t, function(a, b) return a > b end) return t[1]",
    ),
    (
        "closures",
        "local function counter() local n = 0 return function(d) n = n + d return n end end
         local total = 0 for i = 1, 200000 do local c = counter() c(1) c(2) total = total + c(3) end return total",
    ),
    (
        "patterns",
        "local text = ('key = value, number = 42; '):rep(40) local n = 0
         for r = 1, 1200 do for k, v in text:gmatch('(%w+)%s*=%s*(%w+)') do n = n + #k + #v end
         n = n + #text:gsub('%d+', '<%0>') + (text:find('nothing here', 1, true) or 0) + (text:find('; $') or 0) end return n",
    ),
    (
        "coroutines",
        "local function producer() for i = 1, 300000 do coroutine.yield(i) end end
         local co, sum = coroutine.wrap(producer), 0 for i = 1, 300000 do sum = sum + co() end return sum",
    ),
    (
        "concat",
        "local t = {} for i = 1, 1000 do t[i] = 'item' .. i end local n = 0
         for r = 1, 8000 do n = n + #table.concat(t, ',') + #(t[1] .. t[2] .. t[3] .. r) end return n",
    ),
    (
        "numbers",
        "local n = 0 for i = 1, 120000 do n = n + #tostring(i / 7) + #string.format('%d:%5.2f:%s', i, i / 3, i)
         n = n + tonumber(i .. '.5') end
         return n",
    ),
];

/// Runs of each program.
const RUNS: usize = 5;

fn main() {
    let only = std::env::args().nth(1);
    println!("{:<12}{:>10}{:>10}{:>8}", "", "here ms", "PUC ms", "ratio");
    for (name, text) in PROGRAMS.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)) {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            ours.push(here(text));
            theirs.push(there(text));
        }
        let (ours, theirs) = (median(ours), median(theirs));
        println!("{name:<12}{:>10.1}{:>10.1}{:>8.2}", ours * 1e3, theirs * 1e3, ours / theirs);
    }
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Seconds of the processor that this thread has used.
fn used() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts time");
    text.split(' ').next().and_then(|text| text.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

fn here(text: &str) -> f64 {
    let mut machine = Machine::new(&MachineOptions::default());
    let proto = compile(text.as_bytes(), b"=p").expect("the program compiles");
    let function = machine.load(&proto).expect("room");
    let began = used();
    machine.start(function, &[]);
    // As a server runs it: with a look at the clock now and then.
    while machine.run(&mut NoHost, 100_000) == RunEnd::Suspended {}
    let spent = used() - began;
    assert!(matches!(machine.results(), [almandine_lua::LuaValue::Number(_)]), "the program returns a number");
    spent
}

fn there(text: &str) -> f64 {
    let oracle = std::env::var("ALMANDINE_LUA51").unwrap_or_else(|_| "lua5.1".to_owned());
    let timed = format!("local function program() {text} end local began = os.clock() program() io.write(os.clock() - began)");
    let output = Command::new(&oracle).args(["-e", &timed]).output().expect("Lua 5.1 runs");
    String::from_utf8_lossy(&output.stdout).parse().expect("seconds")
}
