//! The memory of a machine that runs one script after the other, each another text.
//!
//! ALMANDINE_LUA_SCRIPTS says how many.

use almandine_lua::{Machine, MachineOptions, NoHost, RunEnd, compile};

/// Bytes of the process that are in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux counts memory");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number of pages") * 4096
}

fn run(machine: &mut Machine, program: &str) -> RunEnd {
    let function = machine.load(&compile(program.as_bytes(), b"=user_script").expect("it compiles")).expect("room");
    machine.start(function, &[]);
    let end = machine.run(&mut NoHost, u64::MAX);
    machine.reset();
    end
}

#[test]
fn scripts_that_differ_leave_nothing_behind() {
    let scripts = std::env::var("ALMANDINE_LUA_SCRIPTS").ok().and_then(|text| text.parse().ok()).unwrap_or(60_000);
    let mut machine = Machine::new(&MachineOptions::default());
    machine.freeze();
    let used = machine.memory_used();
    let mut settled = 0;
    for number in 0..scripts {
        let program = format!(
            "local key{number} = 'a text of more than forty bytes, of script number {number}'
             local t = {{key{number}, name{0} = {number}, list = {{{number}, 'x{number}'}}}}
             local f = function(x) return x .. key{number} end
             local co = coroutine.wrap(function() coroutine.yield(cjson.encode(t)) end)
             return f(co()), loadstring('return {number}')(), ('x'):rep({number} % 100)",
            number % 7
        );
        assert_eq!(run(&mut machine, &program), RunEnd::Done);
        if number == scripts / 10 {
            settled = resident();
        }
    }
    assert_eq!(machine.memory_used(), used);
    let grown = resident().saturating_sub(settled);
    assert!(grown < 1 << 20, "{grown} bytes more");

    // What a run takes that makes much is there for the next one: freed memory stays with the process' allocator.
    let greedy = "local t = {} for i = 1, 2e5 do t[i] = {'k' .. i} end for i = 1, 1000 do loadstring('return ' .. i) end
                  local function deep(n) return n == 0 and 0 or 1 + deep(n - 1) end deep(15000)";
    // The allocator takes its final shape with the second run.
    (0..2).for_each(|_| assert_eq!(run(&mut machine, greedy), RunEnd::Done));
    let before = resident();
    for _ in 0..3 {
        assert_eq!(run(&mut machine, greedy), RunEnd::Done);
        assert_eq!(machine.memory_used(), used);
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes more");
}
