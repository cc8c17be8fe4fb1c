//! Random calls of the four libraries, as texts of Lua functions.
//!
//! The order of a hash part is not compared: a table with several keys is packed and unpacked again.

pub(crate) mod standard;

/// Calls at the edges, which random ones meet too rarely.
pub(crate) fn listed() -> Vec<String> {
    include_str!("listed.lua").lines().filter(|line| !line.starts_with("--")).map(str::to_owned).collect()
}

/// A generator of choices (splitmix64).
pub(crate) struct Choices(pub(crate) u64);

impl Choices {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn times(&mut self, most: u64, mut piece: impl FnMut(&mut Self) -> String) -> String {
        (0..self.below(most + 1)).map(|_| piece(self)).collect()
    }
}

/// A literal of Lua for any bytes.
fn literal(bytes: &[u8]) -> String {
    let escape = |byte: &u8| match byte {
        b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\{byte:03}"),
    };
    format!("'{}'", bytes.iter().map(escape).collect::<String>())
}

/// Drops, doubles or replaces some bytes.
fn mutated(choices: &mut Choices, mut bytes: Vec<u8>) -> Vec<u8> {
    for _ in 0..choices.below(3) {
        if bytes.is_empty() {
            break;
        }
        let at = choices.below(bytes.len() as u64) as usize;
        match choices.below(4) {
            0 => drop(bytes.remove(at)),
            1 => bytes[at] = choices.next() as u8,
            2 => bytes.insert(at, choices.next() as u8),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "0.5",
    "-1.5",
    "31",
    "32",
    "127",
    "128",
    "-32",
    "-33",
    "255",
    "256",
    "65535",
    "65536",
    "-128",
    "-129",
    "2^31",
    "-2^31",
    "2^31-1",
    "2^32",
    "2^32-1",
    "2^53",
    "-2^53",
    "2^62",
    "2^63",
    "-2^63",
    "2^64",
    "-2^64",
    "1e15",
    "1e14",
    "1e100",
    "-1e300",
    "1/3",
    "0.1",
    "1e-7",
    "123456.789",
    "1/0",
    "-1/0",
    "0/0",
    "3.4028234663852886e38",
    "1e39",
    "16777217",
    "5e-324",
    "2^32+1",
    "-2^32-1",
];

fn number(choices: &mut Choices) -> String {
    match choices.below(4) {
        0 => (choices.next() as i64 >> choices.below(64)).to_string(),
        1 => format!("{:?}", f64::from_bits(choices.next())).replace("NaN", "0/0").replace("inf", "1/0"),
        _ => choices.of(NUMBERS).to_owned(),
    }
}

fn string(choices: &mut Choices) -> String {
    match choices.below(12) {
        0 => format!("string.rep('x', {})", choices.of(&["31", "32", "33", "40", "41", "255", "256", "65535", "65536"])),
        1 => literal(choices.of(&["10", "-3", "0x10", "1e3", " 7 ", "nan"]).as_bytes()),
        _ => {
            let bytes: Vec<u8> = (0..choices.below(9))
                .map(|_| if choices.below(4) == 0 { choices.next() as u8 } else { b' ' + choices.below(95) as u8 })
                .collect();
            literal(&bytes)
        }
    }
}

/// What values may be.
#[derive(Clone, Copy)]
struct Kinds {
    /// Those that a library refuses, too.
    any: bool,
    /// Lists with holes, which have a hash part of several keys.
    holes: bool,
}

const JSON: Kinds = Kinds { any: true, holes: true };
const PACKED: Kinds = Kinds { any: true, holes: false };
const PLAIN: Kinds = Kinds { any: false, holes: false };

fn value(choices: &mut Choices, depth: u32, kinds: Kinds) -> String {
    match choices.below(if depth == 0 { 8 } else { 14 }) {
        0 | 1 => number(choices),
        2..=4 => string(choices),
        5 => choices.of(&["true", "false"]).to_owned(),
        6 => choices.of(&["nil", "cjson.null"]).to_owned(),
        7 if kinds.any => {
            choices.of(&["pcall", "coroutine.create(function() end)", "{}", "setmetatable({}, {__index = {1}})"]).to_owned()
        }
        7 => "{}".to_owned(),
        8..=10 => {
            let elements = choices.times(5, |choices| value(choices, depth - 1, kinds) + ", ");
            format!("{{{elements}}}")
        }
        11 if kinds.holes => {
            let holes = choices.times(4, |choices| {
                let index = choices.of(&["1", "2", "3", "4", "7", "10", "11", "12", "21", "25"]);
                format!("[{index}] = {}, ", value(choices, depth - 1, kinds))
            });
            format!("{{{holes}}}")
        }
        _ => {
            let key = match choices.below(6) {
                0 => choices.of(&["0", "-1", "1.5", "1", "2", "10", "11", "2^31", "2^53", "1e15", "1e300"]).to_owned(),
                1 if kinds.any => choices.of(&["true", "{}", "1/0", "pcall"]).to_owned(),
                _ => string(choices),
            };
            format!("{{[{key}] = {}}}", value(choices, depth - 1, kinds))
        }
    }
}

fn json(choices: &mut Choices, depth: u32) -> String {
    let blank = choices.of(&["", "", "", "", " ", "\n", "\t ", "\r"]);
    let text = match choices.below(if depth == 0 { 5 } else { 9 }) {
        0 => choices.of(&["true", "false", "null", "0", "-0", "1", "-12.5e3", "1e400", "1E-2", "12345678901234567890"]).to_owned(),
        1 => choices
            .of(&["nan", "inf", "-Infinity", "0x1F", "01", "1.", ".5", "+1", "nan(7)", "0x1.8p2", "1e+", "tru", "-"])
            .to_owned(),
        2..=4 => {
            let characters = choices.times(6, |choices| {
                let pieces = [
                    "a",
                    "\\n",
                    "\\\"",
                    "\\\\",
                    "\\/",
                    "\\u0041",
                    "\\u00e9",
                    "\\ud83d\\ude00",
                    "\\ud800",
                    "\\x",
                    "é",
                    "\\u12",
                    "\u{1}",
                ];
                choices.of(&pieces).to_owned()
            });
            format!("\"{characters}\"")
        }
        5 | 6 => {
            format!("[{}{}]", json(choices, depth - 1), choices.times(3, |choices| ",".to_owned() + &json(choices, depth - 1)))
        }
        7 => choices.of(&["{}", "[]", "{\"a\":1,\"a\":2}", "[,]", "{,}", "[1,]", "{\"a\":1,}", "{1:2}"]).to_owned(),
        _ => {
            let pair =
                |choices: &mut Choices| format!("\"{}\":{}", choices.of(&["a", "b", "", "1", "c d"]), json(choices, depth - 1));
            let first = pair(choices);
            format!("{{{first}{}}}", choices.times(2, |choices| ",".to_owned() + &pair(choices)))
        }
    };
    format!("{blank}{text}{blank}")
}

/// A call of `cjson`.
pub(crate) fn cjson(choices: &mut Choices) -> String {
    if choices.below(2) == 0 {
        let mut text = json(choices, 3).into_bytes();
        if choices.below(3) == 0 {
            text = mutated(choices, text);
        }
        let strict = if choices.below(4) == 0 { "j.decode_invalid_numbers(false) " } else { "" };
        let depth = if choices.below(8) == 0 { "j.decode_max_depth(2) " } else { "" };
        return format!("local j = cjson.new() {strict}{depth}return j.decode({})", literal(&text));
    }
    let mut settings = String::new();
    for _ in 0..choices.below(3) {
        let argument = match choices.below(3) {
            0 => choices.of(&["true", "false", "'on'", "'off'", "'null'", "nil", "1", "'x'", "{}", ""]).to_owned(),
            1 => choices
                .of(&["0", "1", "2", "3", "14", "15", "'5'", "-1", "2^31", "2^32+2", "nil, 3", "true, 2, 3", "1, 2, 3, 4"])
                .to_owned(),
            _ => number(choices),
        };
        let name = choices.of(&[
            "encode_sparse_array",
            "encode_sparse_array",
            "encode_max_depth",
            "encode_invalid_numbers",
            "encode_number_precision",
            "encode_keep_buffer",
            "decode_max_depth",
            "decode_invalid_numbers",
        ]);
        settings.push_str(&format!("settings[#settings + 1] = {{pcall(j.{name}, {argument})}} "));
    }
    // A list with holes that becomes an object has a hash part of several keys.
    let kinds = Kinds { holes: !settings.contains("sparse"), ..JSON };
    let written = value(choices, 3, kinds);
    let encode = if choices.below(4) == 0 { format!("pcall(j.encode, {written})") } else { format!("j.encode({written})") };
    format!("local j, settings = cjson.new(), {{}} {settings} return settings, {encode}")
}

/// A call of `cmsgpack`.
pub(crate) fn cmsgpack(choices: &mut Choices) -> String {
    match choices.below(4) {
        0 => format!("return cmsgpack.pack({})", value(choices, 3, PACKED)),
        1 => format!("return cmsgpack.pack({}, {})", value(choices, 1, PACKED), value(choices, 1, PACKED)),
        2 => {
            let many = choices.times(4, |choices| format!("[{}] = {}, ", string(choices), value(choices, 1, PLAIN)));
            format!("return cmsgpack.unpack(cmsgpack.pack({{{many}}}, {}))", value(choices, 2, PACKED))
        }
        _ => {
            let bytes = message(choices, 3);
            let text = literal(&mutated(choices, bytes));
            let limits = ["0", "1", "2", "3", "-1", "2^32+1", "'2'", "nil", "1.9"];
            match choices.below(3) {
                0 => format!("return cmsgpack.unpack({text})"),
                1 => format!("return cmsgpack.unpack_one({text}, {})", choices.of(&limits)),
                _ => format!("return cmsgpack.unpack_limit({text}, {}, {})", choices.of(&limits), choices.of(&limits)),
            }
        }
    }
}

fn message(choices: &mut Choices, depth: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=choices.below(3) {
        match choices.below(if depth == 0 { 4 } else { 7 }) {
            0 => bytes.push(choices.next() as u8),
            1 => {
                bytes.push(choices.of(&["\u{41}", "\u{42}", "\u{44}", "\u{48}"]).as_bytes()[0] & 0xf | 0xcc);
                bytes.extend(choices.next().to_be_bytes());
            }
            2 => {
                let length = choices.below(6) as u8;
                bytes.push(0xa0 | length);
                bytes.extend((0..length).map(|at| b'a' + at));
            }
            3 => {
                bytes.push(0xc0 + choices.below(32) as u8);
                bytes.extend(choices.next().to_be_bytes().iter().take(choices.below(9) as usize));
            }
            4 | 5 => {
                bytes.push(0x90 | choices.below(4) as u8);
                bytes.extend(message(choices, depth - 1));
            }
            _ => {
                bytes.push(0x80 | choices.below(3) as u8);
                bytes.extend(message(choices, depth - 1));
            }
        }
    }
    bytes
}

/// A call of `struct`.
pub(crate) fn structs(choices: &mut Choices) -> String {
    let mut format = choices.times(6, |choices| {
        let options = [
            "b",
            "B",
            "h",
            "H",
            "l",
            "L",
            "T",
            "f",
            "d",
            "s",
            "x",
            "c",
            "c0",
            "c1",
            "c3",
            "i",
            "I",
            "i1",
            "i3",
            "I5",
            "i7",
            "i8",
            "I9",
            "i16",
            "I32",
            "i0",
            "i33",
            ">",
            "<",
            "!",
            "!1",
            "!2",
            "!4",
            "!8",
            "!16",
            "!3",
            "!0",
            " ",
            "z",
            "=",
            "c2147483647",
            "i99999999999",
            "5",
            "!32",
        ];
        choices.of(&options).to_owned()
    });
    if choices.below(20) == 0 {
        format = String::from_utf8_lossy(&mutated(choices, format.into_bytes())).into_owned();
    }
    let format = literal(format.as_bytes());
    match choices.below(5) {
        0 => format!("return struct.size({format})"),
        1 | 2 => {
            let values = choices.times(6, |choices| match choices.below(4) {
                0 => ", ".to_owned() + &string(choices),
                1 => ", ".to_owned() + &value(choices, 1, PACKED),
                _ => ", ".to_owned() + &number(choices),
            });
            format!("return struct.pack({format}{values})")
        }
        _ => {
            let bytes: Vec<u8> =
                (0..choices.below(40)).map(|_| if choices.below(3) == 0 { 0 } else { choices.next() as u8 }).collect();
            let offset = choices.of(&[
                "",
                "",
                "",
                ", 1",
                ", 2",
                ", 0",
                ", -1",
                ", 5",
                ", 41",
                ", 2^31",
                ", 2^32 + 1",
                ", 2^62",
                ", '3'",
                ", nil",
                ", {}",
            ]);
            format!("return struct.unpack({format}, {}{offset})", literal(&bytes))
        }
    }
}

/// A call of `bit`.
pub(crate) fn bit(choices: &mut Choices) -> String {
    let name = choices
        .of(&["tobit", "tohex", "bnot", "band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror", "bswap", "tohex"]);
    let mut arguments = (0..=choices.below(3)).map(|_| match choices.below(12) {
        0 => string(choices),
        1 => value(choices, 0, PACKED),
        _ => number(choices),
    });
    let first = arguments.next().unwrap_or_default();
    let rest: String = arguments.map(|argument| format!(", {argument}")).collect();
    let none = choices.below(40) == 0;
    if none { format!("return bit.{name}()") } else { format!("return bit.{name}({first}{rest})") }
}
