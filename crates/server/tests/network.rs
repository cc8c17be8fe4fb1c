//! CONFIG SET of what the server listens on and how many workers serve, while clients are connected.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use almandine_testkit::server::free_port;
use almandine_testkit::{Client, Program, Server, Value};

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

fn pong() -> Value {
    Value::Simple(b"PONG".to_vec())
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn info(client: &mut Client, field: &str) -> String {
    let Value::Bulk(text) = client.line("INFO everything") else { panic!("INFO") };
    let text = String::from_utf8(text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{field}:")).map(str::to_owned));
    line.unwrap_or_else(|| panic!("{field} in\n{text}"))
}

fn error(reply: &Value) -> String {
    let Value::Error(text) = reply else { panic!("{reply} is no error") };
    String::from_utf8_lossy(text).into_owned()
}

#[test]
fn the_port_changes_under_connections_and_a_taken_one_changes_nothing() {
    let server = Server::start(&Program::Almandine, &["--workers", "3"]);
    let mut client = server.client();
    let mut before = server.address();
    for _ in 0..5 {
        let port = free_port();
        assert_eq!(client.line(&format!("CONFIG SET port {port}")), ok());
        assert!(TcpStream::connect(before).is_err(), "the old port is closed when the reply is there");
        let mut new = Client::connect(local(port)).unwrap();
        assert_eq!((new.line("PING"), client.line("PING")), (pong(), pong()));
        assert_eq!(info(&mut new, "tcp_port"), port.to_string());
        before = local(port);
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = error(&client.line(&format!("CONFIG SET port {}", taken.local_addr().unwrap().port())));
    let words = "ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this port. Check server logs.";
    assert_eq!(refused, words);
    assert_eq!(Client::connect(before).unwrap().line("PING"), pong());
    assert_eq!(client.line("CONFIG SET port 0"), ok());
    assert!(TcpStream::connect(before).is_err());
    assert_eq!(client.line(&format!("CONFIG SET port {}", before.port())), ok(), "the same port can be had again at once");
    assert_eq!(Client::connect(before).unwrap().line("PING"), pong());
}

/// The port moves there and back under clients at work. A client that has connected before the server saw the command is
/// served, although it is not accepted yet.
#[test]
fn no_connection_is_lost_when_the_port_moves() {
    for backend in ["auto", "epoll"] {
        let flags = ["--workers", "1", "--io-backend", backend, "--enable-debug-command", "yes"];
        let server = Server::start(&Program::Almandine, &flags);
        let mut client = server.client();
        let done = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> = (0..3)
            .map(|number| {
                let (mut client, done) = (server.client(), Arc::clone(&done));
                std::thread::spawn(move || {
                    let mut count = 0;
                    while !done.load(Ordering::Relaxed) {
                        let command = ["INCR".to_owned(), format!("counter:{number}")];
                        let replies = client.pipeline(&[&command, &command]).unwrap();
                        assert_eq!(replies, [Value::Integer(count + 1), Value::Integer(count + 2)]);
                        count += 2;
                    }
                    count
                })
            })
            .collect();
        let ports = [server.address().port(), free_port()];
        // Rounds in which connections were early.
        let (mut round, mut lost_none) = (0, 0);
        while lost_none < 20 {
            assert!(round < 400, "{lost_none} of {round} rounds were in time");
            let (old, new) = (local(ports[round % 2]), local(ports[(round + 1) % 2]));
            // While the only worker sleeps, connections wait to be accepted; then it sees the command first.
            let set = ["CONFIG".to_owned(), "SET".to_owned(), "port".to_owned(), new.port().to_string()];
            let sent = std::time::Instant::now();
            client.send(&[vec!["DEBUG".to_owned(), "SLEEP".to_owned(), "0.03".to_owned()], set.to_vec()]).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(10));
            let early: Vec<_> = (0..8).map(|_| Client::connect(old)).collect();
            // On a busy machine the worker may have slept already when they come, and be closing the port.
            let early: Vec<Client> = if sent.elapsed() < std::time::Duration::from_millis(30) {
                early.into_iter().map(Result::unwrap).collect()
            } else {
                Vec::new()
            };
            lost_none += usize::from(!early.is_empty());
            assert_eq!((client.receive().unwrap(), client.receive().unwrap()), (ok(), ok()));
            assert_eq!(TcpStream::connect(old).unwrap_err().kind(), ErrorKind::ConnectionRefused);
            for (number, mut early) in early.into_iter().enumerate() {
                assert_eq!(early.call(&["PING"]).ok(), Some(pong()), "{backend}, round {round}: connection {number} is lost");
            }
            assert_eq!(Client::connect(new).unwrap().line("PING"), pong());
            round += 1;
        }
        done.store(true, Ordering::Relaxed);
        assert!(workers.into_iter().all(|worker| worker.join().unwrap() > 0));
    }
}

/// Addresses that cover each other, as `*` covers 127.0.0.1, are exchanged without a moment in which no socket listens.
#[test]
fn addresses_of_the_same_port_are_exchanged_without_a_gap() {
    let server = Server::start(&Program::Almandine, &["--workers", "2"]);
    let mut client = server.client();
    let address = server.address();
    let (done, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let knocking = std::thread::spawn({
        let (done, served) = (Arc::clone(&done), Arc::clone(&served));
        move || {
            let mut lost = 0;
            while !done.load(Ordering::Relaxed) {
                match Client::connect(address).and_then(|mut client| client.call(&["PING"])) {
                    Ok(reply) if reply == pong() => _ = served.fetch_add(1, Ordering::Relaxed),
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => panic!("nobody listens: {error}"),
                    // It came between the last look at the old socket and its end.
                    _ => lost += 1,
                }
            }
            lost
        }
    });
    let (mut rounds, until) = (0, Instant::now() + Duration::from_secs(30));
    // On a busy machine few knocks come between many exchanges.
    while rounds < 40 || served.load(Ordering::Relaxed) <= 40 && Instant::now() < until {
        rounds += 1;
        for addresses in ["*", "127.0.0.1 127.0.0.2", "* -::*", "127.0.0.1"] {
            assert_eq!(client.call(&["CONFIG", "SET", "bind", addresses]).unwrap(), ok(), "{addresses}\n{}", server.log());
        }
    }
    done.store(true, Ordering::Relaxed);
    let (served, lost) = (served.load(Ordering::Relaxed), knocking.join().unwrap());
    // An exchange may lose the one that knocks at that moment; the busier the machine, the more do.
    assert!(served > 40 && lost <= served / 4, "{served} served, {lost} lost");
    assert!(TcpStream::connect(SocketAddr::from(([127, 0, 0, 2], address.port()))).is_err());
    for wrong in ["999.999.999.999", "127.0.0.1 192.0.2.1", "-192.0.2.1"] {
        let refused = error(&client.call(&["CONFIG", "SET", "bind", wrong]).unwrap());
        assert!(refused.ends_with("related to argument 'bind') - Failed to bind to specified addresses."), "{refused}");
        assert_eq!(Client::connect(address).unwrap().line("PING"), pong());
    }
}

#[test]
fn several_parameters_change_together_or_not_at_all() {
    let server = Server::start(&Program::Almandine, &["--enable-protected-configs", "yes"]);
    let mut client = server.client();
    let (port, path) = (free_port(), server.directory().join("s.sock"));
    let path = path.to_str().unwrap();
    for wrong in [["maxclients", "4000000000"], ["dir", "/nowhere"], ["unixsocket", "/nowhere/s.sock"]] {
        let words = ["CONFIG", "SET", "port", &port.to_string(), "timeout", "77", wrong[0], wrong[1]].map(str::to_owned);
        let refused = error(&client.call(&words.each_ref().map(String::as_str)).unwrap());
        assert!(refused.contains(&format!("'{}'", wrong[0])) || refused.contains("protected"), "{refused}");
        assert!(TcpStream::connect(local(port)).is_err());
        assert_eq!(Client::connect(server.address()).unwrap().line("PING"), pong());
        assert!(client.line("CONFIG GET timeout").to_string().contains("\"0\""));
    }
    // The file of a socket that was opened for nothing goes, too.
    let refused = client.call(&["CONFIG", "SET", "unixsocket", path, "maxclients", "4000000000"]).unwrap();
    assert!(error(&refused).contains("maxclients"));
    assert!(!fs::exists(path).unwrap());
    let set = client.call(&["CONFIG", "SET", "unixsocket", path, "port", &port.to_string(), "tcp-backlog", "7"]).unwrap();
    assert_eq!(set, ok());
    assert!(fs::exists(path).unwrap() && TcpStream::connect(local(port)).is_ok());
}

fn ping_over(path: &str) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(b"PING\r\n")?;
    let mut reply = [0; 7];
    stream.read_exact(&mut reply)?;
    Ok(String::from_utf8_lossy(&reply).into_owned())
}

#[test]
fn a_unix_socket_comes_moves_and_goes() {
    let server = Server::start(&Program::Almandine, &["--unixsocketperm", "700", "--enable-protected-configs", "yes"]);
    let mut client = server.client();
    let paths = ["a.sock", "b.sock"].map(|name| server.directory().join(name).to_str().unwrap().to_owned());
    let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(client.line(&format!("CONFIG SET unixsocket {}", paths[0])), ok());
    assert_eq!((ping_over(&paths[0]).unwrap().as_str(), mode(&paths[0])), ("+PONG\r\n", 0o700));
    let mut kept = UnixStream::connect(&paths[0]).unwrap();
    assert_eq!(client.line(&format!("CONFIG SET unixsocket {} unixsocketperm 770", paths[1])), ok());
    assert!(!fs::exists(&paths[0]).unwrap());
    assert_eq!((ping_over(&paths[1]).unwrap().as_str(), mode(&paths[1])), ("+PONG\r\n", 0o770));
    kept.write_all(b"PING\r\n").unwrap();
    kept.read_exact(&mut [0; 7]).unwrap();
    assert_eq!(client.line("CONFIG SET unixsocketperm 777"), ok());
    assert_eq!(mode(&paths[1]), 0o777);
    let precious = server.directory().join("precious");
    fs::write(&precious, "data").unwrap();
    let refused = error(&client.line(&format!("CONFIG SET unixsocket {}", precious.display())));
    assert!(refused.contains("exists and is not a socket"), "{refused}");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "data");
    assert!(ping_over(&paths[1]).is_ok());
    assert_eq!(client.call(&["CONFIG", "SET", "unixsocket", ""]).unwrap(), ok());
    assert!(!fs::exists(&paths[1]).unwrap());
}

#[test]
fn the_socket_of_another_service_stays_whatever_a_client_sets() {
    let directory = std::env::temp_dir().join(format!("almandine-foreign-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join("service.sock");
    let service = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let set = format!("CONFIG SET unixsocket {}", path.display());
    let server = Server::start(&Program::Almandine, &[]);
    let refused = error(&server.client().line(&set));
    assert!(refused.ends_with("(possibly related to argument 'unixsocket') - can't set protected config"), "{refused}");
    let refused = error(&server.client().line("CONFIG SET unixsocketperm 777"));
    assert!(refused.ends_with("can't set protected config"), "{refused}");
    let server = Server::start(&Program::Almandine, &["--enable-protected-configs", "yes"]);
    let refused = error(&server.client().line(&set));
    assert!(refused.contains("another process listens on the socket"), "{refused}");
    let refused = Server::try_start(&Program::Almandine, &["--unixsocket", path.to_str().unwrap()], &[]).err().unwrap();
    assert!(refused.contains("another process listens on the socket"), "{refused}");
    let _client = UnixStream::connect(&path).unwrap();
    assert!(service.accept().is_ok(), "the service has its socket still");
    // Nor is a socket removed that has taken the place of ours.
    let ours = directory.join("ours.sock");
    assert_eq!(server.client().line(&format!("CONFIG SET unixsocket {}", ours.display())), ok());
    fs::remove_file(&ours).unwrap();
    let successor = std::os::unix::net::UnixListener::bind(&ours).unwrap();
    assert_eq!(server.client().call(&["CONFIG", "SET", "unixsocket", ""]).unwrap(), ok());
    assert!(ours.exists());
    drop((server, service, successor));
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn what_was_set_is_in_the_rewritten_file_and_a_server_starts_from_it() {
    let directory = std::env::temp_dir().join(format!("almandine-network-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let (file, socket) = (directory.join("a.conf"), directory.join("a.sock"));
    let (first, second) = (free_port(), free_port());
    fs::write(&file, format!("bind 127.0.0.1\nport {first}\nsave \"\"\nworkers 1\nenable-protected-configs yes\n")).unwrap();
    let start = || std::process::Command::new(almandine_testkit::server::almandine_path()).arg(&file).spawn().unwrap();
    let connect = |port| {
        for _ in 0..1000 {
            // Connections wait in the backlog of the first listener while the others are opened: an answer says that all are there.
            if let Ok(mut client) = Client::connect(local(port))
                && client.call(&["PING"]).is_ok()
            {
                return client;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("no server on {port}");
    };
    let mut child = start();
    let mut client = connect(first);
    let set = ["CONFIG", "SET", "port", &second.to_string(), "bind", "127.0.0.1 -::1", "unixsocket", socket.to_str().unwrap()];
    assert_eq!(client.call(&[&set[..], &["unixsocketperm", "750", "tcp-backlog", "99"]].concat()).unwrap(), ok());
    assert_eq!(client.line("CONFIG REWRITE"), ok());
    client.send(&[["SHUTDOWN", "NOSAVE"]]).unwrap();
    child.wait().unwrap();
    assert!(!socket.exists());
    let text = fs::read_to_string(&file).unwrap();
    for line in [&format!("port {second}"), "bind 127.0.0.1 -::1", "unixsocketperm 750", "tcp-backlog 99"] {
        assert!(text.lines().any(|stated| stated == line), "{line} in\n{text}");
    }
    let mut child = start();
    let mut client = connect(second);
    assert_eq!(ping_over(socket.to_str().unwrap()).unwrap(), "+PONG\r\n");
    client.send(&[["SHUTDOWN", "NOSAVE"]]).unwrap();
    child.wait().unwrap();
    fs::remove_dir_all(&directory).unwrap();
}

/// The threads of the process whose names begin so.
fn threads(server: &Server, name: &str) -> BTreeSet<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.map(|comm| comm.trim().to_owned()).filter(|comm| comm.starts_with(name)).collect()
}

#[test]
fn workers_are_added_and_retired_while_clients_write() {
    let server = Server::start(&Program::Almandine, &["--workers", "4"]);
    let mut client = server.client();
    let done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..6)
        .map(|writer| {
            let (mut client, done) = (server.client(), Arc::clone(&done));
            std::thread::spawn(move || {
                let mut count = 0;
                while !done.load(Ordering::Relaxed) {
                    count += 1;
                    assert_eq!(client.line(&format!("INCR counter:{writer}")), Value::Integer(count));
                }
                count
            })
        })
        .collect();
    for round in 0..30 {
        for workers in [1, 4, 2, 3] {
            assert_eq!(client.line(&format!("CONFIG SET workers {workers}")), ok());
            assert_eq!(info(&mut client, "workers"), workers.to_string());
            let mut new: Vec<Client> = (0..4).map(|_| server.client()).collect();
            assert!(new.iter_mut().all(|new| new.line("PING") == pong()), "round {round}");
        }
    }
    done.store(true, Ordering::Relaxed);
    let sum: i64 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
    assert!(sum > 0);
    assert_eq!(threads(&server, "worker-").len(), 4);
    let most = 4.max(std::thread::available_parallelism().unwrap().get());
    let refused = error(&client.line(&format!("CONFIG SET workers {}", most + 1)));
    assert!(refused.contains(&format!("at most {most} workers until a restart. Restart with 'workers {}'", most + 1)), "{refused}");
    let refused = error(&client.line("CONFIG SET io-threads 4"));
    assert!(refused.contains("'workers' is 3 and decides"), "{refused}");
    assert_eq!(client.line("CONFIG SET workers 0 io-threads 2"), ok());
    assert_eq!(info(&mut client, "workers"), "2");
}

#[test]
fn io_threads_is_the_number_of_workers_and_one_that_is_added_listens_to_what_concerns_all() {
    let server = Server::start(&Program::Almandine, &["--io-threads", "3"]);
    let mut client = server.client();
    assert_eq!(info(&mut client, "workers"), "3");
    drop(server);
    let cores = std::thread::available_parallelism().unwrap().get();
    if cores == 1 {
        return;
    }
    let server = Server::start(&Program::Almandine, &["--workers", "1"]);
    let mut client = server.client();
    assert_eq!(threads(&server, "worker-").len(), 1);
    assert_eq!(client.line(&format!("CONFIG SET workers {cores}")), ok());
    assert_eq!(threads(&server, "worker-").len(), cores);
    // Some of these belong to the new workers.
    let mut others: Vec<Client> = (0..2 * cores).map(|_| server.client()).collect();
    assert_eq!(client.line("CLIENT PAUSE 100000 WRITE"), ok());
    others.iter_mut().for_each(|other| other.send(&[["INCR", "paused"]]).unwrap());
    assert_eq!(client.line("CLIENT UNPAUSE"), ok());
    for other in &mut others {
        assert!(matches!(other.receive().unwrap(), Value::Integer(_)));
    }
    assert_eq!(client.line("GET paused").to_string(), format!("$\"{}\"", 2 * cores));
}

/// A client that is connected when the server ends reads the end of the stream, also if it sends something more before.
#[test]
fn clients_read_their_end_when_the_server_ends() {
    for command in ["SHUTDOWN NOSAVE", "SHUTDOWN NOW"] {
        let mut server = Server::start(&Program::Almandine, &["--workers", "2"]);
        let mut clients: Vec<Client> = (0..40).map(|_| server.client()).collect();
        for client in &mut clients {
            assert_eq!(client.line("PING"), Value::Simple(b"PONG".to_vec()));
        }
        server.client().send(&[command.split(' ').collect::<Vec<_>>()]).unwrap();
        assert!(server.await_exit(Duration::from_secs(20)).is_some(), "{}", server.log());
        for client in &mut clients {
            client.send_raw(b"PING\r\n").unwrap();
            // A reset would be an error here.
            assert_eq!(client.stream().read(&mut [0; 64]).unwrap(), 0);
        }
    }
}

/// A client that has asked for the end, and whose connection is closed for it, is the first one that could connect again.
#[test]
fn no_socket_listens_when_a_client_hears_of_the_end() {
    for _ in 0..10 {
        let server = Server::start(&Program::Almandine, &["--workers", "2"]);
        let mut client = server.client();
        assert_eq!(client.call(&["SHUTDOWN", "NOSAVE"]).unwrap(), Value::Closed);
        assert_eq!(TcpStream::connect(server.address()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
}
