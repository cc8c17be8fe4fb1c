//! Step 5, *execute*: running one command: its latches, its handler, and its error in place of a reply.

use almandine_base::Output;
use almandine_base::output::Mark;
use almandine_handler::blocking::Waiting;
use almandine_handler::{AdminCall, Client, CommandError, Dispatch, Flags, Handler, Outcome, ReadCall, Stop, WriteCall, errors};
use almandine_resp::{Args, Reply};

use crate::blocking::begin_wait;
use crate::observe::running;
use crate::run::outcome::Pending;
use crate::run::runner::{Called, Runner};
use crate::run::{events, script};
use crate::state::script_run::Restart;
use crate::steps::plan::declared_keys;
use crate::steps::residency;

impl Runner {
    /// Runs a command and replies; when it fails, the error takes the place of what it has written.
    ///
    /// # Errors
    /// When the command has to run again. Nothing has happened then.
    #[inline(always)]
    pub(crate) fn answer(
        &mut self,
        client: &mut Client,
        out: &mut Output,
        called: Called<'_>,
        args: Args<'_>,
    ) -> Result<(), Pending> {
        let mark = out.mark();
        running::begin(called.dispatch.index, args.len());
        match self.call(client, out, called, args) {
            Ok(()) => Ok(()),
            Err(stop) => self.stopped(client, out, (called, args.slice_from(0)), &stop, mark),
        }
    }

    /// Cuts off what a command has written that stopped, and replies its error if it failed. This is the only place where a
    /// [`Stop`] is looked at.
    #[cold]
    fn stopped(
        &mut self,
        client: &mut Client,
        out: &mut Output,
        (called, args): (Called<'_>, Args<'_>),
        stop: &Stop,
        mark: Mark,
    ) -> Result<(), Pending> {
        debug_assert!(
            matches!(stop, Stop::Waiting(_)) || client.blocking.waiting.is_none(),
            "INV-BLOCK-2: a command that waits has no reply, {stop:?}"
        );
        out.truncate(mark);
        let busy;
        let error = match stop {
            Stop::Error(error) => error,
            Stop::Cold if !residency::is_too_much(&mut self.accessor) => return Err(Pending::Records),
            Stop::Cold => {
                self.accessor.cold().forget_wanted();
                &CommandError::TooManyCold
            }
            Stop::Computing => return Err(Pending::Computation),
            Stop::Suspended => return Err(Pending::Script),
            Stop::Held => {
                let Some(error) = self.busy_with_carried() else { return Err(Pending::Held) };
                // A script that has not begun, or begins anew, does not begin any more.
                self.forget_script(client);
                busy = error;
                &busy
            }
            Stop::Waiting(_) => return Err(Pending::Key),
            Stop::Unreadable if self.accessor.cold().lacks_room() => &CommandError::NoRoomForCold,
            Stop::Unreadable => &CommandError::StorageUnreadable,
            Stop::Unplanned if !self.accessor.reader(client.db).plan().in_unit() => {
                return self.answer_alone(client, out, called, args);
            }
            Stop::Unplanned if self.restart != Restart::No => {
                self.restart = Restart::Due;
                script::caller::write_left_plan(out, client.version);
                return Ok(());
            }
            Stop::Unplanned => &errors::transaction::UNPLANNED,
        };
        self.fail(client, out, called.dispatch, error);
        Ok(())
    }

    /// Runs a command again that uses a key which it does not declare: alone, so that no key is outside of its unit.
    fn answer_alone(&mut self, client: &mut Client, out: &mut Output, called: Called<'_>, args: Args<'_>) -> Result<(), Pending> {
        let mark = out.mark();
        self.accessor.unit().begin_alone();
        self.context.statistics().counters.units_alone.add(1);
        self.pass_time();
        let outcome = self.call(client, out, called, args);
        debug_assert!(!matches!(outcome, Err(Stop::Unplanned)), "INV-LATCH-3: a unit that is alone holds every key");
        // One that has made a key ready is ended by the caller, behind the command.
        let ended = !self.accessor.serving().has_ready();
        let answered = match outcome {
            Ok(()) => Ok(()),
            Err(stop) => self.stopped(client, out, (called, args), &stop, mark),
        };
        if ended {
            self.accessor.unit().end();
        }
        answered
    }

    /// Answers a command that has failed.
    pub(crate) fn fail(&mut self, client: &Client, out: &mut Output, dispatch: &Dispatch, error: &CommandError) {
        self.timing.count_failed(self.context.statistics(), dispatch.index);
        self.reply_error(client, out, error);
    }

    /// Answers a command with an error, which counts unless a script has called it that may begin anew.
    pub(crate) fn reply_error(&mut self, client: &Client, out: &mut Output, error: &CommandError) {
        self.timing.count_error(self.context.statistics(), &error.text());
        Reply::new(out, client.version).error(error.bytes());
    }

