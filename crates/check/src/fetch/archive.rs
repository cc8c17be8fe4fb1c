//! The archive of a log in object storage: all of it, or a moment of those that it keeps.

use std::path::Path;
use std::sync::Arc;

use almandine_oplog::LogKeys;
use almandine_oplog::archive::{ArchiveFault, Fetched, Moment, Objects, Restorable, copy, finish, is_to_be_fetched, restorable};
use almandine_oplog::directory::Directory;
use almandine_server::FetchedPages;
use serde_json::json;

use crate::cut::{Limit, cut};
use crate::report::{Outcome, Report};

/// Bytes of the files of pages.
const SEGMENT_BYTES: u64 = 256 << 20;

type To<'p> = (&'p Path, Option<&'p Path>, Option<Arc<LogKeys>>);

pub(super) fn fetch(
    (url, objects): (&str, &dyn Objects),
    limit: Limit,
    (to, storage, keys): To<'_>,
    report: &mut Report,
) -> Outcome {
    match copy_archive(objects, limit, (to, storage, keys.clone())) {
        Ok(Some(Fetched { objects, bytes, pages })) => {
            report.say("objects", objects, format!("{objects} objects of {url} are copied to {}", to.display()));
            report.say("bytes", bytes, format!("{bytes} bytes; the server that writes the archive goes on with it"));
            if pages > 0 {
                report.say("storage_pages", pages, format!("{pages} pages of storage-dir are among them"));
            }
        }
        Ok(None) => {
            report.say("objects", 0, format!("{url} has no archive of a log, and no backup"));
            return Outcome::CouldNotLook;
        }
        Err(fault) => return fail(fault, report),
    }
    if matches!(limit, Limit::Whole) {
        return Outcome::Whole;
    }
    // Until it is cut and finished it does not count, and may be fetched again.
    let cut = cut((to, keys), limit, true, report).and_then(|outcome| {
        finish(&Directory::lock(to)?)?;
        Ok(outcome)
    });
    cut.unwrap_or_else(|fault| report.fail(&fault))
}

fn copy_archive(objects: &dyn Objects, limit: Limit, (to, storage, keys): To<'_>) -> Result<Option<Fetched>, ArchiveFault> {
    let directory = Directory::take(to)?;
    if !is_to_be_fetched(&directory)? {
        let why = format!("{} has a log already: name a directory that is empty, or not there", to.display());
        return Err(ArchiveFault::Owned(why));
    }
    let moment = match limit {
        Limit::Whole => Moment::Newest,
        Limit::Lsn(lsn) => Moment::Lsn(lsn),
        Limit::Time(unix_ms) => Moment::Time(unix_ms),
    };
    let storage = storage.iter().map(|storage| storage.to_path_buf()).collect();
    copy(objects, &directory, moment, &mut FetchedPages::new(storage, SEGMENT_BYTES, keys))
}

/// Lists the bases, and what can be had of them.
pub(super) fn list((url, objects): (&str, &dyn Objects), report: &mut Report) -> Outcome {
    let all = match restorable(objects) {
        Ok(all) => all,
        Err(fault) => return fail(fault, report),
    };
    let (Some(first), Some(last)) = (all.first(), all.last()) else {
        report.say("backups", json!([]), format!("{url} has no backups, and no archive of a log"));
        return Outcome::CouldNotLook;
    };
    for base in &all {
        let Restorable { base, through, end, since_ms, is_broken, base_bytes, log_bytes, has_pages } = *base;
        let since = since_ms.map(|since| since as f64 / 1000.0);
        let told = json!({
            "base": base, "lsn": through, "end_lsn": end, "since": since, "ends": is_broken, "bytes": base_bytes,
            "log_bytes": log_bytes, "has_pages": has_pages,
        });
        let time = since.map(|since| format!(", {since:.3} Unix seconds")).unwrap_or_default();
        let pages = if has_pages { " and the pages that it names" } else { "" };
        let ends = if is_broken { "; what came behind its log is in the next base only" } else { "" };
        let line = format!("base {base}  from LSN {through}{time} on: {base_bytes} bytes{pages}, {log_bytes} bytes of log{ends}");
        report.list("bases", told, line);
    }
    let since = first.since_ms.map(|since| since as f64 / 1000.0);
    let line = match since {
        Some(since) => {
            format!("Each moment from {since:.3} Unix seconds on can be had (--at-time), through LSN {} (--at)", last.end)
        }
        None => format!("Only what is newest is kept, from LSN {} through {} (--at)", first.through, last.end),
    };
    report.say("since", since, line);
    Outcome::Whole
}

fn fail(fault: ArchiveFault, report: &mut Report) -> Outcome {
    let (outcome, kind) = match fault {
        ArchiveFault::Log(fault) => return report.fail(&fault),
        ArchiveFault::Damaged(_) => (Outcome::Damaged, "damaged"),
        _ => (Outcome::CouldNotLook, "error"),
    };
    report.say("fault", json!({ "kind": kind, "text": fault.to_string() }), fault.to_string());
    outcome
}
