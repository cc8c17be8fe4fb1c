//! The language and its messages, as PUC's Lua 5.1 has them.

mod common;

use almandine_lua::{Host, HostCall, HostOutcome, LuaValue, MachineOptions, NoHost, RunEnd, Values, compile};
use common::{machine, show};

fn shows(program: &str, expected: &str) {
    let mut machine = machine(&MachineOptions { deprecated: true, ..MachineOptions::default() });
    assert_eq!(show(&mut machine, program, u64::MAX).trim_end(), expected, "{program}");
    assert_eq!(show(&mut machine, program, 1).trim_end(), expected, "suspended at each jump and call: {program}");
}

#[test]
fn values_and_operators() {
    shows("out(1, 2.5, 1e15, 0.1 + 0.2, -0, 2^53, 7 % -3, 10 / 4)", "1 2.5 1e+15 0.3 -0 9.007199254741e+15 -2 2.5");
    shows("out(1 and 2, nil or 'x', not 1, '10' + 5, 10 .. 20, 1 == '1', 'a' < 'b')", "2 x false 15 1020 false true");
    shows("local t = {1, nil, 3; x = 4, [10] = 5} out(#t, t.x, t[10], #'abc')", "3 4 5 3");
}

#[test]
fn scopes_closures_and_loops() {
    shows("local f = {} for i = 1, 3 do f[i] = function() i = i + 1 return i end end out(f[1](), f[1](), f[2]())", "2 3 3");
    shows("local n = 0 repeat local done = n >= 3 n = n + 1 until done out(n)", "4");
    shows("for i = 3, 1, -1 do if i == 2 then break end out(i) end", "3");
    shows("local function f(...) return select('#', ...), ... end out((f(1)), f(nil, nil))", "1 2 nil nil");
    shows("local function f(...) return arg.n, arg[2] end out(f('a', 'b'))", "2 b");
    shows("local a, b = 1, 2 a, b = b, a out(a, b)", "2 1");
    shows("local function loop(n) if n == 0 then return 'end' end return loop(n - 1) end out(loop(100000))", "end");
}

#[test]
fn errors_name_variables_and_lines() {
    for (program, expected) in [
        ("local x\nx.y = 1", "error: p:2: attempt to index local 'x' (a nil value)"),
        ("return a.b.c", "error: p:1: attempt to index global 'a' (a nil value)"),
        ("local t = {} return t.a.b", "error: p:1: attempt to index field 'a' (a nil value)"),
        ("local t = {} t:m()", "error: p:1: attempt to call method 'm' (a nil value)"),
        ("local t = {} return function() return t + 1 end", ""),
        (
            "local u = {} ; (function() return u + 1 end)()",
            "error: p:1: attempt to perform arithmetic on upvalue 'u' (a table value)",
        ),
        ("local m = {} return (m or 1) + 1", "error: p:1: attempt to perform arithmetic on a table value"),
        ("return 1 < 'x'", "error: p:1: attempt to compare number with string"),
        ("return {} .. 'x'", "error: p:1: attempt to concatenate a table value"),
        ("return #5", "error: p:1: attempt to get length of a number value"),
        ("string.rep()", "error: p:1: bad argument #1 to 'rep' (string expected, got no value)"),
        ("('x'):rep({})", "error: p:1: bad argument #1 to 'rep' (number expected, got table)"),
        ("for i = 1, {} do end", "error: p:1: 'for' limit must be a number"),
        ("error('x', 0)", "error: x"),
        ("local function f() error('x', 2) end\nf()", "error: p:2: x"),
        ("local function f() return 1 + f() end f()", "error: p:1: stack overflow"),
        ("x = = 1", "syntax: p:1: unexpected symbol near '='"),
        ("for i = 1 do end", "syntax: p:1: ',' expected near 'do'"),
        ("if x then\n\nfoo()", "syntax: p:3: 'end' expected (to close 'if' at line 1) near '<eof>'"),
        ("return 'abc", "syntax: p:1: unfinished string near '<eof>'"),
        ("break", "syntax: p:1: no loop to break near '<eof>'"),
    ] {
        shows(program, expected);
    }
}

