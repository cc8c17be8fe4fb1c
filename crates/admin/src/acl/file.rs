//! ACL LOAD and SAVE: the file of users.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use almandine_acl::{User, Users};
use almandine_command_spec::CommandSpec;
use almandine_handler::{AdminCall, Command, CommandError, Handler, Outcome, errors};
use almandine_io::files;

use super::subcommand::SUBCOMMAND;
use super::users::{check_subscriptions, close_clients, loses_channels};
use crate::operators::outside_epoch;

pub(super) const LOAD: Command = Command {
    spec: CommandSpec {
        name: "ACL|LOAD",
        id: 470,
        complexity: "O(N). Where N is the number of configured users.",
        summary: "Reloads the rules from the configured ACL file.",
        ..SUBCOMMAND
    },
    run: Handler::Admin(load),
};

/// The path of the file: as it is configured, and from the root.
fn path(call: &AdminCall<'_>) -> Result<(String, PathBuf), CommandError> {
    let settings = call.context.settings();
    let path = &settings.security.acl_file;
    if path.is_empty() { Err(errors::acl::NO_FILE) } else { Ok((path.clone(), Path::new(&settings.process.dir).join(path))) }
}

fn load(call: &mut AdminCall<'_>) -> Outcome {
    let (path, file) = path(call)?;
    let mut changed = Err(String::new());
    outside_epoch(call, |instance| {
        let defaults = instance.user_defaults();
        changed = instance.acl.change(|users, catalog| {
            let text = files::read(&file).map_err(|error| format!("Error loading ACLs, opening file '{path}': {error}"))?;
            let before = std::mem::replace(users, users.load(&path, &text, catalog, defaults)?);
            Ok(Changes::between(&before, users))
        });
    });
    let changes = changed.map_err(|problems| errors::acl::rules(problems.as_bytes()))?;
    close_clients(call, &changes.removed);
    check_subscriptions(call, &changes.fewer_channels);
    call.reply.ok();
    Ok(())
}

/// Whose clients a new file is about.
struct Changes {
    removed: Vec<u64>,
    fewer_channels: Vec<u64>,
}

impl Changes {
    fn between(before: &Users, after: &Users) -> Self {
        let ids = |of: &dyn Fn(&Arc<User>) -> bool| before.iter().filter(|user| of(user)).map(|user| user.id).collect();
        Self {
            removed: ids(&|user| after.find(&user.name).is_none()),
            fewer_channels: ids(&|user| after.find(&user.name).is_some_and(|new| loses_channels(user, new))),
        }
    }
}

pub(super) const SAVE: Command = Command {
    spec: CommandSpec {
        name: "ACL|SAVE",
        id: 471,
        complexity: "O(N). Where N is the number of configured users.",
        summary: "Saves the effective ACL rules in the configured ACL file.",
        ..SUBCOMMAND
    },
    run: Handler::Admin(save),
};

fn save(call: &mut AdminCall<'_>) -> Outcome {
    let (path, file) = path(call)?;
    let mut saved = Ok(());
    outside_epoch(call, |instance| saved = files::replace(&file, instance.acl.users().save()));
    if let Err(error) = saved {
        tracing::warn!("The users could not be saved in '{path}': {error}");
        return Err(errors::acl::FILE_NOT_SAVED.into());
    }
    call.reply.ok();
    Ok(())
}
