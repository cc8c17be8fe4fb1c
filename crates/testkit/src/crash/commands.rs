//! Random commands whose effect follows from the data alone: no clock, no choice of the server's.

use crate::Random;
use crate::client::encode;

/// Keys of a client; any key may get any type, for RENAME and COPY move values.
const KEYS: usize = 14;
/// A time that no test lives to see, Unix milliseconds.
const FAR_MS: i64 = 4_000_000_000_000;

/// What a client sends as one: a command, or a transaction.
#[derive(Clone, Debug)]
pub struct Command {
    commands: Vec<Vec<Vec<u8>>>,
}

impl Command {
    /// Appends it as it goes over the wire.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if let [single] = &self.commands[..] {
            return encode(single, out);
        }
        encode(&["MULTI"], out);
        self.commands.iter().for_each(|command| encode(command, out));
        encode(&["EXEC"], out);
    }

    /// Replies to it.
    #[must_use]
    pub fn replies(&self) -> usize {
        if self.commands.len() == 1 { 1 } else { self.commands.len() + 2 }
    }

    /// In words, cut short.
    #[must_use]
    pub fn words(&self) -> String {
        let word = |word: &Vec<u8>| String::from_utf8_lossy(&word[..word.len().min(24)]).into_owned();
        let line = |command: &Vec<Vec<u8>>| command.iter().take(8).map(word).collect::<Vec<_>>().join(" ");
        self.commands.iter().map(line).collect::<Vec<_>>().join("; ")
    }
}

/// The commands of a client, one after the other.
#[derive(Debug)]
pub struct Generator {
    random: Random,
    db: u16,
    /// Ids of stream entries ascend.
    entry: u64,
}

impl Generator {
    /// That of a database.
    #[must_use]
    pub fn new(seed: u64, db: u16) -> Self {
        Self { random: Random::new(seed ^ (u64::from(db) << 32)), db, entry: 0 }
    }

    /// The database that its commands are for.
    #[must_use]
    pub fn db(&self) -> u16 {
        self.db
    }

    /// How many commands are sent before the next replies are awaited.
    pub fn depth(&mut self, most: usize) -> usize {
        if self.random.chance(40) { 1 } else { 1 + self.random.below(most) }
    }

    /// The next one.
    pub fn next_command(&mut self) -> Command {
        let count = if self.random.chance(15) { 2 + self.random.below(4) } else { 1 };
        Command { commands: (0..count).map(|_| self.single()).collect() }
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key:{}", self.random.below(KEYS)).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let bytes = match self.random.below(100) {
            0 => self.random.below(60_000),
            1..=6 => self.random.below(3_000),
            _ => self.random.below(40),
        };
        let letter = b'a' + u8::try_from(self.random.below(26)).unwrap_or(0);
        vec![letter; bytes]
    }

    fn small(&mut self, below: usize) -> Vec<u8> {
        self.random.below(below).to_string().into_bytes()
    }

    fn elements(&mut self, pairs: bool) -> Vec<Vec<u8>> {
        let count = if self.random.chance(4) { 150 } else { 1 + self.random.below(4) };
        let mut elements = Vec::new();
        for _ in 0..count {
            elements.push(format!("m{}", self.random.below(300)).into_bytes());
            if pairs {
                elements.push(self.small(1000));
            }
        }
        elements
    }

    fn single(&mut self) -> Vec<Vec<u8>> {
        let key = self.key();
        let word = |text: &str| text.as_bytes().to_vec();
        let with = |name: &str, rest: Vec<Vec<u8>>| {
            let mut command = vec![word(name), key.clone()];
            command.extend(rest);
            command
        };
        match self.random.below(44) {
            0..=4 => {
                let value = self.value();
                with("SET", vec![value])
            }
            5 => {
                let value = self.value();
                let at = FAR_MS + self.random.between(0, 1 << 30);
                with("SET", vec![value, word("PXAT"), at.to_string().into_bytes()])
            }
            6 | 7 => with("INCRBY", vec![self.small(500)]),
            8 => with("INCRBYFLOAT", vec![word("0.25")]),
            9 => {
                let value = self.value();
                with("APPEND", vec![value])
            }
            10 => {
                let (offset, value) = (self.small(200), self.value());
                with("SETRANGE", vec![offset, value])
            }
            11 => with("SETBIT", vec![self.small(5000), word("1")]),
            12 => {
                let at = FAR_MS + self.random.between(0, 1 << 30);
                with("PEXPIREAT", vec![at.to_string().into_bytes()])
            }
            13 => with("PERSIST", vec![]),
            14 | 15 => with("DEL", vec![]),
            16 => with("RENAME", vec![self.key()]),
            17 => with("COPY", vec![self.key(), word("REPLACE")]),
            18 | 19 => with(if self.random.chance(50) { "LPUSH" } else { "RPUSH" }, self.elements(false)),
            20 => with(if self.random.chance(50) { "LPOP" } else { "RPOP" }, vec![self.small(5)]),
            21 => {
                let element = self.elements(false).swap_remove(0);
                with("LREM", vec![word("0"), element])
            }
            22 => {
                let to = self.key();
                with("LMOVE", vec![to, word("LEFT"), word("RIGHT")])
            }
            23 => with("LTRIM", vec![self.small(3), self.small(90)]),
            24..=26 => with("HSET", self.elements(true)),
            27 => with("HDEL", self.elements(false)),
            28 => with("HINCRBY", vec![word("m7"), self.small(50)]),
            29 | 30 => with("SADD", self.elements(false)),
            31 => with("SREM", self.elements(false)),
            32 => {
                let to = self.key();
                let member = self.elements(false).swap_remove(0);
                with("SMOVE", vec![to, member])
            }
            33 => with("SUNIONSTORE", vec![self.key(), self.key()]),
            34..=36 => {
                let pairs = self.elements(true);
                with("ZADD", pairs.chunks(2).flat_map(|pair| [pair[1].clone(), pair[0].clone()]).collect())
            }
            37 => with("ZREM", self.elements(false)),
            38 => with("ZPOPMIN", vec![self.small(4)]),
            39 => with("ZUNIONSTORE", vec![word("2"), self.key(), self.key()]),
            40 | 41 => {
                self.entry += 1;
                let value = self.value();
                with("XADD", vec![format!("{}-1", self.entry).into_bytes(), word("field"), value])
            }
            42 => with("XTRIM", vec![word("MAXLEN"), self.small(40)]),
            _ if self.random.chance(10) => vec![word("FLUSHDB")],
            _ => with("PFADD", self.elements(false)),
        }
    }
}
