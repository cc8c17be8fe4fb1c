//! DEBUG RELOAD: each value through the codecs of snapshot files and back. There is no file; what is tested is that nothing gets
//! lost on the way.

use almandine_commands::payload;
use almandine_config::Settings;
use almandine_handler::{AdminCall, CommandError, Outcome, Word};
use almandine_keyspace::{Accessor, Metadata, Put};

/// Keys asked for in one step of a scan.
const STEP: usize = 256;

pub(super) fn reload(call: &mut AdminCall<'_>) -> Outcome {
    // NOSAVE reads a file that was written before.
    let known = |option: &[u8]| ["MERGE", "NOFLUSH"].iter().any(|known| Word(option).is(known));
    if !call.args.slice_from(2).iter().all(known) {
        return Err(CommandError::Syntax.into());
    }
    for db in 0..call.context.instance.keyspace.databases() as u16 {
        let mut cursor = 0;
        loop {
            let mut keys: Vec<Vec<u8>> = Vec::with_capacity(STEP);
            let scanned = call.accessor.reader(db).scan(cursor, STEP, &mut |key, _| keys.push(key.to_vec()));
            scanned.whole?;
            cursor = scanned.cursor;
            for key in &keys {
                reload_key(call.accessor, db, key, call.context.settings())?;
            }
            if cursor == 0 {
                break;
            }
        }
    }
    call.reply.ok();
    Ok(())
}

fn reload_key(accessor: &mut Accessor, db: u16, key: &[u8], settings: &Settings) -> Outcome {
    let mut keys = accessor.writer(db);
    let key = keys.key(key);
    keys.plan().lock_one(key);
    let Some(Metadata { expiry_ms, etag, .. }) = keys.metadata(key)? else { return Ok(()) };
    let Some(written) = payload::of_key(&mut keys, key)? else { return Ok(()) };
    payload::put(&mut keys, key, payload::open(&written)?, Put { expiry_ms, etag, ..Put::default() }, settings)
}
