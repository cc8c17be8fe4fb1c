//! Random programs of Lua 5.1 that end, and whose outcome depends on nothing but the language.
//!
//! Not generated: the order of a hash part, lengths of lists with holes, addresses.

mod rare;

/// A generator of choices.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }
}

struct Writer {
    choices: Choices,
    text: String,
    /// Local variables in scope.
    locals: Vec<String>,
    names: u32,
    in_loop: bool,
    variadic: bool,
    /// There is the prelude of rare statements.
    rare: bool,
}

/// The program of a seed.
pub(crate) fn program(seed: u64) -> String {
    let mut writer = Writer {
        choices: Choices(seed),
        text: String::new(),
        locals: Vec::new(),
        names: 0,
        in_loop: false,
        variadic: true,
        rare: false,
    };
    writer.line("local h, t = {5, 6, 7}, {1, 'two', 3.5, k = 'v', n = {7, 8}}");
    writer.line(
        "local m = setmetatable({}, {__index = function(_, k) return k end, __add = function(a, b) return 'add' end, \
         __concat = function(a, b) return 'cat' end, __lt = function() return true end, __eq = function() return true end, \
         __call = function(self, ...) return select('#', ...), ... end, __newindex = function(t, k, v) rawset(t, k, v) end, \
         __unm = function() return 'neg' end, __tostring = function() return 'M' end})",
    );
    writer.locals.extend(["t".to_owned(), "m".to_owned()]);
    writer.rare = seed.is_multiple_of(2);
    if writer.rare {
        writer.line(rare::PRELUDE);
        writer.locals.extend(["p", "q", "r"].map(str::to_owned));
    }
    let statements = 3 + writer.choices.below(8);
    for _ in 0..statements {
        writer.statement(3);
    }
    let shown = writer.expression(2);
    writer.line(&format!("out({shown})"));
    writer.text
}

impl Writer {
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    fn variable(&mut self) -> String {
        if self.choices.below(8) == 0 {
            return self.choices.of(&["g1", "g2", "undefined"]).to_owned();
        }
        let index = self.choices.below(self.locals.len() as u64) as usize;
        self.locals[index].clone()
    }

    fn block(&mut self, depth: u32) {
        let scope = self.locals.len();
        for _ in 0..=self.choices.below(3) {
            self.statement(depth);
        }
        self.locals.truncate(scope);
    }

    fn statement(&mut self, depth: u32) {
        if self.rare && self.choices.below(2) == 0 {
            return self.rare(depth);
        }
        let kinds = if depth == 0 { 6 } else { 18 };
        match self.choices.below(kinds) {
            0 | 1 => {
                let (name, value) = (self.name(), self.expression(2));
                self.line(&format!("local {name} = {value}"));
                self.locals.push(name);
            }
            2 => {
                let value = self.expression(2);
                let target = self.target();
                self.line(&format!("{target} = {value}"));
            }
            3 => {
                let value = self.expression(3);
                self.line(&format!("out({value})"));
            }
            4 => {
                let (a, b) = (self.expression(1), self.expression(1));
                let (x, y) = (self.target(), self.target());
                self.line(&format!("{x}, {y} = {a}, {b}"));
            }
            5 => {
                let call = self.call(2);
                self.line(&format!("out(pcall(function(...) return {call} end, 1, 2))"));
            }
            6 | 7 => self.conditional(depth),
            8 | 9 => self.numeric_loop(depth),
            10 => self.list_loop(depth),
            11 => self.counted_loop(depth),
            12 | 13 => self.function(depth),
            14 => self.protected(depth),
            15 => self.coroutine(depth),
            16 if self.in_loop => {
                let condition = self.expression(1);
                self.line(&format!("if {condition} then break end"));
            }
            16 => {
                let value = self.expression(2);
                self.line(&format!("do return out({value}) end"));
            }
            _ => {
                self.line("do");
                self.block(depth - 1);
                self.line("end");
            }
        }
    }

    fn target(&mut self) -> String {
        match self.choices.below(6) {
            0 => format!("t.{}", self.choices.of(&["k", "x", "y"])),
            1 => "t[#t + 1]".to_owned(),
            // A list with holes has several lengths: this one is never asked for its.
            2 => format!("h[{}]", self.expression(1)),
            3 => "g1".to_owned(),
            _ => self.variable(),
        }
    }

    fn conditional(&mut self, depth: u32) {
        let condition = self.expression(2);
        self.line(&format!("if {condition} then"));
        self.block(depth - 1);
        if self.choices.below(2) == 0 {
            let other = self.expression(2);
            self.line(&format!("elseif {other} then"));
            self.block(depth - 1);
        }
        if self.choices.below(2) == 0 {
            self.line("else");
            self.block(depth - 1);
        }
        self.line("end");
    }

