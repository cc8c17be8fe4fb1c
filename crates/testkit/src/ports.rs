//! Ports for the servers of tests, which run in many processes beside each other.
//!
//! They are in blocks. A block belongs to the process that listens on its first port, so that no other process takes a port that
//! was given here and on which no server listens yet.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

/// The kernel gives none of these to clients that connect.
const FIRST: u16 = 10_000;
const BLOCK: u16 = 100;
const BLOCKS: u16 = 100;

/// The blocks of a process, each by the listener that holds it.
struct Held {
    blocks: Vec<(u16, TcpListener)>,
    /// Ports that were looked at: the next one is where the last one ended.
    looked_at: usize,
}

/// A port on which no socket listens, and which no other process gets from here. Another one in each call, until all that are held
/// were given: then those of servers that have ended.
///
/// # Panics
/// When other processes have all of them.
pub fn free_port() -> u16 {
    static HELD: Mutex<Held> = Mutex::new(Held { blocks: Vec::new(), looked_at: 0 });
    HELD.lock().unwrap_or_else(PoisonError::into_inner).next().expect("a free port")
}

impl Held {
    fn next(&mut self) -> Option<u16> {
        loop {
            let ports: Vec<u16> = self.blocks.iter().flat_map(|(first, _)| first + 1..first + BLOCK).collect();
            for _ in 0..ports.len() {
                let port = ports[self.looked_at % ports.len()];
                self.looked_at += 1;
                if listen(port).is_some() {
                    return Some(port);
                }
            }
            let taken = (0..BLOCKS).map(|n| FIRST + n * BLOCK).find_map(|first| Some((first, listen(first)?)))?;
            self.looked_at = ports.len();
            self.blocks.push(taken);
        }
    }
}

fn listen(port: u16) -> Option<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As two processes have them.
    fn two() -> [Held; 2] {
        [(); 2].map(|()| Held { blocks: Vec::new(), looked_at: 0 })
    }

    #[test]
    fn no_two_processes_get_the_same_port() {
        let [mut one, mut other] = two();
        let mut ports: Vec<u16> = (0..50).flat_map(|_| [one.next().unwrap(), other.next().unwrap()]).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 100);
    }

    #[test]
    fn a_port_is_given_again_when_nobody_listens_there_any_more() {
        let [mut held, _] = two();
        let servers: Vec<TcpListener> = (1..BLOCK).map(|_| listen(held.next().unwrap()).unwrap()).collect();
        let first = servers[0].local_addr().unwrap().port();
        assert!(held.next().is_some_and(|port| port.abs_diff(first) >= BLOCK), "another block");
        drop(servers);
        let again: Vec<u16> = (0..2 * BLOCK).map(|_| held.next().unwrap()).collect();
        assert!(again.contains(&first) && held.blocks.len() == 2, "{again:?}");
    }
}
