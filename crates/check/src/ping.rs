//! `ping`: whether a server answers, for health checks of containers and services.
//!
//! A server that answers with an error lives: it wants a password, loads its data, or refuses writes while its disk is full. One
//! that is ended and started anew for that would lose what it has not saved, or never come to the end of loading.

use std::io;

use clap::Args;
use serde_json::json;

use crate::report::{Outcome, Report};
use crate::server::{Reply, Target};

#[derive(Debug, Args)]
pub(crate) struct Ping {
    #[command(flatten)]
    target: Target,
    /// Only PONG will do: an error, as that it loads its data or wants a password, is an answer of a server that is not ready.
    #[arg(long)]
    ready: bool,
}

pub(crate) fn ping(task: &Ping, report: &mut Report) -> Outcome {
    match ask(&task.target) {
        Ok(reply) => {
            let (is_error, text) = match reply {
                Reply::Error(text) => (true, text),
                reply => (false, reply.text().unwrap_or_default().to_owned()),
            };
            report.say("reply", text.clone(), text);
            if task.ready && is_error { Outcome::Damaged } else { Outcome::Whole }
        }
        Err(error) => {
            report.say("fault", json!({ "kind": "error", "text": error.to_string() }), error.to_string());
            Outcome::CouldNotLook
        }
    }
}

fn ask(target: &Target) -> io::Result<Reply> {
    let password = target.password()?;
    target.greet(&mut target.connect()?, password.as_deref())
}
