//! CLIENT TRACKING, TRACKINGINFO, CACHING and GETREDIR: what a client asks of server-assisted client-side caching.

use std::sync::atomic::Ordering::Relaxed;

use almandine_command_spec::{Arg, CommandSpec};
use almandine_handler::{
    AdminCall, ClientTracking, Command, CommandError, Handler, Options, Outcome, Word, errors, number, tracking,
};
use almandine_instance::TrackingOptions;

use super::subcommand::{ON_OFF, SUBCOMMAND};

pub(super) const TRACKING: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|TRACKING",
        id: 88,
        since: "6.0.0",
        complexity: "O(1). Some options may introduce additional complexity.",
        summary: "Controls server-assisted client-side caching for the connection.",
        args: &[
            Arg::one_of("status", &ON_OFF),
            Arg::integer("client-id").token("REDIRECT").optional(),
            Arg::value("prefix").token("PREFIX").multiple_token().optional(),
            Arg::pure_token("bcast", "BCAST").optional(),
            Arg::pure_token("optin", "OPTIN").optional(),
            Arg::pure_token("optout", "OPTOUT").optional(),
            Arg::pure_token("noloop", "NOLOOP").optional(),
        ],
        ..SUBCOMMAND
    },
    run: Handler::Admin(tracking),
};

fn tracking(call: &mut AdminCall<'_>) -> Outcome {
    let (options, mut prefixes) = parse(call)?;
    match Word(call.args.at(2)) {
        word if word.is("ON") => {}
        word if word.is("OFF") => {
            tracking::stop(call.client, &call.context.instance);
            call.reply.ok();
            return Ok(());
        }
        _ => return Err(CommandError::Syntax.into()),
    }
    let current = call.client.tracking.as_deref();
    check(options, &prefixes, current)?;
    let mut kept = current.map(|current| current.prefixes.clone()).unwrap_or_default();
    if options.broadcast && prefixes.is_empty() {
        prefixes.push(b"");
    }
    call.context.instance.tracking.enable(&call.client.shared, options, &prefixes);
    kept.extend(prefixes.into_iter().map(<[u8]>::to_vec));
    let caching_said = current.is_some_and(|current| current.caching_said);
    let prefix_bytes = kept.iter().map(Vec::len).sum();
    call.client.tracking = Some(Box::new(ClientTracking { options, caching_said, prefixes: kept, prefix_bytes }));
    call.client.weigh();
    call.reply.ok();
    Ok(())
}

/// What is given behind ON or OFF, which is read the same way.
fn parse<'c>(call: &AdminCall<'c>) -> Result<(TrackingOptions, Vec<&'c [u8]>), CommandError> {
    let (mut given, mut prefixes) = (TrackingOptions::default(), Vec::new());
    let mut redirect = 0;
    let mut options = Options::after(call.args, 3);
    while let Some(option) = options.next() {
        match option {
            o if o.is("REDIRECT") && options.remaining() > 0 => {
                if redirect != 0 {
                    return Err(errors::tracking::REDIRECT_TWICE);
                }
                redirect = number::integer(options.value()?)?;
                let target = u64::try_from(redirect).ok().and_then(|id| call.context.instance.clients.find(id));
                given.redirect = target.ok_or(errors::tracking::REDIRECT_UNKNOWN)?.id;
            }
            o if o.is("PREFIX") && options.remaining() > 0 => prefixes.push(options.value()?),
            o if o.is("BCAST") => given.broadcast = true,
            o if o.is("OPTIN") => given.opt_in = true,
            o if o.is("OPTOUT") => given.opt_out = true,
            o if o.is("NOLOOP") => given.no_loop = true,
            _ => return Err(CommandError::Syntax),
        }
    }
    Ok((given, prefixes))
}

