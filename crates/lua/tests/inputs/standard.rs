//! Random calls of `string`, `table`, `math` and the functions that are globals.

use super::{Choices, Kinds, PLAIN, literal, number, value};

const POSITIONS: &[&str] = &[
    "1", "-1", "0", "2", "3", "-3", "100", "-100", "2^31", "-2^31", "2^53", "1.9", "-1.5", "'2'", "nil", "2^31 - 1", "1/0", "0/0",
    "'x'", "{}",
];

/// A string: none so long that a pattern with several repetitions takes for ever.
fn string(choices: &mut Choices) -> String {
    let text = super::string(choices);
    if text.contains("6553") { "string.rep('x', 100)".to_owned() } else { text }
}

/// Any value, good or bad as an argument.
fn any(choices: &mut Choices) -> String {
    match choices.below(8) {
        0 | 1 => number(choices),
        2 | 3 => string(choices),
        4 => choices.of(POSITIONS).to_owned(),
        5 => choices.of(&["nil", "true", "false", "{}", "type", "coroutine.create(function() end)", "cjson.null"]).to_owned(),
        _ => value(choices, 1, Kinds { any: false, holes: false }),
    }
}

/// A list of arguments, each with a comma before it.
fn arguments(choices: &mut Choices, most: u64) -> String {
    choices.times(most, |choices| format!(", {}", any(choices)))
}

fn pattern(choices: &mut Choices) -> String {
    const ITEMS: &[&str] = &[
        "a",
        "b",
        "x",
        ".",
        "%a",
        "%d",
        "%s",
        "%w",
        "%p",
        "%c",
        "%l",
        "%u",
        "%x",
        "%z",
        "%A",
        "%D",
        "%S",
        "%W",
        "%P",
        "%X",
        "%.",
        "%%",
        "[a-c]",
        "[^a-c]",
        "[%w_]",
        "[]a]",
        "[^]a]",
        "[a-]",
        "[-a]",
        "[%]a]",
        "[%a-z]",
        "()",
        "(a)",
        "(.)",
        "(%w+)",
        "(a(b))",
        "%1",
        "%2",
        "%b()",
        "%bxx",
        "%f[%w]",
        "%f[^%w]",
        "^",
        "$",
        "(",
        ")",
        "[",
        "]",
        "%",
        "-",
        "[a",
        "%f",
        "%b",
        "%bx",
        "[%",
        "(()",
        "%0",
        "%9",
        "*",
        "+",
        "?",
        " ",
        ",",
        "=",
        "[\\0-\\127]",
        "\\0",
        "[^%s]",
        "(%a*)",
    ];
    let mut text = if choices.below(6) == 0 { "^".to_owned() } else { String::new() };
    for _ in 0..=choices.below(3) {
        // What is not well-formed is rare, so that patterns of several items match.
        let most = if choices.below(6) == 0 { ITEMS.len() } else { 40 };
        text.push_str(choices.of(&ITEMS[..most]));
        text.push_str(choices.of(&["", "", "", "*", "+", "-", "?"]));
    }
    if choices.below(6) == 0 {
        text.push('$');
    }
    if choices.below(60) == 0 {
        text = choices.of(&["()", "(.)", "(b?)"]).repeat(choices.below(40) as usize);
    }
    format!("'{text}'")
}

fn subject(choices: &mut Choices) -> String {
    match choices.below(6) {
        0 => {
            let text = string(choices);
            if text.contains("rep") { "''".to_owned() } else { text }
        }
        1 => format!("('{}'):rep({})", choices.of(&["ab", "a", "x y", "(a)", "a,"]), choices.below(10)),
        _ => {
            let text = choices.times(10, |choices| {
                choices
                    .of(&[
                        "a", "b", "c", "x", "1", "2", " ", ",", "(", ")", "=", "abc", "\\0", "A", "_", "xx", "\\n", "]", "-", "%",
                    ])
                    .to_owned()
            });
            format!("'{text}'")
        }
    }
}

