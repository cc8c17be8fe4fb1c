//! What the rings of the last run have left, and whether it counts.
//!
//! Rings count all or none, for only together are they a closed cut: those that the manifest names, of our log and this boot of the
//! machine. Another boot has none of them, and lost nothing that was promised. In this boot none may be missing or damaged. They
//! are set aside when the log ends before what they say is in it: a disk has lost that, and what they hold is behind a gap.

use std::path::{Path, PathBuf};

use almandine_base::step;
use almandine_io::mapping;

use crate::append::Leftover;
use crate::fault::Fault;
use crate::manifest::{Manifest, RingsEntry};
use crate::read::LogEnd;
use crate::ring::{Filled, NoRing};
use crate::rings;
use crate::source::RingId;
use crate::unit::{UnitHead, epoch_of};

/// See the module.
#[derive(Debug, Default)]
pub struct Remains {
    /// What is to be appended.
    pub left: Vec<Leftover>,
    /// Why the rings do not count, for the log of the server.
    pub aside: Option<String>,
    /// Where they lie, and their names: to be removed when the next run has begun.
    mappings: Option<(PathBuf, Vec<String>)>,
}

impl Remains {
    /// Looks at the rings that the manifest of the log in `log` names; nothing is changed.
    ///
    /// # Errors
    /// When some are missing or damaged.
    pub fn find((log, manifest): (&Path, &Manifest), boot: u128, end: &LogEnd) -> Result<Self, Fault> {
        let is_of_boot = |named: &&RingsEntry| step!(MatchBoot, named.boot == boot, else true);
        let Some(named) = manifest.rings.as_ref().filter(is_of_boot) else { return Ok(Self::default()) };
        let directory = &named.directory(log);
        let (mut found, mut names) = (Vec::new(), Vec::new());
        for (name, ring) in rings::left(directory).map_err(|error| Fault::io("read the rings in", directory, error))? {
            let own = format!("{:032x}-{}-", manifest.id, named.run);
            match ring {
                Ok((of, ring)) if of.log == manifest.id && of.run == named.run && of.boot == named.boot => found.push((of, ring)),
                // A ring of another log, or of a run before.
                _ if !name.starts_with(&own) => continue,
                // A thread was about to have it. Those that had one when the run began are counted.
                Err(NoRing::Unmade) => {}
                Ok(_) => return Err(Fault::damaged(&directory.join(name), 0, "the ring is not the one that its name says")),
                Err(error) => return Err(Fault::damaged(&directory.join(name), 0, error.to_string())),
            }
            names.push(name);
        }
        if found.len() < named.count as usize {
            let why = format!("run {} had {} rings, and {} are there", named.run, named.count, found.len());
            return Err(Fault::Missing { path: directory.clone(), why });
        }
        debug_assert!(found.iter().all(|(of, _)| of.boot == named.boot), "INV-RINGS-1: rings that count are of one boot");
        let mut remains = Self { mappings: Some((directory.clone(), names)), ..Self::default() };
        let released = found.iter().map(|(_, ring)| ring.released_epoch()).max().unwrap_or(0);
        if released > end.epoch {
            remains.aside = Some(format!(
                "the log ends with epoch {}, and rings say that it had epoch {released}: what the rings hold is left out",
                end.epoch
            ));
            return Ok(remains);
        }
        // From there on, units lay in memory that has ended with the process.
        let void_from = found.iter().map(|(_, ring)| ring.void_from()).filter(|from| *from != 0).min().unwrap_or(u64::MAX);
        for (name, ring) in found {
            let mut units = Filled::default();
            let damaged = |error: &dyn std::fmt::Display| Fault::damaged(&directory.join(name.file()), 0, error.to_string());
            ring.units(void_from - 1, &mut units).map_err(|error| damaged(&error))?;
            if !ascend(&units) {
                return Err(damaged(&"the numbers of its units do not ascend"));
            }
            remains.left.push(Leftover { run: name.run, ring: RingId(name.ring), units: units.to_vec() });
        }
        Ok(remains)
    }

    /// Removes the rings. What they held is durable elsewhere, or does not count.
    ///
    /// # Errors
    /// As the system reports them.
    pub fn remove(self) -> Result<(), Fault> {
        let Some((directory, names)) = self.mappings else { return Ok(()) };
        let remove =
            |name: &String| mapping::remove(&directory, name).map_err(|error| Fault::io("remove a ring in", &directory, error));
        names.iter().try_for_each(remove)
    }
}

