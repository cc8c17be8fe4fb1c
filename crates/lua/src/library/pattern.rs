//! Patterns of Lua: matching by backtracking, as in Lua 5.1, with a bound on its steps.
//!
//! `(` and `)` capture, `%` and a letter is a class, `%b` a balanced pair, `%f` a frontier. What to try next when an item does not
//! fit lies in a list, so a match can stop after any step and go on later, and depth is no matter of the thread's stack.

/// Captures of a pattern.
const CAPTURES_MAX: usize = 32;
/// Choices that may be open: one for each item of a pattern at most.
const CHOICES_MAX: usize = 200_000;
/// Choices whose memory is kept between matches.
const CHOICES_KEPT: usize = 256;
/// Steps of a match that count as one call.
pub(super) const STEPS_PER_CALL: usize = 8;

/// Lengths of captures that are something else.
const OPEN: u32 = u32::MAX;
const POSITION: u32 = u32::MAX - 1;

/// A captured part, for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Captured {
    Range(usize, usize),
    /// The number of the byte, from 1.
    Position(usize),
    /// The pattern ended before it did: an error where it is used.
    Unfinished,
}

/// The message of [`Captured::Unfinished`].
pub(super) const UNFINISHED: &str = "unfinished capture";

/// What is tried, or undone, when the rest does not match.
#[derive(Clone, Copy, Debug)]
enum Choice {
    /// A repetition of `count` bytes gives one back, down to `least`; the rest of the pattern is at `rest`.
    Longest { from: usize, count: usize, least: usize, rest: usize },
    /// A repetition of the class at `class` takes one more.
    Shortest { at: usize, class: usize, rest: usize },
    /// An optional byte is left out.
    Skip { at: usize, rest: usize },
    /// A capture was begun.
    Begun,
    /// This one was ended.
    Ended(usize),
}

/// How far a match is when it stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It ends here.
    Found(usize),
    NotFound,
    /// It goes on when it is run again.
    Paused,
}

/// A match of one pattern at one place of a text.
#[derive(Debug)]
pub(super) struct Matcher {
    at: usize,
    item: usize,
    captures: [(u32, u32); CAPTURES_MAX],
    level: usize,
    choices: Vec<Choice>,
}

type Outcome<T> = Result<T, &'static str>;

/// The part of a pattern that counts: as in C, a zero byte ends it.
pub(super) fn until_zero(pattern: &[u8]) -> usize {
    pattern.iter().position(|byte| *byte == 0).unwrap_or(pattern.len())
}

impl Matcher {
    pub(super) fn new() -> Self {
        Self { at: 0, item: 0, captures: [(0, OPEN); CAPTURES_MAX], level: 0, choices: Vec::new() }
    }

    /// A match at `start` is to be looked for.
    pub(super) fn begin(&mut self, start: usize) {
        (self.at, self.item, self.level) = (start, 0, 0);
        self.choices.clear();
    }

    /// The number of values that the captures are; a match without any is one itself.
    pub(super) fn captures(&self, whole_without: bool) -> usize {
        if self.level == 0 && whole_without { 1 } else { self.level }
    }

    /// A capture, from 0; without any the whole match.
    pub(super) fn capture(&self, index: usize, start: usize, end: usize) -> Outcome<Captured> {
        if index >= self.level {
            return if index == 0 { Ok(Captured::Range(start, end)) } else { Err("invalid capture index") };
        }
        let (from, length) = self.captures[index];
        Ok(match length {
            OPEN => Captured::Unfinished,
            POSITION => Captured::Position(from as usize + 1),
            length => Captured::Range(from as usize, from as usize + length as usize),
        })
    }

    /// Goes on until the match is decided or the steps are used up.
    pub(super) fn run(&mut self, text: &[u8], pattern: &[u8], steps: &mut usize) -> Outcome<Progress> {
        loop {
            if *steps == 0 {
                return Ok(Progress::Paused);
            }
            *steps -= 1;
            let Some(byte) = pattern.get(self.item).copied() else {
                if self.choices.capacity() > CHOICES_KEPT {
                    self.choices = Vec::new();
                }
                return Ok(Progress::Found(self.at));
            };
            if !self.step(text, pattern, byte, steps)? && !self.go_back(text, pattern) {
                return Ok(Progress::NotFound);
            }
            if self.choices.len() > CHOICES_MAX {
                return Err("pattern too complex");
            }
        }
    }

