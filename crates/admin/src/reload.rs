//! DEBUG RELOAD: the data is saved to the snapshot, dropped, and loaded from it. DEBUG LOADAOF: it is loaded from the log of
//! writes.

use almandine_handler::{AdminCall, Outcome, Word, errors};
use almandine_instance::{Reload, SaveRefused, SaveTask};

use crate::operators::outside_epoch;

pub(super) fn reload(call: &mut AdminCall<'_>) -> Outcome {
    let mut how = Reload { save: true, flush: true, merge: false };
    for option in call.args.slice_from(2).iter().map(Word) {
        match option {
            o if o.is("NOSAVE") => how.save = false,
            o if o.is("NOFLUSH") => how.flush = false,
            o if o.is("MERGE") => how.merge = true,
            _ => return Err(errors::server::RELOAD_OPTIONS.into()),
        }
    }
    if !call.reply.out.may_stream() {
        return Err(errors::server::RELOAD_IN_TRANSACTION.into());
    }
    let mut reloaded = Ok(());
    outside_epoch(call, |instance| reloaded = instance.persistence.saves.run(SaveTask::Reload(how)));
    reloaded.map_err(|refused| match refused {
        SaveRefused::Running => errors::server::SAVE_RUNS,
        SaveRefused::Failed => errors::server::RELOAD_FAILED,
    })?;
    call.reply.ok();
    Ok(())
}

pub(super) fn load_log(call: &mut AdminCall<'_>) -> Outcome {
    if !call.reply.out.may_stream() {
        return Err(errors::server::LOADAOF_IN_TRANSACTION.into());
    }
    let mut loaded = Ok(());
    outside_epoch(call, |instance| loaded = instance.persistence.saves.run(SaveTask::LoadLog));
    loaded.map_err(|refused| match refused {
        SaveRefused::Running => errors::server::SAVE_RUNS,
        SaveRefused::Failed => errors::server::LOADAOF_FAILED,
    })?;
    call.reply.ok();
    Ok(())
}