/// Whether the numbers of units ascend.
fn ascend(mut units: &[u8]) -> bool {
    let mut last = 0;
    while let Some((head, _, rest)) = UnitHead::split(units) {
        if head.number <= last || epoch_of(head.number) == 0 {
            return false;
        }
        (last, units) = (head.number, rest);
    }
    units.is_empty()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use almandine_epoch::Epoch;

    use super::*;
    use crate::UnitSource;
    use crate::directory::rings_path;
    use crate::order::{Asked, Order};
    use crate::ring::RingName;
    use crate::rings::{RingOptions, Rings};

    const BOOT: u128 = 77;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("almandine-remains-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        mapping::prepare_directory(&path).unwrap();
        path
    }

    fn manifest(directory: &Path, count: u32) -> Manifest {
        let rings = RingsEntry { run: 3, boot: BOOT, count, place: directory.to_owned() };
        Manifest { id: 9, run: 3, rings: Some(rings), ..Manifest::default() }
    }

    /// Two rings of run 3: the units of epoch 5 are released, those of epoch 6 are not. The process ends.
    fn run(directory: &Path) {
        let (order, epoch) = (Arc::new(Order::default()), Arc::new(Epoch::new(8)));
        let options =
            RingOptions { directory: Some(directory.to_owned()), bytes: 4096, log: 9, run: 3, boot: BOOT, first_epoch: 5 };
        let rings = Rings::new(options, 2, Arc::clone(&order), epoch);
        let mut source = rings.source();
        let publish = |thread: usize| {
            rings.open(thread).unwrap();
            let place = rings.announce(thread, 4);
            let number = order.take(Asked { changed: &[(thread as u64) << 32], ..Asked::default() });
            rings.publish(thread, UnitHead { number, bytes: 4, entries: 1 }, b"unit", place);
        };
        [0, 1, 1].into_iter().for_each(publish);
        source.raise_epoch();
        let through = source.closed_epoch();
        assert_eq!(through, 5);
        source.units(through, &mut |_: RingId, _: &[u8]| {});
        source.release(through);
        [0, 1, 0].into_iter().for_each(publish);
    }

    #[test]
    fn all_rings_of_the_last_run_in_this_boot_count_or_none() {
        let directory = folder("count");
        run(&directory);
        let named = manifest(&directory, 2);
        let end = LogEnd { epoch: 5, ..LogEnd::default() };
        let remains = Remains::find((&directory, &named), BOOT, &end).unwrap();
        let lens: Vec<_> = remains.left.iter().map(|left| (left.run, left.ring.0, left.units.len())).collect();
        assert_eq!((lens, &remains.aside), (vec![(3, 0, 40), (3, 1, 20)], &None));
        // The machine has booted since, or no ring is named.
        assert!(Remains::find((&directory, &named), BOOT + 1, &end).unwrap().left.is_empty());
        assert!(Remains::find((&directory, &Manifest { rings: None, ..named.clone() }), BOOT, &end).unwrap().left.is_empty());
        // The log lacks what was released.
        let short = Remains::find((&directory, &named), BOOT, &LogEnd { epoch: 4, ..LogEnd::default() }).unwrap();
        assert!(short.left.is_empty() && short.aside.unwrap().contains("epoch 5"));
        assert!(matches!(Remains::find((&directory, &manifest(&directory, 3)), BOOT, &end), Err(Fault::Missing { .. })));
        remains.remove().unwrap();
        assert!(mapping::names(&directory).unwrap().is_empty());
        assert!(matches!(Remains::find((&directory, &named), BOOT, &end), Err(Fault::Missing { .. })));
        std::fs::remove_dir_all(&directory).unwrap();
    }

    /// The directory of a log is moved with the rings in it.
    #[test]
    fn rings_that_lie_with_their_log_are_found_where_it_is() {
        let log = folder("within");
        let own = rings_path(&log);
        mapping::prepare_directory(&own).unwrap();
        run(&own);
        let mut named = manifest(&own, 2);
        named.rings.as_mut().unwrap().place = own.file_name().unwrap().into();
        let moved = log.with_extension("moved");
        let _ = std::fs::remove_dir_all(&moved);
        std::fs::rename(&log, &moved).unwrap();
        let end = LogEnd { epoch: 5, ..LogEnd::default() };
        assert!(matches!(Remains::find((&log, &named), BOOT, &end), Err(Fault::Missing { .. })));
        let remains = Remains::find((&moved, &named), BOOT, &end).unwrap();
        assert_eq!(remains.left.len(), 2);
        remains.remove().unwrap();
        assert!(mapping::names(&rings_path(&moved)).unwrap().is_empty());
        std::fs::remove_dir_all(&moved).unwrap();
    }

    /// The process ended while a thread was given its ring, behind those that the manifest counts.
    #[test]
    fn a_ring_that_was_being_made_holds_nothing() {
        use std::os::unix::fs::PermissionsExt;

        let directory = folder("unmade");
        run(&directory);
        let end = LogEnd { epoch: 5, ..LogEnd::default() };
        for (ring, bytes) in [(2, 0), (3, 8192)] {
            let name = RingName { log: 9, run: 3, boot: BOOT, ring }.file();
            std::fs::write(directory.join(&name), vec![0; bytes]).unwrap();
            std::fs::set_permissions(directory.join(name), std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        let remains = Remains::find((&directory, &manifest(&directory, 2)), BOOT, &end).unwrap();
        assert_eq!(remains.left.len(), 2);
        // One that was counted was whole.
        assert!(matches!(Remains::find((&directory, &manifest(&directory, 3)), BOOT, &end), Err(Fault::Missing { .. })));
        remains.remove().unwrap();
        assert!(mapping::names(&directory).unwrap().is_empty());
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_ring_that_is_damaged_is_refused() {
        let directory = folder("damaged");
        run(&directory);
        let name = mapping::names(&directory).unwrap().remove(0);
        let path = directory.join(name);
        let whole = std::fs::read(&path).unwrap();
        // Magic, format, log, positions, the length of a unit.
        for at in [0, 8, 16, 32, 16 * 8 + 6, 512 * 8 + 24 + 8] {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            std::fs::write(&path, &bytes).unwrap();
            let found = Remains::find((&directory, &manifest(&directory, 2)), BOOT, &LogEnd { epoch: 5, ..LogEnd::default() });
            assert!(matches!(found, Err(Fault::Damaged { .. })), "{at}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
