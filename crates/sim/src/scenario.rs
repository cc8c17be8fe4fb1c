//! A scenario: all that a run of a proof follows from, as data. A seed gives one, in which classes of faults are on or off, so that
//! each seed tries another mixture; options and [`crate::shrink`] change it; it is written and read as lines of text.

use std::collections::BTreeSet;
use std::fmt;

use almandine_base::mutants::Mutant;
use almandine_io::sim::choice::ChoiceRecord;
use almandine_io::sim::disk::DiskFaults;
use almandine_io::sim::net::NetOptions;
use almandine_io::sim::turn::{Policy, Schedule};

use crate::proofs::Proof;
use crate::schedules::{mix, schedule};

/// Where the server has its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// In memory alone.
    Memory,
    /// On a disk, too, which may be slow and cut transfers short.
    Device,
    /// On a disk that also says that it fails.
    Failing,
    /// On a disk that lies.
    Lying,
}

/// A class of faults: its name, and what it turns on.
type Class<T> = (&'static str, fn(&mut T));

/// Classes of faults of the network, none of which breaks a connection.
pub const NETWORK: &[Class<NetOptions>] = &[
    ("cuts", |net| net.cuts_per_million = 200_000),
    ("short-sends", |net| net.short_sends_per_million = 50_000),
    ("short-receives", |net| net.short_receives_per_million = 50_000),
    ("delays", |net| net.delays_per_million = 1_000),
    ("few-buffers", |net| (net.buffers, net.starvations_per_million) = (4, 50_000)),
    ("small-windows", |net| net.window_bytes = 64 * 1024),
    ("failing-accepts", |net| net.accept_failures_per_million = 20_000),
    ("late-data", |net| net.late_data_per_million = 500_000),
];

/// Classes of faults of a disk: harmless ones, those that it says, and those that it hides.
pub const DISK: &[(Medium, &[Class<DiskFaults>])] = &[
    (
        Medium::Device,
        &[
            ("short-reads", |disk| disk.short_reads = 2_000),
            ("short-writes", |disk| disk.short_writes = 2_000),
            ("slow", |disk| disk.slow = 2_000),
            ("written-back", |disk| disk.written_back = 50_000),
        ],
    ),
    (
        Medium::Failing,
        &[
            ("read-errors", |disk| disk.read_errors = 2_000),
            ("write-errors", |disk| disk.write_errors = 2_000),
            ("punch-errors", |disk| disk.punch_errors = 20_000),
            ("full", |disk| disk.full_at_bytes = Some(24 << 20)),
        ],
    ),
    (
        Medium::Lying,
        &[
            ("unreadable-pages", |disk| disk.unreadable_pages = 1_000),
            ("flipped-bits", |disk| disk.flipped_bits = 1_000),
            ("lost-writes", |disk| disk.lost_writes = 1_000),
            ("misdirected-writes", |disk| disk.misdirected_writes = 1_000),
        ],
    ),
];

/// Classes of faults of the device alone, where a proof has a log on a disk of its own beside it: those that the device says, and
/// those that it hides. Pages are few, so they are frequent.
pub const PAGES: [&[Class<DiskFaults>]; 2] = [
    &[
        ("page-reads", |disk| disk.read_errors = 5_000),
        ("page-writes", |disk| disk.write_errors = 50_000),
        ("page-syncs", |disk| disk.sync_errors = 50_000),
        ("page-holes", |disk| disk.punch_errors = 50_000),
        ("pages-full", |disk| disk.full_at_bytes = Some(3 << 20)),
    ],
    &[
        ("pages-unreadable", |disk| disk.unreadable_pages = 50_000),
        ("pages-flipped", |disk| disk.flipped_bits = 100_000),
        ("pages-lost", |disk| disk.lost_writes = 50_000),
        ("pages-misdirected", |disk| disk.misdirected_writes = 50_000),
    ],
];

impl Medium {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Device, Self::Failing, Self::Lying];

    /// The name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Device => "device",
            Self::Failing => "failing",
            Self::Lying => "lying",
        }
    }

    /// The classes of faults that it may have: its own, and the harmless ones.
    fn classes(self) -> impl Iterator<Item = &'static Class<DiskFaults>> {
        let of = move |medium: Medium| self != Self::Memory && (medium == self || medium == Self::Device);
        DISK.iter().filter(move |(medium, _)| of(*medium)).flat_map(|(_, classes)| *classes)
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What is shown.
    pub proof: Proof,
    /// All choices that follow.
    pub seed: u64,
    /// Workers of the server.
    pub workers: u64,
    /// Clients of a group; 0 leaves it to the proof.
    pub clients: usize,
    /// Virtual milliseconds for which clients load the server.
    pub millis: u64,
    /// Keys that come and go beside the clients, so that the index grows and shrinks, where a proof has those.
    pub flood: usize,
    /// Where the data is.
    pub medium: Medium,
    /// Classes of faults of the network, by name.
    pub network: BTreeSet<&'static str>,
    /// Classes of faults of the server's disk, by name.
    pub disk: BTreeSet<&'static str>,
    /// Classes of faults of the device alone, by name.
    pub pages: BTreeSet<&'static str>,
    /// What the scheduler may do.
    pub schedule: Schedule,
    /// Steps that the product leaves out.
    pub left_out: Vec<Mutant>,
    /// The only operations that clients perform, by the number of a client and theirs.
    pub only: Option<BTreeSet<(usize, u64)>>,
    /// The choices instead of those of the seed.
    pub choices: Option<ChoiceRecord>,
}