#[test]
fn protected_calls_catch_errors_but_no_aborts() {
    shows("out(pcall(error, {}), pcall(error), (select(2, pcall(error, 'm'))))", "false false m");
    shows("out(xpcall(function() error('e', 0) end, function(m) return m .. '!' end))", "false e!");
    shows("local function f() return pcall(f) end out(select(-1, f()))", "C stack overflow");

    struct Aborts;
    impl Host for Aborts {
        fn call(&mut self, _function: u32, _call: &mut HostCall<'_>) -> HostOutcome {
            HostOutcome::Abort
        }
    }
    let mut machine = machine(&MachineOptions::default());
    for program in [
        "pcall(out) return 1",
        "xpcall(out, function() return 1 end) return 1",
        "coroutine.resume(coroutine.create(function() pcall(out) end)) return 1",
    ] {
        let function = machine.load(&compile(program.as_bytes(), b"=p").expect("it compiles")).expect("room");
        machine.start(function, &[]);
        assert_eq!(machine.run(&mut Aborts, u64::MAX), RunEnd::Aborted, "{program}");
        machine.reset();
    }
    assert_eq!(show(&mut machine, "out(1)", u64::MAX), "1\n", "the machine is whole behind an abort");
}

#[test]
fn coroutines_yield_resume_and_die() {
    shows(
        "local co = coroutine.create(function(a) local b = coroutine.yield(a + 1) error('x' .. b, 0) end)
         out(coroutine.resume(co, 1)) out(coroutine.resume(co, 5)) out(coroutine.resume(co)) out(coroutine.status(co))",
        "true 2\nfalse x5\nfalse cannot resume dead coroutine\ndead",
    );
    shows("local gen = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end) out(gen(), gen(), gen())", "1 2 3");
    shows(
        "out(coroutine.resume(coroutine.create(function() return pcall(coroutine.yield) end)))",
        "true false attempt to yield across metamethod/C-call boundary",
    );
}

#[test]
fn a_host_function_that_suspends_is_called_again() {
    struct Later(u32);
    impl Host for Later {
        fn call(&mut self, _function: u32, call: &mut HostCall<'_>) -> HostOutcome {
            self.0 += 1;
            if self.0 % 2 == 1 {
                return HostOutcome::Suspend;
            }
            let values = call.arguments().to_vec();
            values.into_iter().for_each(|value| call.push(value));
            HostOutcome::Return
        }
    }
    let mut machine = machine(&MachineOptions::default());
    let echo = machine.host_function(1);
    machine.set_global("echo", echo);
    let program = "local t = {} for i = 1, 3 do t[i] = select(2, pcall(echo, i * 2)) end return t[1], t[2], t[3]";
    let function = machine.load(&compile(program.as_bytes(), b"=p").expect("it compiles")).expect("room");
    machine.start(function, &[]);
    let (mut host, mut suspended) = (Later(0), 0);
    while machine.run(&mut host, u64::MAX) == RunEnd::Suspended {
        suspended += 1;
    }
    assert_eq!(suspended, 3);
    let numbers: Vec<f64> = machine.results().iter().map(|value| if let LuaValue::Number(n) = value { *n } else { -1.0 }).collect();
    assert_eq!(numbers, [2.0, 4.0, 6.0]);
}

#[test]
fn frozen_tables_refuse_every_change() {
    let mut machine = machine(&MachineOptions { deprecated: true, ..MachineOptions::default() });
    machine.freeze();
    for change in [
        "x = 1",
        "string.rep = 1",
        "rawset(_G, 'x', 1)",
        "setmetatable(_G, {})",
        "table.insert(math, 1)",
        "getmetatable('').__index = 1",
        "getmetatable('').x = 1",
        "for k in pairs(table) do table[k] = nil end",
        "_G._G = nil",
    ] {
        let text = show(&mut machine, change, u64::MAX);
        assert!(text.contains("Attempt to modify a readonly table"), "{change}: {text}");
    }
    assert_eq!(show(&mut machine, "local t = {1} t[2] = 2 out(#t)", u64::MAX), "2\n");
}