    /// Matches one item; false when it does not fit.
    #[inline]
    fn step(&mut self, text: &[u8], pattern: &[u8], byte: u8, steps: &mut usize) -> Outcome<bool> {
        match byte {
            b'(' if pattern.get(self.item + 1) == Some(&b')') => return self.open_capture(2, POSITION),
            b'(' => return self.open_capture(1, OPEN),
            b')' => return self.close_capture(),
            b'%' => match pattern.get(self.item + 1).copied() {
                Some(b'b') => return self.balance(text, pattern, steps),
                Some(b'f') => return self.frontier(text, pattern),
                Some(digit) if digit.is_ascii_digit() => return self.back_reference(text, digit, steps),
                _ => {}
            },
            b'$' if self.item + 1 == pattern.len() => {
                self.item += 1;
                return Ok(self.at == text.len());
            }
            _ => {}
        }
        let class = self.item;
        let end = class_end(pattern, class)?;
        let fits = text.get(self.at).is_some_and(|byte| is_in(*byte, pattern, class, end));
        match pattern.get(end) {
            Some(b'?') => {
                if fits {
                    self.choices.push(Choice::Skip { at: self.at, rest: end + 1 });
                    self.at += 1;
                }
                self.item = end + 1;
            }
            Some(b'+') if !fits => return Ok(false),
            Some(repeat @ (b'*' | b'+')) => {
                let (from, least) = (self.at, usize::from(*repeat == b'+'));
                let count = text[from..].iter().take_while(|byte| is_in(**byte, pattern, class, end)).count();
                *steps = steps.saturating_sub(count / STEPS_PER_CALL);
                if count > least {
                    self.choices.push(Choice::Longest { from, count, least, rest: end + 1 });
                }
                (self.at, self.item) = (from + count, end + 1);
            }
            Some(b'-') => {
                self.choices.push(Choice::Shortest { at: self.at, class, rest: end + 1 });
                self.item = end + 1;
            }
            _ if !fits => return Ok(false),
            _ => (self.at, self.item) = (self.at + 1, end),
        }
        Ok(true)
    }

    /// Takes the last choice that is left; false when there is none.
    fn go_back(&mut self, text: &[u8], pattern: &[u8]) -> bool {
        while let Some(choice) = self.choices.last_mut() {
            match choice {
                Choice::Longest { from, count, least, rest } => {
                    *count -= 1;
                    (self.at, self.item) = (*from + *count, *rest);
                    if *count == *least {
                        self.choices.pop();
                    }
                    return true;
                }
                Choice::Shortest { at, class, rest } => {
                    if text.get(*at).is_some_and(|byte| is_in(*byte, pattern, *class, *rest - 1)) {
                        *at += 1;
                        (self.at, self.item) = (*at, *rest);
                        return true;
                    }
                }
                Choice::Skip { at, rest } => {
                    (self.at, self.item) = (*at, *rest);
                    self.choices.pop();
                    return true;
                }
                Choice::Begun => self.level -= 1,
                Choice::Ended(index) => self.captures[*index].1 = OPEN,
            }
            self.choices.pop();
        }
        false
    }

    fn open_capture(&mut self, length: usize, what: u32) -> Outcome<bool> {
        if self.level >= CAPTURES_MAX {
            return Err("too many captures");
        }
        self.captures[self.level] = (self.at as u32, what);
        self.level += 1;
        self.item += length;
        self.choices.push(Choice::Begun);
        Ok(true)
    }

    fn close_capture(&mut self) -> Outcome<bool> {
        let open = self.captures[..self.level].iter().rposition(|(_, length)| *length == OPEN);
        let Some(open) = open else { return Err("invalid pattern capture") };
        self.captures[open].1 = self.at as u32 - self.captures[open].0;
        self.item += 1;
        self.choices.push(Choice::Ended(open));
        Ok(true)
    }