fn replacement(choices: &mut Choices) -> String {
    match choices.below(12) {
        0 => "{a = 'A', b = 1, x = false, c = true}".to_owned(),
        1 => "{a = {}, b = 'B', [1] = 'one', abc = 3.5}".to_owned(),
        2 => "setmetatable({}, {__index = function(_, k) return '<' .. tostring(k) .. '>' end})".to_owned(),
        3 => "function(...) return select('#', ...) .. tostring((...)) end".to_owned(),
        4 => "function(a, b) if b then return b .. a end end".to_owned(),
        5 => choices
            .of(&[
                "function() return {} end",
                "function() error('e') end",
                "function() error({}) end",
                "print",
                "nil",
                "true",
                "5",
                "string.upper",
            ])
            .to_owned(),
        6 => any(choices),
        _ => {
            let text =
                choices.times(4, |choices| choices.of(&["%0", "%1", "%2", "%%", "a", "%", "%a", "-", "%9", "\\0"]).to_owned());
            format!("'{text}'")
        }
    }
}

fn conversion(choices: &mut Choices) -> String {
    let flags = choices.times(3, |choices| choices.of(&["-", "+", " ", "#", "0"]).to_owned());
    let flags = if choices.below(30) == 0 { "------".to_owned() } else { flags };
    let width = choices.of(&["", "", "", "1", "5", "10", "20", "99", "100", "05"]);
    let precision = choices.of(&["", "", "", ".", ".0", ".1", ".3", ".10", ".14", ".17", ".20", ".99", ".100", ".-1"]);
    let letter = choices.of(&[
        "d", "i", "u", "c", "x", "X", "o", "e", "E", "f", "g", "G", "g", "f", "q", "s", "s", "d", "%", "p", "a", "F", "n", "y", "",
    ]);
    format!("%{flags}{width}{precision}{letter}")
}

/// A call of `string`.
pub(crate) fn strings(choices: &mut Choices) -> String {
    match choices.below(16) {
        0..=3 => {
            let format = choices.times(3, |choices| {
                let text = choices.of(&["", "", "a", " ", "%%", "\\0"]).to_owned();
                text + &conversion(choices)
            });
            let values = choices.times(4, |choices| {
                let value = match choices.below(5) {
                    0 => any(choices),
                    1 => string(choices),
                    _ => number(choices),
                };
                format!(", {value}")
            });
            format!("return string.format('{format}'{values})")
        }
        4 | 5 => {
            let (subject, pattern, replacement) = (subject(choices), pattern(choices), replacement(choices));
            let most = choices.of(&["", "", "", ", 0", ", 1", ", 2", ", -1", ", 2^31", ", nil", ", '1'", ", {}"]);
            format!("return string.gsub({subject}, {pattern}, {replacement}{most})")
        }
        6 | 7 => {
            let name = choices.of(&["find", "match"]);
            let (subject, pattern) = (subject(choices), pattern(choices));
            let start = if choices.below(2) == 0 { format!(", {}", choices.of(POSITIONS)) } else { String::new() };
            let plain = if start.is_empty() { "" } else { choices.of(&["", "", ", true", ", false", ", nil", ", 0"]) };
            format!("return string.{name}({subject}, {pattern}{start}{plain})")
        }
        8 | 9 => {
            let (subject, pattern) = (subject(choices), pattern(choices));
            format!(
                "local all = {{}} for a, b, c in string.gmatch({subject}, {pattern}) do \
                 all[#all + 1] = tostring(a) .. ':' .. tostring(b) .. ':' .. tostring(c) if #all > 50 then break end end return all"
            )
        }
        10 => {
            let (subject, first, last) = (subject(choices), choices.of(POSITIONS), choices.of(POSITIONS));
            let name = choices.of(&["sub", "byte", "sub"]);
            let last = if choices.below(3) == 0 { String::new() } else { format!(", {last}") };
            format!("return string.{name}({subject}, {first}{last})")
        }
        11 => {
            let times = ["0", "1", "3", "-1", "2.9", "'2'", "nil", "2^31", "2^32 + 1", "-2^31", "{}", "1/0", "0/0"];
            format!("return string.rep({}, {})", subject(choices), choices.of(&times))
        }
        12 => {
            let bytes = choices.times(4, |choices| {
                let byte = choices.of(&["65", "0", "255", "256", "-1", "97.9", "'66'", "2^32 + 65", "nil", "'x'", "1/0"]);
                format!("{byte}, ")
            });
            format!("return string.char({})", bytes.trim_end_matches(", "))
        }
        13 => {
            let name = choices
                .of(&["len", "lower", "upper", "reverse", "byte", "char", "format", "sub", "gsub", "find", "gmatch", "gfind"]);
            let list = arguments(choices, 4);
            format!("return string.{name}({})", list.trim_start_matches(", ")).replace("gmatch(", "match(")
        }
        14 => {
            let method = choices.of(&["upper", "sub", "len", "byte", "format", "nothing", "find", "x"]);
            format!("local s = {} return s:{method}({})", string(choices), arguments(choices, 3).trim_start_matches(", "))
        }
        _ => {
            let (a, b) = (any(choices), any(choices));
            let operator = choices.of(&["..", "<", "<=", ">", "==", "+", "*", "/", "%", "-"]);
            format!("return {a} {operator} {b}, #{}, -({})", string(choices), string(choices))
        }
    }
}