#[test]
fn memory_has_a_limit_that_a_script_may_catch_and_reset_gives_all_back() {
    let mut machine = machine(&MachineOptions { memory_limit: 8 << 20, ..MachineOptions::default() });
    let used = machine.memory_used();
    for program in [
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 2 ^ 29)",
        "local function f() return f, f() end local t = {} for i = 1, 1e9 do t[i] = function() return i end end",
        "return (('x'):rep(2 ^ 20):gsub('x', ('y'):rep(100)))",
        "local t = {} for i = 1, 1e9 do t[i] = 'key' .. i end",
        "local t = {} for i = 1, 1e9 do t[i] = coroutine.create(function() end) end",
    ] {
        assert_eq!(show(&mut machine, program, u64::MAX).replace("p:1: ", ""), "error: not enough memory\n", "{program}");
        assert_eq!(machine.memory_used(), used, "{program}");
    }
    let caught = "out(pcall(function() local s = 'x' while true do s = s .. s end end))";
    assert_eq!(show(&mut machine, caught, u64::MAX), "false not enough memory\n");
    let garbage = "local s for i = 1, 200000 do s = {i, 'x' .. i} end out(s[2])";
    assert_eq!(show(&mut machine, garbage, u64::MAX), "x200000\n");
    assert_eq!(machine.memory_used(), used);
}

#[test]
fn what_an_older_object_refers_to_survives_a_reset() {
    let mut machine = machine(&MachineOptions::default());
    let library =
        "local n, last = 0, {} return function(x) n = n + 1 last = {x, last[1]} return n .. last[1] .. (last[2] or '-') end";
    let function = machine.load(&compile(library.as_bytes(), b"=lib").expect("it compiles")).expect("room");
    machine.start(function, &[]);
    assert_eq!(machine.run(&mut NoHost, u64::MAX), RunEnd::Done);
    let counter = machine.results()[0];
    machine.set_global("counter", counter);
    machine.keep();
    machine.reset();
    for (argument, expected) in [("'a'", "1a-\n"), ("'b'", "2ba\n"), ("('c'):rep(50)", "")] {
        let text = show(&mut machine, &format!("out(counter({argument}))"), u64::MAX);
        assert!(expected.is_empty() || text == expected, "{text}");
    }
    assert_eq!(show(&mut machine, "out(counter('d'))", u64::MAX), format!("4d{}\n", "c".repeat(50)));
}

#[test]
fn code_that_has_found_a_global_variable_finds_the_next_one_in_its_place() {
    for deprecated in [false, true] {
        let mut machine = machine(&MachineOptions { deprecated, ..MachineOptions::default() });
        let tables = [1.0, 2.0].map(|number| {
            let table = Values::of(&mut machine).record(&[("field", LuaValue::Number(number))]);
            Values::of(&mut machine).freeze_table(table);
            table
        });
        let program = "local function get() return x.field, x and x.field, x end
            local t for i = 1, 3 do t = {get()} end return t[1] + t[2] + t[3].field";
        let function = machine.load(&compile(program.as_bytes(), b"=p").expect("it compiles")).expect("room");
        machine.set_global("x", tables[0]);
        machine.freeze();
        for (table, sum) in [(tables[0], 3.0), (tables[1], 6.0), (tables[0], 3.0)] {
            Values::of(&mut machine).force_global("x", table);
            for _ in 0..2 {
                machine.start(function, &[]);
                assert_eq!(machine.run(&mut NoHost, u64::MAX), RunEnd::Done);
                assert!(
                    matches!(machine.results(), [LuaValue::Number(found)] if *found == sum),
                    "{:?}, not {sum}",
                    machine.results()
                );
                machine.reset();
            }
        }
    }
}