/// Whether the options go together, and with how the client tracks already.
fn check(options: TrackingOptions, prefixes: &[&[u8]], current: Option<&ClientTracking>) -> Outcome {
    if !options.broadcast && !prefixes.is_empty() {
        return Err(errors::tracking::PREFIX_NEEDS_BROADCAST.into());
    }
    if current.is_some_and(|current| current.options.broadcast != options.broadcast) {
        return Err(errors::tracking::MODE_SWITCH.into());
    }
    if options.broadcast && (options.opt_in || options.opt_out) {
        return Err(errors::tracking::BROADCAST_OPTIONS.into());
    }
    if options.opt_in && options.opt_out {
        return Err(errors::tracking::OPT_BOTH.into());
    }
    let switches =
        |current: &ClientTracking| (options.opt_in && current.options.opt_out) || (options.opt_out && current.options.opt_in);
    if current.is_some_and(switches) {
        return Err(errors::tracking::OPT_SWITCH.into());
    }
    for (index, prefix) in prefixes.iter().enumerate() {
        let overlaps = |other: &[u8]| prefix.starts_with(other) || other.starts_with(prefix);
        if let Some(other) = current.and_then(|current| current.prefixes.iter().find(|other| overlaps(other))) {
            return Err(errors::tracking::prefixes_overlap(prefix, "an existing", other).into());
        }
        if let Some(other) = prefixes[index + 1..].iter().find(|other| overlaps(other)) {
            return Err(errors::tracking::prefixes_overlap(prefix, "another provided", other).into());
        }
    }
    Ok(())
}

pub(super) const TRACKINGINFO: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|TRACKINGINFO",
        id: 89,
        since: "6.2.0",
        summary: "Returns information about server-assisted client-side caching for the connection.",
        ..SUBCOMMAND
    },
    run: Handler::Admin(tracking_info),
};

fn tracking_info(call: &mut AdminCall<'_>) -> Outcome {
    let tracking = call.client.tracking.as_deref();
    let options = tracking.map(|tracking| tracking.options).unwrap_or_default();
    let is_said = tracking.is_some_and(|tracking| tracking.caching_said);
    let flags = [
        (tracking.is_none(), "off"),
        (tracking.is_some(), "on"),
        (options.broadcast, "bcast"),
        (options.opt_in, "optin"),
        (options.opt_in && is_said, "caching-yes"),
        (options.opt_out, "optout"),
        (options.opt_out && is_said, "caching-no"),
        (options.no_loop, "noloop"),
        (call.client.shared.tracking.broken.load(Relaxed), "broken_redirect"),
    ];
    call.reply.map(3);
    call.reply.bulk(b"flags");
    call.reply.set(flags.iter().filter(|(set, _)| *set).count());
    flags.iter().filter(|(set, _)| *set).for_each(|(_, flag)| call.reply.bulk(flag.as_bytes()));
    call.reply.bulk(b"redirect");
    call.reply.integer(call.client.shared.tracking.redirect.load(Relaxed));
    call.reply.bulk(b"prefixes");
    call.reply.array(tracking.map_or(0, |tracking| tracking.prefixes.len()));
    tracking.into_iter().flat_map(|tracking| &tracking.prefixes).for_each(|prefix| call.reply.bulk(prefix));
    Ok(())
}

pub(super) const CACHING: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|CACHING",
        id: 72,
        since: "6.0.0",
        summary: "Instructs the server whether to track the keys in the next request.",
        args: &[Arg::one_of("mode", &[Arg::pure_token("yes", "YES"), Arg::pure_token("no", "NO")])],
        ..SUBCOMMAND
    },
    run: Handler::Admin(caching),
};

fn caching(call: &mut AdminCall<'_>) -> Outcome {
    let tracking = call.client.tracking.as_deref_mut().ok_or(errors::tracking::CACHING_NEEDS_TRACKING)?;
    match Word(call.args.at(2)) {
        word if word.is("YES") && !tracking.options.opt_in => return Err(errors::tracking::CACHING_YES_NEEDS_OPT_IN.into()),
        word if word.is("NO") && !tracking.options.opt_out => return Err(errors::tracking::CACHING_NO_NEEDS_OPT_OUT.into()),
        word if word.is("YES") || word.is("NO") => tracking.caching_said = true,
        _ => return Err(CommandError::Syntax.into()),
    }
    call.reply.ok();
    Ok(())
}

pub(super) const GETREDIR: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|GETREDIR",
        id: 75,
        since: "6.0.0",
        summary: "Returns the client ID to which the connection's tracking notifications are redirected.",
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        call.reply.integer(call.client.shared.tracking.redirect.load(Relaxed));
        Ok(())
    }),
};