/// As many as an index of the usual size grows by.
pub const FLOOD_KEYS: usize = 6_000;

const THREADS: &[&str] = &["store", "flusher", "compactor", "worker-0", "worker-1", "worker-2"];
const LOGGING: &[&str] = &["store", "log", "worker-0", "worker-1"];

impl Scenario {
    /// The scenario of a seed.
    #[must_use]
    pub fn of(proof: Proof, seed: u64) -> Self {
        let drawn = |salt: u64| mix(seed ^ mix(salt + 100));
        // A half of the seeds have a whole network, for it is the fastest; the others have some classes of faults each.
        let some = |salt: u64, at: usize| drawn(salt) >> at & 1 == 1;
        let network = NETWORK.iter().enumerate().filter(|(at, _)| some(1, 0) && some(2, *at)).map(|(_, class)| class.0);
        let mut scenario = Self {
            proof,
            seed,
            workers: 1 + drawn(3) % 4,
            clients: 0,
            millis: proof.millis(),
            flood: FLOOD_KEYS,
            medium: Medium::Memory,
            network: network.collect(),
            disk: BTreeSet::new(),
            pages: BTreeSet::new(),
            schedule: schedule(seed, if matches!(proof, Proof::Durability | Proof::Told) { LOGGING } else { THREADS }),
            left_out: Vec::new(),
            only: None,
            choices: None,
        };
        scenario.set_medium(proof.media()[(drawn(4) % proof.media().len() as u64) as usize]);
        scenario
    }

    /// Puts the data there, with some of the classes of faults that it may have.
    pub fn set_medium(&mut self, medium: Medium) {
        let drawn = mix(self.seed ^ mix(105));
        self.medium = medium;
        self.disk = medium.classes().enumerate().filter(|(at, _)| drawn >> at & 1 == 1).map(|(_, class)| class.0).collect();
        self.pages.clear();
        if medium == Medium::Device && self.proof == Proof::Durability {
            // A quarter of the seeds have a sound device, a half one that says what goes wrong, and the others also one that lies.
            let drawn = mix(self.seed ^ mix(106));
            let kinds = [0, 1, 1, 2][(drawn % 4) as usize];
            let classes = PAGES[..kinds].iter().flat_map(|classes| *classes).enumerate();
            self.pages = classes.filter(|(at, _)| drawn >> (8 + at) & 1 == 1).map(|(_, class)| class.0).collect();
        }
    }

    /// What the network does.
    #[must_use]
    pub fn net(&self) -> NetOptions {
        let mut net = NetOptions::default();
        NETWORK.iter().filter(|class| self.network.contains(class.0)).for_each(|class| class.1(&mut net));
        net
    }

    /// What the server's disk does.
    #[must_use]
    pub fn disk_faults(&self) -> DiskFaults {
        let mut faults = DiskFaults::default();
        self.medium.classes().filter(|class| self.disk.contains(class.0)).for_each(|class| class.1(&mut faults));
        faults
    }

    /// What the device does, beside that.
    #[must_use]
    pub fn page_faults(&self) -> DiskFaults {
        let mut faults = self.disk_faults();
        PAGES
            .iter()
            .flat_map(|classes| *classes)
            .filter(|class| self.pages.contains(class.0))
            .for_each(|class| class.1(&mut faults));
        faults
    }