    fn body(&mut self, depth: u32, variables: &[String], in_loop: bool) {
        let (scope, outer) = (self.locals.len(), std::mem::replace(&mut self.in_loop, in_loop));
        self.locals.extend_from_slice(variables);
        self.block(depth - 1);
        self.locals.truncate(scope);
        self.in_loop = outer;
        self.line("end");
    }

    fn numeric_loop(&mut self, depth: u32) {
        let (name, last) = (self.name(), self.choices.below(5));
        let step = self.choices.of(&["", ", 1", ", 2", ", 0.5"]);
        self.line(&format!("for {name} = 1, {last}{step} do"));
        self.body(depth, &[name], true);
    }

    fn list_loop(&mut self, depth: u32) {
        let (index, value) = (self.name(), self.name());
        let list = self.choices.of(&["ipairs(t)", "ipairs({1, 2, 3})", "pairs({5, 6})", "string.gmatch('a1b2', '%a%d')"]);
        self.line(&format!("local limit = 0 for {index}, {value} in {list} do limit = limit + 1 if limit > 20 then break end"));
        self.body(depth, &[index, value], true);
    }

    fn counted_loop(&mut self, depth: u32) {
        let (name, last) = (self.name(), self.choices.below(4));
        self.line(&format!("local {name} = 0"));
        if self.choices.below(2) == 0 {
            self.line(&format!("while {name} < {last} do {name} = {name} + 1"));
            self.body(depth, &[], true);
            return;
        }
        let outer = std::mem::replace(&mut self.in_loop, true);
        self.line(&format!("repeat {name} = {name} + 1 local stop = {name} >= {last}"));
        self.block(depth - 1);
        self.line("until stop");
        self.in_loop = outer;
    }

    fn function(&mut self, depth: u32) {
        let (name, parameter) = (self.name(), self.name());
        let rest = self.choices.below(2) == 0;
        let dots = if rest { ", ..." } else { "" };
        self.line(&format!("local function {name}({parameter}{dots})"));
        let outer = std::mem::replace(&mut self.variadic, rest);
        let (scope, in_loop) = (self.locals.len(), std::mem::replace(&mut self.in_loop, false));
        self.locals.push(parameter);
        self.block(depth - 1);
        let result = if rest && self.choices.below(2) == 0 { "...".to_owned() } else { self.expression(2) };
        self.line(&format!("do return {result} end"));
        self.line("end");
        self.locals.truncate(scope);
        (self.variadic, self.in_loop) = (outer, in_loop);
        let argument = self.expression(1);
        self.line(&format!("out(pcall({name}, {argument}, 'x'))"));
        self.locals.push(name);
    }

    fn protected(&mut self, depth: u32) {
        let outer = std::mem::replace(&mut self.variadic, false);
        self.line("out(pcall(function()");
        let in_loop = std::mem::replace(&mut self.in_loop, false);
        self.block(depth - 1);
        self.in_loop = in_loop;
        let value = self.expression(2);
        self.line(&format!("return {value} end))"));
        self.variadic = outer;
    }

    fn coroutine(&mut self, depth: u32) {
        let (name, parameter) = (self.name(), self.name());
        self.line(&format!("local {name} = coroutine.create(function({parameter})"));
        let (outer, in_loop) = (std::mem::replace(&mut self.variadic, false), std::mem::replace(&mut self.in_loop, false));
        let scope = self.locals.len();
        self.locals.push(parameter.clone());
        let value = self.expression(1);
        self.line(&format!("{parameter} = coroutine.yield({value})"));
        self.block(depth - 1);
        self.line(&format!("return {parameter} end)"));
        self.locals.truncate(scope);
        (self.variadic, self.in_loop) = (outer, in_loop);
        for _ in 0..3 {
            let value = self.expression(1);
            self.line(&format!("out(pcall(coroutine.resume, {name}, {value}))"));
        }
        self.line(&format!("out(coroutine.status({name}))"));
    }

