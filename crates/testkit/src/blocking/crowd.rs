//! Thousands of connections that wait at once: in waves, so that the order of arrival is certain, beside others that push, kill
//! and unblock.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{Client, Value};

/// How long anything may take that is not timed itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// What became of a connection that waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was given these elements.
    Served(Vec<u64>),
    /// Its time was over, or another client said so.
    Null,
    /// Another client ended its wait with an error.
    Unblocked,
    /// The server has closed it.
    Ended,
}

/// A connection that waits.
#[derive(Debug)]
pub struct Waiter {
    client: Client,
    /// The server's number of it.
    pub connection: u64,
    /// For which of the crowd's keys.
    pub key: usize,
    /// All of an earlier wave waited before all of this one.
    pub wave: usize,
    /// When its command was sent.
    pub sent: Instant,
    /// What became of it, and when that was read.
    pub outcome: Option<(Outcome, Instant)>,
}

impl Waiter {
    /// A new connection, which does not wait yet.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn connect(address: SocketAddr, key: usize, wave: usize) -> io::Result<Self> {
        let mut client = Client::connect(address)?;
        let connection = client.call(&["CLIENT", "ID"])?.integer().ok_or_else(|| io::Error::other("no number of a connection"))?;
        Ok(Self { client, connection: connection as u64, key, wave, sent: Instant::now(), outcome: None })
    }

    /// Sends its command.
    ///
    /// # Errors
    /// Of the socket.
    pub fn wait(&mut self, command: &str) -> io::Result<()> {
        self.sent = Instant::now();
        let words: Vec<&str> = command.split(' ').collect();
        self.client.send(&[words])
    }

    /// The connection itself.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    fn read(&mut self) -> io::Result<()> {
        let reply = match self.client.receive() {
            Ok(reply) => reply,
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Value::Closed,
            Err(e) => return Err(e),
        };
        self.outcome = Some((outcome(&reply)?, Instant::now()));
        Ok(())
    }
}

fn outcome(reply: &Value) -> io::Result<Outcome> {
    let number = |value: &Value| std::str::from_utf8(value.bytes()?).ok()?.parse().ok();
    let strange = || io::Error::other(format!("a waiter was answered {reply}"));
    Ok(match reply {
        Value::Closed => Outcome::Ended,
        Value::Error(text) if text.starts_with(b"UNBLOCKED ") => Outcome::Unblocked,
        reply if reply.is_null() => Outcome::Null,
        // BLMOVE
        Value::Bulk(_) => Outcome::Served(vec![number(reply).ok_or_else(strange)?]),
        // The key, and an element or several.
        Value::Array(items) if items.len() == 2 => {
            let elements = items[1].elements().unwrap_or(&items[1..]);
            Outcome::Served(elements.iter().map(number).collect::<Option<_>>().ok_or_else(strange)?)
        }
        _ => return Err(strange()),
    })
}

/// Reads what became of waiters until only a given number is left or the time is over. Returns how many are left.
///
/// # Errors
/// When an answer is none of a waiter's.
pub fn gather(waiters: &mut [Waiter], until_left: usize, within: Duration) -> io::Result<usize> {
    let deadline = Instant::now() + within;
    loop {
        let open: Vec<usize> = (0..waiters.len()).filter(|at| waiters[*at].outcome.is_none()).collect();
        let left = deadline.saturating_duration_since(Instant::now());
        if open.len() <= until_left || left.is_zero() {
            return Ok(open.len());
        }
        let ready: Vec<usize> = {
            let of = |at: &usize| PollFd::new(waiters[*at].client.stream(), PollFlags::IN);
            let mut sockets: Vec<PollFd<'_>> = open.iter().map(of).collect();
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            poll(&mut sockets, Some(&left))?;
            open.iter().zip(&sockets).filter(|(_, socket)| !socket.revents().is_empty()).map(|(at, _)| *at).collect()
        };
        ready.into_iter().try_for_each(|at| waiters[at].read())?;
    }
}