fn list(choices: &mut Choices) -> String {
    let elements = choices.times(8, |choices| {
        let element = match choices.below(4) {
            0 => string(choices),
            1 => any(choices),
            _ => choices.below(50).to_string(),
        };
        format!("{}, ", if element == "nil" { "0" } else { &element })
    });
    format!("{{{elements}}}")
}

/// The result of a call, the list that it changed, and whether the list's length is a border: with holes there are several.
const BORDER: &str = "return r, t, #t == 0 or t[#t] ~= nil, t[#t + 1] == nil";

/// A call of `table`.
pub(crate) fn tables(choices: &mut Choices) -> String {
    let list = list(choices);
    match choices.below(12) {
        0 | 1 => {
            let ends = choices.times(2, |choices| {
                format!(", {}", choices.of(&["1", "2", "3", "0", "-1", "10", "nil", "'2'", "2^31", "{}", "1.5"]))
            });
            let separator = if choices.below(3) == 0 { any(choices) } else { "','".to_owned() };
            format!("return table.concat({list}, {separator}{ends})")
        }
        2 => {
            let place = choices.of(&["1", "2", "0", "-1", "5", "10", "nil", "'1'", "1.7", "{}"]);
            format!("local t = {list} local r = {{pcall(table.insert, t, {place}, {})}} {BORDER}", string(choices))
        }
        3 => format!(
            "local t = {list} local r = {{pcall(table.insert, t{})}} {BORDER}",
            // Places far below the list are left out: all down to there is moved.
            choices.times(3, |choices| format!(", {}", choices.of(&["'x'", "1", "nil", "true", "{}", "2", "'3'", "type", "1.5"])))
        ),
        4 | 5 => {
            let place =
                choices.of(&["", ", 1", ", 2", ", 0", ", -1", ", 10", ", nil", ", '1'", ", 1.7", ", {}", ", #t", ", #t + 1"]);
            format!("local t = {list} local r = {{pcall(table.remove, t{place})}} {BORDER}")
        }
        6 | 7 => {
            let order = choices.of(&[
                "",
                ", function(a, b) return a > b end",
                ", function(a, b) return type(a) < type(b) end",
                ", function(a, b) return true end",
                ", function(a, b) return false end",
                ", function(a, b) error('x') end",
                ", nil",
                ", 5",
                ", function(a, b) return nil end",
            ]);
            format!("local t = {list} local r = {{pcall(table.sort, t{order})}} return r, t")
        }
        8 => {
            let count = choices.below(200);
            let step = 1 + choices.below(97);
            let order = choices.of(&[
                "",
                ", function(a, b) return a > b end",
                ", function(a, b) return a <= b end",
                ", function(a, b) return a % 7 < b % 7 end",
            ]);
            format!(
                "local t = {{}} for i = 1, {count} do t[i] = (i * {step}) % 101 end local ok, e = pcall(table.sort, t{order}) \
                 return ok, e, table.concat(t, ' ')"
            )
        }
        9 => {
            let name = choices.of(&["maxn", "getn", "foreachi", "foreach", "setn", "concat", "unpack"]);
            format!("return table.{name}({list}{})", arguments(choices, 2))
        }
        10 => {
            let name = choices.of(&["foreach", "foreachi"]);
            format!(
                "local seen = {{}} local r = table.{name}({list}, \
                 function(k, v) seen[#seen + 1] = tostring(k) if v == 7 then return v end end) return r, seen"
            )
        }
        _ => {
            // Either a list without holes, or one whose length is not asked for.
            let holes = choices.below(2) == 0;
            let steps = choices.times(10, |choices| {
                if !holes {
                    let steps =
                        ["table.remove(t) ", "t[#t] = nil ", "table.remove(t, 1) ", "table.insert(t, 1, #t) ", "t[#t + 1] = #t "];
                    return choices.of(&steps).to_owned();
                }
                let key = choices.of(&["1", "2", "3", "4", "5", "8", "9", "'k'", "1.5", "0", "-1", "-0", "2^40"]);
                if choices.below(4) == 0 { format!("t[{key}] = nil ") } else { format!("t[{key}] = {} ", choices.below(9)) }
            });
            // The length of a list with holes is any border.
            format!("local t = {list} {steps} local n = #t return t, n == 0 or t[n] ~= nil, t[n + 1] == nil, next(t) ~= nil")
        }
    }
}