    /// Changes one part, by the name of its option.
    ///
    /// # Errors
    /// When there is no such option, or it has no such value.
    pub fn set(&mut self, option: &str, value: &str) -> Result<(), String> {
        let number = || value.parse::<u64>().map_err(|_| format!("{option}: '{value}' is no number"));
        let rate = || value.parse::<u32>().map_err(|_| format!("{option}: '{value}' is no number"));
        match option {
            "--workers" => self.workers = number()?.clamp(1, 16),
            "--clients" => self.clients = usize::try_from(number()?).unwrap_or(0),
            "--millis" => self.millis = number()?,
            "--flood" => self.flood = usize::try_from(number()?).unwrap_or(FLOOD_KEYS),
            "--storage" => {
                let medium = Medium::ALL.into_iter().find(|medium| medium.name() == value);
                self.set_medium(medium.ok_or_else(|| format!("{option}: data is in no '{value}'"))?);
            }
            "--network" => self.network = classes(value, NETWORK.iter().map(|class| class.0))?,
            "--disk" => self.disk = classes(value, self.medium.classes().map(|class| class.0))?,
            "--pages" => self.pages = classes(value, PAGES.iter().flat_map(|classes| *classes).map(|class| class.0))?,
            "--policy" => self.schedule.policy = policy(value)?,
            "--inner" => self.schedule.inner_per_million = rate()?,
            "--stalls" => self.schedule.stalls_per_million = rate()?,
            "--mutant" => self.left_out = Mutant::parse(value)?,
            _ => return Err(format!("{option} is no option")),
        }
        Ok(())
    }

    /// The options that give this scenario, but for the choice of operations and other choices.
    #[must_use]
    pub fn options(&self) -> String {
        let join = |names: &BTreeSet<&str>| match names.is_empty() {
            true => "none".to_owned(),
            false => names.iter().copied().collect::<Vec<_>>().join(","),
        };
        let Schedule { policy, inner_per_million, stalls_per_million } = &self.schedule;
        let mut text = format!(
            "--proof {} --seed {} --workers {} --clients {} --millis {} --flood {} --storage {} --network {} --disk {} --pages {} \
             --policy {} \
             --inner {inner_per_million} --stalls {stalls_per_million}",
            self.proof.name(),
            self.seed,
            self.workers,
            self.clients,
            self.millis,
            self.flood,
            self.medium.name(),
            join(&self.network),
            join(&self.disk),
            join(&self.pages),
            policy_text(policy),
        );
        if !self.left_out.is_empty() {
            let names: Vec<String> = self.left_out.iter().map(|mutant| format!("{mutant:?}")).collect();
            text += &format!(" --mutant {}", names.join(","));
        }
        text
    }

    /// As lines that [`Scenario::read`] reads.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{}\n", self.options());
        if let Some(only) = &self.only {
            let only: Vec<String> = only.iter().map(|(client, number)| format!("{client}:{number}")).collect();
            text += &format!("only {}\n", only.join(" "));
        }
        for (at, stream) in self.choices.iter().flat_map(|record| record.streams.iter().enumerate()) {
            let numbers: Vec<String> = stream.iter().map(u64::to_string).collect();
            text += &format!("choices {at} {}\n", numbers.join(" "));
        }
        text
    }

    /// What [`Scenario::to_text`] wrote.
    ///
    /// # Errors
    /// When it is something else.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let of = |name: &str| words.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1]);
        let proof = Proof::named(of("--proof").ok_or("the first line names no proof")?)?;
        let seed = of("--seed").and_then(|seed| seed.parse().ok()).ok_or("the first line has no seed")?;
        let mut scenario = Self::of(proof, seed);
        for pair in words.chunks_exact(2).filter(|pair| !["--proof", "--seed"].contains(&pair[0])) {
            scenario.set(pair[0], pair[1])?;
        }
        let wrong = |word: &str| format!("'{word}' is nothing that is performed or chosen");
        for line in lines {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("only") => {
                    let only = scenario.only.get_or_insert_default();
                    for word in words {
                        let pair =
                            word.split_once(':').and_then(|(client, number)| Some((client.parse().ok()?, number.parse().ok()?)));
                        only.insert(pair.ok_or_else(|| wrong(word))?);
                    }
                }
                Some("choices") => {
                    let at = words.next().and_then(|at| at.parse::<usize>().ok());
                    let record = scenario.choices.get_or_insert_default();
                    let stream = at.and_then(|at| record.streams.get_mut(at)).ok_or_else(|| wrong(line))?;
                    *stream = words.map(|word| word.parse().map_err(|_| wrong(word))).collect::<Result<_, _>>()?;
                }
                Some(other) => return Err(wrong(other)),
                None => {}
            }
        }
        Ok(scenario)
    }
}