#[test]
fn bits_are_those_of_32_bit_integers() {
    shows("out(bit.band(0xff, 0x0f), bit.bor(1, 2), bit.bxor(5, 1), bit.bnot(0), bit.tobit(0xffffffff))", "15 3 4 -1 -1");
    shows(
        "out(bit.lshift(1, 31), bit.rshift(-1, 28), bit.arshift(-8, 1), bit.rol(0x12345678, 8), bit.bswap(1))",
        "-2147483648 15 -4 878082066 16777216",
    );
    shows("out(bit.tohex(255), bit.tohex(-1, 4), bit.tohex(255, -2), bit.tohex(0, -2147483648))", "000000ff ffff FF 00000000");
}

#[test]
fn compiled_code_and_deep_nesting_are_refused() {
    shows("out(loadstring('\\27Lua'))", "nil [string \"\u{1b}Lua\"]:1: unexpected symbol near 'char(27)'");
    shows("out(loadstring('\\0#^', 'i'))", "nil [string \"i\"]:1: unexpected symbol");
    let nested = format!("return {}1{}", "(".repeat(300), ")".repeat(300));
    assert!(compile(nested.as_bytes(), b"=p").is_err());
    let brackets = format!("return [{}[x]{}]", "=".repeat(100_000), "=".repeat(100_000));
    assert!(compile(brackets.as_bytes(), b"=p").is_ok());
    shows("out(pcall(unpack, {}, 0, 2^31 - 1))", "false too many results to unpack");
    shows("out(pcall(string.dump, out))", "false unable to dump given function");
}

#[test]
fn load_returns_the_error_of_its_reader() {
    shows("out(load(function() error('x', 0) end)) out(pcall(load, function() error('y', 0) end))", "nil x\ntrue nil y");
    shows("out(select('#', load(function() error() end)), type(select(2, load(function() error({}) end))))", "2 table");
    shows(
        "local n = 0
        out(load(function() n = n + 1 if n < 3 then return 'return ' end error(n, 0) end))
        out(load(function() load(function() error('in') end) return nil end) ~= nil)
        out(xpcall(function() return load(function() error('z', 0) end) end, function(e) return 'handled ' .. e end))",
        "nil 3\ntrue\ntrue nil handled z",
    );
    shows(
        "local f out(load(function() local w = 5 f = function() return w end error('z', 0) end)) out(f())
        out(coroutine.resume(coroutine.create(function() return load(coroutine.yield) end)))",
        "nil z\n5\ntrue nil attempt to yield across metamethod/C-call boundary",
    );
}

#[test]
fn a_coroutine_yields_to_the_loop_that_it_iterates() {
    shows(
        "for i, c in coroutine.wrap(function() for i = 1, 2 do coroutine.yield(i, 'c') end end) do out(i, c) end
        out(pcall(function() for i in coroutine.wrap(function() coroutine.yield(7) end) do out(i) end end))",
        "1 c\n2 c\n7\ntrue",
    );
    // What a loop calls itself is behind a call of C.
    shows(
        "local c = coroutine.wrap(function() for i in coroutine.yield do end end)
        out(pcall(c))
        local d = coroutine.wrap(function() for i in function() coroutine.yield(1) end do end end)
        out(pcall(d))",
        "false attempt to yield across metamethod/C-call boundary\nfalse attempt to yield across metamethod/C-call boundary",
    );
}

#[test]
fn constants_before_and_and_or_are_values() {
    shows(
        "if (...) then elseif pcall(function() return 2 / (false and g1) end) then end out((false and 1), (true or 1))",
        "false true",
    );
    shows(
        "out(pcall(function(...) if (...) then local x elseif 2 / (false and g1) then end end))
        out(pcall(function(...) if not (...) then local x elseif 2 / (true or g1) then end end, 1))",
        "false p:1: attempt to perform arithmetic on a boolean value\nfalse p:2: attempt to perform arithmetic on a boolean value",
    );
}

#[test]
fn a_negative_zero_stays_one_as_a_key() {
    shows("local z = 0 local t = {[-z] = 1} out(next(t)) t[0] = 2 out(next(t)) t = {[0] = 1} out(next(t))", "-0 1\n-0 2\n0 1");
}

