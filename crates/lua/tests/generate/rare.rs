//! Statements that reach rarer features: methods, varargs, closures over loops, levels of errors, metatables, order of evaluation.

use super::Writer;

/// Literals of every form.
const LITERALS: &[&str] = &[
    "0x7fffffff",
    "0xffffffffffffffff",
    ".5",
    "5.",
    "1e-300 * 1e-300",
    "1e308 * 10",
    "-(0/0)",
    "123456789012345678",
    "0.1 + 0.2",
    "1e14",
    "1e15",
    "1e16",
    "123456.789e3",
    "2^53",
    "-2^63",
    "1/3",
    "100000000000000",
    "-0",
    "'\\65\\066\\0'",
    "'a\\\nb'",
    "\"\\a\\b\\f\\v\\t\\r\\'\\\"\\\\\"",
    "[==[\n]]x]=]]==]",
    "'\\q'",
    "'12e'",
    "' 12 '",
    "'0x'",
    "'1e1'",
    "'-0x10'",
    "'inf'",
    "'nan'",
];

/// Operands with metamethods, which the prelude of rare programs makes.
const OBJECTS: &[&str] = &["m", "p", "q", "r", "t", "p.a", "q.b", "r.c"];

/// What goes before the statements.
pub(super) const PRELUDE: &str = "
local p = setmetatable({a = 1}, {__index = {b = 'pb', f = function(self, ...) return self == p, ... end},
  __le = function(a, b) return type(a) == type(b) end, __eq = function(a, b) return nil end, __len = function() return 42 end,
  __tostring = function() return 7 end, __sub = function(a, b) return type(a), type(b) end, __metatable = 'locked'})
local q = setmetatable({}, {__index = p, __newindex = p, __call = p, __concat = function(a, b) return type(a) .. type(b) end,
  __div = function(...) return select('#', ...) end, __mod = 5, __pow = error, __unm = type, __mul = rawequal, __lt = rawequal})
local r = setmetatable({}, {__index = q, __newindex = function(s, k, v) rawset(s, k, v) return k end,
  __call = function(s, ...) return s == nil, ... end, __lt = function(a, b) return 0 end, __mode = 'k'})
