//! Teaches canned replies from those of a real server, so that they have the size that such commands' replies have.

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::canned::TEACH;
use super::pipe::{Answer, Pipe, command};
use super::servers::Subject;
use almandine_bench::generate::random::Random;
use almandine_bench::reply::{Counter, Tally};
use almandine_bench::workload::{Operation, Workload};

/// Requests that are tried for each operation; the reply of middle length is taught.
const TRIES: usize = 15;

/// Asks `model` for replies to each operation and has `canned` answer with them from now on. Both must be running.
pub fn teach(canned: &Subject, model: &Subject, workload: &Workload) -> Result<(), String> {
    let (mut pipe, mut random) = (Pipe::connect(&canned.target)?, Random::new(0x7465_6163, 0));
    for operation in &workload.operations {
        let mut replies = (0..TRIES).map(|_| ask(model, workload, operation, &mut random)).collect::<Result<Vec<_>, _>>()?;
        replies.sort_by_key(Vec::len);
        let mut request = Vec::new();
        command(&[TEACH.as_bytes(), operation.template.command(), &replies[TRIES / 2]], &mut request);
        pipe.send(&request)?;
        match pipe.answer()? {
            Answer::Status(_) => {}
            other => return Err(format!("{} answered {TEACH} with {other:?}", canned.name)),
        }
    }
    Ok(())
}

/// One request of an operation, and all bytes of the reply.
fn ask(model: &Subject, workload: &Workload, operation: &Operation, random: &mut Random) -> Result<Vec<u8>, String> {
    let (socket, mut request) = (model.target.connect()?, Vec::new());
    operation.template.encode(&mut workload.scope(operation.data, 0, 1), random, &mut request, &mut Vec::new());
    let mut rest = request.as_slice();
    while !rest.is_empty() {
        let sent = rustix::net::send(&socket, rest, SendFlags::NOSIGNAL);
        rest = &rest[sent.map_err(|e| format!("{}: {e}", model.name))?..];
    }
    let (mut counter, mut tally, mut reply, mut buffer) = (Counter::default(), Tally::default(), Vec::new(), vec![0; 64 << 10]);
    while tally.replies == 0 {
        match rustix::net::recv(&socket, &mut buffer, RecvFlags::empty()) {
            Ok((_, 0)) => return Err(format!("{} closed the connection", model.name)),
            Ok((_, received)) => {
                counter.consume(&buffer[..received], &mut tally)?;
                reply.extend_from_slice(&buffer[..received]);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(format!("{} did not answer {}: {error}", model.name, operation.name)),
        }
    }
    match tally.first_error {
        Some(error) => Err(format!("{} answered {} with {error:?}", model.name, operation.name)),
        None => Ok(reply),
    }
}
