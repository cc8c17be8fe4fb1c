//! Endpoints and workers that come and go while others serve.

use std::collections::BTreeSet;
use std::sync::Arc;

use almandine_io::socket::{Address, bind};
use almandine_net::Endpoint;

use crate::common::{Client, Server};
use crate::rig::{Pipe, each, each_calmly};

fn endpoint() -> (Arc<Endpoint>, Address) {
    let listener = bind(&["127.0.0.1"], 0, 511).unwrap().remove(0);
    let address = listener.address().clone();
    (Arc::new(Endpoint { listener: Arc::new(listener), transport: None }), address)
}

#[test]
fn endpoints_change_and_connections_stay() {
    each(|kind| {
        let server = Server::tcp(kind, 3);
        let mut clients = vec![server.connect()];
        assert_eq!(clients[0].call(b"before"), b"before");
        let mut before = server.address.clone();
        for _ in 0..20 {
            let (endpoint, address) = endpoint();
            server.handle.listen(vec![endpoint]);
            assert!(Pipe::connect(&before).is_err(), "the old one listens no more");
            clients.push(Client::connect(&address));
            for client in &mut clients {
                assert_eq!(client.call(b"still here"), b"still here");
            }
            before = address;
        }
        server.handle.listen(Vec::new());
        assert!(Pipe::connect(&before).is_err());
        assert_eq!(clients[0].call(b"after"), b"after");
    });
}

/// A client that connected before the change gets a connection, whether or not a worker or the kernel had accepted it by then. It
/// does not when the process has no descriptor for it at that moment.
#[test]
fn who_has_connected_is_served_although_the_endpoint_closes() {
    each_calmly(|kind| {
        let server = Server::tcp(kind, 2);
        let mut before = server.address.clone();
        for _ in 0..30 {
            let mut waiting: Vec<_> = (0..20).map(|_| Client::connect(&before)).collect();
            let (endpoint, address) = endpoint();
            server.handle.listen(vec![endpoint]);
            for client in &mut waiting {
                assert_eq!(client.call(b"served"), b"served");
            }
            before = address;
        }
    });
}

#[test]
fn workers_that_are_not_active_keep_what_they_have_and_get_no_more() {
    each(|kind| {
        let server = Server::tcp(kind, 4);
        let workers = |count: usize| {
            let mut clients: Vec<_> = (0..count).map(|_| server.connect()).collect();
            let workers: BTreeSet<u8> = clients.iter_mut().map(|client| client.call(b"WORKER")[0]).collect();
            (clients, workers)
        };
        let (mut all, of_all) = workers(8);
        assert_eq!(of_all.len(), 4);
        server.handle.set_active(2);
        let (_some, of_some) = workers(8);
        assert_eq!(of_some, BTreeSet::from([0, 1]));
        assert!(all.iter_mut().all(|client| client.call(b"stays") == b"stays"));
        server.handle.set_active(4);
        assert_eq!(workers(8).1.len(), 2, "those with the fewest connections");
        assert_eq!(workers(16).1.len(), 4);
        // The worker that the kernel woke for a connection may leave before it accepts it: the connection is served nevertheless.
        for active in (0..100).map(|round| if round % 2 == 0 { 1 } else { 4 }) {
            server.handle.set_active(active);
            workers(8);
        }
    });
}