/// A call of `math`, or a computation.
pub(crate) fn maths(choices: &mut Choices) -> String {
    match choices.below(7) {
        0..=3 => {
            let name = choices.of(&[
                "abs", "acos", "asin", "atan", "ceil", "cosh", "deg", "exp", "floor", "frexp", "log", "log10", "modf", "rad",
                "sin", "sinh", "sqrt", "tan", "tanh", "cos",
            ]);
            let argument = if choices.below(8) == 0 { any(choices) } else { number(choices) };
            format!("return math.{name}({argument})")
        }
        4 => {
            let name = choices.of(&["atan2", "fmod", "mod", "ldexp", "max", "min", "pow", "max", "min"]);
            let list = format!("{}{}", number(choices), arguments(choices, 3));
            format!("return math.{name}({list})")
        }
        5 => {
            let seed = choices.of(&["0", "1", "42", "-1", "2^31", "1.5", "'7'"]);
            let ends = choices.of(&[
                "",
                "6",
                "1, 6",
                "-3, 3",
                "0",
                "-1",
                "2, 1",
                "1.5",
                "2^31 - 1",
                "'9'",
                "nil",
                "{}",
                "1, 2, 3",
                "-2^31, 2^31 - 1",
                "1, 2^40",
            ]);
            format!("math.randomseed({seed}) local t = {{}} for i = 1, 4 do t[i] = math.random({ends}) end return t")
        }
        _ => {
            let (a, b) = (number(choices), number(choices));
            let operator = choices.of(&["+", "-", "*", "/", "%", "^", "<", "<=", "==", ".."]);
            format!("local a, b = {a}, {b} return a {operator} b, tostring(a), ({a}) {operator} {b}, {}", value(choices, 1, PLAIN))
        }
    }
}

