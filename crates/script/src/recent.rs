//! The scripts that a worker has run last: found without the lock of the cache, and without the SHA-1 of a text.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::ScriptError;
use crate::cache::Scripts;
use crate::functions::Libraries;
use crate::program::{Function, Script};

/// Scripts that are remembered by their digits, and by their texts: as many as applications have, about.
const SLOTS: usize = 64;

/// A function, and the name that it was called by.
type NamedFunction = (Box<[u8]>, Arc<Function>);

/// The scripts that a worker has run last. One that has been forgotten since is not found.
#[derive(Debug)]
pub struct RecentScripts {
    by_digits: [Option<([u8; 40], Arc<Script>)>; SLOTS],
    by_text: [Option<Arc<Script>>; SLOTS],
    /// Functions, by the names that clients send.
    by_name: [Option<NamedFunction>; SLOTS],
    /// The generation of the libraries that they are from.
    generation: u64,
}

impl Default for RecentScripts {
    fn default() -> Self {
        Self {
            by_digits: std::array::from_fn(|_| None),
            by_text: std::array::from_fn(|_| None),
            by_name: std::array::from_fn(|_| None),
            generation: 0,
        }
    }
}

impl RecentScripts {
    /// The script that 40 hexadecimal digits name.
    pub fn find(&mut self, scripts: &Scripts, digits: &[u8]) -> Option<Arc<Script>> {
        let digits: &[u8; 40] = digits.try_into().ok()?;
        let slot = &mut self.by_digits[slot_of(digits)];
        if let Some((known, script)) = slot
            && known == digits
            && !script.gone.load(Relaxed)
        {
            scripts.touch(script);
            return Some(Arc::clone(script));
        }
        *slot = None;
        let script = scripts.find(digits)?;
        *slot = Some((*digits, Arc::clone(&script)));
        Some(script)
    }

    /// The function of a name.
    pub fn function(&mut self, libraries: &Libraries, name: &[u8]) -> Option<Arc<Function>> {
        let generation = libraries.generation();
        if generation != self.generation {
            self.by_name.fill_with(|| None);
            self.generation = generation;
        }
        let slot = &mut self.by_name[slot_of(name)];
        if let Some((known, function)) = slot
            && **known == *name
        {
            return Some(Arc::clone(function));
        }
        let function = libraries.find(name)?;
        *slot = Some((name.into(), Arc::clone(&function)));
        Some(function)
    }

    /// The script of a text, which EVAL has.
    ///
    /// # Errors
    /// When the text is no script.
    pub fn evaluate(&mut self, scripts: &Scripts, text: &[u8]) -> Result<Arc<Script>, ScriptError> {
        let slot = &mut self.by_text[slot_of(text)];
        if let Some(script) = slot
            && *script.text == *text
            && !script.gone.load(Relaxed)
        {
            scripts.touch(script);
            return Ok(Arc::clone(script));
        }
        *slot = None;
        let script = scripts.evaluate(text)?;
        *slot = Some(Arc::clone(&script));
        Ok(script)
    }
}

/// A slot by the length and some bytes: what is found is compared as a whole.
fn slot_of(bytes: &[u8]) -> usize {
    let word = |chunk: Option<&[u8; 8]>| chunk.map_or(0, |chunk| u64::from_le_bytes(*chunk));
    let middle = bytes.get(bytes.len() / 2..).and_then(|rest| rest.first_chunk());
    let mixed = word(bytes.first_chunk()) ^ word(bytes.last_chunk()).rotate_left(23) ^ word(middle).rotate_left(41);
    ((mixed ^ bytes.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_run_is_found_until_it_is_forgotten() {
        let (scripts, mut recent) = (Scripts::default(), RecentScripts::default());
        let script = recent.evaluate(&scripts, b"return 1").unwrap();
        let hex = script.sha.hex();
        for _ in 0..2 {
            assert!(Arc::ptr_eq(&recent.find(&scripts, &hex).unwrap(), &script));
            assert!(Arc::ptr_eq(&recent.evaluate(&scripts, b"return 1").unwrap(), &script));
        }
        assert!(recent.evaluate(&scripts, b"return =").is_err() && recent.find(&scripts, b"e0e1").is_none());
        scripts.flush();
        assert!(recent.find(&scripts, &hex).is_none());
        assert!(!Arc::ptr_eq(&recent.evaluate(&scripts, b"return 1").unwrap(), &script), "it is loaded again");
        assert!(scripts.contains(&hex));
    }

    #[test]
    fn what_gives_way_to_others_is_not_found() {
        let (scripts, mut recent) = (Scripts::default(), RecentScripts::default());
        let hex = recent.evaluate(&scripts, b"return 'old'").unwrap().sha.hex();
        assert!(recent.find(&scripts, &hex).is_some());
        for number in 0..600 {
            recent.evaluate(&scripts, format!("return {number}").as_bytes()).unwrap();
        }
        assert!(recent.find(&scripts, &hex).is_none());
    }
}