/// Waits until the server says that this number of clients is blocked.
///
/// # Errors
/// When it does not in time.
pub fn await_blocked(client: &mut Client, count: usize) -> io::Result<()> {
    let asked = Instant::now();
    loop {
        let info = client.call(&["INFO", "clients"])?.to_string();
        let (_, rest) = info.split_once("blocked_clients:").ok_or_else(|| io::Error::other("INFO has no blocked_clients"))?;
        let blocked: String = rest.chars().take_while(char::is_ascii_digit).collect();
        if blocked == count.to_string() {
            return Ok(());
        }
        if asked.elapsed() > PATIENCE {
            return Err(io::Error::other(format!("{blocked} clients are blocked, not {count}")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether elements `0..pushed` of a key, pushed in this order, went to waiters in the order of their waves, each to one of
/// them, or stayed in the list. As many may be missing as could be lost with connections that were killed meanwhile.
///
/// # Errors
/// What is wrong.
pub fn check_order(waiters: &[Waiter], key: usize, pushed: u64, left: &[u64]) -> Result<(), String> {
    let own = || waiters.iter().filter(|waiter| waiter.key == key);
    let mut served: Vec<(u64, usize)> = Vec::new();
    for waiter in own() {
        if let Some((Outcome::Served(elements), _)) = &waiter.outcome {
            served.extend(elements.iter().map(|element| (*element, waiter.wave)));
        }
    }
    served.sort_unstable();
    let mut places: Vec<u64> = served.iter().map(|(element, _)| *element).chain(left.iter().copied()).collect();
    places.sort_unstable();
    if let Some(twice) = places.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("element {} of key {key} is in two places", twice[0]));
    }
    if places.last().is_some_and(|last| *last >= pushed) {
        return Err(format!("key {key} has element {places:?} that nobody pushed"));
    }
    let ended = own().filter(|waiter| matches!(waiter.outcome, Some((Outcome::Ended, _)))).count();
    let missing = pushed as usize - places.len();
    if missing > ended {
        return Err(format!("{missing} elements of key {key} are nowhere, and {ended} connections were killed"));
    }
    if let Some(overtaken) = served.windows(2).find(|pair| pair[0].1 > pair[1].1) {
        return Err(format!("key {key}: (element, wave) {:?} was served before {:?}", overtaken[0], overtaken[1]));
    }
    let waits = own().filter(|waiter| waiter.outcome.is_none()).count();
    if waits > 0 && !left.is_empty() {
        return Err(format!("{waits} wait for key {key}, which has {} elements", left.len()));
    }
    let last = served.last().map_or(0, |(element, _)| *element);
    if left.iter().any(|element| *element < last) {
        return Err(format!("key {key} still has an element from before {last}, which was served"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waiters of one key: their waves and what became of them.
    fn waiters(outcomes: &[(usize, Option<Outcome>)]) -> Vec<Waiter> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let waiter = |(wave, outcome): &(usize, Option<Outcome>)| Waiter {
            client: Client::connect(address).unwrap(),
            connection: 0,
            key: 0,
            wave: *wave,
            sent: Instant::now(),
            outcome: outcome.clone().map(|outcome| (outcome, Instant::now())),
        };
        outcomes.iter().map(waiter).collect()
    }

    fn served(element: u64) -> Option<Outcome> {
        Some(Outcome::Served(vec![element]))
    }

    #[test]
    fn each_breach_of_the_order_is_told_from_the_others() {
        let check = |outcomes: &[(usize, Option<Outcome>)], pushed, left: &[u64]| {
            check_order(&waiters(outcomes), 0, pushed, left).err().unwrap_or_default()
        };
        assert_eq!(check(&[(0, served(0)), (0, served(1)), (1, served(2))], 4, &[3]), "");
        assert_eq!(check(&[(0, Some(Outcome::Ended)), (1, served(1)), (1, None)], 2, &[]), "");
        assert!(check(&[(0, served(1)), (1, served(0))], 2, &[]).contains("was served before"));
        assert!(check(&[(0, served(0)), (1, served(0))], 2, &[1]).contains("two places"));
        assert!(check(&[(0, served(0)), (1, Some(Outcome::Unblocked))], 2, &[]).contains("nowhere"));
        assert!(check(&[(0, served(0)), (1, None)], 2, &[1]).contains("wait for key"));
        assert!(check(&[(0, served(1))], 2, &[0]).contains("from before"));
        assert!(check(&[(0, served(7))], 2, &[]).contains("nobody pushed"));
    }
}
