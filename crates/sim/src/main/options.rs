//! The command line.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use almandine_sim::proofs::Proof;
use almandine_sim::scenario::Scenario;

/// The whole manual.
pub(crate) const USAGE: &str = "usage: cargo xtask sim [options]

Runs proofs against a whole server in a deterministic simulation. A run follows from its proof, its seed and what options change.

Which runs:
  --proof NAMES    histories, units, collections, transactions, blocking, moves, channels, tracking, events, rights, claims,
                   computations, eviction, crashes, snapshots, durability, told; all of them by default
  --seed S         this seed only; a failure is made small and shown with its last events
  --seeds N        so many seeds of each proof (200)
  --from S         the first of them (0)
  --minutes M      as many seeds as that takes; those of the corpus first
  --corpus         seeds only in which something rare has happened first, as docs/simulation-corpus.txt says
  --replay FILE    a failure that was saved

What each run is, instead of what its seed says:
  --millis T       virtual milliseconds for which clients load the server, or rounds
  --workers N      workers of the server
  --clients N      clients of a group
  --flood N        keys that come and go beside the clients, where the index grows (6000)
  --storage WHERE  memory, device, failing (a disk that says that it fails) or lying (one that does not)
  --network CLASSES, --disk CLASSES
                   classes of faults with commas between them, or none
  --pages CLASSES  the same of the device alone, in durability with --storage device
  --policy P       random, pct:CHANGES:STEPS, starve:THREAD or stall:STALLS:STEPS
  --inner N, --stalls N
                   of a million points so many let another thread run, or stall theirs
  --mutant NAMES   leave steps out: then a run has to fail, and the first seed is told that does

How:
  --jobs N         runs at once (as many as there are processors)
  --twice          run each seed twice: both must be the same to the last event; else one in a hundred is
  --hashes         tell the hash of all events of each run, which no run before it and no other process changes
  --trace          write all events of each run to target/sim-PROOF-SEED.txt
  --go-on          do not end at the first failure; all are told
  --no-shrink      do not make a failure small

A failure is saved as target/sim-failure.txt. The exit status is 0 when nothing failed; with --mutant, when a seed failed.
";

/// Seeds in which something rare has happened first.
const CORPUS: &str = include_str!("../../../../docs/simulation-corpus.txt");

/// See [`USAGE`].
#[derive(Clone, Debug)]
pub(crate) struct Options {
    proofs: Vec<Proof>,
    corpus: Vec<(Proof, u64)>,
    only_corpus: bool,
    seeds: std::ops::Range<u64>,
    until: Option<Instant>,
    /// Options of scenarios, with their values.
    changes: Vec<(String, String)>,
    replay: Option<Scenario>,
    /// Runs at once.
    pub(crate) jobs: usize,
    /// Each run is repeated.
    pub(crate) twice: bool,
    /// The hash of each run is told.
    pub(crate) tells_hashes: bool,
    /// All events of each run are written to a file.
    pub(crate) traces: bool,
    /// A failure does not end the runs.
    pub(crate) goes_on: bool,
    /// A failure is made small.
    pub(crate) shrinks: bool,
    /// A run must fail.
    pub(crate) must_fail: bool,
}

impl Options {
    /// Reads a command line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let jobs = thread::available_parallelism().map_or(1, usize::from);
        let mut options = Self {
            proofs: Proof::ALL.to_vec(),
            corpus: Vec::new(),
            only_corpus: false,
            seeds: 0..200,
            until: None,
            changes: Vec::new(),
            replay: None,
            jobs,
            twice: false,
            tells_hashes: false,
            traces: false,
            goes_on: false,
            shrinks: true,
            must_fail: false,
        };
        let (mut from, mut count) = (0, None);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--proof" => options.proofs = value()?.split(',').map(Proof::named).collect::<Result<_, _>>()?,
                "--seed" => (from, count) = (number(&value()?)?, Some(1)),
                "--seeds" => count = Some(number(&value()?)?),
                "--from" => from = number(&value()?)?,
                "--minutes" => {
                    options.until = Some(Instant::now() + Duration::from_secs(60 * number(&value()?)?));
                    count = count.or(Some(u64::MAX));
                }
                "--corpus" => options.only_corpus = true,
                "--replay" => options.replay = Some(read(&value()?)?),
                "--jobs" => options.jobs = usize::try_from(number(&value()?)?).unwrap_or(1).max(1),
                "--twice" => options.twice = true,
                "--hashes" => options.tells_hashes = true,
                "--trace" => options.traces = true,
                "--go-on" => options.goes_on = true,
                "--no-shrink" => options.shrinks = false,
                _ => {
                    options.must_fail |= word == "--mutant";
                    let value = value()?;
                    options.changes.push((word, value));
                }
            }
        }
        if options.only_corpus || options.until.is_some() {
            let known = corpus()?;
            options.corpus = known.into_iter().filter(|(proof, _)| options.proofs.contains(proof)).collect();
        }
        options.seeds = from..from.saturating_add(count.unwrap_or(200));
        // A wrong option is told before anything runs.
        options.change(&mut Scenario::of(options.proofs[0], 0))?;
        Ok(options)
    }

    /// The run of a number: those of the corpus, then each seed of each proof in turn.
    pub(crate) fn run(&self, number: u64) -> Option<Scenario> {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return None;
        }
        if let Some(scenario) = &self.replay {
            return (number == 0).then(|| scenario.clone());
        }
        let known = self.corpus.len() as u64;
        let (proof, seed) = if number < known {
            self.corpus[usize::try_from(number).ok()?]
        } else {
            let (number, proofs) = (number - known, self.proofs.len() as u64);
            let seed = self.seeds.start + number / proofs;
            if self.only_corpus || !self.seeds.contains(&seed) {
                return None;
            }
            (self.proofs[usize::try_from(number % proofs).ok()?], seed)
        };
        let mut scenario = Scenario::of(proof, seed);
        self.change(&mut scenario).ok()?;
        Some(scenario)
    }

    /// Whether there is one run, of which all is shown.
    pub(crate) fn is_single(&self) -> bool {
        self.replay.is_some() || self.seeds.end - self.seeds.start == 1
    }

    fn change(&self, scenario: &mut Scenario) -> Result<(), String> {
        self.changes.iter().try_for_each(|(option, value)| scenario.set(option, value))
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is no number"))
}

fn read(path: &str) -> Result<Scenario, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    Scenario::read(&text).map_err(|e| format!("{path}: {e}"))
}

/// The seeds of the corpus, by lines of a proof, a seed, and what has happened there.
fn corpus() -> Result<Vec<(Proof, u64)>, String> {
    let of = |line: &str| {
        let mut words = line.split_whitespace();
        let proof = Proof::named(words.next().unwrap_or_default())?;
        Ok((proof, number(words.next().unwrap_or_default())?))
    };
    CORPUS.lines().filter(|line| !line.starts_with('#')).map(of).collect()
}
