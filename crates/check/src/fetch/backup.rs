//! A backup in object storage: which one, and its files.

use std::path::Path;

use almandine_oplog::archive::Objects;
use almandine_oplog::backup_store::{Inventory, Restored, StoreFault, StoredBackups, StoredName, Wanted, choose, restore};
use almandine_oplog::directory::Directory;
use clap::Args;
use serde_json::json;

use crate::report::{Outcome, Report};

/// Of several backups at an address, the one that is meant; with none of these, the newest.
#[derive(Clone, Debug, Args)]
pub(crate) struct Choice {
    /// The backup with this name, as --list tells it.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["before", "covering", "owner"])]
    backup: Option<String>,
    /// The newest backup that was sealed at or before this time, in Unix seconds.
    #[arg(long, value_name = "SECONDS", conflicts_with = "covering")]
    before: Option<u64>,
    /// The backup that has this moment, in Unix seconds: the first that was sealed at or behind it. `cut --at-time` leads to it.
    #[arg(long, value_name = "SECONDS")]
    covering: Option<u64>,
    /// Only backups of this server: the third part of their names.
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
}

impl Choice {
    /// The backup that is meant; none: the archive of a log.
    pub(super) fn wanted(&self, objects: &dyn Objects) -> Result<Option<Inventory>, StoreFault> {
        let refused = |what: &str| StoreFault::Refused(format!("{what}: --list tells what there is"));
        let wanted = match (&self.backup, self.before, self.covering) {
            (Some(name), ..) => Wanted::Named(StoredName::parse(name).ok_or_else(|| refused("that is no name of a backup"))?),
            (_, Some(time), _) => Wanted::Before(time),
            (.., Some(time)) => Wanted::Covering(time),
            _ => Wanted::Newest,
        };
        let owner = self.owner.as_ref().map(|owner| u64::from_str_radix(owner, 16).map_err(|_| refused("that is no owner")));
        let found = StoredBackups::read(objects)?;
        let Some(name) = choose(&found, wanted, owner.transpose()?)? else {
            let is_named = self.backup.is_some() || self.owner.is_some() || wanted != Wanted::Newest;
            return if is_named { Err(refused("there is no such backup")) } else { Ok(None) };
        };
        let inventory = Inventory::read(objects, name)?;
        match wanted {
            Wanted::Covering(time) if inventory.start_s > time => Err(refused("no backup has that moment")),
            _ => Ok(Some(inventory)),
        }
    }
}

pub(super) fn fetch(
    url: &str,
    objects: &dyn Objects,
    inventory: Inventory,
    (to, storage): (&Path, Option<&Path>),
    report: &mut Report,
) -> Outcome {
    let name = inventory.name;
    let restored = Directory::take(to).map_err(StoreFault::from);
    match restored.and_then(|directory| restore(objects, inventory, &directory, storage)) {
        Ok(Restored { inventory, objects }) => {
            report.say("backup", name.to_string(), format!("The backup {name} of {url} is in {}", to.display()));
            report.say("objects", objects, format!("{objects} objects, each with its sum"));
            let bytes = inventory.bytes();
            report.say("bytes", bytes, format!("{bytes} bytes"));
            let (start, end) = (inventory.start_s, name.end_s);
            report.say("start", start, format!("It was begun at {start}, and sealed at {end}, Unix seconds"));
            Outcome::Whole
        }
        Err(fault) => fail(&fault, report),
    }
}

/// Lists the backups at an address; none: there may be something else.
pub(super) fn list((url, objects): (&str, &dyn Objects), report: &mut Report) -> Option<Outcome> {
    let found = match StoredBackups::read(objects) {
        Ok(found) => found,
        Err(fault) => return Some(fail(&fault, report)),
    };
    for (name, there) in &found.all {
        let (bytes, owner) = (there.bytes(), format!("{:016x}", name.owner));
        let start = if there.counts { Inventory::read(objects, *name).ok().map(|inventory| inventory.start_s) } else { None };
        let state = match (there.counts, start) {
            (true, Some(start)) => format!("from {start} to {}", name.end_s),
            (true, None) => "its inventory cannot be read".to_owned(),
            (false, _) => "no backup: on its way here, or what is left of one".to_owned(),
        };
        let told = json!({
            "name": name.to_string(), "owner": owner, "counts": there.counts, "start": start, "end": name.end_s, "lsn": name.lsn,
            "objects": there.pieces(), "bytes": bytes,
        });
        report.list("backups", told, format!("{name}  {bytes} bytes, {state}"));
    }
    if found.all.is_empty() {
        if found.others > 0 {
            return None;
        }
        report.say("backups", json!([]), format!("{url} has no backups, and no archive of a log"));
        return Some(Outcome::CouldNotLook);
    }
    Some(Outcome::Whole)
}

pub(super) fn fail(fault: &StoreFault, report: &mut Report) -> Outcome {
    let (outcome, kind) = match fault {
        StoreFault::Files(fault) => return report.fail(fault),
        StoreFault::Damaged(_) => (Outcome::Damaged, "damaged"),
        _ => (Outcome::CouldNotLook, "error"),
    };
    report.say("fault", json!({ "kind": kind, "text": fault.to_string() }), fault.to_string());
    outcome
}