/// Names of classes with commas between them.
fn classes(names: &str, known: impl Iterator<Item = &'static str>) -> Result<BTreeSet<&'static str>, String> {
    let known: Vec<&str> = known.collect();
    if names == "none" {
        return Ok(BTreeSet::new());
    }
    let find = |name: &str| known.iter().copied().find(|known| *known == name);
    names.split(',').map(|name| find(name).ok_or_else(|| format!("no class of faults here is named '{name}': {known:?}"))).collect()
}

fn policy(text: &str) -> Result<Policy, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let wrong = || format!("'{text}' is no policy: random, pct:CHANGES:STEPS, starve:THREAD or stall:STALLS:STEPS");
    let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    match parts[..] {
        ["random"] => Ok(Policy::Random),
        ["pct", changes, steps] => Ok(Policy::Pct { changes: number(changes)?, steps: number(steps)?.into() }),
        ["stall", stalls, steps] => Ok(Policy::Stall { stalls: number(stalls)?, steps: number(steps)?.into() }),
        ["starve", name] => Ok(Policy::Starve(name.to_owned())),
        _ => Err(wrong()),
    }
}

fn policy_text(policy: &Policy) -> String {
    match policy {
        Policy::Random => "random".to_owned(),
        Policy::Pct { changes, steps } => format!("pct:{changes}:{steps}"),
        Policy::Starve(name) => format!("starve:{name}"),
        Policy::Stall { stalls, steps } => format!("stall:{stalls}:{steps}"),
    }
}

impl fmt::Display for Scenario {
    /// In words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |names: &BTreeSet<&str>| match names.is_empty() {
            true => "nothing".to_owned(),
            false => names.iter().copied().collect::<Vec<_>>().join(", "),
        };
        let clients = if self.clients == 0 {
            "as many clients as the proof has".to_owned()
        } else {
            format!("{} clients a group", self.clients)
        };
        write!(f, "{}: a server of {} workers with its data in {}, ", self.proof.name(), self.workers, self.medium.name())?;
        writeln!(f, "{clients}, {} virtual ms", self.millis)?;
        let (network, disk, pages) = (names(&self.network), names(&self.disk), names(&self.pages));
        writeln!(f, "goes wrong in the network: {network}; on the disk: {disk}; on the device alone: {pages}")?;
        let Schedule { policy, inner_per_million, stalls_per_million } = &self.schedule;
        write!(
            f,
            "schedule {}, of a million points {inner_per_million} switch and {stalls_per_million} stall",
            policy_text(policy)
        )?;
        if let Some(only) = &self.only {
            write!(f, "; {} operations are performed", only.len())?;
        }
        if let Some(record) = &self.choices {
            let made: usize = record.streams.iter().map(Vec::len).sum();
            let bad = record.streams.iter().flatten().filter(|choice| **choice != 0).count();
            write!(f, "; {bad} of {made} choices are not 0")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_read_as_it_was_written() {
        for (proof, seed) in Proof::ALL.into_iter().zip(0..) {
            let mut scenario = Scenario::of(proof, seed);
            scenario.only = Some(BTreeSet::from([(1, 2), (30, 400)]));
            let mut record = ChoiceRecord::default();
            record.streams[2] = vec![0, 7, 0];
            scenario.choices = Some(record);
            let text = scenario.to_text();
            assert_eq!(Scenario::read(&text).expect("a scenario").to_text(), text);
        }
        for wrong in ["", "--proof none --seed 1", "--proof units --seed 1\nonly x", "--proof units --seed 1 --disk nonsense"] {
            assert!(Scenario::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn seeds_switch_each_class_of_faults_on_and_off() {
        let all: Vec<Scenario> = (0..200).map(|seed| Scenario::of(Proof::Histories, seed)).collect();
        let is_mixed = |has: &dyn Fn(&Scenario) -> bool| (20..180).contains(&all.iter().filter(|one| has(one)).count());
        for (name, _) in NETWORK {
            assert!(is_mixed(&|one| one.network.contains(name)), "{name}");
        }
        for (name, _) in DISK.iter().flat_map(|(_, classes)| *classes) {
            assert!(all.iter().any(|one| one.disk.contains(name)), "{name}");
        }
    }
}