local function count(...) return select('#', ...) end
local function first(...) return (...) end
local function rest(_, ...) return ... end
local function pass(...) return ... end
local function fails(level, value) error(value, level) end
local order = {} local function o(x) order[#order + 1] = tostring(x) return x end";

impl Writer {
    fn operand(&mut self) -> String {
        match self.choices.below(4) {
            0 => self.choices.of(LITERALS).to_owned(),
            1 => self.choices.of(OBJECTS).to_owned(),
            _ => self.expression(1),
        }
    }

    /// A list of values whose last may be several.
    fn several(&mut self) -> String {
        let mut values = Vec::new();
        for _ in 0..self.choices.below(3) {
            values.push(self.operand());
        }
        let dots = if self.variadic { "..." } else { "pass()" };
        let last = match self.choices.below(9) {
            0 | 1 => dots.to_owned(),
            2 => format!("({dots})"),
            3 => format!("rest({dots})"),
            4 => format!("pass({}, nil)", self.operand()),
            5 => format!("unpack({{{}, nil, 3}}, {}, {})", self.operand(), self.choices.below(3), self.choices.below(5)),
            6 => format!("select({}, {dots})", self.choices.of(&["1", "-1", "2", "'#'", "0", "-9"])),
            7 => "pcall(pass, 1, nil)".to_owned(),
            _ => self.operand(),
        };
        values.push(last);
        values.join(", ")
    }

    pub(super) fn rare(&mut self, depth: u32) {
        match self.choices.below(24) {
            0 => {
                let (values, names) = (self.several(), [self.name(), self.name(), self.name()]);
                self.line(&format!("local {} = {values}", names.join(", ")));
                self.line(&format!("out({})", names.join(", ")));
                self.locals.extend(names);
            }
            1 => {
                let values = self.several();
                self.line(&format!("out(count({values}))"));
            }
            2 => {
                let values = self.several();
                self.line(&format!("local list = {{{values}}} out(list[1], list[2], list[3], list[4])"));
            }
            3 => {
                let (object, values) = (self.choices.of(OBJECTS), self.several());
                let method = self.choices.of(&["f", "concat", "rep", "upper", "nothing", "b", "len"]);
                self.line(&format!("out(pcall(function(...) return {object}:{method}({values}) end, 'x', 2))"));
            }
            4 => self.closures(depth),
            5 | 6 => self.operators(),
            7 => {
                let (level, value) = (self.choices.of(&["0", "1", "2", "3", "4", "100", "-1", "nil"]), self.operand());
                let wrapped = match self.choices.below(4) {
                    0 => format!("fails({level}, {value})"),
                    1 => format!("return fails({level}, {value})"),
                    2 => format!("(function() return (fails({level}, {value})) end)()"),
                    _ => format!("error({value}, {level})"),
                };
                self.line(&format!("out(pcall(function(...) {wrapped} end, 1))"));
                self.line(&format!(
                    "out(xpcall(function() {} end, function(e) return type(e), e end))",
                    wrapped.replace("...", "1")
                ));
            }
            8 => {
                let limits =
                    ["1, 3", "3, 1, -1", "1, 0", "0.1, 1, 0.3", "1, 2, 0.25", "'1', 3", "1, '2'", "1, 3, '1'", "3, 1", "1, 0/0"];
                let (name, limits) = (self.name(), self.choices.of(&limits));
                self.line(&format!("out(pcall(function() for {name} = {limits} do out({name}) {name} = {name} .. 'x' end end))"));
            }
            9 => {
                let bad = self.choices.of(&["nil, 2", "1, {}", "1, 2, {}", "1, 2, 'x'", "m, 2", "1, nil, true"]);
                self.line(&format!("out(pcall(function() for i = {bad} do out(i) end end))"));
            }
            10 => {
                let (a, b, c) = (self.operand(), self.operand(), self.operand());
                self.line(&format!("do local z = {{}} z[o(1)], z[o(2)], z.x = o({a}), o({b}), o({c})"));
                self.line("out(z[1], z[2], z.x, table.concat(order, ' ')) order = {} end");
            }
            11 => {
                self.line("do local i, z = 1, {10, 20} i, z[i] = i + 1, 30 out(i, z[1], z[2])");
                self.line("local a, b, c = (function() return 1, 2, 3 end)() a, b, c = c, a out(a, b, c) end");
            }
            12 => self.wrapped(depth),
            13 => {
                let (key, value) = (self.operand(), self.operand());
                let object = self.choices.of(&["h", "m", "p", "q", "r"]);
                self.line(&format!(
                    "out(pcall(function() {object}[{key}] = {value} return rawget({object}, {key}), {object}[{key}] end))"
                ));
            }
            14 => self.iterator(depth),
            15 => {
                let (a, b) = (self.operand(), self.operand());
                let both = format!("{a} {} {b} {} 1", self.binary(), self.binary());
                self.line(&format!("out(pcall(function(...) return {both} end, 3))"));
            }
            16 => {
                let text = self.source();
                self.line(&format!("out(loadstring({text:?}))").replace("\\n", "\n").replace('\n', "\\n"));
            }
            17 => {
                let (depth, value) = (self.choices.below(300), self.operand());
                self.line(&format!(
                    "local function deep(n) if n == 0 then return {value} end return (deep(n - 1)) end out(deep({depth}))"
                ));
                self.line("local function tail(n, x) if n == 0 then return error('t' .. x, 2) end return tail(n - 1, x) end");
                self.line(&format!("out(pcall(tail, {depth}, 'x'))"));
            }
            18 => {
                let deep = ["f(n + 1)", "1 + f(n + 1)", "pcall(f, n + 1)", "(string.gsub('a', 'a', f))", "(f(n + 1))"];
                let deep = self.choices.of(&deep);
                if self.choices.below(20) == 0 {
                    self.line(&format!("do local f f = function(n) return ({deep}) end out(pcall(f, 1)) end"));
                }
            }
            19 => {
                let (a, b) = (self.several(), self.several());
                self.line(
                    &format!("out(pcall(setmetatable, {a})) out(getmetatable({b}))")
                        .replace("out(getmetatable(", "out(pcall(getmetatable, "),
                );
            }
            20 => {
                let conditions = (self.operand(), self.operand(), self.operand(), self.operand());
                let (a, b, c, d) = conditions;
                let joins = [self.choices.of(&["and", "or"]), self.choices.of(&["and", "or"]), self.choices.of(&["and", "or"])];
                let nots = [self.choices.of(&["", "not "]), self.choices.of(&["", "not "])];
                let value = format!("{}({a} {} {b}) {} {}{c} {} {d}", nots[0], joins[0], joins[1], nots[1], joins[2]);
                self.line(&format!("out(pcall(function(...) return {value} end, nil))"));
                self.line(&format!("out(pcall(function(...) if {value} then return 'yes' else return 'no' end end, nil))"));
            }
            21 => {
                let (a, b) = (self.operand(), self.operand());
                self.line(&format!("do local e = {{}} out(pcall(error, e)) out(pcall(error)) out(pcall(error, {a}, {b})) end"));
            }
            22 => {
                let value = self.operand();
                self.line(&format!(
                    "do local s = {{}} for k, v in pairs({{{value}, {value}, nil, 4}}) do s[#s + 1] = k end out(#s) end"
                ));
            }
            _ => {
                let value = self.operand();
                self.line(&format!("out(pcall(function() local a <const> = {value} end))").replace("<const> ", ""));
                self.line(
                    &format!("out(tostring({value}), tonumber({value}))")
                        .replace("out(", "out(pcall(function() return ")
                        .replace("))", ")) end))"),
                );
            }
        }
    }

    fn binary(&mut self) -> &'static str {
        self.choices.of(&["+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=", ">", ">=", "and", "or"])
    }

    fn operators(&mut self) {
        let (a, b) = (self.choices.of(OBJECTS), self.operand());
        let operator = self.binary();
        let (a, b) = if self.choices.below(2) == 0 { (a.to_owned(), b) } else { (b, a.to_owned()) };
        self.line(&format!("out(pcall(function(...) return {a} {operator} {b} end, 5))"));
        let unary = self.choices.of(&["-", "not ", "#", "- -", "not not ", "-#"]);
        self.line(&format!("out(pcall(function(...) return {unary}{a} end, 5))"));
        if self.choices.below(3) == 0 {
            self.line(&format!(
                "out(pcall(function(...) local x, y = {a}, {b} if x {operator} y then return 1 end return 2 end, 6))"
            ));
        }
    }

    fn closures(&mut self, depth: u32) {
        let (list, name) = (self.name(), self.name());
        let head = match self.choices.below(4) {
            0 => format!("for {name} = 1, 3 do"),
            1 => format!("for _, {name} in ipairs({{'a', 'b', 'c'}}) do"),
            2 => format!("local i = 0 while i < 3 do i = i + 1 local {name} = i"),
            _ => format!("local i = 0 repeat i = i + 1 local {name} = i * 2"),
        };
        self.line(&format!("local {list} = {{}}"));
        self.line(&format!("do {head}"));
        self.line(&format!("{list}[#{list} + 1] = function(x) {name} = {name} .. (x or '') return {name} end"));
        if self.choices.below(3) == 0 {
            self.line(&format!("if #{list} == 2 then break end"));
        }
        let outer = std::mem::replace(&mut self.in_loop, true);
        if depth > 0 && self.choices.below(3) == 0 {
            let scope = self.locals.len();
            self.locals.push(name.clone());
            self.statement(0);
            self.locals.truncate(scope);
        }
        self.in_loop = outer;
        self.line(if head.contains("repeat") { "until i >= 3 end" } else { "end end" });
        self.line(&format!("for k = 1, #{list} do out(pcall({list}[k], k)) out(pcall({list}[k])) end"));
    }

    fn wrapped(&mut self, depth: u32) {
        let (name, value) = (self.name(), self.operand());
        let body = match self.choices.below(6) {
            0 => format!("for i = 1, 3 do a = coroutine.yield(i, a, ...) end return {value}"),
            1 => format!("out(pcall(coroutine.yield, {value})) return a"),
            2 => format!("out(coroutine.yield()) error({value})"),
            3 => format!("out(pcall(string.gsub, 'ab', '.', coroutine.yield)) return {value}"),
            4 => format!(
                "local c = coroutine.wrap(function(...) coroutine.yield(...) out(coroutine.yield(2)) end) c(a) return c({value})"
            ),
            _ => format!("out(coroutine.running() ~= nil) return coroutine.yield({value}), a"),
        };
        self.line(&format!("local {name} = coroutine.wrap(function(a, ...) {body} end)"));
        for _ in 0..=self.choices.below(4) {
            let outer = std::mem::replace(&mut self.variadic, false);
            let values = self.several();
            self.variadic = outer;
            self.line(&format!("out(pcall({name}, {values}))"));
        }
        let _ = depth;
    }

    fn iterator(&mut self, depth: u32) {
        let (a, b) = (self.name(), self.name());
        let iterator = match self.choices.below(6) {
            0 => "(function() local n = 0 return function() n = n + 1 if n < 4 then return n, n * n end end end)()".to_owned(),
            1 => "next, {7}, nil".to_owned(),
            2 => "function(s, c) if c < s then return c + 1, s end end, 3, 0".to_owned(),
            3 => "coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i, 'c') end end)".to_owned(),
            4 => self.operand(),
            _ => "setmetatable({}, {__call = function(_, s, c) if not c then return 1 end end})".to_owned(),
        };
        self.line(&format!(
            "out(pcall(function() local n = 0 for {a}, {b} in {iterator} do n = n + 1 if n > 4 then break end out({a}, {b})"
        ));
        let outer = (std::mem::replace(&mut self.variadic, false), std::mem::replace(&mut self.in_loop, true));
        let scope = self.locals.len();
        self.locals.extend([a, b]);
        if depth > 0 {
            self.statement(depth - 1);
        }
        self.locals.truncate(scope);
        (self.variadic, self.in_loop) = outer;
        self.line("end end))");
    }

    /// A small text, mostly not well-formed.
    fn source(&mut self) -> String {
        const TOKENS: &[&str] = &[
            "x", "=", "1", "(", ")", "end", "if", "then", "for", "do", "in", ",", "{", "}", "[", "]", "'s'", "\n", "function",
            "return", "local", "..", "...", "~=", "~", "and", "not", "nil", "0x", "1e", "3..2", "'u", "--c\n", "--[[", "]]", "[[",
            "[=", ";", ":", ".", "while", "repeat", "until", "break", "else", "elseif", "@", "$", "#", "\\", "\"", "x.y", "f()",
            "a:b()", "0xg", "1..2", "%", "==",
        ];
        let starts =
            ["", "return ", "local x = ", "if x then ", "for i = 1, 2 do ", "f(", "x = {", "while x do ", "function f(", "x.y:z"];
        let mut text = self.choices.of(&starts).to_owned();
        for _ in 0..=self.choices.below(6) {
            text.push_str(self.choices.of(TOKENS));
            text.push_str(self.choices.of(&[" ", " ", "", "\n"]));
        }
        text
    }
}
