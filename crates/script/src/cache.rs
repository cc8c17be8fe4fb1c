//! The scripts that are loaded, by the SHA-1 of their texts.
//!
//! Those that SCRIPT LOAD has brought stay; of those that only EVAL has brought, the last few hundred do, so that programs which
//! write values into their scripts fill no memory. A script is compiled once for all workers. What has been flushed or evicted
//! still runs to its end: a script is counted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

use almandine_io::sync::{Mutex, MutexGuard};
use hashbrown::HashMap;

use crate::ScriptError;
use crate::functions::Libraries;
use crate::machines::Machines;
use crate::program::{Script, Sha};
use crate::running::RunningScript;
use crate::turns::Turns;

/// Scripts of EVAL that are kept.
const EVALUATED_MAX: usize = 500;

#[derive(Debug, Default)]
struct Cache {
    scripts: HashMap<Sha, Arc<Script>, rapidhash::fast::RandomState>,
    /// How many of them may be evicted.
    evaluated: usize,
    /// Those, by when they were used as this knew last; with some that may not be evicted any more.
    oldest: BinaryHeap<Reverse<(u64, Sha)>>,
    memory_bytes: usize,
}

/// The scripts of a server.
#[derive(Debug, Default)]
pub struct Scripts {
    cache: Mutex<Cache>,
    /// How many scripts have been brought: the time by which scripts are old.
    clock: AtomicU64,
    /// The machines that run them.
    pub machines: Machines,
    evicted: AtomicU64,
    /// Scripts may call commands that are not for scripts; DEBUG says so.
    pub call_any: AtomicBool,
    /// FUNCTION and FCALL.
    pub libraries: Libraries,
    /// The scripts that run.
    pub running: RunningScript,
    /// Of those of which one runs at a time.
    pub turns: Turns,
}

impl Scripts {
    /// The script of a text, which EVAL has.
    ///
    /// # Errors
    /// When the text is no script.
    pub fn evaluate(&self, text: &[u8]) -> Result<Arc<Script>, ScriptError> {
        self.bring(text, false)
    }

    /// The script of a text, which stays loaded from now on.
    ///
    /// # Errors
    /// When the text is no script.
    pub fn load(&self, text: &[u8]) -> Result<Arc<Script>, ScriptError> {
        self.bring(text, true)
    }

    fn bring(&self, text: &[u8], keep: bool) -> Result<Arc<Script>, ScriptError> {
        let sha = Sha::of(text);
        let mut cache = self.lock();
        if let Some(script) = cache.scripts.get(&sha).cloned() {
            self.touch(&script);
            if keep && !script.kept.swap(true, Relaxed) {
                cache.evaluated -= 1;
            }
            return Ok(script);
        }
        // Compiling takes long: others go on meanwhile, and may bring the same script.
        drop(cache);
        let script = Arc::new(Script::compile(text, sha, self.clock.fetch_add(1, Relaxed))?);
        script.kept.store(keep, Relaxed);
        cache = self.lock();
        if let Some(replaced) = cache.scripts.insert(sha, Arc::clone(&script)) {
            cache.memory_bytes -= replaced.memory_bytes();
            cache.evaluated -= usize::from(!replaced.kept.load(Relaxed));
            script.kept.store(keep || replaced.kept.load(Relaxed), Relaxed);
        }
        cache.memory_bytes += script.memory_bytes();
        if !script.kept.load(Relaxed) {
            cache.evaluated += 1;
            cache.oldest.push(Reverse((script.used.load(Relaxed), sha)));
        }
        if cache.evaluated > EVALUATED_MAX {
            self.evict(&mut cache);
        }
        Ok(script)
    }

    /// Notes that a script is in use.
    pub(crate) fn touch(&self, script: &Script) {
        let now = self.clock.load(Relaxed);
        // Written only when others have come meanwhile: workers share the line.
        if script.used.load(Relaxed) != now {
            script.used.store(now, Relaxed);
        }
    }