/// A call of a function that is a global itself.
pub(crate) fn globals(choices: &mut Choices) -> String {
    match choices.below(4) {
        0 => {
            let text = match choices.below(4) {
                0 => choices
                    .of(&[
                        "'0x10'",
                        "'1e5'",
                        "' 12 '",
                        "'12a'",
                        "''",
                        "' '",
                        "'0x'",
                        "'1 2'",
                        "'.5'",
                        "'5.'",
                        "'.'",
                        "'e5'",
                        "'-7'",
                        "'+7'",
                        "'- 7'",
                        "'0b1'",
                        "'inf'",
                        "'nan'",
                        "'infinity'",
                        "'1e400'",
                        "'0x1p4'",
                        "'0x.8'",
                        "'zz'",
                        "'ZZ'",
                        "'-ff'",
                        "'\\0'",
                        "'1\\0'",
                        "'7fffffff'",
                        "'ffffffffffffffffff'",
                        "'1e'",
                        "'0x1e1'",
                        "'\\t\\n1\\v\\f\\r'",
                        "'1e+2'",
                        "'1e-2'",
                        "'--1'",
                        "'0x-1'",
                        "1e1",
                        "'1_0'",
                    ])
                    .to_owned(),
                1 => any(choices),
                _ => format!(
                    "'{}'",
                    choices.times(6, |choices| choices
                        .of(&["0", "1", "x", "a", "F", ".", "e", "-", "+", " ", "z", "9", "p"])
                        .to_owned())
                ),
            };
            let base = choices.of(&[
                "",
                "",
                ", 10",
                ", 16",
                ", 2",
                ", 36",
                ", 37",
                ", 1",
                ", 8",
                ", '16'",
                ", nil",
                ", {}",
                ", 16.7",
                ", 2^32 + 16",
            ]);
            format!("return tonumber({text}{base})")
        }
        1 => {
            let ends = choices.times(2, |choices| format!(", {}", choices.of(POSITIONS)));
            let list = list(choices);
            let name = choices.of(&["unpack", "select", "unpack"]);
            let first = if name == "select" {
                choices.of(&["1", "-1", "'#'", "2", "0", "-5", "'x'", "nil", "2^31", "1.5", "'#x'", "'2'"]).to_owned()
            } else {
                list
            };
            format!("return {name}({first}{ends})")
        }
        _ => {
            let name = choices.of(&[
                "type",
                "tostring",
                "tonumber",
                "rawequal",
                "rawget",
                "rawset",
                "next",
                "pairs",
                "ipairs",
                "assert",
                "error",
                "pcall",
                "select",
                "unpack",
                "getmetatable",
                "setmetatable",
                "loadstring",
                "xpcall",
                "collectgarbage",
                "coroutine.wrap",
                "coroutine.create",
                "coroutine.status",
                "coroutine.resume",
                "coroutine.running",
                "coroutine.yield",
                "math.fmod",
                "string.dump",
                "cjson.encode",
                "struct.pack",
                "bit.band",
                "cmsgpack.unpack",
            ]);
            let mut list = arguments(choices, 4);
            if name == "next" {
                // A key that never had a value is not there; in Redis' Lua it may be.
                list = list.replace("] = nil}", "] = 0}");
            }
            if name == "unpack" {
                // The length of a list with holes is not promised; one whose last value is there has no other.
                list = list.replace("nil, }", "0, }");
            }
            format!("return {name}({})", list.trim_start_matches(", "))
        }
    }
}

/// A literal that the compiler reads.
pub(crate) fn literals(choices: &mut Choices) -> String {
    let text = choices.times(8, |choices| {
        choices
            .of(&[
                "\\\\", "\\n", "\\65", "\\0", "\\300", "\\9a", "\\x", "\\\n", "\\\r", "\\\r\n", "\n", "\r", "a", "'", "\"", "]]",
                "]=]", "[[", "\\z", "\\1234", "\u{e9}", "\u{1}", "--",
            ])
            .to_owned()
    });
    match choices.below(5) {
        0 => format!("return '{text}'"),
        1 => format!("return \"{text}\""),
        2 => format!("return [[{text}]]"),
        3 => format!("return [=[{text}]=] --[[{text}]] .. 'x'"),
        _ => {
            let number = choices.times(7, |choices| {
                choices.of(&["0", "1", "9", "x", "e", "E", "+", "-", ".", "a", "F", "p", "_", "0x", "..", " "]).to_owned()
            });
            format!("return {number}, {}", literal(text.as_bytes()))
        }
    }
}
