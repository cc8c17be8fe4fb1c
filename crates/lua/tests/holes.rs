//! What has broken the scripting of other servers, by its number: here each is an answer, an error of the script, or the end of
//! its run.

mod common;

use std::time::{Duration, Instant};

use almandine_lua::{Machine, MachineOptions, NoHost, RunEnd, compile};
use common::{machine, show};

/// Shows a program on a machine of 16 MiB, suspended every `slice` jumps, and that nothing of it is left.
fn shown(program: &str, slice: u64) -> String {
    let mut machine = machine(&MachineOptions { memory_limit: 16 << 20, ..MachineOptions::default() });
    machine.freeze();
    let used = machine.memory_used();
    let text = show(&mut machine, program, slice);
    assert_eq!(machine.memory_used(), used, "{program}");
    text.trim_end().replace("p:1: ", "")
}

fn shows(program: &str, expected: &str) {
    assert_eq!(shown(program, u64::MAX), expected, "{program}");
    assert_eq!(shown(program, 50), expected, "suspended: {program}");
}

const FULL: &str = "error: not enough memory";

#[test]
fn cve_2015_4335_code_comes_as_text_only() {
    shows("out(loadstring('\\27LuaQ\\0\\1\\4\\8\\4\\8\\0'))", "nil [string \"\u{1b}LuaQ\"]:1: unexpected symbol near 'char(27)'");
    shows("out(pcall(string.dump, function() end))", "false unable to dump given function");
}

#[test]
fn cve_2015_8080_2018_11219_and_2020_14147_sizes_of_struct() {
    for format in ["'>I2147483648'", "'>i4294967296'", "'c2147483648'", "'!2147483648'", "'I' .. ('9'):rep(1000)"] {
        for call in ["struct.pack(%, 10)", "struct.unpack(%, '10')", "struct.size(%)"] {
            let call = call.replace('%', format);
            shows(&format!("out(pcall(function() return {call} end))"), "false integral size overflow");
        }
    }
    shows("out(pcall(struct.unpack, 'I33', ('x'):rep(40)))", "false integral size 33 is larger than limit of 32");
    shows("out(pcall(struct.unpack, 'c2147483647', 'x'))", "false bad argument #2 to '?' (data string too short)");
    shows("out(pcall(struct.unpack, 'Lc0', ('\\127'):rep(40)))", "false bad argument #2 to '?' (data string too short)");
    shows("out(pcall(struct.unpack, 'i', 'x', 2^63))", "false bad argument #2 to '?' (data string too short)");
    shows("out(pcall(struct.pack, '!1073741824i8bi8', 1, 2, 3))", "true \u{1}\0\0\0\0\0\0\0\u{2}\0\0\0\0\0\0\0\u{3}\0\0\0\0\0\0\0");
}

#[test]
fn cve_2018_11218_and_2021_32626_depths_of_cmsgpack_and_cjson() {
    shows("out(pcall(cmsgpack.unpack, ('\\145'):rep(1e6)))", "false stack overflow (in function mp_decode_to_lua_array)");
    shows(
        "out(pcall(cmsgpack.unpack, ('\\129'):rep(1e6)))",
        "false stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)",
    );
    shows(
        "out(pcall(cmsgpack.unpack, ('\\1'):rep(1e6)))",
        "false stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)",
    );
    shows(
        "cjson.decode_max_depth(2^31 - 1) out(pcall(cjson.decode, ('['):rep(1e6)))",
        "false Found too many nested data structures (7999) at character 7999",
    );
    shows(
        "cjson.encode_max_depth(2^31 - 1) local t = {} t[1] = t out(pcall(cjson.encode, t))",
        "false Cannot serialise, excessive nesting (7998)",
    );
    shows("local t = {} t[1] = t out(#cmsgpack.pack(t))", "17");
    // A table that holds itself many times has more values than there is time for: the host ends the run.
    let mut machine = Machine::new(&MachineOptions::default());
    let program = "local t = {} for i = 1, 100 do t[i] = t end return cmsgpack.pack(t)";
    let function = machine.load(&compile(program.as_bytes(), b"=p").expect("it compiles")).expect("room");
    machine.start(function, &[]);
    assert_eq!((0..100).map(|_| machine.run(&mut NoHost, 1000)).find(|end| *end != RunEnd::Suspended), None);
    machine.reset();
    shows(program, FULL);
}

#[test]
fn cve_2022_24834_results_beyond_the_memory() {
    shows("local s = ('\\1'):rep(4e6) return cjson.encode(s)", FULL);
    shows("local s = ('x'):rep(1e6) local t = {} for i = 1, 100 do t[i] = s end return cjson.encode(t)", FULL);
    shows("local s = ('x'):rep(1e6) local t = {} for i = 1, 100 do t[i] = s end return cmsgpack.pack(t)", FULL);
    shows("cjson.encode_sparse_array(false, 0) return cjson.encode({[2^31 - 1] = 1})", FULL);
    shows("local s = ('[],'):rep(1e6) return cjson.decode('[' .. s .. '1]')", FULL);
    shows("return cmsgpack.unpack('\\221\\0\\15\\0\\0' .. ('\\144'):rep(2e6))", FULL);
    shows(
        "return struct.pack(('i32'):rep(1e6), unpack({}, 1, 7000))",
        "error: bad argument #2 to 'pack' (number expected, got nil)",
    );
}

