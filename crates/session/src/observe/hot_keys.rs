//! HOTKEYS: what a command has cost goes to its keys.

use almandine_command_spec::Access;
use almandine_handler::{Context, Dispatch};
use almandine_resp::Args;

use crate::observe::after_command::request_bytes;

/// Records a command that has run, while HOTKEYS is on.
#[inline]
pub(crate) fn record(context: &Context, dispatch: &Dispatch, args: Args<'_>, elapsed_ns: u64, reply_bytes: usize) {
    if context.instance.statistics.hot_keys.is_active() {
        record_keys(context, dispatch, args, elapsed_ns, reply_bytes);
    }
}

#[cold]
fn record_keys(context: &Context, dispatch: &Dispatch, args: Args<'_>, elapsed_ns: u64, reply_bytes: usize) {
    let shape = &context.table.row(dispatch.index).shape;
    let keys = || {
        let declared = shape.keys(args.len(), |argument| args.at(argument));
        declared.filter(|(_, access)| *access != Access::NotKey).map(|(position, _)| args.at(position))
    };
    let count = keys().count();
    if count > 0 {
        let bytes = (request_bytes(args) + reply_bytes) as u64;
        context.instance.statistics.hot_keys.record(context.worker, keys(), count, (elapsed_ns, bytes));
    }
}