    /// Evicts the script of EVAL that was used last the longest ago. O(log n), and as much for each that was used since it was put
    /// in order.
    fn evict(&self, cache: &mut Cache) {
        while let Some(Reverse((noted, sha))) = cache.oldest.pop() {
            let Some(script) = cache.scripts.get(&sha).filter(|script| !script.kept.load(Relaxed)) else { continue };
            let used = script.used.load(Relaxed);
            if used != noted {
                cache.oldest.push(Reverse((used, sha)));
                continue;
            }
            let Some(script) = cache.scripts.remove(&sha) else { continue };
            script.gone.store(true, Relaxed);
            cache.evaluated -= 1;
            cache.memory_bytes -= script.memory_bytes();
            self.evicted.fetch_add(1, Relaxed);
            return;
        }
    }

    /// The script that 40 hexadecimal digits name.
    #[must_use]
    pub fn find(&self, digits: &[u8]) -> Option<Arc<Script>> {
        let script = Arc::clone(self.lock().scripts.get(&Sha::parse(digits)?)?);
        self.touch(&script);
        Some(script)
    }

    /// Whether a script is loaded. Asking is no use of it.
    #[must_use]
    pub fn contains(&self, digits: &[u8]) -> bool {
        Sha::parse(digits).is_some_and(|sha| self.lock().scripts.contains_key(&sha))
    }

    /// Forgets all scripts.
    pub fn flush(&self) {
        let old = std::mem::take(&mut *self.lock());
        old.scripts.values().for_each(|script| script.gone.store(true, Relaxed));
        self.machines.forget();
        drop(old);
    }

    /// How many scripts there are, and the bytes that they take.
    #[must_use]
    pub fn totals(&self) -> (usize, usize) {
        let cache = self.lock();
        (cache.scripts.len(), cache.memory_bytes)
    }

    /// Bytes of all machines, between runs.
    #[must_use]
    pub fn machine_bytes(&self) -> u64 {
        self.machines.bytes() + self.libraries.machine_bytes() as u64
    }

    /// How many scripts have given way to others since [`Self::reset_statistics`].
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    /// Counts from zero on.
    pub fn reset_statistics(&self) {
        self.evicted.store(0, Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_found_by_its_digits_in_any_case() {
        let scripts = Scripts::default();
        let script = scripts.load(b"return 1").unwrap();
        let hex = script.sha.hex();
        assert_eq!(&hex, b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert!(Arc::ptr_eq(&scripts.find(&hex.to_ascii_uppercase()).unwrap(), &script));
        assert!(scripts.find(b"e0e1").is_none() && !scripts.contains(&[b'x'; 40]));
        scripts.flush();
        assert!(!scripts.contains(&hex) && scripts.totals() == (0, 0));
    }

    #[test]
    fn what_only_eval_has_brought_gives_way() {
        let scripts = Scripts::default();
        let kept = scripts.load(b"return 'kept'").unwrap().sha.hex();
        let used = scripts.evaluate(b"return 'used'").unwrap().sha.hex();
        let promoted = scripts.evaluate(b"return 'promoted'").unwrap().sha.hex();
        scripts.load(b"return 'promoted'").unwrap();
        let mut shas = Vec::new();
        for number in 0..2 * EVALUATED_MAX {
            shas.push(scripts.evaluate(format!("return {number}").as_bytes()).unwrap().sha.hex());
            scripts.evaluate(b"return 'used'").unwrap();
        }
        assert!(scripts.contains(&kept) && scripts.contains(&used) && scripts.contains(&promoted));
        let left = shas.iter().filter(|sha| scripts.contains(&sha[..])).count();
        assert_eq!(left, EVALUATED_MAX - 1);
        assert!(shas[shas.len() - left..].iter().all(|sha| scripts.contains(sha)), "the newest are left");
        assert_eq!(scripts.evicted(), (2 * EVALUATED_MAX - left) as u64);
        assert_eq!(scripts.totals().0, EVALUATED_MAX + 2);
        scripts.reset_statistics();
        assert_eq!(scripts.evicted(), 0);
    }

    #[test]
    fn a_text_that_is_no_script_is_not_kept() {
        let scripts = Scripts::default();
        let error = scripts.load(b"return =").unwrap_err();
        assert!(error.0.starts_with(b"ERR Error compiling script (new function): user_script:1: "), "{error:?}");
        assert_eq!(scripts.totals(), (0, 0));
    }
}