#[test]
fn cve_2024_31449_digits_of_tohex() {
    shows("out(bit.tohex(0, -2147483648), bit.tohex(-1, 2147483648), bit.tohex(65535, -2^31 - 1))", "00000000 FFFFFFFF 0000ffff");
}

#[test]
fn cve_2025_46817_46818_and_46819() {
    shows("out(pcall(unpack, {}, 0, 2^31 - 1))", "false too many results to unpack");
    shows("out(pcall(unpack, {}, -2^31, 2^31 - 1))", "false too many results to unpack");
    shows("out(pcall(function() getmetatable('').__index = 1 end))", "false Attempt to modify a readonly table");
    let brackets = format!("return #[{}[x]{}]", "=".repeat(1 << 20), "=".repeat(1 << 20));
    assert!(compile(brackets.as_bytes(), b"=p").is_ok());
    let unfinished = format!("return [{}x", "=".repeat(1 << 20));
    assert!(compile(unfinished.as_bytes(), b"=p").is_err());
}

#[test]
fn cve_2025_49844_and_2024_46981_collections_while_something_is_made() {
    // The name of a chunk is garbage as soon as it has been given; nothing is collected while it is parsed.
    shows(
        "for i = 1, 200 do loadstring(('local a = 1 '):rep(100) .. 'error()', ('name'):rep(1000) .. i) end
         out(#loadstring('return 1', 'x'))",
        "error: p:2: attempt to get length of a function value",
    );
    let program = "
        local parts = {} for i = 1, 2000 do parts[i] = '{\"k' .. i .. '\":[' .. i .. ',\"' .. ('v'):rep(50) .. i .. '\",{}]}' end
        local text = '[' .. table.concat(parts, ',') .. ']'
        for i = 1, 20 do
          local t = cjson.decode(text)
          local packed = cmsgpack.pack(t)
          local again = cmsgpack.unpack(packed)
          if cjson.encode(again) ~= cjson.encode(t) or again[2000].k2000[1] ~= 2000 then error('differs') end
        end
        out('same')";
    shows(program, "same");
}

#[test]
fn cve_2014_5461_parameters_and_few_arguments() {
    let parameters: String = (0..190).map(|number| format!("p{number}, ")).collect();
    shows(
        &format!(
            "local function f({parameters}...) return select('#', ...), p189 end out(pcall(f, 1)) out(f(unpack({{}}, 1, 7000)))"
        ),
        "true 0 nil\n6810 nil",
    );
    shows("local function f(...) return 1 + f(1, ...) end out(pcall(f))", "false not enough memory");
}

#[test]
fn work_within_a_library_function_ends_when_the_host_says_so() {
    for program in [
        "return ('a'):rep(60):find(('a*'):rep(20) .. 'b')",
        "return ('a'):rep(60):match(('a-'):rep(20) .. 'b')",
        "return ('a'):rep(60):gsub(('a?'):rep(50) .. ('a'):rep(50) .. 'b', '')",
        "for word in ('a'):rep(60):gmatch(('(a*)'):rep(20) .. 'b') do end",
        "local s = ('a'):rep(2^20) for i = 1, 1e9 do s:find('b') s:find(('a'):rep(2^19) .. 'b', 1, true) end",
        "local t = {} for i = 1, 2^16 do t[i] = -i end while true do table.sort(t) table.concat(t, ',') table.insert(t, 1, 0) end",
        "while true do table.insert({}, -2^31, 1) end",
        "local t = {} for i = 1, 2^16 do t[i] = {} end while true do pcall(string.rep, 'x', 2^30) pcall(cjson.encode, t) end",
    ] {
        let mut machine = Machine::new(&MachineOptions { memory_limit: 16 << 20, ..MachineOptions::default() });
        let function = machine.load(&compile(program.as_bytes(), b"=p").expect("it compiles")).expect("room");
        machine.start(function, &[]);
        let began = Instant::now();
        let turns = (0..50).take_while(|_| machine.run(&mut NoHost, 1000) == RunEnd::Suspended).count();
        assert_eq!(turns, 50, "{program}");
        // A turn is milliseconds here; a match that does not stop would take years.
        assert!(began.elapsed() < Duration::from_secs(20), "{program}");
        machine.reset();
    }
    // Suspended again and again, the results are the same.
    shows(
        "local s = ('key=value;'):rep(300)
         local n, m = 0, 0 for k, v in s:gmatch('(%w+)=(%w+)') do n = n + #k m = m + #v end
         out(n, m, (s:gsub('%w+=', '')):sub(1, 12), s:find('v.-;()', 2995), (s:match('.*(k.*)$')))",
        "900 1500 value;value; 2995 key=value;",
    );
}

#[test]
fn settings_of_cjson_end_with_their_run() {
    let mut machine = machine(&MachineOptions::default());
    machine.freeze();
    let changed =
        show(&mut machine, "cjson.encode_invalid_numbers('null') cjson.encode_max_depth(1) out(cjson.encode({0/0}))", u64::MAX);
    assert_eq!(changed, "[null]\n");
    assert_eq!(show(&mut machine, "out(cjson.encode({{1}})) out(cjson.encode_invalid_numbers())", u64::MAX), "[[1]]\nfalse\n");
}
