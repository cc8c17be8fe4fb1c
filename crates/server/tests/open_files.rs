//! The limit of open files: raised to what `maxclients` needs; where that fails, `maxclients` is lowered and the log says so.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use almandine_testkit::{Client, Program, Server, Value};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn limit_own_files(soft: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum }).unwrap();
}

fn maxclients(client: &mut Client) -> String {
    let Value::Array(pair) = client.line("CONFIG GET maxclients") else { panic!("CONFIG GET") };
    let Value::Bulk(number) = &pair[1] else { panic!("{pair:?}") };
    String::from_utf8(number.clone()).unwrap()
}

/// One test: the limit is the process'.
#[test]
fn the_limit_follows_maxclients_and_maxclients_the_limit() {
    // A server inherits a soft limit that is too low, and raises it.
    limit_own_files(200);
    let server = Server::start(&Program::Almandine, &["--maxclients", "600", "--workers", "1"]);
    limit_own_files(2_000);
    assert!(server.log().contains("Increased the limit of open files"), "{}", server.log());
    let mut clients: Vec<Client> = (0..600).map(|_| server.client()).collect();
    assert!(clients.iter_mut().all(|client| client.line("PING") == Value::Simple(b"PONG".to_vec())));
    let refused = server.client().receive().unwrap();
    assert_eq!(refused, Value::Error(b"ERR max number of clients reached".to_vec()));

    // No process may open as many files as this needs: the server takes what it gets, and says so.
    let server = Server::start(&Program::Almandine, &["--maxclients", "4000000000", "--workers", "1"]);
    let mut client = server.client();
    let possible = maxclients(&mut client);
    let hard = getrlimit(Resource::Nofile).maximum.unwrap();
    // 32 in reserve, and four for each worker that there may be.
    let workers = std::thread::available_parallelism().unwrap().get() as u64;
    assert_eq!(possible, (hard - 32 - 4 * workers).to_string());
    assert!(server.log().contains(&format!("maxclients has been reduced to {possible}")), "{}", server.log());
    let refused = format!(
        "ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is not able to handle the \
         specified number of clients, try with {possible}"
    );
    assert_eq!(client.line("CONFIG SET maxclients 4000000000"), Value::Error(refused.into_bytes()));
    assert_eq!(maxclients(&mut client), possible);
    assert_eq!(client.line("CONFIG SET maxclients 50"), Value::Simple(b"OK".to_vec()));
}