#[test]
fn what_is_no_key_fails_before_a_metamethod_is_called() {
    shows(
        "local t = setmetatable({}, {__newindex = function() out('called') end})
        out(pcall(function() t[nil] = 1 end))
        out(pcall(function() t[0/0] = 1 end))
        t.x = 1",
        "false p:2: table index is nil\nfalse p:3: table index is NaN\ncalled",
    );
}

/// A function of the library that is called for one result may take a short way; `pcall` and calls for all results take others.
#[test]
fn calls_of_the_library_have_one_result_each_way() {
    let program = "
local functions = {tonumber = tonumber, tostring = tostring, type = type, select = select, rawget = rawget, byte = string.byte,
  char = string.char, len = string.len, lower = string.lower, upper = string.upper, sub = string.sub, insert = table.insert,
  abs = math.abs, ceil = math.ceil, floor = math.floor, max = math.max, min = math.min, sqrt = math.sqrt}
local nan, calls = 0 / 0, 0
local values = {'', 'a', '#', 'Hello World', '10', ' 0x1F ', '1e400', ('x'):rep(300), 0, -0, 1, -1, 2, 3, 65, 255, 256, 2.9,
  -2.5, 1e15, 2 ^ 31, 2 ^ 53, 2 ^ 63, -2 ^ 63, 1e300, 1 / 0, -1 / 0, nan, true, false, print, string.byte}
local function text(v)
  if type(v) == 'number' then return (1 / v < 0 and '-' or '+') .. string.format('%.17g', v) end
  return type(v) == 'table' and 'table ' .. table.concat(v, ',') or tostring(v)
end
local function agree(name, f, ...)
  local n, a, b = select('#', ...), ...
  local whole = {pcall(f, ...)}
  calls = calls + 1
  if not whole[1] then
    -- The short way does not take what fails.
    local ok = pcall(function(...) local x = f(...) end, ...)
    if ok then out('fails only by pcall', name, text(a), text(b)) end
    return
  end
  local one, two, three, open, first
  if n == 0 then first = f() two, three = f() open = {f()}
  elseif n == 1 then first = f(a) two, three = f(a) f(a) open = {f(a)}
  elseif n == 2 then first = f(a, b) two, three = f(a, b) f(a, b) open = {f(a, b)}
  else first = f(...) two, three = f(...) f(...) open = {f(...)} end
  local expected = text(whole[2])
  if text(first) ~= expected or text(two) ~= expected or text(open[1]) ~= expected or #open ~= #whole - 1 or three ~= whole[3] then
    out(name, n, text(a), text(b), expected, text(first), text(two), #open, #whole)
  end
end
for name, f in pairs(functions) do
  if name ~= 'insert' then
    agree(name, f)
    for i = 1, 33 do
      agree(name, f, values[i])
      for j = 1, 33, 2 do
        agree(name, f, values[i], values[j])
        for k = 9, name == 'sub' and 12 or 8 do agree(name, f, values[i], values[j], values[k]) end
      end
    end
  end
end
for _, list in ipairs({{}, {1}, {1, 2, 3}, {1, nil, 3}, setmetatable({1}, {__newindex = error}), {x = 1}, {[2] = 2}}) do
  for _, value in ipairs({1, 'x', false}) do
    local before = #list
    local nothing = table.insert(list, value)
    if nothing ~= nil or #list <= before then out('insert', before, value, #list) end
  end
end
local list = {5, 6, nil, 8}
for i, v in ipairs(list) do out(i, v) end
for i in ipairs({'x'}) do out(i) end
for i, v, w in ipairs({'y'}) do out(i, v, w) end
for k, v, w in pairs({a = 1, 7}) do out(k, v, w) end
for k in next, {z = 1} do out(k) end
for k, v in pairs(setmetatable({}, {__index = {1}})) do out('never') end
out(ipairs({}) == ipairs({}), pcall(function() for k in next, {}, 'no key' do end end))
out(calls)";
    let expected = "1 5\n2 6\n1\n1 y nil\n1 7 nil\na 1 nil\nz\ntrue false invalid key to 'next'\n12359";
    shows(program, expected);
}