    /// Latches what the command declares and calls its handler. What that has replied when it fails is the caller's to cut off.
    #[inline(always)]
    fn call(&mut self, client: &mut Client, out: &mut Output, called: Called<'_>, args: Args<'_>) -> Outcome {
        let Self { accessor, context, now_ms, .. } = self;
        let Called { dispatch, planned, .. } = called;
        let reply = Reply::new(out, client.version);
        match dispatch.run {
            Handler::Read(handler) => {
                let mut call = ReadCall { args, keys: accessor.reader(client.db), reply, client, context, planned: planned.key };
                let together = dispatch.flags.any(Flags::MANY_KEYS) && declared_keys(context, dispatch, call.args).nth(1).is_some();
                let outcome = if !call.keys.published().is_empty() {
                    read_telling(&mut call, dispatch, handler, together)
                } else {
                    let mut at_hand = Ok(());
                    if together {
                        call.keys.plan().lock_shared_all(declared_keys(context, dispatch, call.args));
                        at_hand = residency::require(dispatch, &mut call);
                    }
                    at_hand.and_then(|()| handler(&mut call))
                };
                drop(call);
                if together {
                    accessor.unit().remove_expired(declared_keys(context, dispatch, args).map(|key| (client.db, key)));
                }
                match outcome {
                    Ok(()) => Ok(()),
                    // A copy, whose address may be taken: that of the call's own would keep them from the registers.
                    Err(Stop::Waiting(block)) => {
                        begin_wait::read_again(self, client, out, (dispatch, handler), args.slice_from(0), block)
                    }
                    Err(stop) => Err(stop),
                }
            }
            Handler::Write(handler) => {
                let keys = accessor.writer(client.db);
                let mut call = WriteCall { args, keys, reply, client, context, planned: planned.key };
                let tells = !call.keys.published().is_empty();
                if !dispatch.flags.any(Flags::SELF_LOCKING) || (tells && events::latches_write(dispatch)) {
                    lock(dispatch, &mut call);
                    residency::require(dispatch, &mut call)?;
                }
                match handler(&mut call) {
                    // Nothing but the tag is looked at: what a call has just stored in part is slow to copy as a whole, and waits
                    // for all stores before it, those to records among them.
                    Ok(()) => {
                        if tells {
                            events::end(&mut call.keys, None, false);
                        }
                        Ok(())
                    }
                    Err(mut stop) => {
                        let waiting = write_stopped(&mut call, dispatch, &mut stop, tells);
                        drop(call);
                        if matches!(stop, Stop::Waiting(_)) {
                            client.blocking.waiting = waiting;
                        }
                        Err(stop)
                    }
                }
            }
            Handler::Admin(handler) => {
                let outcome = handler(&mut AdminCall { args, accessor, reply, client, context, now_ms: *now_ms });
                if dispatch.flags.any(Flags::ANY_KEY) {
                    accessor.changes().follow_events();
                }
                outcome
            }
            Handler::Script(prepare) => self.run_script(client, out, (args.slice_from(0), planned.key), prepare),
            // Of the second the table finds none by the name of a call.
            Handler::Container | Handler::Unserved => Err(errors::wrong_arity(&context.table.row(dispatch.index).name).into()),
        }
    }
}

/// Ends the call of a command that writes and has not replied; what it waits for, if it does.
#[cold]
#[inline(never)]
fn write_stopped(call: &mut WriteCall<'_>, dispatch: &Dispatch, stop: &mut Stop, tells: bool) -> Option<Box<Waiting>> {
    if tells {
        events::end(&mut call.keys, Some(stop), false);
    }
    match stop {
        Stop::Waiting(block) => begin_wait::wait(&mut call.keys, call.client, dispatch, call.args, block),
        _ => None,
    }
}

/// Runs a command that reads while events are told: latched where it may tell any.
#[cold]
#[inline(never)]
fn read_telling(
    call: &mut ReadCall<'_>,
    dispatch: &Dispatch,
    handler: fn(&mut ReadCall<'_>) -> Outcome,
    together: bool,
) -> Outcome {
    if events::latches_read(dispatch, &call.keys, together) {
        call.keys.plan().lock_all(declared_keys(call.context, dispatch, call.args));
    } else if together {
        call.keys.plan().lock_shared_all(declared_keys(call.context, dispatch, call.args));
    }
    let at_hand = if together { residency::require(dispatch, call) } else { Ok(()) };
    let outcome = at_hand.and_then(|()| handler(call));
    events::end(&mut call.keys, outcome.as_ref().err(), true);
    outcome
}

#[inline]
fn lock(dispatch: &Dispatch, call: &mut WriteCall<'_>) {
    if dispatch.key != 0 {
        let key = call.key(usize::from(dispatch.key));
        call.keys.plan().lock_one(key);
    } else if dispatch.flags.any(Flags::MANY_KEYS) {
        call.keys.plan().lock_all(declared_keys(call.context, dispatch, call.args));
    }
}
