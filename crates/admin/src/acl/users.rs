//! ACL SETUSER, DELUSER and GENPASS: changing users, and what becomes of their clients.

use std::sync::Arc;

use almandine_acl::{DEFAULT_USER, User, Users, is_valid_name};
use almandine_command_spec::{Arg, CommandSpec};
use almandine_handler::{AdminCall, Command, CommandError, Handler, Outcome, ReadCall, errors, number};
use almandine_instance::Message;
use almandine_instance::acl::clients_of;
use almandine_io::entropy;

use super::subcommand::{FOR_ANYBODY, SUBCOMMAND};

/// Most bits of a password that ACL GENPASS makes.
const PASSWORD_BITS_MAX: i64 = 4096;

pub(super) const SETUSER: Command = Command {
    spec: CommandSpec {
        name: "ACL|SETUSER",
        id: 466,
        complexity: "O(N). Where N is the number of rules provided.",
        summary: "Creates and modifies an ACL user and its rules.",
        args: &[Arg::value("username"), Arg::value("rule").multiple().optional()],
        history: &[("6.2.0", "Added Pub/Sub channel patterns."), ("7.0.0", "Added selectors and key based permissions.")],
        secret: Some(|_, at| at > 1),
        ..SUBCOMMAND
    },
    run: Handler::Admin(setuser),
};

fn setuser(call: &mut AdminCall<'_>) -> Outcome {
    let name = call.args.at(2);
    if !is_valid_name(name) {
        return Err(errors::acl::INVALID_USER_NAME.into());
    }
    let rules: Vec<&[u8]> = call.args.slice_from(3).iter().collect();
    let instance = &call.context.instance;
    let defaults = instance.user_defaults();
    let changed = instance.acl.change(|users, catalog| {
        let before = users.find(name).cloned();
        users.set(name, &rules, catalog, defaults)?;
        Ok(before.zip(users.find(name).cloned()))
    });
    let changed = changed.map_err(|error: almandine_acl::UserError| errors::acl::rules(&error.text()))?;
    if let Some((before, after)) = changed
        && loses_channels(&before, &after)
    {
        check_subscriptions(call, &[after.id]);
    }
    call.client.follow_users(&call.context.instance.acl);
    call.reply.ok();
    Ok(())
}

/// Whether a client that listens to what `before` permits may be listening to what `after` does not.
pub(super) fn loses_channels(before: &User, after: &User) -> bool {
    let (before, after) = (before.selectors(), after.selectors());
    let is_kept = |text: &[u8]| after.iter().flat_map(|selector| selector.channels()).any(|pattern| pattern.text() == text);
    !after.iter().any(|selector| selector.has_all_channels())
        && (before.iter().any(|selector| selector.has_all_channels())
            || !before.iter().flat_map(|selector| selector.channels()).all(|pattern| is_kept(pattern.text())))
}

/// Closes the clients of these users that listen to what they may not listen to any more. A client's worker looks: the question
/// arrives behind every batch that it ran with the old rules.
pub(super) fn check_subscriptions(call: &mut AdminCall<'_>, user_ids: &[u64]) {
    let instance = &call.context.instance;
    for client in clients_of(&instance.clients, user_ids) {
        if client.id != call.client.shared.id {
            instance.workers.send(client.worker, Message::CheckSubscriptions(client.id));
        }
    }
    call.client.follow_users(&instance.acl);
    call.client.closing |= call.client.listens_to_forbidden();
}

/// Closes the clients of users that are gone. The caller still gets its reply.
pub(super) fn close_clients(call: &mut AdminCall<'_>, user_ids: &[u64]) {
    let instance = &call.context.instance;
    for client in clients_of(&instance.clients, user_ids) {
        if client.id != call.client.shared.id {
            instance.workers.kill(&client);
        }
    }
    call.client.follow_users(&instance.acl);
}

pub(super) const DELUSER: Command = Command {
    spec: CommandSpec {
        name: "ACL|DELUSER",
        id: 467,
        complexity: "O(1) amortized time considering the typical user.",
        summary: "Deletes ACL users, and terminates their connections.",
        args: &[Arg::value("username").multiple()],
        ..SUBCOMMAND
    },
    run: Handler::Admin(deluser),
};

fn deluser(call: &mut AdminCall<'_>) -> Outcome {
    let names = call.args.slice_from(2);
    if names.iter().any(|name| name == DEFAULT_USER) {
        return Err(errors::acl::DEFAULT_USER_STAYS.into());
    }
    let removed: Result<Vec<Arc<User>>, CommandError> =
        call.context.instance.acl.change(|users: &mut Users, _| Ok(names.iter().filter_map(|name| users.remove(name)).collect()));
    let ids: Vec<u64> = removed?.iter().map(|user| user.id).collect();
    if !ids.is_empty() {
        close_clients(call, &ids);
    }
    call.reply.unsigned(ids.len() as u64);
    Ok(())
}

pub(super) const GENPASS: Command = Command {
    spec: CommandSpec {
        name: "ACL|GENPASS",
        id: 469,
        summary: "Generates a pseudorandom, secure password that can be used to identify ACL users.",
        args: &[Arg::integer("bits").optional()],
        traits: FOR_ANYBODY,
        ..SUBCOMMAND
    },
    run: Handler::Read(genpass),
};

fn genpass(call: &mut ReadCall<'_>) -> Outcome {
    let bits = match call.args.get(2) {
        None => 256,
        Some(argument) if call.args.len() == 3 => number::integer(argument)?,
        Some(_) => return Err(errors::subcommand_syntax("ACL", call.args.at(1)).into()),
    };
    let bits = usize::try_from(bits).ok().filter(|bits| (1..=PASSWORD_BITS_MAX as usize).contains(bits));
    let digits = bits.ok_or(errors::acl::PASSWORD_BITS)?.div_ceil(4);
    let mut random = vec![0; digits.div_ceil(2)];
    entropy::fill(&mut random).map_err(|_| errors::acl::NO_ENTROPY)?;
    let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    call.reply.bulk(&text.as_bytes()[..digits]);
    Ok(())
}
