//! A channel for one value, from one thread to another.

use std::sync::{Arc, PoisonError};

use super::{Condvar, Mutex};

/// A channel that nothing was sent through.
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared { state: Mutex::new(State::Open), changed: Condvar::new() });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

/// The side that sends. Dropped before that, it ends the wait of the receiver.
#[derive(Debug)]
pub struct Sender<T>(Arc<Shared<T>>);

/// The side that receives.
#[derive(Debug)]
pub struct Receiver<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
enum State<T> {
    Open,
    Sent(T),
    Closed,
}

impl<T> Shared<T> {
    /// Changes the state if nothing was sent.
    fn end(&self, end: State<T>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Open) {
            *state = end;
            self.changed.notify_all();
        }
    }
}

impl<T> Sender<T> {
    /// Sends the value; it is lost when the receiver is gone.
    pub fn send(self, value: T) {
        self.0.end(State::Sent(value));
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.end(State::Closed);
    }
}

impl<T> Receiver<T> {
    /// Whether [`Self::receive`] waits for nothing.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !matches!(*self.0.state.lock().unwrap_or_else(PoisonError::into_inner), State::Open)
    }

    /// Waits for the value. None when the sender is dropped without sending one.
    #[must_use]
    pub fn receive(self) -> Option<T> {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = self.0.changed.wait_while(state, |state| matches!(state, State::Open));
        let mut state = wait.unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Closed) {
            State::Sent(value) => Some(value),
            State::Open | State::Closed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_arrives_once_and_a_sender_that_ends_lets_the_receiver_go() {
        let (sender, receiver) = channel();
        assert!(!receiver.is_ready());
        let waits = std::thread::spawn(|| receiver.receive());
        sender.send(7);
        assert_eq!(waits.join().unwrap(), Some(7));
        let (sender, receiver) = channel();
        sender.send(8);
        assert!(receiver.is_ready());
        assert_eq!(receiver.receive(), Some(8));
        let (sender, receiver) = channel::<u8>();
        let waits = std::thread::spawn(|| receiver.receive());
        drop(sender);
        assert_eq!(waits.join().unwrap(), None);
    }
}