    fn call(&mut self, depth: u32) -> String {
        let (a, b) = (self.expression(depth.saturating_sub(1)), self.expression(depth.saturating_sub(1)));
        match self.choices.below(34) {
            0 => format!("string.rep({a}, 3)"),
            1 => format!("string.sub({a}, {b})"),
            2 => format!("string.format('%s|%5.2f|%d', tostring({a}), 1.5, {b})"),
            3 => format!("tostring({a})"),
            4 => format!("tonumber({a})"),
            5 => format!("select('#', {a}, {b})"),
            6 => format!("math.floor({a})"),
            7 => format!("math.max({a}, {b})"),
            8 => format!("string.find({a}, {b}, 1, true)"),
            9 => format!("string.find('hello world', '{}')", self.pattern()),
            10 => format!("string.gsub('hello world', '{}', {a})", self.pattern()),
            11 => format!("string.gsub('hello', '{}', function(x) return {a} end)", self.pattern()),
            12 => format!("string.match('key = value', '{}')", self.pattern()),
            13 => format!("table.concat({{{a}, {}}}, '-')", one(&b)),
            14 => format!("unpack({{{a}, {}}})", one(&b)),
            15 => format!("rawequal({a}, {b})"),
            16 => format!("pcall({a}, {b})"),
            17 => format!("type({a})"),
            18 => format!("{}({a})", self.variable()),
            19 => format!("m({a}, {b})"),
            20 => format!("t:concat({a})"),
            21 => format!("(loadstring('return ' .. tostring({a})) or type)({b})"),
            22 => "table.concat((function() local l = {5, 2, 9, 1, 7, 3} table.sort(l) return l end)(), ',')".to_owned(),
            23 => format!("table.insert(t, {})", one(&a)),
            24 => "table.remove({1, 2, 3})".to_owned(),
            25 => format!("string.byte({a}, 1, 2)"),
            26 => format!("({a}):upper()"),
            27 => format!("error({a})"),
            28 => format!("assert({a}, {b})"),
            29 => format!("next({{{a}}})"),
            30 => format!("string.format('%q %5s %-5s %g', {a}, 'ab', 'cd', {b})"),
            31 => format!("xpcall(function() return {a} end, function(e) return 'handled ' .. tostring(e) end)"),
            32 => format!("select({b}, {a}, 1, 2)"),
            _ => format!("string.len({a})"),
        }
    }

    fn pattern(&mut self) -> String {
        let mut pattern = String::new();
        for _ in 0..=self.choices.below(3) {
            pattern.push_str(self.choices.of(&["l", "o", "%a", "%s", "[a-h]", "[^l]", ".", "(%w)", "()", "(l+)", "%w", "e"]));
            pattern.push_str(self.choices.of(&["", "", "", "*", "+", "-", "?"]));
        }
        // A quantifier behind a capture is a character.
        pattern
    }

    fn expression(&mut self, depth: u32) -> String {
        let kinds = if depth == 0 { 8 } else { 22 };
        match self.choices.below(kinds) {
            0 => self.choices.of(&["0", "1", "2", "3.25", "-1", "1e3", "0x10", "1e15", "100"]).to_owned(),
            1 => self.choices.of(&["'a'", "'10'", "'hello world'", "''", "'0x1F'", "\"q\\n\"", "[[long]]"]).to_owned(),
            2 => self.choices.of(&["nil", "true", "false"]).to_owned(),
            3..=6 => self.variable(),
            7 => {
                if self.variadic {
                    "(...)".to_owned()
                } else {
                    "1".to_owned()
                }
            }
            8..=12 => {
                let operator = self.choices.of(&["+", "-", "*", "/", "%", "^", "..", "..", "+"]);
                let (left, right) = (self.expression(depth - 1), self.expression(depth - 1));
                format!("({left} {operator} {right})")
            }
            13 => {
                let operator = self.choices.of(&["==", "~=", "<", "<=", ">", ">="]);
                let (left, right) = (self.expression(depth - 1), self.expression(depth - 1));
                format!("({left} {operator} {right})")
            }
            14 => {
                let operator = self.choices.of(&["and", "or"]);
                let (left, right) = (self.expression(depth - 1), self.expression(depth - 1));
                format!("({left} {operator} {right})")
            }
            15 => {
                let operator = self.choices.of(&["-", "not ", "#"]);
                let operand = self.expression(depth - 1);
                format!("({operator}{operand})")
            }
            16 => format!("{}.{}", self.variable(), self.choices.of(&["k", "x", "n"])),
            17 => format!("{}[{}]", self.choices.of(&["t", "h"]), self.expression(depth - 1)),
            18 => {
                let (a, b) = (self.expression(depth - 1), self.expression(depth - 1));
                let key = self.variable();
                format!("(function(k) return {{{a}, [k] = 0, x = {b}}} end)({key} or 1).x")
            }
            _ => self.call(depth),
        }
    }
}

/// One value of an expression. A list that ends with several may have holes, where its length is any; and what is inserted at
/// -1.5 billion moves for minutes.
fn one(expression: &str) -> String {
    let is_call = expression.ends_with(')') && !expression.starts_with('(');
    if is_call { format!("({expression})") } else { expression.to_owned() }
}