    fn balance(&mut self, text: &[u8], pattern: &[u8], steps: &mut usize) -> Outcome<bool> {
        let [opening, closing] = pattern.get(self.item + 2..self.item + 4).unwrap_or_default() else {
            return Err("unbalanced pattern");
        };
        if text.get(self.at) != Some(opening) {
            return Ok(false);
        }
        let mut depth = 1;
        for (offset, byte) in text[self.at + 1..].iter().enumerate() {
            if byte == closing {
                depth -= 1;
                if depth == 0 {
                    *steps = steps.saturating_sub(offset / STEPS_PER_CALL);
                    self.at += offset + 2;
                    self.item += 4;
                    return Ok(true);
                }
            } else if byte == opening {
                depth += 1;
            }
        }
        *steps = steps.saturating_sub((text.len() - self.at) / STEPS_PER_CALL);
        Ok(false)
    }

    fn frontier(&mut self, text: &[u8], pattern: &[u8]) -> Outcome<bool> {
        let class = self.item + 2;
        if pattern.get(class) != Some(&b'[') {
            return Err("missing '[' after '%f' in pattern");
        }
        let end = class_end(pattern, class)?;
        let before = if self.at == 0 { 0 } else { text[self.at - 1] };
        let here = text.get(self.at).copied().unwrap_or(0);
        self.item = end;
        Ok(!in_set(before, pattern, class, end - 1) && in_set(here, pattern, class, end - 1))
    }

    fn back_reference(&mut self, text: &[u8], digit: u8, steps: &mut usize) -> Outcome<bool> {
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        match self.captures[..self.level].get(index) {
            None | Some((_, OPEN)) => Err("invalid capture index"),
            Some((_, POSITION)) => Ok(false),
            Some((from, length)) => {
                let (from, length) = (*from as usize, *length as usize);
                *steps = steps.saturating_sub(length / 64);
                let fits = text[self.at..].starts_with(&text[from..from + length]);
                self.at += length;
                self.item += 2;
                Ok(fits)
            }
        }
    }
}

/// Where the pattern goes on behind the single class at `p`.
#[inline]
fn class_end(pattern: &[u8], p: usize) -> Outcome<usize> {
    match pattern[p] {
        b'%' if p + 1 >= pattern.len() => Err("malformed pattern (ends with '%')"),
        b'%' => Ok(p + 2),
        b'[' => set_end(pattern, p),
        _ => Ok(p + 1),
    }
}

fn set_end(pattern: &[u8], p: usize) -> Outcome<usize> {
    let mut at = p + 1;
    if pattern.get(at) == Some(&b'^') {
        at += 1;
    }
    // A closing bracket that comes first is a member.
    loop {
        let Some(byte) = pattern.get(at) else { return Err("malformed pattern (missing ']')") };
        at += 1;
        if *byte == b'%' && at < pattern.len() {
            at += 1;
        }
        if pattern.get(at) == Some(&b']') {
            return Ok(at + 1);
        }
    }
}

/// Whether a byte is of the single class from `p` to `end`.
#[inline]
fn is_in(byte: u8, pattern: &[u8], p: usize, end: usize) -> bool {
    match pattern[p] {
        b'.' => true,
        b'%' => in_class(byte, pattern[p + 1]),
        b'[' => in_set(byte, pattern, p, end - 1),
        other => other == byte,
    }
}

/// `p` is at the opening bracket, `end` at the closing one.
fn in_set(byte: u8, pattern: &[u8], p: usize, end: usize) -> bool {
    let mut at = p + 1;
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    while at < end {
        let member = pattern[at];
        if member == b'%' {
            at += 1;
            if in_class(byte, pattern[at]) {
                return !negated;
            }
            at += 1;
        } else if pattern.get(at + 1) == Some(&b'-') && at + 2 < end {
            if (member..=pattern[at + 2]).contains(&byte) {
                return !negated;
            }
            at += 3;
        } else {
            if member == byte {
                return !negated;
            }
            at += 1;
        }
    }
    negated
}

fn in_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => crate::number::is_space(byte),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in != class.is_ascii_uppercase()
}
